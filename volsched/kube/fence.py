"""The right to write: held until a moment on the monotonic clock, prolonged by the elector, checked at every write."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from volsched.kube.errors import FenceError


class Fence:
    """Says whether this process may write.

    `valid_until` is when a new write may no longer begin, `lease_ends` when another process may take over; both are
    seconds of the monotonic clock. Between the two, writes that are under way have time to end. `prolonged_at` is when
    that was last put off.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.valid_until = -math.inf
        self.lease_ends = -math.inf
        self.prolonged_at = -math.inf
        self._closed = False

    @classmethod
    def always_open(cls) -> Fence:
        """Return a fence for a process that is alone by decree."""
        fence = cls()
        fence.prolong(math.inf, math.inf)
        return fence

    def prolong(self, valid_until: float, lease_ends: float) -> None:
        """Let writes begin until then; a closed fence stays closed."""
        self.valid_until, self.lease_ends = valid_until, lease_ends
        self.prolonged_at = self._clock()

    def close(self) -> None:
        """Let no write begin any more, for good."""
        self._closed = True

    @property
    def is_open(self) -> bool:
        """Whether a write may begin now."""
        return not self._closed and self._clock() < self.valid_until

    def check(self) -> None:
        """Raise FenceError unless a write may begin now."""
        if not self.is_open:
            raise FenceError("this process may not write: its lease is lost or was not renewed in time")

    def limit(self, seconds: float) -> float:
        """Return how many seconds a write that begins now may take: as asked, and over before another may take over."""
        return max(0.0, min(seconds, self.lease_ends - self._clock()))
