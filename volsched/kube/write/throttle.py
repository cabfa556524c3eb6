"""Two limits of the rate of writes: a pause after answers 429, and a token bucket for writes that are not urgent.

There are two kinds of 429. The API server as a whole is overloaded (API priority and fairness): then all slow down. Or
one write is refused that way, by a webhook or a disruption budget, which a tenant may have made: then only that write
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
        """The seconds for which nothing should be sent; 0 if it may."""
        return max(0.0, self._until - time.monotonic())

    def refused(self, error: ApiError) -> float:
        """Take in an answer 429. Return how many seconds its write should wait."""
        asked = error.retry_after or USUAL_PAUSE_SECONDS
        if not error.is_overload:
            return asked
        pause = min(asked, LONGEST_PAUSE_SECONDS)
        self._until = max(self._until, time.monotonic() + pause)
        return pause


class TokenBucket:
    """A token bucket: tokens per second, and the most tokens at once.

    ``per_second`` and ``burst`` are positive; time is monotonic.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._tokens = self._burst
        self._at = time.monotonic()

    def take(self) -> bool:
        """Take a token if there is one."""
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def wait(self) -> float:
        """Return how many seconds the next token is away; 0 when there is one."""
        self._refill()
        return max(0.0, (1 - self._tokens) / self._per_second)

    def _refill(self) -> None:
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
        self._at = now
