"""drf: order jobs by dominant share (Volcano's plugin of that name; Ghodsi et al., NSDI 2011).

A job's share is the largest part of any of the cluster's resources that it holds, pod slots among them (as in Volcano):
a job whose only pod asks for nothing has a share, too. Shares are exact fractions.

With ``usage.halfLife`` queues are ordered as well: by the dominant share that they had over time, over their weight.

With ``enableHierarchy`` queues are ordered, and give room back, by their rescaled shares in a tree (``hierarchy``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Final

from plugins.drf.asking import Asking
from plugins.drf.hierarchy import TreeShares
from plugins.drf.places import HIERARCHY, WEIGHTS, Places
from volsched.plugin import (
    PODS,
    Allocatable,
    Argument,
    Cluster,
    EventHandler,
    JobEnqueueable,
    JobInfo,
    JobOrder,
    Preemptable,
    QueueInfo,
    Reclaimable,
    Registrar,
    TaskInfo,
    TaskStatus,
    accumulate,
    never,
)
from volsched.plugin.quota import (
    HALF_LIFE_ARGUMENT,
    PastUse,
    QueueUsageObserver,
    check_half_life,
    half_life_of,
    nearest_first,
    order_over_time,
    order_queues,
    report_faults,
    request_with_slot,
)

NAME: Final = "drf"
DELTA = Fraction(1, 1_000_000)
"""Shares that differ by no more count as equal when victims are chosen (Volcano's shareDelta)."""


class DrfPlugin:
    """Registers the shares of one session."""

    name: ClassVar[str] = NAME
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (HALF_LIFE_ARGUMENT,)
    QUEUE_ANNOTATIONS: ClassVar[tuple[str, ...]] = (HIERARCHY, WEIGHTS)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._half_life = half_life_of(arguments)

    def on_session_open(self, registrar: Registrar) -> None:
        """Register the order and the filter of victims."""
        shares = Shares(registrar.cluster)
        registrar.register(
            JobOrder(shares.order), Preemptable(shares.preemptable), EventHandler(shares, for_each_pod=never)
        )
        if registrar.checks_ancestors:
            self._in_a_tree(registrar)
        elif self._half_life:
            self._order_over_time(registrar, shares)

    def _in_a_tree(self, registrar: Registrar) -> None:
        """Register the order of queues and whose pods may be reclaimed, over the tree of queues."""
        places, asking = registrar.account(f"{NAME}.places", Places), registrar.account(f"{NAME}.asking", Asking)
        usage = registrar.account(f"{NAME}.held", lambda cluster: QueueUsageObserver(cluster, places=places))
        tree = registrar.account(f"{NAME}.tree", lambda cluster: TreeShares(cluster, places, usage, asking))
        tree.refresh()
        report_faults(registrar, NAME, places.faults())
        registrar.register(
            Reclaimable(tree.victims),
            nearest_first(places.tree.levels),
            JobEnqueueable(tree.vote, always=True),
            Allocatable(headroom=tree.headroom),
        )
        past_use = (lambda _: tree.past_use(self._half_life)) if self._half_life else None
        order_queues(registrar, NAME, past_use, tree.queue_order(), tree.past_order)

    def _order_over_time(self, registrar: Registrar, shares: Shares) -> None:
        def by_past(queue: QueueInfo) -> tuple[int, float]:
            return -queue.spec.priority, past.key(queue, shares.held_by(queue), shares.totals)

        past = registrar.account(
            f"{NAME}.past", lambda cluster: PastUse(cluster, self._half_life, lambda q: q.allocated)
        )
        order_over_time(registrar, past, by_past)


check_arguments = check_half_life


class Shares:
    """Dominant shares; what jobs hold is read live, what they were promised in this session is added."""

    def __init__(self, cluster: Cluster) -> None:
        names = cluster.columns.names
        self._total = {names[c]: amount for c, amount in enumerate(cluster.node_cache.totals) if amount > 0}
        self._promised: dict[str, dict[str, int]] = {}
        self._promised_to: dict[str, dict[str, int]] = {}

    def allocate(self, task: TaskInfo) -> None:
        """Count room that a task was promised."""
        if task.job is not None and task.status is TaskStatus.PIPELINED:
            self._promise(task.job, task, 1)

    def deallocate(self, task: TaskInfo) -> None:
        """Take that back."""
        if task.job is not None and task.status is TaskStatus.PIPELINED:
            self._promise(task.job, task, -1)

    def _promise(self, job: JobInfo, task: TaskInfo, by: int) -> None:
        for promised in (self._promised.setdefault(job.key, {}), self._promised_to.setdefault(job.queue, {})):
            accumulate(promised, request_with_slot(task), by)

    @property
    def totals(self) -> Mapping[str, int]:
        """What the cluster has."""
        return self._total

    def held_by(self, queue: QueueInfo) -> Mapping[str, int]:
        """Return what a queue holds and was promised."""
        promised = self._promised_to.get(queue.name)
        return _plus(queue.allocated, promised, 1) if promised else queue.allocated

    def order(self, job: JobInfo) -> Fraction:
        """The job's dominant share: the smaller goes first."""
        return self._share(self._held(job))

    def preemptable(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Candidates whose job keeps at least the share that the task's job would have."""
        if task.job is None:
            return []
        mine = self._share(_plus(self._held(task.job), request_with_slot(task), 1))
        left: dict[str, dict[str, int]] = {}
        chosen: list[TaskInfo] = []
        for victim in candidates:
            if victim.job is None:
                continue
            held = left.setdefault(victim.job.key, dict(self._held(victim.job)))
            rest = _plus(held, request_with_slot(victim), -1)
            left[victim.job.key] = rest
            if mine <= self._share(rest) + DELTA:
                chosen.append(victim)
        return chosen

    def _held(self, job: JobInfo) -> Mapping[str, int]:
        held = {**job.allocated, PODS: job.placed_count}
        promised = self._promised.get(job.key)
        return _plus(held, promised, 1) if promised else held

    def _share(self, held: Mapping[str, int]) -> Fraction:
        total = self._total
        return max((Fraction(amount, total[name]) for name, amount in held.items() if name in total), default=_NOTHING)


_NOTHING = Fraction(0)


def _plus(held: Mapping[str, int], amounts: Mapping[str, int], by: int) -> dict[str, int]:
    return {name: held.get(name, 0) + by * amounts.get(name, 0) for name in {**held, **amounts}}
