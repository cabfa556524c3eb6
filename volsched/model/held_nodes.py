"""The condition ``Reserved`` of a PodGroup: its reservation.

It is a condition, since users who may make PodGroups may annotate them, and could hold nodes for ever. Its message is
for people; a new leader reads from it the jobs with reservations, their starts and their nodes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from volsched.model.job import JobInfo, PodGroupCondition, with_condition

EXPECTED_DURATION: Final = "volsched.io/expected-duration"
"""Annotation of a PodGroup or pod: how long it runs, as Go writes durations."""

DEFAULT_DURATION: Final = "volsched.io/default-duration"
"""Annotation of a Queue: the expected duration of its pods that declare none."""

RESERVE_AFTER: Final = "volsched.io/reserve-after"
"""Annotation of a Queue: how long its jobs wait before nodes are held for them, at most the configured time.

On a PodGroup: how long it waits, at least as long as its queue says.
"""

RESERVED: Final = "Reserved"
"""The type of the condition, its reason, and the reason of Events about it."""

_STAMP: Final = "%Y-%m-%dT%H:%M:%SZ"
_TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
_MESSAGE: Final = (
    rf"promised at ({_TIME}): starts (?:by ({_TIME})|when they are free) on nodes ([a-z0-9.-]+(?:, [a-z0-9.-]+)*)"
)

_PAUSED: Final = rf"no nodes are held for its namespace before ({_TIME}), for (\d{{1,9}}) seconds"


class StatedReservation(NamedTuple):
    """A reservation: the time of its statement, its start (None: not known), both in seconds, and its nodes."""

    at: float
    start: float | None
    nodes: tuple[str, ...]


def stamp(seconds: float) -> str:
    """Return a time as RFC 3339, rounded up to whole seconds, so that a start is not promised too early."""
    return datetime.fromtimestamp(math.ceil(seconds), UTC).strftime(_STAMP)


def condition_of(at: float, start: float | None, nodes: Sequence[str]) -> PodGroupCondition:
    """Return the condition that states a promise."""
    begins = "when they are free" if start is None else f"by {stamp(start)}"
    message = f"promised at {stamp(at)}: starts {begins} on nodes {', '.join(nodes)}"
    return PodGroupCondition(RESERVED, "True", RESERVED, message)


def stated_reservation_in(text: str) -> StatedReservation | None:
    """Read a promise from the message of a condition; None when it states none."""
    found = re.fullmatch(_MESSAGE, text)
    if found is None:
        return None
    at, start, nodes = found.groups()
    return StatedReservation(_seconds(at), _seconds(start) if start else None, tuple(nodes.split(", ")))


def stated_reservation_of(job: JobInfo) -> StatedReservation | None:
    """Return what a job's PodGroup states that it was promised."""
    conditions = (c for c in job.conditions if c.type == RESERVED and c.status == "True")
    return next((promise for c in conditions if (promise := stated_reservation_in(c.message)) is not None), None)


def paused(job: JobInfo, until: float, seconds: float) -> tuple[PodGroupCondition, ...]:
    """Return a job's conditions after nodes were held in vain: none are held for so many seconds."""
    message = f"no nodes are held for its namespace before {stamp(until)}, for {math.ceil(seconds)} seconds"
    return with_condition(job.conditions, PodGroupCondition(RESERVED, "False", "DrainPaused", message))


def pause_of(job: JobInfo) -> tuple[float, float] | None:
    """Return the end of the pause in which no nodes are held for a job's namespace, and its length in seconds."""
    condition = next((c for c in job.conditions if c.type == RESERVED and c.status == "False"), None)
    return pause_in(condition.message) if condition is not None else None


def pause_in(text: str) -> tuple[float, float] | None:
    """Read a pause from the message of a condition; None when it states none."""
    found = re.fullmatch(_PAUSED, text)
    return (_seconds(found[1]), float(found[2])) if found is not None else None


def without_reservation(job: JobInfo) -> tuple[PodGroupCondition, ...]:
    """Return a job's conditions once no nodes are held for it.

    A native group's condition stays, as False: conditions of that kind are merged by type and cannot be left out.
    """
    if job.is_native and stated_reservation_of(job) is not None:
        ended = PodGroupCondition(RESERVED, "False", "NotReserved", "no nodes are held for the pod group")
        return with_condition(job.conditions, ended)
    return tuple(condition for condition in job.conditions if condition.type != RESERVED or job.is_native)


def _seconds(text: str) -> float:
    return datetime.strptime(text, _STAMP).replace(tzinfo=UTC).timestamp()
