"""Kopf on its thread: begun again when it ends, told when it cannot go on, and noticed when it hangs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import kopf
import pytest

from volsched.kube.credentials import Source
from volsched.operator import kopf_thread
from volsched.operator.hearing import Hearing
from volsched.operator.kopf_thread import KopfThread

Play = Callable[[int, asyncio.Event], Awaitable[None]]
"""What kopf does in its n-th run; the flag is the one that it raises when it has begun."""


class Thread(KopfThread):
    """A thread in which kopf plays something; it has one handler, which is never called."""

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
    """Starts a thread in which kopf plays; everything that takes minutes takes moments."""
    monkeypatch.setattr(kopf_thread, "_PAUSES", (0.01, 0.02))
    monkeypatch.setattr(kopf_thread, "SETTLED_SECONDS", 0.1)
    monkeypatch.setattr(kopf_thread, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(kopf_thread, "ENDING_SECONDS", 0.3)
    monkeypatch.setattr(kopf_thread, "_BEAT_SECONDS", 0.02)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
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


async def until(condition: Callable[[], object], within: float = 5.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def runs(_: int, begun: asyncio.Event) -> None:
    begun.set()
    await asyncio.Event().wait()


async def test_kopf_that_runs_is_well(playing: Callable[..., Thread]) -> None:
    thread = playing(runs)

    await until(lambda: thread.is_ready)
    await asyncio.sleep(1.0)

    assert (thread.liveness_problem(1.0), thread.runs, thread.deaths) == ("", 1, [])


@pytest.mark.parametrize("end", [RuntimeError("no"), asyncio.CancelledError("no"), None])
async def test_kopf_that_ends_is_begun_again(playing: Callable[..., Thread], end: BaseException | None) -> None:
    async def play(run: int, begun: asyncio.Event) -> None:
        if run < 4:
            if end is not None:
                raise end
            return
        await runs(run, begun)

    thread = playing(play)

    await until(lambda: thread.is_ready)
    await asyncio.sleep(1.0)
    assert (thread.runs, thread.liveness_problem(1.0), thread.deaths) == (4, "", [])


async def test_kopf_that_ends_again_and_again_is_a_problem_that_says_why(playing: Callable[..., Thread]) -> None:
    async def play(_: int, begun: asyncio.Event) -> None:
        begun.set()
        await asyncio.sleep(0.01)
        raise PermissionError("queues is forbidden")

    thread = playing(play)
    assert thread.liveness_problem(1.0) == ""

    await until(lambda: thread.liveness_problem(1.0))
    assert "kopf-test was not well for" in thread.liveness_problem(1.0)
    assert "PermissionError: queues is forbidden" in thread.liveness_problem(1.0)


async def test_kopf_that_failed_and_does_not_end_takes_the_process_with_it(
    playing: Callable[..., Thread],
) -> None:
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
    let_go = threading.Event()

    async def play(_: int, begun: asyncio.Event) -> None:
        begun.set()
        await asyncio.sleep(0.3)
        let_go.wait(10)

    thread = playing(play)

    await until(lambda: thread.liveness_problem(1.0))
    assert thread.liveness_problem(1.0).endswith("it hangs")
    let_go.set()


async def test_a_thread_that_ends_says_so_at_once(playing: Callable[..., Thread]) -> None:
    async def play(_: int, begun: asyncio.Event) -> None:
        raise SystemExit(3)

    thread = playing(play)

    await until(lambda: thread.deaths)
    assert thread.deaths == ["the thread kopf-test ended: SystemExit: 3"]


async def test_a_thread_that_was_stopped_is_no_problem(playing: Callable[..., Thread]) -> None:
    thread = playing(runs)
    await until(lambda: thread.is_ready)

    thread._stopping.set()
    await asyncio.sleep(0.8)

    assert thread.liveness_problem(1.0) == ""


async def test_nobody_is_to_blame_while_the_api_server_is_away(playing: Callable[..., Thread]) -> None:
    async def play(_: int, begun: asyncio.Event) -> None:
        raise ConnectionError("refused")

    thread = playing(play)
    await until(lambda: thread.liveness_problem(1.0))

    assert thread.liveness_problem(0.0) == thread.liveness_problem(0.4) == ""


def test_the_api_server_is_heard_as_long_as_something_new_is() -> None:
    now = 0.0
    hearing = Hearing(lambda: now)
    for last in range(1, 5):
        now = 60.0 * last
        hearing.note(last)
    assert hearing.seconds == 240.0

    now = 361.0
    hearing.note(4)
    assert hearing.seconds == 0.0
    now = 500.0
    hearing.note(5)
    now = 530.0
    assert hearing.seconds == 30.0
