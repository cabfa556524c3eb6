"""The right to write: held until a moment on the monotonic clock, prolonged by the elector, asked for by each write.

Who is refused drops the write: another process is about to lead, and does all that is not done. So a fence that has
refused stays closed, also when the renewal of the Lease that was under way succeeds: the process ends.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from volsched.kube.errors import FenceError


@dataclass(frozen=True, slots=True)
class _Term:
    """For how long, in seconds of the monotonic clock; one value, so that another thread sees a whole."""

    valid_until: float = -math.inf
    lease_ends: float = -math.inf
    prolonged_at: float = -math.inf


_NEVER: Final = _Term()
"""Of a process that has not led yet: it may some time, whatever was refused to it before."""


class Fence:
    """Tells whether this process may write. The elector prolongs it on its thread; any thread may ask.

    `valid_until` is when a new write may no longer begin, `lease_ends` when another process may take over; both are
    seconds of the monotonic clock. Between the two, writes that are under way have time to end. `prolonged_at` is when
    that was last put off. `has_refused` tells whether a write came too late since it was prolonged at all.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._term = _NEVER
        self._closed = False
        self.has_refused = False

    @classmethod
    def always_open(cls) -> Fence:
        """Return a fence for a process that is alone by decree."""
        fence = cls()
        fence.prolong(math.inf, math.inf)
        return fence

    @property
    def valid_until(self) -> float:
        """When a new write may no longer begin."""
        return self._term.valid_until

    @property
    def lease_ends(self) -> float:
        """When another process may take over."""
        return self._term.lease_ends

    @property
    def prolonged_at(self) -> float:
        """When the right to write was last put off."""
        return self._term.prolonged_at

    def prolong(self, valid_until: float, lease_ends: float) -> None:
        """Let writes begin until then; a closed fence stays closed."""
        self._term = _Term(valid_until, lease_ends, self._clock())

    def close(self) -> None:
        """Let no write begin any more, for good."""
        self._closed = True

    @property
    def is_open(self) -> bool:
        """Whether a write may begin now."""
        return not (self._closed or self.has_refused) and self._clock() < self._term.valid_until

    def check(self) -> None:
        """Raise FenceError unless a write may begin now; for whoever waits for something else before it writes."""
        self.admit(math.inf)

    def admit(self, seconds: float) -> float:
        """Return how many seconds a write that begins now may take: as asked, and over before another may take over.

        Raises FenceError unless it may begin now, and from then on always. Nothing may be waited for between this and
        the write.
        """
        term, now = self._term, self._clock()
        if self._closed or self.has_refused or now >= term.valid_until:
            if term is not _NEVER:
                self.has_refused = True
            raise FenceError("this process may not write: its lease is lost or was not renewed in time")
        return min(seconds, term.lease_ends - now)
