"""The refusals of waiting tasks and jobs, and the conditions of PodGroups that state them.

A job that may not use its queue, or has a rule that volsched cannot keep, is blocked (``JobInfo.blocked``), and plugins
have no vote about it. It is neither admitted nor placed, reserves nothing and evicts nothing. It keeps what it holds,
and that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Final, NamedTuple

from volsched.framework.redaction import within
from volsched.framework.reporter import about_group
from volsched.model import unserved
from volsched.model.cluster import Cluster
from volsched.model.job import INQUEUE, PENDING, JobInfo, PodGroupCondition, with_condition
from volsched.model.plan import RecordEvent
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import ConditionReason, Scope, Step, Verdict


class Refusals:
    """The refusals of one session.

    ``refused`` has the tasks that were refused for another reason than before, by uid. ``unschedulable`` has the jobs
    whose gang cannot start, by key, and whether an earlier session found so too.
    """

    def __init__(self, cluster: Cluster, record_event: Callable[[RecordEvent], None]) -> None:
        self.refused: dict[str, TaskInfo] = {}
        self.unschedulable: dict[str, bool] = {}
        self._cluster = cluster
        self._record_event = record_event
        self._before: dict[TaskInfo, Verdict | None] = {}

    def refuse_task(self, task: TaskInfo, verdict: Verdict) -> None:
        """Leave with a task why it waits."""
        if task.refusal != verdict:
            self._before.setdefault(task, task.refusal)
            task.refusal = verdict
            self.refused[task.uid] = task
            if task.job is not None:
                self._cluster.queue_cache.dirty_jobs[task.job.key] = task.job

    def refuse_job(self, job: JobInfo, verdict: Verdict) -> None:
        """Leave with a job why it waits, and no longer why each of its tasks did."""
        if job.refusal == verdict:
            return
        job.refusal = verdict
        self._cluster.queue_cache.dirty_jobs[job.key] = job
        for task in job.schedulable():
            task.refusal = None

    def clear(self, job: JobInfo) -> None:
        """Leave no reason with a job any more. Its tasks keep theirs."""
        if job.refusal is not None:
            job.refusal = None
            self._cluster.queue_cache.dirty_jobs[job.key] = job

    def refuse_all(self, job: JobInfo, verdict: Verdict) -> None:
        """Leave with a job and with all of it that waits why that is."""
        self.refuse_job(job, verdict)
        for task in job.waiting.values():
            self.refuse_task(task, verdict)

    def before(self, task: TaskInfo) -> Verdict | None:
        """Return why a task waited when the session began; for tasks that were refused since."""
        return self._before[task]

    def cannot_start(self, job: JobInfo, condition: PodGroupCondition) -> None:
        """Note on a PodGroup that its gang cannot start in this session, and whether an earlier session found so too.

        That is an Event as well, unless another one already reports a refusal of the whole job. If a queue has its
        deserved share, both are reported, as Volcano's own tools look for this one there.
        """
        message = within(self._cluster, job.namespace, condition.message)
        condition = replace(condition, message=message)
        self.unschedulable[job.key] = any(c.type == condition.type and c.status == "True" for c in job.conditions)
        is_reported = job.refusal is not None and job.refusal.step is not Step.OVERUSED
        if condition not in job.conditions and not is_reported:
            self._record_event(about_group(job, "Warning", condition.type, condition.message))
        self.set_conditions(job, with_condition(job.conditions, condition))

    def set_conditions(self, job: JobInfo, conditions: tuple[PodGroupCondition, ...]) -> None:
        """Replace a PodGroup's conditions. They are written when they state something new."""
        if conditions != job.conditions:
            job.conditions = conditions
            self._cluster.queue_cache.dirty_jobs[job.key] = job


class RefusedByNodes(NamedTuple):
    """Why all nodes refused a pod of a ``kind`` (see the engine). ``usage`` is where the log of changed nodes ended."""

    usage: int
    kind: Hashable
    verdict: Verdict


QUEUE_NOT_ALLOWED: Final = "QueueNotAllowed"
_BLOCKING: Final = unserved.REASONS | {QUEUE_NOT_ALLOWED}


def not_allowed(job: JobInfo) -> Verdict | None:
    """Return why a job is not looked at, None when it is."""
    if not job.blocked:
        return None
    if job.spec.unserved is not None and not job.superseded:
        return job.spec.unserved
    step = Step.ENQUEUE if job.spec.has_group and job.phase in ("", PENDING) else Step.ALLOCATABLE
    shown_as = ConditionReason.QUEUE_NOT_ALLOWED
    return Verdict(step, "", Scope.JOB, QUEUE_NOT_ALLOWED, job.blocked, resolvable=False, shown_as=shown_as)


def is_blocking(refusal: Verdict | None) -> bool:
    """True if a job has the refusal of a blocked job."""
    return refusal is not None and refusal.reason in _BLOCKING


def wants_its_queue(job: JobInfo) -> bool:
    """True if a job wants something of its queue: to be admitted, or a node for a pod."""
    if job.superseded:
        return False
    if job.waiting:
        return job.spec.has_group or job.spec.implicit
    return job.spec.has_group and job.phase in ("", PENDING, INQUEUE)
