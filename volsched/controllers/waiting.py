"""The reason why a Volcano Job waits, from its PodGroup, on the Job itself.

A Job has no pods before its PodGroup is admitted, so users look at the Job. In an entry of a Job's `status.conditions`
Volcano's schema keeps `status`, which is any text, and `lastTransitionTime`; the API server drops all other fields. Its
controllers write phases there, its tools print the entries, and nothing is decided by them. So the condition is the
entry `PodGroupPending`, as the reason of the Event that Volcano's own controllers write, and the message is in
`status.state.reason` and `status.state.message`, which it keeps, too. All of it goes when the wait is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from volsched.controllers import job_plugins
from volsched.controllers.writes import JOB
from volsched.model import api
from volsched.model.plan import RecordEvent
from volsched.model.verdict import truncated

POD_GROUP_PENDING: Final = "PodGroupPending"
INVALID_JOB: Final = "InvalidJob"
UNSUPPORTED_PLUGIN: Final = "UnsupportedPlugin"

_UNSCHEDULABLE: Final = "Unschedulable"


class Wait(NamedTuple):
    """The reason of a waiting Job; both fields are empty for another one."""

    reason: str = ""
    message: str = ""


NO_WAIT: Final = Wait()


def unschedulable(group: api.PodGroup) -> tuple[api.Condition, ...]:
    """Return the condition by which a PodGroup states why it waits, if it does."""
    return tuple(c for c in group.status.conditions if c.type == _UNSCHEDULABLE and c.status == "True")


def wait_of(group: api.PodGroup | None) -> Wait:
    """Return why a Job waits, as its PodGroup states it."""
    if group is None:
        return NO_WAIT
    found = next(iter(unschedulable(group)), None)
    return Wait(found.reason, truncated(f'PodGroup "{group.key}" waits: {found.message}')) if found else NO_WAIT


def about_wait(job: api.Job, wait: Wait) -> RecordEvent:
    """Return the Event that states on a Job why it waits."""
    return _about(job, POD_GROUP_PENDING, wait.message)


def refused(job: api.Job, problem: str) -> Wait:
    """Return why a Job is not run as it is: a `problem` of its own, or of its plugins."""
    if problem:
        return Wait(INVALID_JOB, f"{problem}; correct the Job, it is not run as it is")
    plugins = job_plugins.refusal(job)
    return Wait(UNSUPPORTED_PLUGIN, plugins) if plugins else NO_WAIT


def about_refusal(job: api.Job, refusal: Wait) -> RecordEvent:
    """Return the Event that states on a Job why it is not run."""
    return _about(job, refusal.reason, refusal.message)


def _about(job: api.Job, reason: str, message: str) -> RecordEvent:
    meta = job.metadata
    kind, version = JOB.name, JOB.group_version
    return RecordEvent(kind, version, meta.namespace, meta.name, meta.uid, "Warning", reason, message, "Reconciling")


def with_wait(history: Sequence[Mapping[str, Any]], wait: Wait, stamp: str) -> list[Mapping[str, Any]]:
    """Return a Job's conditions with or without the one that it waits; that is last, and unchanged if it was there."""
    phases = [entry for entry in history if entry.get("status") != POD_GROUP_PENDING]
    if wait == NO_WAIT:
        return phases
    known = [entry for entry in history if entry.get("status") == POD_GROUP_PENDING]
    return [*phases, *(known[:1] or [{"status": POD_GROUP_PENDING, "lastTransitionTime": stamp}])]
