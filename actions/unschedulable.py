"""Jobs that could not be admitted or placed, and when they are tried again.

A job is unschedulable until the *requeue generation* grows: with each change that could let a waiting job in
(``Cluster.wake``; kube-scheduler's queueing hints). So it is if something of its own changes (``JobInfo.requeue``).
Changes that are tried and undone do not count.

Jobs of one queue whose pods are equal, and that lack the same room or quota, are equivalent (``EquivalentJobs``). In
another generation one pod of theirs is asked about, and if the answer is the same they go on waiting.

Other things are remembered elsewhere: jobs over which a plugin failed (``framework/boundary.py``), pods that all nodes
refused in this session (``Session.refusal_of_equal``), roles that no node takes (``Attempt.failed_roles``), and jobs
for which no victims were found (``victims/searched.py``).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from actions.attempt import has_history
from volsched.framework.callbacks import Headroom
from volsched.framework.session import Session
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import Scope

# -- a job alone ------------------------------------------------------------------------------------------------------


def is_unschedulable(job: JobInfo, cluster: Cluster) -> bool:
    """True if nothing has happened that could help a job since it failed."""
    return job.unschedulable_at == cluster.generations.requeue


def mark_unschedulable(job: JobInfo, cluster: Cluster) -> None:
    """Leave a job alone until something has happened that could help it."""
    job.unschedulable_at = cluster.generations.requeue


# -- jobs that wait for the same --------------------------------------------------------------------------------------


class NoRoom(NamedTuple):
    """No node had room for any pod of a kind (see the engine), as nodes were then, whose facts have a version."""

    kind: Hashable
    properties_version: tuple[int, int]


class NoQuota(NamedTuple):
    """The queue could take on only so many pods, which were not enough for the gang to start."""

    headrooms: tuple[Headroom, ...]


Cause: TypeAlias = NoRoom | NoQuota


@dataclass(slots=True)
class EquivalentJobs:
    """Jobs of one queue that wait for the same. ``checked_at`` is the generation in which they last did."""

    cause: Cause
    checked_at: int
    jobs: dict[str, JobInfo] = field(default_factory=dict)


class UnschedulableJobs:
    """The jobs of a cluster that could not be placed, from one session to the next.

    Jobs leave their equivalents by themselves when something of their own changes (``JobInfo.leave_equivalents``).
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._groups: dict[Hashable, EquivalentJobs] = {}
        for job in cluster.queue_cache.waiting.values():  # of groups of another configuration
            job.leave_equivalents()

    @classmethod
    def of(cls, session: Session) -> UnschedulableJobs:
        """Return what is remembered of a session's cluster."""
        return session.account("allocate.unschedulable", cls)

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def add(self, session: Session, job: JobInfo, *, placed: int) -> None:
        """Leave a job alone until a change could help it. When it failed, ``placed`` of its pods had found a place.

        A job whose pods want to be near others, or spread, is not left alone: a placement could help.
        """
        if any(task.template.affinity or task.template.spread for task in job.waiting.values()):
            return
        job.leave_equivalents()
        mark_unschedulable(job, self._cluster)
        task = _example(job)
        cause = self._cause(session, job, task, placed) if task is not None else None
        if task is None or cause is None:
            return
        group = self._group(session, job, task, cause)
        group.checked_at = self._cluster.generations.requeue
        group.jobs[job.key] = job
        job.equivalents = group.jobs

    def _group(self, session: Session, job: JobInfo, task: TaskInfo, cause: Cause) -> EquivalentJobs:
        """Return the group of jobs like this one. A job whose pod does not speak for others has one of its own."""
        key = (job.queue, task.template.id, cause, "")
        if key not in self._groups and not _speaks_for_others(session, task, cause):
            key = (*key[:3], job.key)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = EquivalentJobs(cause, self._cluster.generations.requeue)
        return group

    def to_try(self, session: Session) -> list[JobInfo]:
        """Jobs that something may have helped since they failed."""
        generation = self._cluster.generations.requeue
        outdated = [(key, group) for key, group in self._groups.items() if group.checked_at != generation]
        still_without_room: dict[Hashable, bool] = {}
        for key, group in outdated:
            still_waits = False
            with session.about(next(iter(group.jobs.values()), _NO_JOB)):
                still_waits = _still_waits(session, group, still_without_room)
            if still_waits:
                group.checked_at = generation
            else:
                del self._groups[key]
                _dissolve(group)
        waiting = (job for job in self._cluster.queue_cache.waiting.values() if job.equivalents is None)
        return [job for job in waiting if job.unschedulable_at != generation and not job.blocked]

    def _cause(self, session: Session, job: JobInfo, task: TaskInfo, placed: int) -> Cause | None:
        """Return what keeps all pods of a job from being placed, if it is one thing that can be asked about again."""
        scopes = {waiting.refusal.scope for waiting in job.waiting.values() if waiting.refusal is not None}
        if Scope.NODE in scopes:
            return self._no_room(session, job, task)
        return _no_quota(session, job, task, placed) if Scope.QUEUE in scopes else None

    def _no_room(self, session: Session, job: JobInfo, task: TaskInfo) -> NoRoom | None:
        kind = session.engine.kind(task)
        hopeless = session.refusal_of_equal(task) is not None or session.engine.no_node_fits(task)
        if not hopeless or not _all_of_kind(session, job, kind):
            return None
        return NoRoom(kind, session.properties_version)


_NO_JOB = JobInfo("", "")
"""Stands for the job of a group without jobs."""


def _dissolve(group: EquivalentJobs) -> None:
    for job in list(group.jobs.values()):
        job.leave_equivalents()


def _example(job: JobInfo) -> TaskInfo | None:
    """Return one of the pods that a job waits to place, when all are equal and none has a history of its own."""
    tasks = job.waiting.values()
    first = next(iter(tasks), None)
    if first is None or any(task.template is not first.template or has_history(task) for task in tasks):
        return None
    return first


def _no_quota(session: Session, job: JobInfo, task: TaskInfo, placed: int) -> NoQuota | None:
    """Return the headroom that the job used up: with less of it, no pod of the job can start."""
    queue = session.queues.get(job.queue)
    headrooms = session.headrooms(queue, task) if queue is not None else None
    if not headrooms or max(0, min(each.count for each in headrooms)) != placed:
        return None
    return NoQuota(headrooms)


def _speaks_for_others(session: Session, task: TaskInfo, cause: Cause) -> bool:
    """True if what holds of one pod holds of equal ones of its queue, too: quotas promise that, kinds may not."""
    return isinstance(cause, NoQuota) or session.engine.is_shared_in_queue(task)


def _all_of_kind(session: Session, job: JobInfo, kind: Hashable) -> bool:
    """True if all that a job waits to place is of a kind, as their claims may distinguish pods that are equal else."""
    first = next(iter(job.waiting.values()))
    return kind == first.template.id or all(session.engine.kind(task) == kind for task in job.waiting.values())


def _still_waits(session: Session, group: EquivalentJobs, still_without_room: dict[Hashable, bool]) -> bool:
    """True if jobs wait for what they waited for. A promise that is not taken up would leave room to them."""
    job = next(iter(group.jobs.values()), None)
    queue = session.queues.get(job.queue) if job is not None else None
    if job is None or queue is None or not queue.is_open or session.nominations.tasks():
        return False
    if isinstance(group.cause, NoQuota):
        return _still_without_quota(session, queue, job, group.cause)
    return _still_without_room(session, job, group.cause, still_without_room)


def _still_without_quota(session: Session, queue: QueueInfo, job: JobInfo, cause: NoQuota) -> bool:
    return session.headrooms(queue, next(iter(job.waiting.values()))) == cause.headrooms


def _still_without_room(session: Session, job: JobInfo, cause: NoRoom, known: dict[Hashable, bool]) -> bool:
    """Ask once for each kind; when nodes' properties change there may be another reason to report."""
    if cause.properties_version != session.properties_version or not _all_of_kind(session, job, cause.kind):
        return False
    if cause.kind not in known:
        known[cause.kind] = session.engine.no_node_fits(next(iter(job.waiting.values())))
    return known[cause.kind]
