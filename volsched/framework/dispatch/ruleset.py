"""The rules that plugins of one session registered, and their combined answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from volsched.framework.answers import is_protected
from volsched.framework.callbacks import HeadroomFn, JobKeyFn, TaskEvents
from volsched.framework.dispatch import combining as dispatch
from volsched.framework.dispatch.combining import ElasticQuotas
from volsched.framework.dispatch.one_at_a_time import OneAtATime
from volsched.framework.dispatch.ordering import Heap, TreeHeap, in_order, job_key, queue_key, reverse
from volsched.framework.eviction_units import unit_of
from volsched.framework.rules import (
    Allocatable,
    BatchNodeOrder,
    BestNode,
    DeviceLimits,
    EventHandler,
    JobEnqueueable,
    JobEnqueued,
    JobOrder,
    JobPipelined,
    JobReady,
    JobStarving,
    JobValid,
    NodeCallbacks,
    NodeOrder,
    Overused,
    Predicate,
    Preemptable,
    PrePredicate,
    Protected,
    QueueOrder,
    QuotaCallbacks,
    Reclaimable,
    Rule,
    TaskOrder,
    VictimQueueOrder,
    Wake,
    WithinDeserved,
)
from volsched.model.cluster import Cluster
from volsched.model.former import renamed_attributes
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import TaskStatus
from volsched.model.verdict import Verdict


class Ruleset:
    """Rules by kind, in the order of registration.

    ``of`` has the callbacks of each kind, with the tier or the plugin where that counts. ``one_at_a_time`` decides
    whether equal tasks may be placed in one step.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.of: defaultdict[type[Rule], list[Any]] = defaultdict(list)
        self.nodes = NodeCallbacks(self.of[Predicate], self.of[NodeOrder], self.of[BatchNodeOrder], self.of[BestNode])
        self.elastic = ElasticQuotas()
        self.quotas: list[QuotaCallbacks] = self.of[Allocatable]
        self.headrooms: list[HeadroomFn] = []
        self._limits: list[QuotaCallbacks] = []
        self._limit_headrooms: list[HeadroomFn] = []
        self.one_at_a_time = OneAtATime()
        self._cluster = cluster
        self._ready = self.of[JobReady]
        self._tree_orders: list[QueueOrder] = []
        self._handlers: list[TaskEvents] = []
        self._in_steps: list[EventHandler] = []

    if not TYPE_CHECKING:  # names of one minor version ago
        __getattr__ = renamed_attributes({"is_due": "is_within_deserved", "reclaimable_by_due": "reclaimable_by_share"})

    def add(self, rule: Rule, plugin: str, tier: int) -> None:
        """Take a rule in."""
        kind, called = type(rule), rule.callback()
        self.of[kind].append((tier, called) if rule.is_tiered else (plugin, called) if rule.is_named else called)
        self.one_at_a_time.rules.append((rule, plugin))
        if isinstance(rule, QueueOrder) and rule.way is not None:
            self._tree_orders.append(rule)
        elif isinstance(rule, EventHandler):
            self._handlers.insert(0 if rule.first else len(self._handlers), rule.events)
            if rule.in_steps:
                self._in_steps.append(rule)
        elif isinstance(rule, Allocatable):
            self._note_quota(rule)

    def _note_quota(self, rule: Allocatable) -> None:
        if rule.headroom is not None:
            self.headrooms.append(rule.headroom)
        if not rule.is_share:
            self._limits.append(rule.callback())
            self._limit_headrooms += [] if rule.headroom is None else [rule.headroom]

    # -- quotas -------------------------------------------------------------------------------------------------------

    @contextmanager
    def shares_settled(self) -> Iterator[None]:
        """Have quotas count no longer that follow what other queues ask for: a promised start stands."""
        before = self.quotas, self.headrooms
        self.quotas, self.headrooms = self._limits, self._limit_headrooms
        try:
            yield
        finally:
            self.quotas, self.headrooms = before

    def limit_refusal(self, queue: QueueInfo, task: TaskInfo) -> Verdict | None:
        """Return the first refusal by a quota that administrators set, not by shares. ``refused`` is not called."""
        for headroom, refusal, _ in self._limits:
            verdict = headroom(queue, task.template).refusal if headroom is not None else refusal(queue, task)
            if verdict is not None:
                return verdict
        return None

    # -- orders -------------------------------------------------------------------------------------------------------

    def queues_of(
        self, jobs: Iterable[JobInfo], key: JobKeyFn | None = None
    ) -> tuple[Heap[QueueInfo], dict[str, Heap[JobInfo]]]:
        """Return heaps of the queues of these jobs, and of each queue's jobs, by a key if one is given."""
        grouped: dict[str, list[JobInfo]] = {}
        for job in jobs:
            grouped.setdefault(job.queue, []).append(job)
        queues = self._heap_of([self._cluster.queues[name] for name in grouped])
        return queues, {name: Heap(key or self.job_key, found) for name, found in grouped.items()}

    def _heap_of(self, queues: Sequence[QueueInfo]) -> Heap[QueueInfo]:
        """Return a heap of queues; level by level if the only order of queues is one in a tree."""
        order = self._tree_orders[0] if self._tree_orders and len(self.of[QueueOrder]) == 1 else None
        if order is None or order.way is None or order.level_key is None:
            return Heap(self.queue_key, queues)
        return TreeHeap(order.way, order.level_key, queues)

    def queue_key(self, queue: QueueInfo) -> tuple[Any, ...]:
        """Return the place of a queue among queues. Smaller goes first."""
        return queue_key(self.of[QueueOrder], queue)

    def job_key(self, job: JobInfo) -> tuple[Any, ...]:
        """Return the place of a job in its queue. Smaller goes first."""
        return job_key(self.of[JobOrder], job)

    def in_order(self, tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
        """Tasks of one job in the order in which they are tried."""
        return in_order(self.of[TaskOrder], tasks)

    def in_order_of_victims(self, task: TaskInfo, victims: Iterable[TaskInfo]) -> list[TaskInfo]:
        """Victims for a task, the least important first (Volcano's order of victims)."""

        def compare(left: TaskInfo, right: TaskInfo) -> int:
            mine, theirs = left.job, right.job
            if mine is theirs:
                return 1 if self.in_order([left, right])[0] is left else -1
            if mine is None or theirs is None:
                return -1 if mine is None else 1
            if mine.queue != theirs.queue and task.job is not None:
                return self._compare_victim_queues(task.job, mine, theirs)
            return reverse(self.job_key(mine), self.job_key(theirs))

        return _not_running_first(sorted(victims, key=cmp_to_key(compare)))

    def _compare_victim_queues(self, job: JobInfo, mine: JobInfo, theirs: JobInfo) -> int:
        queues = self._cluster.queues
        own, left, right = queues[job.queue], queues[mine.queue], queues[theirs.queue]
        for key in self.of[VictimQueueOrder]:
            closer, farther = key(left, own), key(right, own)
            if closer != farther:
                return -1 if closer < farther else 1
        return reverse(self.queue_key(left), self.queue_key(right))

    # -- jobs and queues ----------------------------------------------------------------------------------------------

    def invalidity(self, job: JobInfo) -> Verdict | None:
        """Return a refusal if the job is not complete enough."""
        return dispatch.first_refusal(self.of[JobValid], job)

    def is_ready(self, job: JobInfo) -> bool:
        """True if the placed tasks of the job may be committed."""
        for fn in self._ready:  # noqa: SIM110 - asked for every placement; a generator costs twice as much
            if not fn(job):
                return False
        return True

    def is_pipelined(self, job: JobInfo) -> bool:
        """True if the job may wait for room being freed."""
        return dispatch.vote(self.of[JobPipelined], job)[0]

    def is_starving(self, job: JobInfo) -> bool:
        """True if the job lacks room."""
        return dispatch.first_tier_and(self.of[JobStarving], job)

    def enqueue_refusal(self, job: JobInfo) -> Verdict | None:
        """Return a refusal if the job is not admitted."""
        admitted, verdict = dispatch.vote(self.of[JobEnqueueable], job, list_all=True)
        return None if admitted else verdict or dispatch.UNEXPLAINED_REJECT

    def enqueued(self, job: JobInfo) -> None:
        """Tell every plugin that the job was admitted."""
        for fn in self.of[JobEnqueued]:
            fn(job)

    def overused(self, queue: QueueInfo) -> Verdict | None:
        """Return a refusal if the queue gets nothing more in this action."""
        return dispatch.first_refusal(self.of[Overused], queue)

    # -- tasks --------------------------------------------------------------------------------------------------------

    def pre_refusal(self, task: TaskInfo) -> Verdict | None:
        """Return a refusal if no node can take the task, as far as rules know without asking nodes."""
        for fn in self.of[PrePredicate]:
            verdict: Verdict | None = fn(task)
            if verdict is not None:
                return verdict
        return None

    def depends_on_template(self, task: TaskInfo) -> bool:
        """True if the answers about nodes depend on nothing of a task but its template and queue."""
        nodes = self.nodes
        callbacks: list[Predicate | NodeOrder] = [*nodes.predicates, *nodes.node_orders]
        return not any(
            callback.scope == "pod" or (callback.key is not None and callback.key(task) is not None)
            for callback in callbacks
        ) and all(batch.uniform is not None and batch.uniform(task) is not None for batch in nodes.batch_orders)

    def preemptable(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Return the candidates that the task may preempt."""
        candidates = self.unprotected(task, candidates)
        return self.elastic.preemptable(task, dispatch.victims(self.of[Preemptable], task, candidates))

    def reclaimable(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Return the candidates that the task may reclaim."""
        candidates = self.unprotected(task, candidates)
        return self.elastic.reclaimable(task, dispatch.victims(self.of[Reclaimable], task, candidates))

    def unprotected(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        """Return the candidates that no plugin of any tier protects."""
        if not self.of[Protected]:
            return candidates
        known: dict[str, frozenset[str]] = {}
        return [victim for victim in candidates if not self._protectors(task, victim, known)]

    def protectors(self, task: TaskInfo, candidates: Iterable[TaskInfo]) -> list[frozenset[str]]:
        """Return the plugins that protect each candidate, or a pod that leaves together with it."""
        known: dict[str, frozenset[str]] = {}
        return [self._protectors(task, victim, known) for victim in candidates]

    def _protectors(self, task: TaskInfo, victim: TaskInfo, known: dict[str, frozenset[str]]) -> frozenset[str]:
        """Return the plugins that protect a candidate. ``known`` has the answers about pods that leave together."""
        unit = unit_of(victim)
        together = unit[0].job.key if len(unit) > 1 and unit[0].job is not None else victim.uid
        if together not in known:
            known[together] = frozenset(
                plugin
                for plugin, protects in self.of[Protected]
                if any(is_protected(plugin, protects, member, task) for member in unit)
            )
        return known[together]

    def is_within_deserved(self, queue: QueueInfo, task: TaskInfo) -> bool:
        """True if a queue with a waiting task is within its deserved share, so that the task may reclaim."""
        answers = [due.is_within(queue, task) for due in self.of[WithinDeserved]]
        return True in answers and False not in answers

    def reclaimable_by_share(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Return the candidates that the task may reclaim while all their queues keep their deserved share.

        The least important are asked about first. All plugins of all tiers have to agree: only for the minimum of a job
        does a tier that protects all candidates leave the decision to the next one.
        """
        ordered = self.in_order_of_victims(task, self.unprotected(task, candidates))
        chosen = self.elastic.reclaimable(task, dispatch.victims_for_all(self.of[Reclaimable], task, ordered))
        for due in self.of[WithinDeserved]:
            chosen = chosen if due.victims is None else list(due.victims(task, chosen))
        return chosen

    def device_limits(self, task: TaskInfo) -> dict[tuple[str, str], Fraction]:
        """Return how much more of each (DeviceClass, dimension) a task may be given; absent: no limit."""
        limits: dict[tuple[str, str], Fraction] = {}
        for fn in self.of[DeviceLimits]:
            for key, amount in (fn(task) or {}).items():
                limits[key] = min(amount, limits.get(key, amount))
        return limits

    def wake_at(self) -> float | None:
        """Return when the first plugin's answers change by themselves (seconds since the epoch); None: never."""
        return min((due for due in (fn() for fn in self.of[Wake]) if due is not None), default=None)

    # -- events of statements -----------------------------------------------------------------------------------------

    def notify_allocated(self, task: TaskInfo) -> Verdict | None:
        """Notify the handlers; if one refuses, the handlers before it are notified of the reverse."""
        handlers = self._handlers
        for index, handler in enumerate(handlers):
            refusal = handler.allocate(task)
            if refusal is not None:
                for earlier in reversed(handlers[:index]):
                    earlier.deallocate(task)
                return refusal
        return None

    def hearing_in_steps(self, template: PodTemplate) -> list[TaskEvents]:
        """Return the handlers that hear of each pod of a step whose pods have this template."""
        return [rule.events for rule in self._in_steps if rule.for_each_pod(template)]

    def notify_deallocated(self, task: TaskInfo) -> None:
        """Tell the handlers, last registered first."""
        for handler in reversed(self._handlers):
            handler.deallocate(task)


def _not_running_first(victims: list[TaskInfo]) -> list[TaskInfo]:
    """Move victims that do not run yet before the first running one of the same importance: they lose no work."""
    waiting: dict[tuple[int, int], list[TaskInfo]] = {}
    for victim in victims:
        if victim.status is not TaskStatus.RUNNING:
            waiting.setdefault(importance_of(victim), []).append(victim)
    if not waiting:
        return victims
    found: dict[TaskInfo, None] = {}
    for victim in victims:
        if victim.status is TaskStatus.RUNNING:
            found.update(dict.fromkeys(waiting.pop(importance_of(victim), ())))
        found[victim] = None
    return list(found)


def importance_of(victim: TaskInfo) -> tuple[int, int]:
    """Return the priority with which a task keeps its room, and its place among the tasks of its job."""
    return victim.victim_priority, victim.spec.priority
