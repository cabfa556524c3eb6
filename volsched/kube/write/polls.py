"""How often those look who wait for something that the informers bring, such as volumes that are made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

POLL_SECONDS: Final = 0.25
"""How often one looks; no request is made for it."""

LOOKS_PER_SECOND: Final = 2000
"""Of all together: thousands of pods of one team that wait must not take the loop from everything else."""


class Polls:
    """Counts those who wait, and lets each pause the longer the more they are."""

    def __init__(self) -> None:
        self._waiting = 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count one who waits."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    @property
    def seconds(self) -> float:
        """How long each pauses between two looks."""
        return max(POLL_SECONDS, self._waiting / LOOKS_PER_SECOND)

    async def pause(self) -> None:
        """Wait until the next look is due."""
        await asyncio.sleep(self.seconds)
