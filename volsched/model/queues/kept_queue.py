"""The condition ``QueueKept``: the queue of a job whose PodGroup names another one while its pods run.

*Ours*: Volcano moves a job with all that it holds as soon as ``spec.queue`` changes. A user who may change a PodGroup
could then empty a full queue, place more there, and do so again: quotas would bind no user. So placed pods count in the
queue in which they were placed, and the job moves once none of its pods runs.

It is a condition, as tenants cannot write statuses: a new leader, or a command, reads there where the job counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from volsched.model.job import JobInfo, PodGroupCondition
from volsched.model.values.visible import visible

QUEUE_KEPT: Final = "QueueKept"
"""The type of the condition, its reason, and the reason of the Event about it."""

_NOWHERE: Final = r'(?s)its pods count in no queue, .* in queue "([^"]+)"'
_MESSAGE: Final = r'(?s)its pods count in queue "([^"]+)", .*'
_LONGEST: Final = 253
"""Characters of a Queue's name, by the API server's rules. A PodGroup may name something longer."""


@dataclass(slots=True)
class QueueMoves:
    """Jobs that named another queue than before, by key.

    ``kept`` are those that count in their old queue all the same, and the queue that they name. ``moved`` are those
    that had been admitted to their old queue, and not yet to the one in which they are. ``nowhere`` are those that
    count in no queue, as none lets their namespace in, and the queue that they name. ``in_force``: a session has been
    held, so that where jobs count was decided by.
    """

    kept: dict[str, str] = field(default_factory=dict)
    moved: dict[str, None] = field(default_factory=dict)
    nowhere: dict[str, str] = field(default_factory=dict)
    in_force: bool = False

    def condition(self, job: JobInfo) -> PodGroupCondition | None:
        """Return what a job's PodGroup states of where it counts; None: in the queue that it names."""
        if job.key in self.nowhere:
            return nowhere_condition(self.nowhere[job.key])
        named = self.kept.get(job.key, "")
        return condition_of(job.queue, named) if named else None

    def forget(self, key: str) -> None:
        """Forget a job."""
        self.kept.pop(key, None)
        self.moved.pop(key, None)
        self.nowhere.pop(key, None)


def condition_of(queue: str, named: str) -> PodGroupCondition:
    """Return the condition of a job that counts in one queue while its PodGroup names another."""
    message = (
        f'its pods count in queue "{queue}", in which they were placed, and so does the PodGroup until none of them'
        f' runs: then it moves to queue "{_shown(named)}". To move it now, delete its pods'
    )
    return PodGroupCondition(QUEUE_KEPT, "True", QUEUE_KEPT, message)


def nowhere_condition(named: str) -> PodGroupCondition:
    """Return the condition of a job that counts in no queue while its PodGroup names one that it may not use."""
    message = (
        "its pods count in no queue, as none lets their namespace in, and on their nodes alone; once none of them runs "
        f'the PodGroup waits in queue "{_shown(named)}"'
    )
    return PodGroupCondition(QUEUE_KEPT, "True", QUEUE_KEPT, message)


def named_nowhere(conditions: Iterable[PodGroupCondition]) -> str:
    """Return the queue that a job names while it counts in none by its conditions; empty if it counts in one."""
    for condition in conditions:
        found = re.fullmatch(_NOWHERE, condition.message) if condition.type == QUEUE_KEPT else None
        if found is not None and condition.status == "True":
            return found[1]
    return ""


def ended() -> PodGroupCondition:
    """Return the condition of a job that counts in the named queue, for groups that need all conditions."""
    return PodGroupCondition(QUEUE_KEPT, "False", "QueueNotKept", "it counts in the queue that it names")


def queue_in(conditions: Iterable[PodGroupCondition]) -> str:
    """Return the queue in which a job counts by its conditions, empty when they state none."""
    for condition in conditions:
        if condition.type == QUEUE_KEPT and condition.status == "True":
            found = re.fullmatch(_MESSAGE, condition.message)
            return found[1] if found is not None else ""
    return ""


def _shown(named: str) -> str:
    """Return the queue name of a PodGroup, made safe for a condition: a tenant may write anything there."""
    return visible(named)[:_LONGEST]
