"""Measures for how long the API server has been reachable: a silent watch is then broken, and not waiting."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

BREAK_SECONDS: Final = 120.0
"""A longer silence is a break. Every watch gets a bookmark about once a minute."""


class WatchHealth:
    """`clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: Hashable = None
        self._since = self._at = clock()

    def note(self, last: Hashable) -> None:
        """Note what was heard last; as long as that stays the same nothing was heard."""
        if last != self._last:
            now = self._clock()
            if self._is_broken(now):
                self._since = now
            self._at, self._last = now, last

    @property
    def seconds(self) -> float:
        """Return the time since the last break; 0 during one."""
        now = self._clock()
        return 0.0 if self._is_broken(now) else now - self._since

    def _is_broken(self, now: float) -> bool:
        return now - self._at > BREAK_SECONDS
