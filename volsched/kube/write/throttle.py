"""Slows a lane of writes down after answers 429.

There are two kinds. The API server as a whole is overloaded (API priority and fairness): then all slow down. Or one
write is refused that way, by a webhook or a disruption budget, which a tenant may have made: then only that write
waits, however many there are of its kind.
"""

from __future__ import annotations

import time
from typing import Final

from volsched.kube.errors import ApiError

LONGEST_PAUSE_SECONDS: Final = 5.0
"""The longest wait, whatever the server asks for."""

USUAL_PAUSE_SECONDS: Final = 1.0
"""The wait if the server names none."""


class Throttle:
    """Tells how long nothing should be sent."""

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def pause(self) -> float:
        """For how many seconds nothing should be sent; 0 when it may."""
        return max(0.0, self._until - time.monotonic())

    def refused(self, error: ApiError) -> float:
        """Take in an answer 429; return how many seconds its write should wait."""
        asked = error.retry_after or USUAL_PAUSE_SECONDS
        if not error.is_overload:
            return asked
        pause = min(asked, LONGEST_PAUSE_SECONDS)
        self._until = max(self._until, time.monotonic() + pause)
        return pause
