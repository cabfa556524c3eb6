"""Turns between askers: one asker with many requests does not delay the first request of another.

Questions of the page, explanations, reviews of tokens, and writes of claims and volumes use turns. Each asker has a
limited number of requests under way and a limited number that wait. The next turn goes to the asker whose last turn is
longest ago.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from volsched.model.values.in_turns import InTurns


class TooManyAskedError(Exception):
    """An asker, or all of them together, have more waiting than there may be."""


class AskerTurns:
    """At once ``at_once`` in total, ``of_one`` per client. Per client ``waiting`` more wait, in total ``in_all``.

    Used on one event loop. If ``of_one`` is below ``at_once``, one client alone leaves room for others.
    """

    def __init__(self, at_once: int, of_one: int, waiting: float = math.inf, in_all: float = math.inf) -> None:
        self._free = at_once
        self._of_one = of_one
        self._most_of_one = waiting
        self._most = in_all
        self._running: Counter[str] = Counter()
        self._waiting: InTurns[asyncio.Future[None]] = InTurns()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    @asynccontextmanager
    async def turn(self, asker: str) -> AsyncIterator[None]:
        """Wait for a turn and hold it. A cancelled caller waits no more. Raises TooManyAskedError."""
        await self._begin(asker)
        try:
            yield
        finally:
            self._end(asker)

    async def _begin(self, asker: str) -> None:
        if self._free and self._may(asker):
            self._take(asker)
            return
        if self._waiting.of(asker) >= self._most_of_one or len(self) >= self._most:
            raise TooManyAskedError
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(asker, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._end(asker)
            else:
                self._waiting.drop(turn)
            raise

    def _may(self, asker: str) -> bool:
        return self._running[asker] < self._of_one

    def _take(self, asker: str) -> None:
        self._free -= 1
        self._running[asker] += 1

    def _end(self, asker: str) -> None:
        self._free += 1
        self._running[asker] -= 1
        if not self._running[asker]:
            del self._running[asker]
        self._pass_on()

    def _pass_on(self) -> None:
        """Give free turns to waiting clients, each in line behind the others after its turn."""
        while self._free and (found := self._waiting.take_where(self._may)) is not None:
            asker, turn = found
            if not turn.done():  # else it was cancelled just now
                self._take(asker)
                turn.set_result(None)
