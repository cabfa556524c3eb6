"""The messages about reservations: to the jobs that have one, and to pods that could have gone where one is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from volsched.model.held_nodes import RESERVED, stamp
from volsched.model.verdict import ConditionReason, Scope, Step, Verdict

if TYPE_CHECKING:
    from actions.reserve.book import Reservation

NAMED: Final = 8
"""Nodes that a message names. The others are counted."""

_ROUND: Final = (60, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 345600, 604800)
"""Durations that pods are told, in seconds. Others would be news in every session."""


def waits(reservation: Reservation, silent: int) -> Verdict:
    """Tell a job where it will start, and when. ``silent`` pods there do not declare how long they run."""
    count, start = len(reservation.nodes), reservation.start
    where = f"{_listed(reservation.nodes)} ({count} node{'s' if count != 1 else ''} in all)"
    key = reservation.job.label
    if start is not None:
        message = f"gang {key} will start by {stamp(start)} (estimated) on {where}: it waits for pods there to end"
    else:
        message = f"nodes {where} are kept free for gang {key}; when they will be is not known"
        if silent:
            message += f": {silent} pod(s) there declare no duration (volsched.io/expected-duration)"
    return Verdict(Step.PREDICATE, "reserve", Scope.JOB, RESERVED, message, shown_as=ConditionReason.RESERVED)


def kept_from(reservation: Reservation, now: float) -> Verdict:
    """Tell a pod why it may not go on a node, and how short it would have to be."""
    message = f"node(s) were reserved for {reservation.job.label}"
    if reservation.start is not None and (most := _rounded(reservation.start - now)):
        message += f" (a pod with an expected duration below {written(most)} would fit)"
    return Verdict(Step.PREDICATE, "reserve", Scope.NODE, RESERVED, message, resolvable=False)


def kept_quota(reservation: Reservation) -> Verdict:
    """Tell a pod that its queue's quota is charged with a reservation."""
    message = f"what is left of the quota is kept for {reservation.job.label}"
    return Verdict(Step.PREDICATE, "reserve", Scope.JOB, RESERVED, message, resolvable=False)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


def _rounded(seconds: float) -> int:
    fitting: Iterable[int] = (each for each in _ROUND if each <= seconds)
    return max(fitting, default=0)


def written(seconds: float) -> str:
    """Return a duration in the largest unit that it is whole in."""
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds / length:g}{unit}"
    return f"{seconds:g}s"
