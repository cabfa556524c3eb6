"""Keys that wait for their time."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SPARE: Final = 64


class DelayingQueue(Generic[K]):
    """Keys with their due times (seconds of any clock); a later put of a key replaces its time."""

    def __init__(self) -> None:
        self._at: dict[K, float] = {}
        self._count = 0
        self._heap: list[tuple[float, int, K]] = []

    def __len__(self) -> int:
        return len(self._at)

    @property
    def weight(self) -> int:
        """Return the number of entries, outdated ones included: at most twice the number of keys, and a few."""
        return len(self._heap)

    def put(self, key: K, at: float) -> None:
        """Have a key wait until then."""
        self._at[key] = at
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, key))
        self._tidy()

    def drop(self, key: K) -> None:
        """Have a key wait no more."""
        if self._at.pop(key, None) is not None:
            self._tidy()

    def clear(self) -> None:
        """Have none wait any more."""
        self._at.clear()
        self._heap.clear()

    def next(self) -> float | None:
        """Return when the first is due, or None when none waits."""
        while self._heap and self._at.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self, now: float) -> Iterator[K]:
        """Yield the keys that are due, the first one first. They wait no more."""
        while (at := self.next()) is not None and at <= now:
            key = heapq.heappop(self._heap)[2]
            del self._at[key]
            yield key

    def _tidy(self) -> None:
        """Drop outdated entries once they are the majority."""
        if len(self._heap) > 2 * len(self._at) + _SPARE:
            self._heap = [(at, number, key) for number, (key, at) in enumerate(self._at.items())]
            heapq.heapify(self._heap)
