"""Pauses of namespaces for which nodes were held in vain.

A pause is that of the namespace, as who may make PodGroups may make the next one under another name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

LONGEST_PAUSE_SECONDS: Final = 86400.0


class Pause(NamedTuple):
    """Until when no nodes are held (seconds since the epoch), and how long that is (seconds)."""

    until: float
    seconds: float


class Pauses:
    """The pauses of namespaces. Each is twice as long as the one before, until a job starts or it is forgotten."""

    def __init__(self, hold: float, first: float) -> None:
        self._hold = hold
        self._first = first
        self._known: dict[str, Pause] = {}

    def __len__(self) -> int:
        return len(self._known)

    def begin(self, namespace: str, now: float) -> Pause:
        """Begin a pause, as nodes were held in vain."""
        before = self._known.get(namespace)
        seconds = self._first if before is None else min(max(2 * before.seconds, self._first), LONGEST_PAUSE_SECONDS)
        pause = self._known[namespace] = Pause(now + seconds, seconds)
        return pause

    def restore(self, namespace: str, until: float, seconds: float) -> None:
        """Take up a pause that a scheduler before this one began. The latest counts."""
        before = self._known.get(namespace)
        if before is None or before.until < until:
            self._known[namespace] = Pause(until, seconds)

    def is_paused(self, namespace: str, now: float) -> bool:
        """True if a namespace gets no reservations at a time."""
        pause = self._known.get(namespace)
        return pause is not None and now < pause.until

    def ends(self, now: float) -> Iterator[float]:
        """Yield when pauses end that have not."""
        return (pause.until for pause in self._known.values() if pause.until > now)

    def end(self, namespace: str) -> None:
        """Begin with a short pause again: a job has started from its reservation."""
        self._known.pop(namespace, None)

    def forget(self, now: float) -> None:
        """Forget what is so long ago that another drain would have failed since."""
        if self._hold < math.inf:
            past = now - self._hold - LONGEST_PAUSE_SECONDS
            for namespace in [name for name, pause in self._known.items() if pause.until < past]:
                del self._known[namespace]
