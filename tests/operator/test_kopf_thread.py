"""Kopf on its thread: begun again when it ends, told when it cannot go on, and noticed when it hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import kopf
import pytest

from volsched.kube.client.credentials import Source
from volsched.operator import kopf_thread
from volsched.operator.kopf_thread import PATIENCE_SECONDS, SETTLED_SECONDS, KopfThread
from volsched.operator.watch_health import WatchHealth

LONG = 24 * 3600.0
"""Seconds for which others have heard the API server."""

Play = Callable[[int, asyncio.Event], Awaitable[None]]
"""What kopf does in its n-th run; the flag is the one that it raises when it has begun."""


class Thread(KopfThread):
    """A thread in which kopf plays something; it has one handler, which is never called.

    `now` is what it takes for the time, in seconds.
    """

    now = 0.0

    def __init__(self) -> None:
        super().__init__("kopf-test", Source(), self._died)
        self.deaths: list[str] = []
        self.runs = 0

    def _died(self, reason: str) -> None:
        self.deaths.append(reason)

    def _register(self, registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings) -> None:
        self.runs += 1


async def run_tasks(roots: list[asyncio.Future[Any]], *, ignored: set[asyncio.Task[None]]) -> None:
    """What kopf does: when one of its tasks is over, so are the others; one that failed is raised again."""
    done, others = await asyncio.wait(roots, return_when=asyncio.FIRST_COMPLETED)
    for other in others:
        other.cancel()
    for one in done:
        await one


@pytest.fixture
async def playing(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Thread]]:
    """Starts a thread in which kopf plays; what takes minutes takes moments, by a clock that tests turn."""
    monkeypatch.setattr(kopf_thread, "_PAUSES", (0.01, 0.02))
    monkeypatch.setattr(kopf_thread, "time", SimpleNamespace(monotonic=lambda: Thread.now))
    monkeypatch.setattr(kopf_thread, "_BEAT_SECONDS", 0.02)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(Thread, "now", 0.0)
    made: list[Thread] = []

    def start(play: Play, run: Callable[..., Awaitable[None]] = run_tasks) -> Thread:
        thread = Thread()

        async def spawn_tasks(
            *, ready_flag: asyncio.Event, stop_flag: threading.Event, **_: object
        ) -> list[asyncio.Future[Any]]:
            played = asyncio.ensure_future(play(thread.runs, ready_flag))
            return [played, asyncio.get_running_loop().run_in_executor(None, stop_flag.wait)]

        monkeypatch.setattr(kopf, "spawn_tasks", spawn_tasks)
        monkeypatch.setattr(kopf, "run_tasks", run)
        made.append(thread)
        thread.start()
        return thread

    yield start
    for thread in made:
        await thread.stop()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - a thread tells nobody
            await asyncio.sleep(0.01)


async def is_well_for_long(thread: Thread) -> bool:
    """Turn the clock further than anybody's patience goes; tell whether it was always found well soon."""
    await until(lambda: thread.is_ready)
    for _ in range(10):
        Thread.now += SETTLED_SECONDS
        await until(lambda: thread._well_at == Thread.now)
    return thread.liveness_problem(LONG) == ""


async def runs(_: int, begun: asyncio.Event) -> None:
    begun.set()
    await asyncio.Event().wait()


async def test_kopf_that_runs_is_well(playing: Callable[..., Thread]) -> None:
    thread = playing(runs)

    assert await is_well_for_long(thread)
    assert (thread.runs, thread.deaths) == (1, [])


@pytest.mark.parametrize("end", [RuntimeError("no"), asyncio.CancelledError("no"), None])
async def test_kopf_that_ends_is_begun_again(playing: Callable[..., Thread], end: BaseException | None) -> None:
    async def play(run: int, begun: asyncio.Event) -> None:
        if run < 4:
            if end is not None:
                raise end
            return
        await runs(run, begun)

    thread = playing(play)

    assert await is_well_for_long(thread)
    assert (thread.runs, thread.deaths) == (4, [])


async def test_kopf_that_ends_again_and_again_is_a_problem_that_says_why(playing: Callable[..., Thread]) -> None:
    """No run of it is as long as one that is well."""

    async def play(_: int, begun: asyncio.Event) -> None:
        begun.set()
        await asyncio.sleep(0.01)
        raise PermissionError("queues is forbidden")

    reason = "PermissionError: queues is forbidden"
    thread = playing(play)
    while Thread.now <= PATIENCE_SECONDS:
        assert thread.liveness_problem(LONG) == ""
        Thread.now += 0.9 * SETTLED_SECONDS
        run = thread.runs
        await until(lambda: thread.runs >= run + 2)  # noqa: B023 - it is waited for

    assert thread.liveness_problem(LONG) == f"kopf-test was not well for {Thread.now:.0f}s: {reason}"


async def test_kopf_that_failed_and_does_not_end_takes_the_process_with_it(
    playing: Callable[..., Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kopf_thread, "ENDING_SECONDS", 0.3)

    async def play(_: int, begun: asyncio.Event) -> None:
        begun.set()
        raise PermissionError("queues is forbidden")

    async def never_ends(roots: list[asyncio.Future[Any]], **_: object) -> None:
        await asyncio.wait(roots)

    thread = playing(play, never_ends)

    await until(lambda: thread.deaths)
    assert thread.deaths[0].startswith("kopf-test failed and does not end: ")
    assert thread.deaths[0].endswith("queues is forbidden")


async def test_a_loop_that_hangs_is_a_problem(playing: Callable[..., Thread]) -> None:
    hang, hangs, let_go = threading.Event(), threading.Event(), threading.Event()

    async def play(_: int, begun: asyncio.Event) -> None:
        begun.set()
        while not hang.is_set():  # noqa: ASYNC110 - it is of another thread
            await asyncio.sleep(0.01)
        hangs.set()
        let_go.wait()

    thread = playing(play)
    try:
        assert await is_well_for_long(thread)
        hang.set()
        await until(hangs.is_set)
        Thread.now += PATIENCE_SECONDS + 1

        assert thread.liveness_problem(LONG) == f"kopf-test was not well for {PATIENCE_SECONDS + 1:.0f}s: it hangs"
    finally:
        let_go.set()


async def test_a_thread_that_ends_says_so_at_once(playing: Callable[..., Thread]) -> None:
    async def play(_: int, begun: asyncio.Event) -> None:
        raise SystemExit(3)

    thread = playing(play)

    await until(lambda: thread.deaths)
    assert thread.deaths == ["the thread kopf-test ended: SystemExit: 3"]


async def test_a_thread_that_was_stopped_is_no_problem(playing: Callable[..., Thread]) -> None:
    async def never_begins(_: int, begun: asyncio.Event) -> None:
        await asyncio.Event().wait()

    thread = playing(never_begins)
    Thread.now += PATIENCE_SECONDS + 1
    assert thread.liveness_problem(LONG)

    thread._stopping.set()

    assert thread.liveness_problem(LONG) == ""


async def test_nobody_is_to_blame_while_the_api_server_is_away(playing: Callable[..., Thread]) -> None:
    async def play(_: int, begun: asyncio.Event) -> None:
        raise ConnectionError("refused")

    thread = playing(play)
    await until(lambda: thread.runs > 1)
    Thread.now += PATIENCE_SECONDS + 1
    assert thread.liveness_problem(LONG)

    assert thread.liveness_problem(0.0) == thread.liveness_problem(PATIENCE_SECONDS) == ""


def test_the_api_server_is_heard_as_long_as_something_new_is() -> None:
    now = 0.0
    watch_health = WatchHealth(lambda: now)
    for last in range(1, 5):
        now = 60.0 * last
        watch_health.note(last)
    assert watch_health.seconds == 240.0

    now = 361.0
    watch_health.note(4)
    assert watch_health.seconds == 0.0
    now = 500.0
    watch_health.note(5)
    now = 530.0
    assert watch_health.seconds == 30.0
