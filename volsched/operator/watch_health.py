"""For how long the API server has been heard without a break: what is silent meanwhile is broken, and not waiting."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

BREAK_SECONDS: Final = 120.0
"""Nothing heard for longer than this is a break; every watch hears a bookmark about once a minute."""


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
        """How long there was no break; 0 during one."""
        now = self._clock()
        return 0.0 if self._is_broken(now) else now - self._since

    def _is_broken(self, now: float) -> bool:
        return now - self._at > BREAK_SECONDS
