"""Tasks of an event loop that belong together.

asyncio reports the exception of a dead task when it is collected, if ever, and nothing about a task that ended or was
cancelled too early. All code that runs in tasks starts them here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import structlog

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Tasks:
    """A group of tasks. The end of each is noticed.

    An exception of a task is logged and then passed to `on_failure`, with the task's name; so is a task that other code
    has cancelled, and the end of a task that should not end.
    """

    def __init__(self, on_failure: Callable[[str, BaseException], None] = lambda _, __: None) -> None:
        self._on_failure = on_failure
        self._running: set[asyncio.Task[Any]] = set()
        self._is_stopping = False

    def __len__(self) -> int:
        return len(self._running)

    def start(self, work: Coroutine[Any, Any, T], what: str, *, ends: bool = True) -> asyncio.Task[T]:
        """Begin something; `what` it is stands in the log, and `ends` states whether it may end by itself."""
        task = asyncio.get_running_loop().create_task(work, name=what)
        self._running.add(task)

        def ended(done: asyncio.Task[T]) -> None:
            self._running.discard(done)
            error = self._failure(done, ends)
            if error is not None:
                _log.error("a task failed", task=what, exc_info=error)
                self._on_failure(what, error)

        task.add_done_callback(ended)
        return task

    async def stop(self) -> None:
        """Cancel all that run, and wait until they have ended."""
        self._is_stopping = True
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def finish(self, timeout: float) -> None:  # noqa: ASYNC109 - what still runs then is cancelled
        """Let all tasks run to their ends, for at most `timeout` seconds, and cancel the rest."""
        if self._running:
            await asyncio.wait(list(self._running), timeout=max(0.0, timeout))
        await self.stop()

    def _failure(self, done: asyncio.Task[Any], ends: bool) -> BaseException | None:
        if self._is_stopping:
            return None if done.cancelled() else done.exception()
        if done.cancelled():
            return RuntimeError("it was cancelled")
        return done.exception() or (None if ends else RuntimeError("it ended"))


async def all_of(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Do things at the same time, and raise the first error once all have ended: none is left half done."""
    if len(work) == 1:
        await work[0]
        return
    for found in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(found, BaseException):
            raise found
