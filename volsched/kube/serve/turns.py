"""Who asks takes turns: nothing that one asker can fill keeps another from the first answer.

For whatever takes long and is asked from outside: questions of the page, explanations, reviews of tokens. Each asker
has some at a time and some that wait; the next turn is that of the asker who has waited longest since the last one.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class TooManyAskedError(Exception):
    """An asker, or all of them together, have more waiting than there may be."""


class Turns:
    """So many turns ``at_once``, of one asker ``of_one``; of one ``waiting`` more wait, of all together ``in_all``.

    Used on one event loop. Where fewer are had ``of_one`` than ``at_once``, one asker alone leaves room for others.
    """

    def __init__(self, at_once: int, of_one: int, waiting: int, in_all: int) -> None:
        self._free = at_once
        self._of_one = of_one
        self._waiting = waiting
        self._in_all = in_all
        self._running: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        """Return how many wait."""
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def turn(self, asker: str) -> AsyncIterator[None]:
        """Wait for a turn and have it; who is cancelled meanwhile waits no more. Raises TooManyAskedError."""
        await self._begin(asker)
        try:
            yield
        finally:
            self._end(asker)

    async def _begin(self, asker: str) -> None:
        if self._free and self._running[asker] < self._of_one:
            self._take(asker)
            return
        queue = self._queues.get(asker, ())
        if len(queue) >= self._waiting or len(self) >= self._in_all:
            raise TooManyAskedError
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(asker, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._end(asker)
            else:
                self._drop(asker, turn)
            raise

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
        """Give free turns to those who wait, each asker in line behind the others once it had one."""
        for asker in list(self._queues):
            if not self._free:
                return
            if self._running[asker] >= self._of_one:
                continue
            waiting = deque(turn for turn in self._queues.pop(asker) if not turn.done())
            if waiting:
                self._take(asker)
                waiting.popleft().set_result(None)
            if waiting:
                self._queues[asker] = waiting

    def _drop(self, asker: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(asker, deque())
        if turn in queue:
            queue.remove(turn)
        if not queue:
            self._queues.pop(asker, None)
