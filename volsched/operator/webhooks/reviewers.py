"""Threads that read and judge admission reviews, apart from the loop of the Lease.

Any client that reaches the port may send anything. So there is a limit of reviews at a time, each of a limited size,
and a client beyond it is told to come again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Given = TypeVarTuple("Given")

WAITING_FOR_EACH: Final = 8
"""The most waiting reviews per judged one: so many are done within the time that an API server waits."""


class BusyError(Exception):
    """All places are taken."""


class Reviewers:
    """The threads, and places for waiting reviews. Used on one event loop; `close` may be called on any."""

    def __init__(self, at_once: int) -> None:
        self._threads = ThreadPoolExecutor(at_once, "review")
        self._free = at_once * (1 + WAITING_FOR_EACH)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place. Raises BusyError when there is none."""
        if not self._free:
            raise BusyError
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1

    async def do(self, work: Callable[[*Given], T], *given: *Given) -> T:
        """Have a thread do something, and wait for it. Raises what that raises."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *given)

    def close(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
