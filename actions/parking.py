"""Jobs that nothing can help are left alone until something happened that could.

A job that could not be placed is parked with the cluster's relief, and not looked at before that has changed. Then most
of a backlog still waits for the same: pods that are all equal, of one queue, that no node or no quota has room for.
Such jobs are parked together, one pod is asked about for all of them, and they are tried again when the answer is
another one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from actions.placement import has_history
from volsched.framework.callbacks import Headroom
from volsched.framework.session import Session
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import Scope


class NoRoom(NamedTuple):
    """No node had room for any pod of a kind (see the engine), as nodes were then, whose facts have a version."""

    kind: Hashable
    facts_version: tuple[int, int]


class NoQuota(NamedTuple):
    """The queue could take on only so many pods, which were not enough for the gang to start."""

    headrooms: tuple[Headroom, ...]


Cause: TypeAlias = NoRoom | NoQuota


@dataclass(slots=True)
class Lot:
    """Jobs of one queue that wait for the same; ``checked_at`` is the relief at which they last did."""

    cause: Cause
    checked_at: int
    jobs: dict[str, JobInfo] = field(default_factory=dict)


class Parking:
    """All lots. Jobs leave theirs by themselves when something of their own changes (``JobInfo.part``)."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lots: dict[Hashable, Lot] = {}
        for job in cluster.queue_ledger.waiting.values():  # of lots of another configuration's parking
            job.part()

    @classmethod
    def of(cls, session: Session) -> Parking:
        """Return the parking of a session's cluster."""
        return session.account("allocate.parking", cls)

    def park(self, session: Session, job: JobInfo, *, placed: int) -> None:
        """Leave a job alone from now on; ``placed`` of its pods had found a place when it failed."""
        relief = self._cluster.clocks.requeue_generation
        job.part()
        job.parked_at = relief
        task = _example(job)
        cause = _cause(session, job, task, placed) if task is not None else None
        if task is None or cause is None:
            return
        lot = self._lot(session, job, task, cause)
        lot.checked_at = relief
        lot.jobs[job.key] = job
        job.parked_with = lot.jobs

    def _lot(self, session: Session, job: JobInfo, task: TaskInfo, cause: Cause) -> Lot:
        """Return the lot of jobs like this one; a job whose pod does not speak for others has one of its own."""
        key = (job.queue, task.template.id, cause, "")
        if key not in self._lots and not _speaks_for_others(session, task, cause):
            key = (*key[:3], job.key)
        lot = self._lots.get(key)
        if lot is None:
            lot = self._lots[key] = Lot(cause, self._cluster.clocks.requeue_generation)
        return lot

    def worth_a_look(self, session: Session) -> list[JobInfo]:
        """Jobs that something may have helped since they failed."""
        cluster, relief = self._cluster, self._cluster.clocks.requeue_generation
        outdated = [(key, lot) for key, lot in self._lots.items() if lot.checked_at != relief]
        still_without_room: dict[Hashable, bool] = {}
        for key, lot in outdated:
            still_waits = False
            with session.about(next(iter(lot.jobs.values()), _NOBODY)):
                still_waits = _still_waits(session, lot, still_without_room)
            if still_waits:
                lot.checked_at = relief
            else:
                del self._lots[key]
                _dissolve(lot)
        unparked = (
            job for job in cluster.queue_ledger.waiting.values() if job.parked_at != relief and job.parked_with is None
        )
        return [job for job in unparked if not job.barred]


_NOBODY = JobInfo("", "")
"""Whom a lot is about that all its jobs have left."""


def _dissolve(lot: Lot) -> None:
    for job in list(lot.jobs.values()):
        job.part()


def _example(job: JobInfo) -> TaskInfo | None:
    """Return one of the pods that a job waits to place, when all are equal and none has a history of its own."""
    tasks = job.waiting.values()
    first = next(iter(tasks), None)
    if first is None or any(task.template is not first.template or has_history(task) for task in tasks):
        return None
    return first


def _cause(session: Session, job: JobInfo, task: TaskInfo, placed: int) -> Cause | None:
    """Return what keeps all pods of a job from being placed, if it is one thing that can be asked about again."""
    scopes = {waiting.refusal.scope for waiting in job.waiting.values() if waiting.refusal is not None}
    if Scope.NODE in scopes:
        return _no_room(session, job, task)
    return _no_quota(session, job, task, placed) if Scope.QUEUE in scopes else None


def _no_room(session: Session, job: JobInfo, task: TaskInfo) -> NoRoom | None:
    kind = session.engine.kind(task)
    hopeless = session.known_as_hopeless(task) is not None or session.engine.hopeless(task)
    if not hopeless or not _all_of_kind(session, job, kind):
        return None
    return NoRoom(kind, session.cluster.node_ledger.facts_version)


def _no_quota(session: Session, job: JobInfo, task: TaskInfo, placed: int) -> NoQuota | None:
    """Return what the queue had left: when it was all taken up, with less of it nobody of the job can start either."""
    queue = session.cluster.queues.get(job.queue)
    headrooms = session.headrooms(queue, task) if queue is not None else None
    if not headrooms or max(0, min(each.count for each in headrooms)) != placed:
        return None
    return NoQuota(headrooms)


def _speaks_for_others(session: Session, task: TaskInfo, cause: Cause) -> bool:
    """Whether what holds of one pod holds of equal ones of its queue, too: quotas promise that, kinds may not."""
    return isinstance(cause, NoQuota) or session.engine.speaks_for_queue(task)


def _all_of_kind(session: Session, job: JobInfo, kind: Hashable) -> bool:
    """Whether all that a job waits to place is of a kind, as their claims may tell pods apart that are equal else."""
    first = next(iter(job.waiting.values()))
    return kind == first.template.id or all(session.engine.kind(task) == kind for task in job.waiting.values())


def _still_waits(session: Session, lot: Lot, still_without_room: dict[Hashable, bool]) -> bool:
    """Whether jobs wait for what they waited for; a promise that is not taken up would leave room to them."""
    job = next(iter(lot.jobs.values()), None)
    queue = session.cluster.queues.get(job.queue) if job is not None else None
    if job is None or queue is None or not queue.is_open or session.nominations.tasks():
        return False
    if isinstance(lot.cause, NoQuota):
        return _still_without_quota(session, queue, job, lot.cause)
    return _still_without_room(session, job, lot.cause, still_without_room)


def _still_without_quota(session: Session, queue: QueueInfo, job: JobInfo, cause: NoQuota) -> bool:
    return session.headrooms(queue, next(iter(job.waiting.values()))) == cause.headrooms


def _still_without_room(session: Session, job: JobInfo, cause: NoRoom, known: dict[Hashable, bool]) -> bool:
    """Ask once for each kind; when nodes say something else of themselves there may be another reason to tell."""
    if cause.facts_version != session.cluster.node_ledger.facts_version or not _all_of_kind(session, job, cause.kind):
        return False
    if cause.kind not in known:
        known[cause.kind] = session.engine.hopeless(next(iter(job.waiting.values())))
    return known[cause.kind]
