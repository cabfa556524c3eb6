"""What queues of a tree deserve and may have, with `enableHierarchy`, and the answers that follow.

The cluster is divided from the root down (``accounts.division``). A pod is admitted and placed when its queue, and each
one above it, stays within what it may have and deserves. Room is taken back where the ways up from two queues part: the
side that gives holds more than its due, and the side that takes has so much due. Work belongs into queues without any
below them, as with `capacity`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Literal

from plugins.proportion.fair_shares import NAME, FairShares, LastShares, QueueSharesFn, asked
from plugins.proportion.shares import QueueShare
from volsched.plugin import (
    ABSTAIN,
    NO_LIMIT,
    PERMIT,
    PODS,
    ROOT,
    Ballot,
    Cluster,
    Headroom,
    JobInfo,
    PodTemplate,
    QueueInfo,
    QueueLevel,
    QueueOrder,
    Resources,
    Shortfall,
    Step,
    TaskInfo,
    Verdict,
    Vote,
    accumulate,
)
from volsched.plugin.quota import (
    Claim,
    Consumer,
    PastUse,
    QueueDemand,
    QueueDemands,
    QueueTree,
    QueueUsageObserver,
    capability_of,
    divide,
    held_of_quota,
    limits_in,
    not_a_leaf,
    of_nodes,
    room,
    share,
    summed,
    there,
)


def share_out_in(places: QueueTree) -> QueueSharesFn:
    """Return how a cluster is shared out among the queues of a tree, the root left out."""

    def share_out(cluster: Cluster, demands: Mapping[str, QueueDemand]) -> dict[str, QueueShare]:
        tree, total = places.tree, there(cluster)
        claims = summed(
            tree,
            {
                name: _claim(queue, demands.get(name) if not tree.below(name) else None)
                for name, queue in cluster.queues.items()
            },
        )
        deserved, limits = divide(tree, claims, total), limits_in(tree, claims, total)
        return {
            name: QueueShare(queue, claims[name].request, limits[name], dict(deserved[name]))
            for name, queue in cluster.queues.items()
            if name != ROOT
        }

    return share_out


def _claim(queue: QueueInfo, demand: QueueDemand | None) -> Claim:
    """Return what a queue claims itself: what its pods hold and, if it may take them, what those that wait ask for."""
    request = {**queue.allocated, PODS: queue.placed}
    if demand is not None:
        request = {**Resources(demand.pending).plus(queue.allocated), PODS: demand.waiting + queue.placed}
    return Claim(queue.weight, request, of_nodes(queue.guarantee), capability_of(queue))


class HierarchicalShares(FairShares):
    """The answers; what queues hold counts in those above them, too, and is read live from ``usage``."""

    def __init__(
        self,
        cluster: Cluster,
        demand: QueueDemands,
        last: LastShares,
        usage: QueueUsageObserver,
        places: QueueTree,
        *,
        leaves_due: bool = False,
    ) -> None:
        super().__init__(cluster, demand, last, leaves_due=leaves_due)
        self._usage = usage
        self._places = places
        self._tree = places.tree
        self._shares: dict[str, tuple[int, Fraction]] = {}

    # -- order --------------------------------------------------------------------------------------------------------

    def queue_order(self) -> QueueOrder:
        """Order by priority, then by the smaller part of its due, at the first level at which two queues differ.

        Where queues above are equal the older one goes first, so that the order has no circles.
        """
        return self._in_order(self._share)

    def past_order(self, past: PastUse) -> QueueOrder:
        """The same by what queues held over time."""
        totals = self.totals
        return self._in_order(lambda queue: past.key(queue, self.held(queue), totals))

    def _in_order(self, place: Callable[[QueueInfo], Fraction | float]) -> QueueOrder:
        queues, tree = self._cluster.queues, self._tree

        def level_key(level: QueueLevel) -> object:
            if isinstance(level, int):
                return level
            queue = queues[level]
            return place(queue), queue.created, level

        return QueueOrder.in_tree(lambda queue: (-queue.priority, *tree.way_down(queue.name)), level_key)

    def past_use(self, half_life: float) -> PastUse:
        """Return an account of what queues, with those below them, hold over time."""
        places, usage = self._places, self._usage
        return PastUse(
            self._cluster,
            half_life,
            lambda queue: usage.allocated(queue.name),
            places.way_down,
        )

    def _share(self, queue: QueueInfo) -> Fraction:
        known, version = self._shares.get(queue.name), self._usage.version(queue.name)
        if known is not None and known[0] == version:
            return known[1]
        found = share(self.held(queue), self._deserved(queue))
        self._shares[queue.name] = version, found
        return found

    # -- admission and placing ----------------------------------------------------------------------------------------

    def overused(self, queue: QueueInfo, below: str = "") -> Verdict | None:
        """Report that a queue, or one above it, holds its due on all resources."""
        if self._tree.below(queue.name):
            return None
        for level in self._levels(queue.name):
            verdict = super().overused(level, queue.name) if level.name != ROOT else None
            if verdict is not None:
                return verdict
        return None

    def refusal(self, queue: QueueInfo, template: PodTemplate, below: str = "") -> Verdict | None:
        """Report that a task would take its queue, or one above it, above what that deserves."""
        barred = self._barred(queue.name, Step.ALLOCATABLE)
        if barred is not None:
            return barred
        refusals = (FairShares.refusal(self, level, template, queue.name) for level in self._levels(queue.name))
        return next((refusal for refusal in refusals if refusal is not None), None)

    def headroom(self, queue: QueueInfo, template: PodTemplate) -> Headroom:
        """Return how many such tasks a queue, and those above it, may take on, and why not even one."""
        barred = self._barred(queue.name, Step.ALLOCATABLE)
        if barred is not None:
            return Headroom(0, barred)
        count = NO_LIMIT
        for level in self._levels(queue.name):
            held, due = self.held(level), self._due(level, template.request)
            for name, amount in template.request.items():
                if name in due:
                    count = min(count, (due[name] - held.get(name, 0)) // amount)
        return Headroom(count) if count > 0 else Headroom(count, self.refusal(queue, template))

    def vote(self, job: JobInfo) -> Ballot:
        """Admit a job whose minimum fits into what its queue, and each one above it, may have."""
        barred = self._barred(job.queue, Step.ENQUEUE)
        if barred is not None:
            return Ballot(Vote.REJECT, barred)
        least = job.min_resources
        if least is None:
            return ABSTAIN
        ballots = (self._vote_of(level, least) for level in self._levels(job.queue))
        return next((ballot for ballot in ballots if ballot.vote is Vote.REJECT), PERMIT)

    def _barred(self, queue: str, step: Literal[Step.ENQUEUE, Step.ALLOCATABLE]) -> Verdict | None:
        return not_a_leaf(NAME, queue, step) if self._tree.below(queue) else None

    # -- reclaiming ---------------------------------------------------------------------------------------------------

    def may_preempt(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """Whether the queue, one without any below it, would stay within its own due with these tasks.

        Where queues above have no due left, others below these give (``reclaimable``).
        """
        return not self._tree.below(queue.name) and super().may_preempt(queue, tasks)

    def closeness(self, queue: QueueInfo, own: QueueInfo) -> int:
        """Order queues by how near they are in the tree to that of a task, the nearest first."""
        return self._tree.distance(queue.name, own.name)

    def _victims(self, task: TaskInfo, candidates: Sequence[TaskInfo], *, leaves_due: bool) -> list[TaskInfo]:
        """Candidates on whose side of where the ways up meet all queues are above their due, each counted as gone.

        On the side of the task all have so much due.
        """
        giving = _Giving(self._usage)
        chosen: list[TaskInfo] = []
        for victim in candidates:
            if victim.job is None or victim.job.queue not in self._cluster.queues:
                continue
            queue = victim.job.queue
            levels = self._tree.apart(queue, task.queue)
            if not self._is_due(task, queue) or giving.lacks(queue, task):
                continue
            if all(self._gives(giving.of(level), level, victim, leaves_due=leaves_due) for level in levels):
                giving.leave(levels, victim)
                chosen.append(victim)
        return chosen

    def _is_due(self, task: TaskInfo, queue: str) -> bool:
        """Whether the queues above a task's that are not above a victim's, too, stay within their due with the task."""
        above = self._tree.apart(task.queue, queue)[1:]
        return not any(self._beyond_due(self._cluster.queues[level], task.template.request) for level in above)

    def _gives(self, held: Mapping[str, int], level: str, victim: TaskInfo, *, leaves_due: bool) -> bool:
        """Whether a queue is above its due with a victim and, if it is to be left that, not below it without."""
        deserved = self._deserved(self._cluster.queues[level])
        if all(amount <= deserved.get(name, 0) for name, amount in held.items()):
            return False
        request = victim.template.request
        return not leaves_due or all(held.get(n, 0) - amount >= deserved.get(n, 0) for n, amount in request.items())

    # -- figures ------------------------------------------------------------------------------------------------------

    def held(self, queue: QueueInfo) -> Mapping[str, int]:
        """What a queue and those below it hold and were promised, pod slots too."""
        return self._usage.by(queue.name)

    def holders(self, job: JobInfo, refusal: Verdict) -> Iterable[Consumer]:
        """Return what jobs of the queue that refused, and of those below it, hold of what it has too little of."""
        return held_of_quota(self.usage(), self._tree.subtree(refusal.queue or job.queue), job, refusal)

    def _room(self, queue: QueueInfo, name: str) -> int:
        return min(FairShares._room(self, level, name) for level in self._levels(queue.name))

    def _levels(self, queue: str) -> Sequence[QueueInfo]:
        """Return a queue and those above it, the root last."""
        queues = self._cluster.queues
        return [queues[level] for level in self._tree.levels(queue) if level in queues]

    def _held_and_ungated(self, queue: QueueInfo) -> Mapping[str, int]:
        return self._usage.by(queue.name)

    def _due(self, queue: QueueInfo, request: Mapping[str, int]) -> Mapping[str, int]:
        """Return what a queue deserves of what is asked for; the root is asked for what its capability names alone."""
        if queue.name == ROOT:
            return capability_of(queue)
        due = self._whole.get(queue.name, _NOTHING)
        return {name: due.get(name, 0) for name in request}

    def _beyond_due(self, queue: QueueInfo, request: Mapping[str, int]) -> tuple[Shortfall, ...]:
        held, due = self.held(queue), self._due(queue, request)
        return tuple(
            Shortfall(name, amount, held.get(name, 0), due[name])
            for name, amount in request.items()
            if name in due and held.get(name, 0) + amount > due[name]
        )

    def _limits(self, queue: QueueInfo) -> Mapping[str, int]:
        if queue.name == ROOT:
            return room(there(self._cluster), _NOTHING, _NOTHING, capability_of(queue))
        return super()._limits(queue)


class _Giving:
    """What queues hold while victims are chosen one after the other."""

    def __init__(self, usage: QueueUsageObserver) -> None:
        self._usage = usage
        self._left: dict[str, dict[str, int]] = {}

    def of(self, level: str) -> dict[str, int]:
        """Return what a queue still holds."""
        if level not in self._left:
            self._left[level] = dict(self._usage.by(level))
        return self._left[level]

    def lacks(self, queue: str, task: TaskInfo) -> bool:
        """Whether a queue holds too little of everything that a task asks for to make room for it."""
        held, request = self.of(queue), task.template.request
        return bool(request) and all(held.get(name, 0) < amount for name, amount in request.items())

    def leave(self, levels: Iterable[str], victim: TaskInfo) -> None:
        """Take a victim off its queue and those above it."""
        for level in levels:
            accumulate(self.of(level), asked(victim), -1)


_NOTHING: Mapping[str, int] = {}
