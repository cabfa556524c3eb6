"""Counts of durations by bucket, cheap enough for every request and every session."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of buckets for what machines do: sessions, requests."""

WAITING_SECONDS: Final = (1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400)
"""Upper bounds of buckets for what people wait for, from a second to a day."""


class Histogram:
    """Counts of values by bucket; only one thread may add to it, any may read."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...] = SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    @classmethod
    def of(cls, histograms: Iterable[Histogram]) -> Histogram:
        """Return what several have counted together. Their buckets are the same."""
        each = list(histograms)
        found = cls(each[0]._bounds)
        found._counts = [sum(counts) for counts in zip(*(histogram._counts for histogram in each), strict=True)]
        found._sum = sum(histogram._sum for histogram in each)
        return found

    def add(self, seconds: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def buckets(self, scale: float = 1.0) -> tuple[list[tuple[str, float]], float]:
        """Return cumulated counts by upper bound and the sum of all values, both times `scale`."""
        total = 0
        found: list[tuple[str, float]] = []
        for bound, count in zip((*self._bounds, None), self._counts, strict=True):
            total += count
            found.append(("+Inf" if bound is None else f"{bound * scale:g}", total))
        return found, self._sum * scale
