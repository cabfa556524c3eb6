"""PodGroup phases, counts and conditions at the end of a session, for changed jobs.

The phase rules are Volcano's job updater's. A status is written only if phase, counts or conditions differ from those
last read or written.

*Ours*: a gang with running members that cannot start becomes Unknown when two successive sessions found so; the first
one leaves it Pending, as one session of Volcano itself does (so its 175 recorded sessions show). And a group that is
Completed stays so when its pods are collected, until it has new ones: Pending again, it would be admitted again, and
room kept for pods that do not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from volsched.framework.native import gangs as native_gangs
from volsched.framework.native import status as native_status
from volsched.framework.reporter import message_within
from volsched.model.cluster import Cluster
from volsched.model.job import (
    COMPLETED,
    INQUEUE,
    PENDING,
    RUNNING,
    UNKNOWN,
    GroupStatus,
    JobInfo,
    PodGroupCondition,
    with_condition,
)
from volsched.model.plan import WriteGroupStatus, WriteNativeStatus
from volsched.model.queues.kept_queue import QUEUE_KEPT, ended
from volsched.model.status import IS_FINISHED, IS_SCHEDULED, TaskStatus
from volsched.model.verdict import ConditionReason

UNSCHEDULABLE: Final = "Unschedulable"
"""The condition of a PodGroup that cannot start."""

_OWN_REASONS: Final = frozenset(reason.value for reason in ConditionReason)


def status_of(job: JobInfo, *, unschedulable: bool, queued: bool = True) -> GroupStatus:
    """Return the phase of a job's PodGroup.

    ``unschedulable``: this session and one before found that it cannot start. ``queued``: its queue exists; without one
    no session looks at it, so a minimum of 0 is no reason to call it Completed.
    """
    counts = job.counts
    return GroupStatus(
        phase=_phase(job, unschedulable=unschedulable, queued=queued),
        running=counts[TaskStatus.RUNNING],
        succeeded=counts[TaskStatus.SUCCEEDED],
        failed=counts[TaskStatus.FAILED],
        conditions=job.conditions,
    )


def _phase(job: JobInfo, *, unschedulable: bool, queued: bool) -> str:
    if job.is_native:
        return _native_phase(job)
    counts = job.counts
    if job.phase == COMPLETED and not job.tasks:
        return COMPLETED
    if unschedulable and counts[TaskStatus.RUNNING]:
        return UNKNOWN
    scheduled = sum(count for count, counted in zip(counts, IS_SCHEDULED, strict=True) if counted)
    if counts[TaskStatus.RELEASING]:
        scheduled += sum(1 for t in job.tasks.values() if t.status is TaskStatus.RELEASING and t.node is not None)
    if scheduled >= job.spec.min_available and (scheduled or queued):
        finished = counts[TaskStatus.SUCCEEDED] + counts[TaskStatus.FAILED]
        return COMPLETED if scheduled == finished else RUNNING
    return INQUEUE if job.phase == INQUEUE else PENDING


def _native_phase(job: JobInfo) -> str:
    """Return the phase of a native group, which shows none: admitted with its pods, running with one on a node."""
    if job.placed_count:
        return RUNNING
    if job.tasks and all(IS_FINISHED[task.status] for task in job.tasks.values()):
        return COMPLETED
    is_admitted = job.phase == INQUEUE and native_gangs.known_members(job) >= job.spec.min_available
    return INQUEUE if is_admitted else PENDING


def is_kept_out(job: JobInfo) -> bool:
    """True if a job was refused as a whole before its minimum has room. Pods that request nothing do not count."""
    return job.refusal is not None and job.ready_count < max(1, job.spec.min_available)


def note_refusal(cluster: Cluster, job: JobInfo) -> None:
    """Report on a PodGroup why it waits as a whole, if no plugin has words for that: gangs are judged by their pods.

    Volcano's controllers, and volsched's, repeat the condition on the Volcano Job, which has no pods before it is
    admitted.
    """
    if job.is_native:
        return
    known = next((condition for condition in job.conditions if condition.type == UNSCHEDULABLE), None)
    if known is not None and job.tasks and not job.blocked and known.reason not in _OWN_REASONS:
        return
    verdict = job.refusal
    if verdict is not None and is_kept_out(job):
        message = message_within(cluster, job.namespace, verdict)
        wanted = PodGroupCondition(UNSCHEDULABLE, "True", verdict.condition_reason.value, message)
        job.conditions = with_condition(job.conditions, wanted)
    elif known is not None and known.reason in _OWN_REASONS:
        job.conditions = tuple(condition for condition in job.conditions if condition is not known)


def note_queue(job: JobInfo, kept: PodGroupCondition | None) -> PodGroupCondition | None:
    """State on a PodGroup the queue in which it counts, if it differs from the named one. Return new Events."""
    known = next((condition for condition in job.conditions if condition.type == QUEUE_KEPT), None)
    if kept is not None:
        job.conditions = with_condition(job.conditions, kept)
        return kept if kept != known else None
    if known is not None and job.is_native:
        job.conditions = with_condition(job.conditions, ended())
    elif known is not None:
        job.conditions = tuple(condition for condition in job.conditions if condition is not known)
    return None


def writes(
    cluster: Cluster, jobs: Iterable[tuple[JobInfo, GroupStatus]]
) -> Iterator[WriteGroupStatus | WriteNativeStatus]:
    """Yield writes for statuses that differ from the API server's. Each counts as under way from here on."""
    for job, status in jobs:
        if job.spec.native is not None:
            yield from native_status.write_of(cluster, job)
            continue
        if not job.spec.has_group or status == job.reported:
            continue
        job.reported, job.confirmed = status, False
        yield WriteGroupStatus(
            job.spec.group_uid,
            job.namespace,
            job.name,
            status.phase,
            status.running,
            status.succeeded,
            status.failed,
            status.conditions,
        )
