"""Admission of jobs for which ``preempt`` or ``reclaim`` could make room.

Both actions look at admitted jobs only. So a job is worth admitting to a full queue if evictions could make its room.
A trial evicts the pods that the configured actions may evict for the job, in a statement that is discarded. The plugins
vote once more during the trial, on their own accounts. The admitted job has a reservation from then on, so an amount
that may be evicted counts for one job only.

A job is refused without a trial if evictions could not help, or if an equal job has failed. A session makes a limited
number of trials; the next session goes on with the jobs that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Final

import msgspec

from actions.victims.budgets import by_budget
from actions.victims.candidate_nodes import can_go
from actions.victims.search import KEEP_BUDGETS, preemptors
from volsched.framework.accounts.queue_demand import reserved_by
from volsched.framework.session import Session
from volsched.model.job import JobInfo
from volsched.model.pods.task import USER_PRIORITY_LIMIT, TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.verdict import Verdict

TRIALS: Final = 64
"""In one session."""

PREEMPT: Final = "preempt"
RECLAIM: Final = "reclaim"

_ASKS_FOR_NOTHING: Final = PodTemplate(-1)


class _MemberToCome(TaskInfo):
    """Stands for the pods of a job that has none yet: its controller makes them when the job is admitted.

    The priority is that of the PodGroup, which pods cannot confirm yet. No pod is evicted for it.
    """

    __slots__ = ()

    @property
    def eviction_priority(self) -> int:
        """With how much priority the job will take room, as far as users may say so."""
        return min(self.job.priority, USER_PRIORITY_LIMIT) if self.job is not None else 0


class AfterPreemption:
    """The answers of one session. ``left_out`` are the keys of the jobs for which it had no trial left."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._actions = [name for name in (PREEMPT, RECLAIM) if name in session.configuration.actions]
        self._evictable: dict[str, list[TaskInfo]] | None = None
        self._failed: set[Hashable] = set()
        self._trials = 0
        self.left_out: set[str] = set()

    def refusal(self, job: JobInfo, refusal: Verdict) -> Verdict | None:
        """Return why a job that was refused is not admitted after preemption either; None admits it."""
        if not self._actions:
            return refusal
        alike = _alike(job)
        if alike in self._failed:
            return _also(refusal)
        victims = self._victims(job)
        if not victims:
            return refusal
        if self._trials >= TRIALS:
            self.left_out.add(job.key)
            return refusal
        if not self._could_help(refusal, victims) or self._is_refused_without(victims, job):
            self._failed.add(alike)
            return _also(refusal)
        return None

    def _is_refused_without(self, victims: Sequence[TaskInfo], job: JobInfo) -> bool:
        """True if the plugins refuse the job although these pods have left."""
        session = self._session
        self._trials += 1
        with session.cluster.tentative():
            statement = session.statement()
            for victim in victims:
                statement.evict(victim, "")
            is_refused = session.rules.enqueue_refusal(job) is not None
            statement.discard()
        return is_refused

    def _could_help(self, refusal: Verdict, victims: Sequence[TaskInfo]) -> bool:
        """True if victims and their jobs hold as much as is short; a resource that nodes do not have always passes."""
        columns = self._session.cluster.columns
        jobs = {victim.job.key: victim.job for victim in victims if victim.job is not None}
        for short in refusal.shortfalls:
            if columns.find(short.resource) is None:
                continue
            held = sum(victim.template.request.get(short.resource, 0) for victim in victims)
            kept = sum(reserved_by(job).get(short.resource, 0) for job in jobs.values())
            if short.requested + short.used - held - kept > short.limit:
                return False
        return True

    # -- victims ------------------------------------------------------------------------------------------------------

    def _victims(self, job: JobInfo) -> list[TaskInfo]:
        """Return the pods that the configured actions may evict for a job, each once."""
        found: dict[str, TaskInfo] = {}
        for task in _examples(self._session, job):
            for name in self._actions:
                victims = self._for_preempt(job, task) if name == PREEMPT else self._for_reclaim(job, task)
                found.update((victim.uid, victim) for victim in self._within_budgets(name, victims))
        return list(found.values())

    def _for_preempt(self, job: JobInfo, task: TaskInfo) -> list[TaskInfo]:
        candidates = [victim for victim in self._of_queue(job.queue) if victim.job is not job]
        return self._asked(self._session.rules.preemptable, task, candidates)

    def _for_reclaim(self, job: JobInfo, task: TaskInfo) -> list[TaskInfo]:
        cluster = self._session.cluster
        if not self._session.may_preempt(cluster.queues[job.queue], [task]):
            return []
        others = [queue for queue in cluster.queues.values() if queue.name != job.queue and queue.reclaimable]
        candidates = [victim for queue in others for victim in self._of_queue(queue.name)]
        return self._asked(self._session.rules.reclaimable, task, candidates)

    def _asked(
        self,
        rule: Callable[[TaskInfo, Sequence[TaskInfo]], list[TaskInfo]],
        task: TaskInfo,
        candidates: Sequence[TaskInfo],
    ) -> list[TaskInfo]:
        return rule(task, candidates) if candidates else []

    def _within_budgets(self, action: str, victims: list[TaskInfo]) -> list[TaskInfo]:
        """Leave those out whose disruption budgets allow no more, where the action respects these."""
        arguments = self._session.configuration.action_arguments.get(action, {})
        return by_budget(self._session, victims)[0] if arguments.get(KEEP_BUDGETS) else victims

    def _of_queue(self, queue: str) -> list[TaskInfo]:
        """Return the pods of a queue that may be evicted at all, the least important first."""
        if self._evictable is None:
            self._evictable = {}
            for task in sorted(_on_nodes(self._session), key=lambda task: (task.victim_priority, task.key)):
                self._evictable.setdefault(task.queue, []).append(task)
        return self._evictable.get(queue, [])


def _on_nodes(session: Session) -> Iterator[TaskInfo]:
    return (task for node in session.cluster.rows for task in node.tasks.values() if can_go(task))


def _examples(session: Session, job: JobInfo) -> list[TaskInfo]:
    """Return a pod of each kind that a job may make room for, or what stands for pods that are yet to be made."""
    if not job.tasks:
        task = _MemberToCome(f"admission/{job.key}", job.namespace, job.name, _ASKS_FOR_NOTHING)
        task.job = job
        return [task]
    unlike = {task.template.id: task for task in preemptors(session, job) if task.preempts}
    return list(unlike.values())


def _alike(job: JobInfo) -> Hashable:
    """Return a key that jobs share if the outcome of one holds for all of them in this session."""
    stated = job.min_resources
    needs = tuple(sorted(stated.items())) if stated is not None else None
    kinds = tuple(sorted({(task.template.id, task.eviction_priority) for task in job.waiting.values()}))
    annotations = tuple(sorted(job.annotations.items()))
    alone = job.key if any(task.template.has_resource_claims for task in job.waiting.values()) else ""
    return job.queue, job.priority, job.min_available, len(job.tasks), needs, kinds, annotations, alone


def _also(refusal: Verdict) -> Verdict:
    return msgspec.structs.replace(refusal, message=f"{refusal.message}, also after preemption")
