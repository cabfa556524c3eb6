"""A token bucket: it limits the rate of writes that are not urgent."""

from __future__ import annotations

import time


class TokenBucket:
    """So many tokens a second, and at most so many at once.

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
