"""Who reads and judges admission reviews: a few threads, so that the loop of the Lease has nothing to do with it.

Anybody who reaches the port may send anything. So there are only so many reviews at a time, each of so many bytes, and
whoever comes when all places are taken is told to come again.
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
"""Reviews that may wait for each that is judged: so many are done within the time that an API server waits."""


class BusyError(Exception):
    """All places are taken."""


class Reviewers:
    """So many threads, and places for those who wait for one. Used on one event loop; `close` may be called on any."""

    def __init__(self, at_once: int) -> None:
        self._threads = ThreadPoolExecutor(at_once, "review")
        self._free = at_once * (1 + WAITING_FOR_EACH)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place; raises BusyError when there is none."""
        if not self._free:
            raise BusyError
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1

    async def do(self, work: Callable[[*Given], T], *given: *Given) -> T:
        """Have a thread do something, and wait for it; raises what that raises."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *given)

    def close(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
