"""Admission of jobs for which ``preempt`` or ``reclaim`` could make room.

Both actions look at admitted jobs only. So a job is worth admitting to a full queue if evictions could make its room.
A trial evicts the pods that the configured actions may evict for the job, in a statement that is discarded. The plugins
vote once more during the trial, on their own accounts. The admitted job has a reservation from then on, so an amount
that may be evicted counts for one job only.

A job is refused without a trial if evictions could not help, or if an equal job has failed. A session makes a limited
number of trials, and looks at a limited number of pods; the next session goes on with the jobs that are left. While
jobs are left, every second session passes over those that had a turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from actions.victims.budgets import by_budget
from actions.victims.candidate_nodes import EVICTABLE
from actions.victims.search import KEEP_BUDGETS, preemptors
from volsched.framework.native.gangs import may_preempt
from volsched.framework.session import Session
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.pods.task import USER_PRIORITY_LIMIT, TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.status import TaskStatus
from volsched.model.values.resources import Resources, accumulate
from volsched.model.verdict import Verdict
from volsched.quota.demand import reserved_by

TRIALS: Final = 64
"""In one session."""

LOOKS: Final = 200_000
"""So many pods are looked at in one session, and those of the job with which that number is reached."""

_LOOKS_OF_A_SUM: Final = 6
_LOOKS_OF_A_TRIAL: Final = 16
"""What it costs to add up what a pod holds, and to try it as gone: as often could a pod be looked at."""

ACCOUNT: Final = "enqueue.after_preemption"

PREEMPT: Final = "preempt"
RECLAIM: Final = "reclaim"

_ON_NODES: Final = (*EVICTABLE, TaskStatus.BINDING)
"""What pods may be that make room: one that is being bound can be evicted when the job that is admitted is tried."""

_MOST_TEMPLATES: Final = 1_000


class _MemberToCome(TaskInfo):
    """Stands for the pods of a job that has none yet: its controller makes them when the job is admitted.

    The priority is that of the PodGroup, which pods cannot confirm yet. No pod is evicted for it.
    """

    __slots__ = ()

    @property
    def eviction_priority(self) -> int:
        """With how much priority the job will take room, as far as users may say so."""
        return min(self.job.priority, USER_PRIORITY_LIMIT) if self.job is not None else 0


class PastTurns:
    """Keeps the jobs that had a turn, and templates for pods that do not exist yet, over sessions."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._templates: dict[Hashable, PodTemplate] = {}
        self._made = 0
        self._passes_over = False
        self.had: set[str] = set()

    def passed_over(self) -> frozenset[str]:
        """Return the keys of the jobs that have no turn in this session."""
        return frozenset(self.had if self._passes_over else ())

    def end(self, left_out: set[str]) -> None:
        """End a session. If all jobs that were left out had a turn, each may have a turn again."""
        if left_out <= self.had:
            self.had.clear()
        self._passes_over = bool(self.had) and not self._passes_over

    def template_of(self, job: JobInfo) -> PodTemplate:
        """Return a template for pods of a job without pods yet: ``minResources`` divided by ``minMember``."""
        members = max(1, job.spec.min_available)
        part = {name: -(-amount // members) for name, amount in sorted((job.spec.min_resources or {}).items())}
        key = tuple(part.items())
        found = self._templates.get(key)
        if found is None:
            if len(self._templates) >= _MOST_TEMPLATES:
                self._cluster.forget(list(self._templates.values()), left=len(self._cluster.tasks))
                self._templates.clear()
            self._made += 1
            found = self._templates[key] = PodTemplate(-self._made)
            found.request, found.best_effort = Resources(part), not part
        return found


class _Room:
    """What some pods and the reservations of their jobs hold."""

    def __init__(self, pods: Sequence[TaskInfo]) -> None:
        self.pods = pods
        self._held: dict[str, int] = {}
        for template, count in Counter(pod.template for pod in pods).items():
            accumulate(self._held, template.request, count)
        for job in {pod.job.key: pod.job for pod in pods if pod.job is not None}.values():
            accumulate(self._held, reserved_by(job), 1)

    def covers(self, refusal: Verdict, known: Callable[[str], object]) -> bool:
        """True if that is as much as is short. A resource that is not known always passes."""
        return all(
            short.requested + short.used - self._held.get(short.resource, 0) <= short.limit
            for short in refusal.shortfalls
            if known(short.resource) is not None
        )


class AfterPreemption:
    """The answers of one session. ``left_out`` are the keys of the jobs that had no turn in it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._actions = [name for name in (PREEMPT, RECLAIM) if name in session.configuration.actions]
        self._turns = session.account(ACCOUNT, PastTurns)
        self._passed_over = self._turns.passed_over()
        self._evictable: dict[str, list[TaskInfo]] | None = None
        self._at_most: dict[str, _Room] = {}
        self._rooms: dict[Hashable, _Room] = {}
        self._failed: set[Hashable] = set()
        self._trials = 0
        self._looks = 0
        self.left_out: set[str] = set()

    def refusal(self, job: JobInfo, refusal: Verdict) -> Verdict | None:
        """Return why a job that was refused is not admitted after preemption either; None admits it."""
        at_most = self._at_most_of(job.queue)
        if not at_most.pods:
            return refusal
        asks, needs = _alike(job)
        room = self._room(asks, job)
        if room is not None and not room.pods:
            return refusal
        if (asks, needs) in self._failed or not self._could_help(refusal, room or at_most):
            return _also(refusal)
        if room is None or self._trials >= TRIALS or not self._has_turn(job):
            self.left_out.add(job.key)
            return refusal
        if self._is_refused_without(room.pods, job):
            self._failed.add((asks, needs))
            return _also(refusal)
        return None

    def end(self) -> None:
        """Record the jobs that had a turn in this session."""
        self._turns.end(self.left_out)

    def _room(self, asks: Hashable, job: JobInfo) -> _Room | None:
        """Return the amounts of pods that may be evicted for a job, or None if that is not looked at yet."""
        if asks not in self._rooms and self._has_turn(job):
            victims, at_most = self._victims(job), self._at_most_of(job.queue)
            self._rooms[asks] = at_most if len(victims) == len(at_most.pods) else self._make_room(victims)
        return self._rooms.get(asks)

    def _make_room(self, victims: Sequence[TaskInfo]) -> _Room:
        self._looks += _LOOKS_OF_A_SUM * len(victims)
        return _Room(victims)

    def _has_turn(self, job: JobInfo) -> bool:
        """True if a job may be looked at in this session."""
        if self._looks >= LOOKS or job.key in self._passed_over:
            return False
        self._turns.had.add(job.key)
        return True

    def _is_refused_without(self, victims: Sequence[TaskInfo], job: JobInfo) -> bool:
        """True if the plugins refuse the job although these pods have left."""
        session = self._session
        self._trials += 1
        self._looks += _LOOKS_OF_A_TRIAL * len(victims)
        with session.without_requeue():
            statement = session.statement()
            for victim in victims:
                statement.evict(victim, "")
            is_refused = session.enqueue_refusal(job) is not None
            statement.discard()
        return is_refused

    def _could_help(self, refusal: Verdict, room: _Room) -> bool:
        return room.covers(refusal, self._session.columns.find)

    # -- victims ------------------------------------------------------------------------------------------------------

    def _at_most_of(self, queue: str) -> _Room:
        """Return what would be free for a queue if all left that may be evicted at all."""
        name = "" if RECLAIM in self._actions else queue
        if name not in self._at_most:
            pods = self._all().get(queue, []) if name else [pod for pods in self._all().values() for pod in pods]
            self._at_most[name] = _Room(pods)
        return self._at_most[name]

    def _victims(self, job: JobInfo) -> list[TaskInfo]:
        """Return the pods that the configured actions may evict for a job, each once."""
        found: dict[str, TaskInfo] = {}
        for task in self._examples(job):
            for name in self._actions:
                victims = self._for_preempt(job, task) if name == PREEMPT else self._for_reclaim(job, task)
                found.update((victim.uid, victim) for victim in self._within_budgets(name, victims))
        return list(found.values())

    def _examples(self, job: JobInfo) -> Iterable[TaskInfo]:
        """Return one pod for each template of a job; without pods, a stand-in."""
        if not job.tasks:
            template = self._turns.template_of(job)
            task = _MemberToCome(f"admission/{job.key}", job.namespace, job.name, template)
            task.job = job
            return [task]
        if job.is_native and not may_preempt(job):
            return []
        waiting = preemptors(self._session, job)
        return {task.template.id: task for task in waiting if task.spec.preempts or job.is_native}.values()

    def _for_preempt(self, job: JobInfo, task: TaskInfo) -> list[TaskInfo]:
        candidates = [victim for victim in self._of_queue(job.queue) if victim.job is not job]
        return self._asked(self._session.preemptable, task, candidates)

    def _for_reclaim(self, job: JobInfo, task: TaskInfo) -> list[TaskInfo]:
        cluster = self._session.cluster
        if not self._session.may_preempt(cluster.queues[job.queue], [task]):
            return []
        others = [queue for queue in cluster.queues.values() if queue.name != job.queue and queue.spec.reclaimable]
        candidates = [victim for queue in others for victim in self._of_queue(queue.name)]
        return self._asked(self._session.reclaimable, task, candidates)

    def _asked(
        self,
        rule: Callable[[TaskInfo, Sequence[TaskInfo]], list[TaskInfo]],
        task: TaskInfo,
        candidates: Sequence[TaskInfo],
    ) -> list[TaskInfo]:
        self._looks += len(candidates)
        return rule(task, candidates) if candidates else []

    def _within_budgets(self, action: str, victims: list[TaskInfo]) -> list[TaskInfo]:
        """Leave those out whose disruption budgets allow no more, where the action respects these."""
        arguments = self._session.configuration.action_arguments.get(action, {})
        return by_budget(self._session, victims)[0] if arguments.get(KEEP_BUDGETS) else victims

    def _of_queue(self, queue: str) -> list[TaskInfo]:
        """Return the pods of a queue that may be evicted at all, the least important first."""
        return self._all().get(queue, [])

    def _all(self) -> Mapping[str, list[TaskInfo]]:
        """Return the pods that may be evicted at all, by queue, the least important first."""
        if self._evictable is None:
            self._evictable = {}
            for node in self._session.rows:
                for task in node.tasks.values():
                    if task.status in _ON_NODES and task.spec.preemptable and task.job is not None:
                        self._evictable.setdefault(task.job.queue, []).append(task)
            for pods in self._evictable.values():
                pods.sort(key=lambda task: (task.victim_priority, task.key))
        return self._evictable


def _alike(job: JobInfo) -> tuple[Hashable, Hashable]:
    """Return two keys: jobs with the same first key may evict the same pods; with both, for the same result."""
    stated = job.spec.min_resources
    needs = tuple(sorted(stated.items())) if stated is not None else None
    waiting = Counter(
        (task.template.id, task.eviction_priority, task.spec.preempts, bool(task.spec.gated))
        for task in job.waiting.values()
    )
    annotations = tuple(sorted(job.spec.annotations.items()))
    has_claims = any(task.template.has_resource_claims for task in job.waiting.values())
    alone = job.key if job.allocated or job.is_native or has_claims else ""
    to_come = needs if not job.tasks else None
    asks = job.queue, job.priority, tuple(sorted(waiting)), annotations, alone, to_come, job.spec.min_available
    return asks, (needs, len(job.tasks), tuple(sorted(waiting.items())))


def _also(refusal: Verdict) -> Verdict:
    return msgspec.structs.replace(refusal, message=f"{refusal.message}, also after preemption")
