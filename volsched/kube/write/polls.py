"""The time between two looks of waiting code at informers' data, such as volumes that are made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

POLL_SECONDS: Final = 0.25
"""The time between two looks of one waiting pod. No request is made for it."""

LOOKS_PER_SECOND: Final = 2000
"""The same for all together: thousands of waiting pods of one team must not fill the loop."""


class Polls:
    """Counts waiting pods, and lets each pause longer if there are more."""

    def __init__(self) -> None:
        self._waiting = 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count one waiting pod."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    @property
    def seconds(self) -> float:
        """Return the pause between two looks of one pod."""
        return max(POLL_SECONDS, self._waiting / LOOKS_PER_SECOND)

    async def pause(self) -> None:
        """Wait until the next look is due."""
        await asyncio.sleep(self.seconds)
