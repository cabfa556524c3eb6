"""The cache of queues and jobs: amounts that each queue holds, its jobs, and permissions to use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from volsched.model.generations import ClusterEvent, Generations
from volsched.model.job import INQUEUE, PENDING, RUNNING, SUPERSEDED, JobInfo, JobProperties, PodGroupCondition
from volsched.model.observers import Observers
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.kept_queue import QueueMoves, named_nowhere, queue_in
from volsched.model.queues.permissions import Permissions
from volsched.model.queues.queue import ROOT, QueueInfo, QueuePast, QueueProperties
from volsched.model.status import TaskStatus
from volsched.model.values.resources import PODS, accumulate


class QueueCache:
    """Queues and jobs, with the amounts that their tasks hold.

    Four maps let a session skip most jobs: ``dirty_jobs`` changed since a session last wrote their status; ``waiting``
    have pending tasks; ``best_effort`` have pending tasks without requests; ``unadmitted`` are Pending or in no phase.
    ``dirty_queues`` are the names of queues that are new or whose amounts may have changed since the last look.
    ``ungated`` is the request, pod slots included, by queue, of pods whose gate was lifted and that have no node yet.
    ``moves`` are the jobs that named another queue, see ``kept_queue``.
    """

    def __init__(self, generations: Generations, observers: Observers) -> None:
        self.queues: dict[str, QueueInfo] = {}
        self.jobs: dict[str, JobInfo] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.permissions = Permissions(self.queues, self.namespaces)
        self.waiting: dict[str, JobInfo] = {}
        self.best_effort: dict[str, JobInfo] = {}
        self.unadmitted: dict[str, JobInfo] = {}
        self.dirty_jobs: dict[str, JobInfo] = {}
        self.dirty_queues: dict[str, None] = {}
        self.ungated: dict[str, dict[str, int]] = {}
        self.moves = QueueMoves()
        self._superseded: set[str] = set()
        self._generations = generations
        self._observers = observers
        self._queue_versions = 0

    # -- what their tasks hold ----------------------------------------------------------------------------------------

    def charge(self, job: JobInfo, request: Mapping[str, int], by: int) -> None:
        """Add so many equal requests to the amounts of a job and its queue, or subtract them."""
        accumulate(job.allocated, request, by)
        self._charge_queue(job.queue, request, by, by)

    def _charge_queue(self, name: str, amounts: Mapping[str, int], by: int, tasks: int) -> None:
        queue = self.queues.get(name)
        if queue is not None:
            accumulate(queue.allocated, amounts, by)
            queue.placed += tasks
            queue.version += 1
            self.dirty_queues[name] = None

    def set_ungated(self, task: TaskInfo, *, ungated: bool) -> None:
        """Count a pending task in its queue although it has no node, or stop counting it."""
        ungated = ungated and not (task.job is not None and task.job.blocked)
        if task.ungated == ungated:
            return
        if not ungated:
            self.count_ungated(task, -1)
        task.ungated = ungated
        if ungated:
            self.count_ungated(task, 1)

    def count_ungated_again(self, task: TaskInfo) -> None:
        """Notify observers that an ungated task without a node has another request: claims were made for it."""
        if task.ungated:
            self.count_ungated(task, -1)
            self.count_ungated(task, 1)

    def count_ungated(self, task: TaskInfo, by: int) -> None:
        """Count a task without a node whose gate was lifted, or (-1) stop counting it."""
        job = task.job
        if task.status is not TaskStatus.PENDING or job is None:
            return
        account = self.ungated.setdefault(job.queue, {})
        accumulate(account, {**task.template.request, PODS: 1}, by)
        if not account:
            del self.ungated[job.queue]
        self._observers.notify(lambda observer: observer.task_ungated(task, counts=by > 0))

    # -- queues -------------------------------------------------------------------------------------------------------

    def put_queue(self, spec: QueueProperties, past: QueuePast | None = None) -> None:
        """Add a queue, or replace its properties. Amounts of its tasks are summed only for a new queue."""
        name, queue = spec.name, self.queues.get(spec.name)
        before = queue.spec if queue is not None else None
        if queue is None:
            queue = self._add_queue(spec)
        else:
            queue.spec = spec
            queue.version += 1
        queue.past = past
        self.dirty_queues[name] = None
        if before is None or before.parent != spec.parent:
            self._generations.queue_tree += 1
        self._generations.wake(ClusterEvent.QUEUE_CHANGED)
        if self.permissions.put_queue(spec, before):
            self._judge_below(name)
        self._observers.notify(lambda observer: observer.queue_changed(queue, gone=False))

    def _add_queue(self, spec: QueueProperties) -> QueueInfo:
        """Return a new queue that holds what the tasks of its jobs hold."""
        queue = self.queues[spec.name] = QueueInfo(spec)
        queue.version = self._queue_versions
        for job in self._jobs_in(spec.name):
            self._charge_queue(spec.name, job.allocated, 1, job.placed_count)
            self.dirty_jobs[job.key] = job
        return queue

    def remove_queue(self, name: str) -> None:
        """Forget a queue. Its jobs stay and wait for one of that name."""
        queue = self.queues.pop(name, None)
        if queue is not None:  # one that comes back must not be taken for this one
            self._queue_versions = max(self._queue_versions, queue.version + 1)
            self._generations.queue_tree += 1
        self.dirty_jobs.update((job.key, job) for job in self._jobs_in(name))
        self._generations.wake(ClusterEvent.QUEUE_CHANGED)
        if queue is not None:
            if self.permissions.drop_queue(queue.spec):
                self._judge_below(name)
            self._observers.notify(lambda observer: observer.queue_changed(queue, gone=True))

    def _jobs_in(self, queue: str) -> list[JobInfo]:
        return [job for job in self.jobs.values() if job.queue == queue]

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def put_job(self, job: JobInfo) -> None:
        """Add a job, or have one tried again whose PodGroup changed. Evicted pods of this job may help others."""
        self.jobs[job.key] = job
        self._judge(job)
        job.requeue()
        self.set_phase(job, job.phase)
        self.note(job)
        self._generations.wake(ClusterEvent.VICTIMS_CHANGED)
        self._observers.notify_job(job)

    def remove_job(self, job: JobInfo) -> None:
        """Forget a job that has no tasks left."""
        job.leave_equivalents()
        self.permissions.forget(job)
        for known in (self.jobs, self.waiting, self.best_effort, self.unadmitted, self.dirty_jobs):
            known.pop(job.key, None)
        self.moves.forget(job.key)
        self._superseded.discard(job.key)
        self._generations.wake(ClusterEvent.DEMAND_CHANGED)
        self._observers.notify_job(job, gone=True)

    def set_phase(self, job: JobInfo, phase: str, *, admits: bool = False) -> None:
        """Set a job's phase, and keep unadmitted jobs at hand for the enqueue action.

        A job that may not use its queue is not admitted. A job that was admitted to another queue is admitted only by
        an action (``admits``), and not by its former status.
        """
        if admits or phase not in ("", PENDING, INQUEUE):
            self.moves.moved.pop(job.key, None)
        if phase == INQUEUE and (job.blocked or job.key in self.moves.moved):
            phase = PENDING
        if phase in ("", PENDING):
            self.unadmitted[job.key] = job
        else:
            self.unadmitted.pop(job.key, None)
        if phase != job.phase:
            if job.phase == INQUEUE:
                self._generations.wake(ClusterEvent.DEMAND_CHANGED)
            job.phase = phase
            job.version += 1
            job.requeue()
            self.dirty_jobs[job.key] = job
            self._observers.notify_job(job)

    def members_changed(self, job: JobInfo) -> None:
        """Note that a member came, went, or changed: its gates, role, names of its claims, or that it is deleted."""
        job.version += 1
        self.note(job)
        self._observers.notify_job(job)

    def note(self, job: JobInfo) -> None:
        """Remember that a job changed, and whether it has tasks that wait."""
        key = job.key
        self.dirty_jobs[key] = job
        if job.waiting:
            self.waiting[key] = job
        else:
            self.waiting.pop(key, None)
        if job.pending_best_effort:
            self.best_effort[key] = job
        else:
            self.best_effort.pop(key, None)

    def requests_changed(self, job: JobInfo) -> None:
        """Requeue a job whose members may have other requests, as templates are made differently."""
        job.requeue()
        job.version += 1
        job.count_best_effort()
        self.best_effort.pop(job.key, None)
        if job.pending_best_effort:
            self.best_effort[job.key] = job

    def set_job_queue(self, job: JobInfo, queue: str) -> None:
        """Move a job to the queue that it names once it holds nothing in the present one. It is Pending there.

        Before the first session it moves with all that it holds, unless its conditions say that it is kept
        (``keep_job_queue``).
        """
        moves, is_known = self.moves, job.queue in self.queues
        if job.key in moves.nowhere:
            if not moves.in_force or (job.placed_count and not self.permissions.lets(job.namespace, queue)):
                moves.nowhere[job.key] = queue
                return
            del moves.nowhere[job.key]
            self.dirty_jobs[job.key] = job
        is_held = is_known and job.placed_count > 0 if moves.in_force else job.key in moves.kept
        if is_held and job.queue != queue:
            if moves.kept.get(job.key) != queue:
                moves.kept[job.key] = queue
                self.dirty_jobs[job.key] = job
            return
        if moves.kept.pop(job.key, None) is not None:
            self.dirty_jobs[job.key] = job
        asks_again = moves.in_force and is_known and job.queue != queue and job.phase == INQUEUE
        self._move_job(job, queue)
        if asks_again:
            moves.moved[job.key] = None
            self.set_phase(job, PENDING)

    def keep_job_queue(self, job: JobInfo, conditions: Sequence[PodGroupCondition]) -> None:
        """Read from a job's conditions the queue in which it counts, if that differs from the named one.

        This is done before the first session. From then on the scheduler decides, and the conditions follow.
        """
        if self.moves.in_force:
            return
        self.moves.kept.pop(job.key, None)
        self.moves.nowhere.pop(job.key, None)
        named, queue = named_nowhere(conditions), queue_in(conditions)
        if named:
            self._move_job(job, "")
            self.moves.nowhere[job.key] = named
        if not queue:
            return
        self._move_job(job, queue)
        self.moves.kept[job.key] = queue

    def count_in(self, job: JobInfo, queue: str) -> None:
        """Count a job without a PodGroup in a queue with all that it holds; empty: in none."""
        self._move_job(job, queue)

    def count_elsewhere(self, job: JobInfo, queue: str) -> None:
        """Count a job in another queue than the named one, which it may not use, while any of its pods runs.

        Empty: in none.
        """
        named = job.queue
        if queue:
            self.moves.kept[job.key] = named
        else:
            self.moves.nowhere[job.key] = named
        self._move_job(job, queue)
        self.dirty_jobs[job.key] = job

    def settle_queues(self) -> None:
        """Begin a session: jobs that hold nothing in the queue where they are kept move to the one they name."""
        self.moves.in_force = True
        for key, named in (*self.moves.kept.items(), *self.moves.nowhere.items()):
            self.set_job_queue(self.jobs[key], named)

    def _move_job(self, job: JobInfo, queue: str) -> None:
        if job.queue == queue:
            return
        ungated = [task for task in job.waiting.values() if task.ungated]
        for task in ungated:
            self.count_ungated(task, -1)
        self._charge_queue(job.queue, job.allocated, -1, -job.placed_count)
        job.leave_equivalents()
        job.queue = queue
        self._charge_queue(job.queue, job.allocated, 1, job.placed_count)
        self._generations.wake(ClusterEvent.QUEUE_CHANGED)
        self._observers.notify_job(job)
        for task in ungated:
            self.count_ungated(task, 1)
        self._judge(job)

    def set_released(self, job: JobInfo, why: str, unplaceable: frozenset[str]) -> None:
        """Release the room of an admitted job that fits nowhere (empty: keep it), with its unplaceable members."""
        if (job.release_reason, job.unplaceable) == (why, unplaceable):
            return
        job.release_reason, job.unplaceable = why, unplaceable
        job.version += 1
        self.dirty_jobs[job.key] = job
        self._generations.wake(ClusterEvent.DEMAND_CHANGED)
        self._observers.notify_job(job)

    def set_superseded(self, job: JobInfo, *, superseded: bool) -> None:
        """Block a job whose pods are all in native groups, or unblock it."""
        if superseded == (job.key in self._superseded):
            return
        if superseded:
            self._superseded.add(job.key)
        else:
            self._superseded.discard(job.key)
        self._judge(job)

    def set_properties(self, job: JobInfo, spec: JobProperties) -> None:
        """Replace what a job's PodGroup states. A rule that volsched cannot keep has the job wait."""
        before, job.spec = job.spec, spec
        if before.min_available != spec.min_available:
            self.requests_changed(job)  # a gang leaves no member to backfill
        if before.unserved != spec.unserved:
            self._judge(job)
        self.properties_changed(job, before)

    def properties_changed(self, job: JobInfo, before: JobProperties) -> None:
        """Requeue other jobs if a PodGroup, which stated something else before, leaves them more."""
        if job.spec != before and _may_help_others(job, before):
            self._generations.wake(ClusterEvent.DEMAND_CHANGED)

    # -- who may use a queue ------------------------------------------------------------------------------------------

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Take in a namespace."""
        if self.namespaces.get(name) != labels:
            self.namespaces[name] = labels
            self._generations.wake(ClusterEvent.QUEUE_CHANGED)
            self._namespace_changed(name)

    def remove_namespace(self, name: str) -> None:
        """Forget a namespace."""
        if self.namespaces.pop(name, None) is not None:
            self._namespace_changed(name)

    def _namespace_changed(self, name: str) -> None:
        self._generations.namespace += 1
        for job in self.permissions.watched_in(name):
            self._judge(job)

    def _judge_below(self, queue: str) -> None:
        """Ask again who may use a queue and those below it."""
        queues = self.permissions.below(queue)
        for job in list(self.jobs.values()):
            if job.queue in queues or queue == ROOT:
                self._judge(job)

    def _judge(self, job: JobInfo) -> None:
        """Update whether a job is blocked. A newly blocked one gives back its pipelined room."""
        before, job.blocked = job.blocked, self._bar(job)
        if job.blocked == before:
            return
        for task in list(job.waiting.values()):
            self.set_ungated(task, ungated=task.ungated)
        self.set_phase(job, job.phase)
        job.requeue()
        self.dirty_jobs[job.key] = job
        self._generations.wake(ClusterEvent.QUEUE_CHANGED)
        self._observers.notify_job(job)

    def _bar(self, job: JobInfo) -> str:
        """Return why sessions skip a job; empty if they consider the job."""
        if job.key in self._superseded:
            return SUPERSEDED
        return job.spec.unserved.message if job.spec.unserved is not None else self.permissions.judge(job)


_COUNTED: Final = ("has_group", "min_resources", "min_roles", "annotations")
"""What a PodGroup states that plugins count, beside its ``minMember``."""


def _may_help_others(job: JobInfo, before: JobProperties) -> bool:
    """True if others may have more of a queue, or of a promised node, since a PodGroup changed.

    ``before`` is what it stated. A minimum counts of admitted jobs alone, and of what runs the part beyond the minimum.
    """
    now = job.spec
    if (before.has_group and not now.has_group) or any(task.nominated for task in job.waiting.values()):
        return True
    if not (job.placed_count or job.phase in (INQUEUE, RUNNING)):
        return False
    if not any(spec.annotations or spec.min_resources is not None for spec in (before, now)):
        return now.has_group != before.has_group
    fewer = now.min_available < before.min_available
    return fewer or any(getattr(now, name) != getattr(before, name) for name in _COUNTED)
