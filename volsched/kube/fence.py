"""The right to write: held until a moment on the monotonic clock, prolonged by the elector, checked by each write.

A refused write is dropped: another process is about to lead, and does the rest. So a fence that has refused a write
stays closed, even if the renewal of the Lease that was under way succeeds: the process ends.
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
    """The period in seconds of the monotonic clock. One value, so that another thread reads both ends together."""

    valid_until: float = -math.inf
    lease_ends: float = -math.inf
    prolonged_at: float = -math.inf


_NEVER: Final = _Term()
"""The fence of a process that has not led yet. It may open later, also after refusals."""


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
        """Return the end of new writes."""
        return self._term.valid_until

    @property
    def lease_ends(self) -> float:
        """Return the earliest takeover by another process."""
        return self._term.lease_ends

    @property
    def prolonged_at(self) -> float:
        """Return the time of the last prolongation."""
        return self._term.prolonged_at

    def prolong(self, valid_until: float, lease_ends: float) -> None:
        """Let writes begin until then. A closed fence stays closed."""
        self._term = _Term(valid_until, lease_ends, self._clock())

    def close(self) -> None:
        """Let no write begin any more, for good."""
        self._closed = True

    @property
    def is_open(self) -> bool:
        """True if a write may begin now."""
        return not (self._closed or self.has_refused) and self._clock() < self._term.valid_until

    def check(self) -> None:
        """Raise FenceError unless a write may begin now; for code that waits for something else before it writes."""
        self.start_write(math.inf)

    def start_write(self, seconds: float) -> float:
        """Return how many seconds a write may take that begins now: at most as asked, and over before a takeover.

        Raises FenceError if it may not begin now; after a refusal in a process that has led, for ever. Nothing may be
        awaited between this call and the write.
        """
        term, now = self._term, self._clock()
        if self._closed or self.has_refused or now >= term.valid_until:
            if term is not _NEVER:
                self.has_refused = True
            raise FenceError("this process may not write: its lease is lost or was not renewed in time")
        return min(seconds, term.lease_ends - now)
