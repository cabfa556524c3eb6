"""The work queue: each key once, one worker at a time, failures later, and nothing while it is not active."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from volsched.controllers.store import Key
from volsched.kube.errors import ApiError, FenceError
from volsched.operator import work
from volsched.operator.work import RateLimit, WorkQueue

A, B, POD = Key("PodGroup", "ns/a"), Key("PodGroup", "ns/b"), Key("Pod", "ns/uid")
THEIRS = Key("PodGroup", "theirs/c")


class Rig:
    """A queue whose work is noted, waits for `gate`, and fails as it is told."""

    def __init__(self) -> None:
        self.seen: list[Key] = []
        self.active = True
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures: list[Exception] = []
        self.at_once = self.most_at_once = 0
        self.faults: list[tuple[Key, Exception]] = []
        self.now = self.each = 0.0
        """The clock, and how long a look takes before it waits for anything."""
        self.queue = WorkQueue(
            self._work,
            lambda: self.active,
            lambda key, error: self.faults.append((key, error)),
            lambda key: key.name.partition("/")[0],
            lambda: self.now,
        )

    async def _work(self, key: Key) -> None:
        self.seen.append(key)
        self.now += self.each
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.gate.wait()
            if self.failures:
                raise self.failures.pop(0)
        finally:
            self.at_once -= 1

    @asynccontextmanager
    async def workers(self, count: int = 1) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self.queue.worker()) for _ in range(count)]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.seen) < count or self.at_once:  # noqa: ASYNC110 - what is waited for is a list
                await asyncio.sleep(0)


async def test_a_key_that_comes_twice_is_looked_at_once() -> None:
    rig = Rig()
    for key in (A, B, A, A):
        rig.queue.add(key)

    async with rig.workers():
        await rig.until(2)

    assert rig.seen == [A, B]


async def test_a_key_that_comes_while_it_is_worked_on_is_worked_on_once_more_and_never_by_two() -> None:
    rig = Rig()
    rig.gate.clear()
    async with rig.workers(3):
        rig.queue.add(A)
        while not rig.seen:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        rig.queue.add(A)
        rig.queue.add(A)
        await asyncio.sleep(0)
        assert rig.seen == [A]
        rig.gate.set()
        await rig.until(2)

    assert (rig.seen, rig.most_at_once) == ([A, A], 1)


async def test_what_was_begun_is_finished_before_more_is_begun() -> None:
    rig = Rig()
    for key in (A, B, POD):
        rig.queue.add(key)

    assert rig.queue.depth() == {"Pod": 1, "PodGroup": 2, "Queue": 0, "Command": 0, "Job": 0}
    async with rig.workers():
        await rig.until(3)

    assert rig.seen == [POD, A, B]


async def test_namespaces_take_turns_whatever_kinds_wait() -> None:
    rig = Rig()
    pods = [Key("Pod", f"ns/{number}") for number in range(5)]
    for key in (*pods, THEIRS):
        rig.queue.add(key)

    async with rig.workers():
        await rig.until(6)

    assert rig.seen == [pods[0], THEIRS, *pods[1:]]


async def test_one_namespace_does_not_have_all_workers() -> None:
    rig = Rig()
    rig.gate.clear()
    for number in range(20):
        rig.queue.add(Key("Pod", f"ns/{number}"))
    async with rig.workers(8):
        while rig.at_once < 6:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert rig.at_once == 6
        rig.queue.add(THEIRS)
        while THEIRS not in rig.seen:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        assert len(rig.seen) == 7
        rig.gate.set()
        await rig.until(21)

    assert (rig.queue.size, rig.most_at_once) == (0, 7)


async def test_a_failure_is_counted_and_comes_back_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "FIRST_PAUSE_SECONDS", 0.01)
    rig = Rig()
    rig.failures = [ApiError(500, "InternalError", "")]
    async with rig.workers():
        rig.queue.add(A)
        await rig.until(2)

    assert rig.seen == [A, A]
    assert (rig.queue.errors, rig.queue.done) == ({"PodGroup": 1}, {"PodGroup": 1})


async def test_without_the_right_to_write_nothing_is_tried_again() -> None:
    rig = Rig()
    rig.failures = [FenceError("closed")]
    async with rig.workers():
        rig.queue.add(A)
        await rig.until(1)
        rig.queue.add(B)
        await rig.until(2)

    assert rig.seen == [A, B]


async def test_nothing_is_looked_at_while_it_is_not_active() -> None:
    rig = Rig()
    rig.active = False
    async with rig.workers():
        rig.queue.add(A)
        await asyncio.sleep(0)
        assert rig.seen == []
        rig.active = True
        rig.queue.wake()
        await rig.until(1)

    assert rig.seen == [A]


async def test_the_earlier_of_two_times_counts_and_clearing_forgets_both() -> None:
    rig = Rig()
    async with rig.workers():
        rig.queue.add_later(A, 3600.0)
        rig.queue.add_later(A, 0.01)
        rig.queue.add_later(A, 60.0)
        await rig.until(1)
        rig.queue.add_later(B, 0.01)
        rig.queue.clear()
        await asyncio.sleep(0.05)

    assert rig.seen == [A]


def test_on_uvloop_what_is_due_now_may_be_asked_for_again() -> None:
    rig = Rig()

    async def twice() -> None:
        rig.queue.add_later(A, 0.0001)
        rig.queue.add_later(A, 0.0001)
        async with rig.workers():
            await rig.until(1)

    with asyncio.Runner(loop_factory=pytest.importorskip("uvloop").new_event_loop) as runner:
        runner.run(twice())

    assert rig.seen == [A]


def test_a_pace_lets_some_go_at_once_and_the_rest_at_a_rate_each_key_for_itself() -> None:
    now = [0.0]
    pace = RateLimit(2, 4.0, lambda: now[0])

    assert [pace.wait(A), pace.wait(A), pace.wait(A), pace.wait(B)] == [0.0, 0.0, 0.25, 0.0]
    now[0] = 0.25
    assert [pace.wait(A), pace.wait(A)] == [0.0, 0.25]
    now[0] = 100.0
    assert [pace.wait(A), pace.wait(A), pace.wait(A)] == [0.0, 0.0, 0.25]


def test_a_look_that_costs_more_is_followed_by_a_longer_pause() -> None:
    now = [0.0]
    pace = RateLimit(2, 4.0, lambda: now[0])

    assert [pace.wait(A, 10), pace.wait(A, 10)] == [0.0, (1 + 8) / 4.0]
    now[0] = 9 / 4.0
    assert pace.wait(A, 10) == 0.0


async def test_a_fault_over_one_key_ends_with_that_key() -> None:
    rig = Rig()
    rig.failures = [ZeroDivisionError("ours")]
    rig.queue.add(A)
    rig.queue.add(B)

    async with rig.workers():
        await rig.until(2)
        assert [(key, str(error)) for key, error in rig.faults] == [(A, "ours")]
        rig.queue.add(A)  # it changed
        await rig.until(3)

    assert rig.seen == [A, B, A]
    assert (rig.queue.errors["PodGroup"], rig.queue.done["PodGroup"]) == (1, 2)


async def test_what_is_forgotten_waits_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.failures = [ApiError(500, "", "")]
    async with rig.workers():
        rig.queue.add(A)
        await rig.until(1)
        rig.queue.add_later(A, 2**40)
    assert rig.queue._timers.keys() == rig.queue._backoffs.keys() == {A}

    rig.queue.add(A)
    rig.queue.forget(A)

    assert (rig.queue._timers, rig.queue._backoffs, sum(rig.queue.depth().values())) == ({}, {}, 0)


@pytest.mark.parametrize("seconds", [float("inf"), 1e300, 2.0**63])
async def test_nothing_waits_for_longer_than_a_day(seconds: float) -> None:
    rig = Rig()

    rig.queue.add_later(A, seconds)

    assert rig.queue._timers[A].due <= asyncio.get_running_loop().time() + 24 * 3600
    rig.queue.clear()


async def test_a_fault_ends_the_pauses_that_failures_began() -> None:
    rig = Rig()
    rig.failures = [ApiError(500, "", ""), ZeroDivisionError("ours")]
    async with rig.workers():
        rig.queue.add(A)
        await rig.until(1)
        rig.queue.add(A)
        await rig.until(2)

    assert rig.queue._backoffs == {}
    rig.queue.clear()


async def test_work_that_waits_for_nothing_lets_others_have_their_turn() -> None:
    rig = Rig()
    for number in range(100):
        rig.queue.add(Key("PodGroup", f"ns/{number}"))
    done = []

    async with rig.workers(2):
        while len(rig.seen) < 100:
            await asyncio.sleep(0)
            done.append(len(rig.seen))

    assert max(after - before for before, after in pairwise(done)) <= 2


async def rounds(rig: Rig, keys: int) -> list[int]:
    """Return how many keys each round of the loop looked at, with eight workers."""
    for number in range(keys):
        rig.queue.add(Key("PodGroup", f"{number % 3}/{number}"))
    done = [0]
    async with rig.workers(8):
        while len(rig.seen) < keys:
            await asyncio.sleep(0)
            done.append(len(rig.seen))
    return [after - before for before, after in pairwise(done) if after > before]


async def test_slow_looks_of_many_workers_do_not_fill_a_round_of_the_loop() -> None:
    rig = Rig()
    rig.each = work.ROUND_SECONDS

    assert max(await rounds(rig, 40)) == 1


async def test_short_looks_share_a_round_of_the_loop() -> None:
    rig = Rig()
    rig.each = work.ROUND_SECONDS / 100

    assert max(await rounds(rig, 40)) == 8


async def test_workers_that_one_namespace_may_not_have_are_not_woken_for_each_of_its_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    tries: list[Key | None] = []
    following = rig.queue._next

    def counted() -> Key | None:
        tries.append(following())
        return tries[-1]

    monkeypatch.setattr(rig.queue, "_next", counted)
    monkeypatch.setattr(rig.gate, "wait", lambda: asyncio.sleep(0))
    for number in range(100):
        rig.queue.add(Key("Pod", f"ns/{number}"))
    async with rig.workers(8):
        await rig.until(100)

    assert len(tries) <= 100 + 2 * 8
