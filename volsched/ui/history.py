"""The past while the page has been open, for charts: samples of each resource of queues, and one day of the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from volsched.diagnose.records import Figures, QueueState
from volsched.model.values.quantity import parse

MOST_MOMENTS: Final = 60
"""The most samples of one resource of a queue. Older ones are thinned out."""

SPACING_SECONDS: Final = 5.0
"""Moments closer together than this become one, the later one."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The usage at a time, in seconds since the epoch, and the quota then; amounts as plain numbers."""

    at: float
    used: float
    quota: float | None


class History:
    """The moments of every resource of every queue that is there."""

    def __init__(self) -> None:
        self._moments: dict[tuple[str, str], list[Moment]] = {}

    def of(self, queue: str, resource: str) -> tuple[Moment, ...]:
        """Return the moments of a resource of a queue, oldest first."""
        return tuple(self._moments.get((queue, resource), ()))

    def note(self, now: float, queues: Iterable[QueueState]) -> None:
        """Note what queues use now. Those that are gone are forgotten."""
        kept: dict[tuple[str, str], list[Moment]] = {}
        for queue in queues:
            for figures in queue.figures:
                key = queue.name, figures.resource
                kept[key] = self._moments.get(key, [])
                _add(kept[key], _moment(now, figures))
        self._moments = kept


def _moment(now: float, figures: Figures) -> Moment:
    return Moment(now, number(figures.used), None if figures.quota is None else number(figures.quota))


def number(quantity: str) -> float:
    """Return a quantity as a plain number."""
    return float(parse(quantity))


def _add(moments: list[Moment], new: Moment) -> None:
    if moments and (moments[-1].used, moments[-1].quota) == (new.used, new.quota):
        return
    if len(moments) > 1 and new.at - moments[-1].at < SPACING_SECONDS:
        moments.pop()
    moments.append(new)
    if len(moments) > MOST_MOMENTS:
        del moments[1 : MOST_MOMENTS // 2 : 2]


POINT_SECONDS: Final = 300
DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class DayPoint:
    """The used cards and the waiting jobs of the cluster in five minutes from ``at``, in seconds since the epoch."""

    at: int
    used: float
    waiting: int


class Day:
    """One day of the cluster, in points of five minutes; the last number in five minutes counts."""

    def __init__(self) -> None:
        self._points: list[DayPoint] = []

    def note(self, now: float, used: float, waiting: int) -> None:
        """Note the present numbers."""
        new = DayPoint(int(now) // POINT_SECONDS * POINT_SECONDS, used, waiting)
        if self._points and self._points[-1].at == new.at:
            self._points.pop()
        self._points.append(new)
        while self._points[0].at <= now - DAY_SECONDS - POINT_SECONDS and len(self._points) > 1:
            del self._points[0]

    def points(self) -> tuple[DayPoint, ...]:
        """Return the points, oldest first."""
        return tuple(self._points)
