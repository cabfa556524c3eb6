"""Measures how long the event loop of the program stands still.

Long work on it (a list, a review) delays everything else there. The thread that renews the Lease reads the measure, and
does not renew it for a program that is stuck.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

import structlog

from volsched.kube.histogram import Histogram

BEAT_SECONDS: Final = 0.05
"""The time between two looks at the loop. A longer gap is the time that it stood still."""

STALL_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
LOUD_SECONDS: Final = 1.0
"""A stall as long as this is stated in the log."""

STUCK_SECONDS: Final = 60.0
"""The time without progress after which a loop, or a scheduling thread, is stuck, and the process should end."""

_log = structlog.get_logger(__name__)


class LoopLagMonitor:
    """The heartbeat of a loop: `beat` is a task on it. `stalls` are the seconds for which it stood still."""

    def __init__(self) -> None:
        self.stalls = Histogram(STALL_SECONDS)
        self._seen_at = time.monotonic()

    async def beat(self) -> None:
        """Look at the loop for ever."""
        self._seen_at = time.monotonic()
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            now = time.monotonic()
            stall = max(0.0, now - self._seen_at - BEAT_SECONDS)
            self._seen_at = now
            self.stalls.add(stall)
            if stall >= LOUD_SECONDS:
                _log.warning("the event loop stood still", seconds=round(stall, 1))

    @property
    def silence(self) -> float:
        """Seconds since the loop was seen; may be read on any thread."""
        return time.monotonic() - self._seen_at

    def problem(self) -> str:
        """Report that the loop is stuck; empty when it is not. May be asked on any thread."""
        silence = self.silence
        return f"the event loop has stood still for {silence:.0f}s" if silence > STUCK_SECONDS else ""
