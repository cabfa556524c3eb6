"""A clock that a test turns: what a rule says of seconds is tried exactly, however fast the machine is."""

from __future__ import annotations

import asyncio
import time

from tools.patience import PATIENCE


class Clock:
    """What a module of the program takes for the module `time`; it stands still unless it is turned."""

    def __init__(self) -> None:
        self.now = time.monotonic()
        self._reads = 0

    def monotonic(self) -> float:
        self._reads += 1
        return self.now

    async def read(self, count: int) -> None:
        """Wait for so many further reads of the clock: its readers have then found all work that is due."""
        wanted = self._reads + count
        async with asyncio.timeout(PATIENCE):
            while self._reads < wanted:  # noqa: ASYNC110 - readers of a clock give no signal
                await asyncio.sleep(0.01)
