"""What queues deserve and may have, and the answers that follow: who takes more, and who gives.

Side by side a queue is asked about itself alone. Over a hierarchy the cluster is divided from the root down
(``volsched.quota.division``), and each queue above a queue is asked as well. Room is taken back where the ways up from
two queues part: the side that gives holds more than it deserves, and the side that takes has so much left. Work belongs
into queues without any below them, as with `capacity`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import ClassVar, Final

from plugins.proportion.shares import QueueShare, in_a_tree, side_by_side
from volsched.plugin import (
    ABSTAIN,
    MAX_AMOUNT,
    PERMIT,
    PODS,
    ROOT,
    Cluster,
    Numbers,
    QueueInfo,
    QueueOrder,
    Resources,
    Scope,
    Shortfall,
    Step,
    TaskInfo,
    Verdict,
    in_base_units,
)
from volsched.plugin.objects import api
from volsched.plugin.quota import (
    QUOTA,
    Number,
    PastUse,
    QueueDemands,
    QueueTree,
    QueueUsageObserver,
    QuotaAmounts,
    Remaining,
    ResourceQuotas,
    Suggestion,
    capability_of,
    figures,
    guaranteed,
    limits,
    named,
    order_in_tree,
    room,
    there,
    with_spec,
)

NAME: Final = "proportion"
NO_SHARE: Final = "InsufficientQueueShare"
_NOTHING: Mapping[str, int] = {}


class ProportionQuotas(ResourceQuotas):
    """The answers; ``refresh`` when a session opens. ``places`` is the tree of queues, None for side by side."""

    name: ClassVar[str] = NAME

    def __init__(
        self,
        cluster: Cluster,
        usage: QueueUsageObserver,
        demand: QueueDemands,
        places: QueueTree | None = None,
        *,
        leaves_deserved: bool = False,
    ) -> None:
        super().__init__(cluster, usage, demand)
        self._places = places
        self._leaves_deserved = leaves_deserved
        self._whole: dict[str, dict[str, int]] = {}
        self.without_minimum = PERMIT if places is None else ABSTAIN
        self.fair_shares: Numbers = {}
        """What each queue deserves of each resource, as metrics show it."""

    # -- amounts ------------------------------------------------------------------------------------------------------

    def made_from(self) -> Hashable:
        """Return what the division is made from: what queues state, hold and ask for, and the cluster."""
        self._demand.queues()  # those jobs are counted again that have changed
        versions = tuple((name, queue.version) for name, queue in self._cluster.queues.items())
        return super().made_from(), self._demand.version, versions

    def state_amounts(self) -> Mapping[str, QuotaAmounts]:
        """Divide the cluster."""
        cluster, demands = self._cluster, self._demand.queues()
        tree = None if self._places is None else self._places.tree
        divided = side_by_side(cluster, demands) if tree is None else in_a_tree(tree, cluster, demands)
        self._whole = {
            name: {resource: int(deserved_share) for resource, deserved_share in part.deserved.items()}
            for name, part in divided.items()
        }
        self.fair_shares = {
            (name, resource): in_base_units(resource, deserved_share)
            for name, part in divided.items()
            for resource, deserved_share in part.deserved.items()
            if resource != PODS
        }
        return {name: self._amounts_of(queue, divided.get(name)) for name, queue in cluster.queues.items()}

    def _amounts_of(self, queue: QueueInfo, part: QueueShare | None) -> QuotaAmounts:
        total, capability = there(self._cluster), capability_of(queue)
        if part is not None:
            return QuotaAmounts(capability, part.limit, part.deserved, queue.spec.guarantee)
        if self._is_top(queue.name):
            return QuotaAmounts(capability, room(total, _NOTHING, _NOTHING, capability), {}, queue.spec.guarantee)
        return QuotaAmounts(capability, limits(queue, total, guaranteed(self._cluster)), {}, queue.spec.guarantee)

    def displayed(self, queue: QueueInfo) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Return what a queue deserves in whole amounts, 0 of what else it has, and its guarantee of just these."""
        deserved_share = self._whole.get(queue.name, _NOTHING)
        known = {*capability_of(queue), *deserved_share, *self.allocated(queue.name), *self._sums(queue.name).reserved}
        guarantee = {name: amount for name, amount in queue.spec.guarantee.items() if name in known}
        return {name: deserved_share.get(name, 0) for name in known}, guarantee

    def headroom_of(self, queue: str, resource: str) -> int | None:
        """Return how much more of a resource a queue would be admitted with, or None where it has no limit itself."""
        return super().headroom_of(queue, resource) if self.limit(queue, resource) < MAX_AMOUNT else None

    def bound(self, level: str, dimension: str) -> int | None:
        """Return what a queue deserves. The root of a tree is bounded by its capability alone."""
        if self._is_top(level):
            root = self._cluster.queues.get(level)
            return capability_of(root).get(dimension) if root is not None else None
        return self._whole.get(level, _NOTHING).get(dimension, 0)

    def counted(self, level: str) -> Mapping[str, int]:
        """Return what a queue holds, with pods without a node whose gate was lifted."""
        held = self.allocated(level)
        ungated = self._cluster.queue_cache.ungated.get(level) if self._places is None else None
        if not ungated:
            return held
        return {name: held.get(name, 0) + ungated.get(name, 0) for name in {**held, **ungated}}

    def is_parent(self, queue: str) -> bool:
        """True if a queue of a tree has others below it, and so takes no work itself."""
        return self._places is not None and bool(self._places.below(queue))

    def _is_top(self, level: str) -> bool:
        return self._places is not None and level == ROOT

    # -- order --------------------------------------------------------------------------------------------------------

    def queue_order(self) -> QueueOrder:
        """Order by priority, then by the smaller part of what they deserve that queues hold."""
        return self._in_order(self.share)

    def past_order(self, past: PastUse) -> QueueOrder:
        """Order by priority, then by what queues held over time."""
        totals, queues = there(self._cluster), self._cluster.queues
        return self._in_order(lambda level: past.key(queues[level], self.allocated(level), totals))

    def _in_order(self, place: Callable[[str], Fraction | float]) -> QueueOrder:
        if self._places is None:
            return QueueOrder(lambda queue: (-queue.spec.priority, place(queue.name)))
        return order_in_tree(self._cluster.queues, self._way_down, place)

    def _way_down(self, queue: str) -> Sequence[str]:
        return (queue,) if self._places is None else self._places.way_down(queue)

    def past_use(self, half_life: float) -> PastUse:
        """Return an account of what queues, with those below them, hold over time. ``half_life`` is in seconds."""
        usage = self._usage
        held = (lambda queue: queue.allocated) if self._places is None else lambda queue: usage.allocated(queue.name)
        return PastUse(self._cluster, half_life, held, self._way_down)

    # -- refusals -----------------------------------------------------------------------------------------------------

    def overused(self, queue: QueueInfo) -> Verdict | None:
        """Report that a queue, or one above it, holds all that it deserves of all resources."""
        if self.is_parent(queue.name):
            return None
        levels = (level for level in self.levels(queue.name) if not self._is_top(level))
        return next((verdict for level in levels if (verdict := self._overused(queue.name, level))), None)

    def _overused(self, queue: str, level: str) -> Verdict | None:
        held, deserved = self.allocated(level), _without_slots(self.deserved(level))
        if not all(deserved_share <= held.get(name, 0) for name, deserved_share in deserved.items()):
            return None
        amounts = _allocated_of_deserved(held, deserved) or self._why_nothing(level)
        message = f"{named(queue, level)} holds all that it deserves ({amounts})"
        return Verdict(Step.OVERUSED, NAME, Scope.QUEUE, "QueueOverused", message, queue=level)

    def _why_nothing(self, level: str) -> str:
        """Return why a queue deserves nothing at all."""
        weight = self._cluster.queues[level].spec.weight
        if weight <= 0:
            return f"nothing, with a weight of {weight}"
        return "nothing: there is none of what it asks for, or it may have none"

    def exceeds(self, queue: str, level: str, short: tuple[Shortfall, ...]) -> Verdict:
        """A pod would take its queue, or one above it, above what that deserves."""
        message = f"{named(queue, level)} deserves no more: {figures(short)}"
        return Verdict(Step.ALLOCATABLE, NAME, Scope.QUEUE, NO_SHARE, message, short, queue=level)

    # -- reclaiming ---------------------------------------------------------------------------------------------------

    def may_preempt(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """True if a queue without any below it would stay within its deserved share with these tasks.

        For tasks that ask for nothing: whether it is below its deserved share. Where queues above have no deserved
        share left, others below these give (``reclaimable``).
        """
        if not queue.is_open or self.is_parent(queue.name):
            return False
        request = Resources.sum_of(task.template.request for task in tasks)
        if request:
            return not self.beyond(queue.name, request)
        held = self.allocated(queue.name)
        return any(deserved_share > held.get(name, 0) for name, deserved_share in self.deserved(queue.name).items())

    def is_within(self, queue: QueueInfo, task: TaskInfo) -> bool | None:
        """Return whether a queue stays within its deserved share with a task, or None for one that asks for nothing."""
        request = task.template.request
        return not self.beyond(queue.name, request) if request else None

    def reclaimable(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Candidates of queues above their deserved share, each counted as gone for the next."""
        return self._victims(task, candidates, leaves_deserved=self._leaves_deserved)

    def victims_by_share(self, task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Return those of them whose queues still hold what they deserve without them."""
        return self._victims(task, candidates, leaves_deserved=True)

    def _victims(self, task: TaskInfo, candidates: Sequence[TaskInfo], *, leaves_deserved: bool) -> list[TaskInfo]:
        """Candidates whose queue, and those above it that are not above the task's, are above their deserved share."""
        remaining, request = Remaining(self.allocated), task.template.request
        chosen: list[TaskInfo] = []
        for victim in candidates:
            if victim.job is None or victim.job.queue not in self._cluster.queues:
                continue
            queue = victim.job.queue
            if not self._is_within_deserved(task, queue) or _lacks_all(remaining.of(queue), request):
                continue
            levels = self.apart(queue, task.queue)
            if all(
                self._gives(remaining.of(level), level, victim, leaves_deserved=leaves_deserved) for level in levels
            ):
                remaining.leave(levels, victim)
                chosen.append(victim)
        return chosen

    def _is_within_deserved(self, task: TaskInfo, queue: str) -> bool:
        """Whether the queues above a task's that are not above a victim's, too, stay within their due with the task."""
        above = self.apart(task.queue, queue)[1:]
        return not any(self.beyond(level, task.template.request) for level in above)

    def _gives(self, held: Mapping[str, int], level: str, victim: TaskInfo, *, leaves_deserved: bool) -> bool:
        """Return whether a queue is above its due with a victim and, if it is to be left that, not below it without."""
        deserved = self.deserved(level)
        if all(amount <= deserved.get(name, 0) for name, amount in held.items()):
            return False
        request = victim.template.request
        return not leaves_deserved or all(
            held.get(n, 0) - amount >= deserved.get(n, 0) for n, amount in request.items()
        )

    # -- suggestions --------------------------------------------------------------------------------------------------

    def suggestions_for(self, queue: QueueInfo) -> Iterator[Suggestion]:
        """Yield a larger weight: what the queue may hold follows from it."""
        yield Suggestion(QUOTA, ((api.Queue, queue.name),), _with_weight, partial(_text_of_weight, queue.name))


def _lacks_all(held: Mapping[str, int], request: Mapping[str, int]) -> bool:
    """True if a queue holds too little of everything that a task asks for to make room for it."""
    return bool(request) and all(held.get(name, 0) < amount for name, amount in request.items())


def _with_weight(queue: api.Queue, more: int) -> api.Queue:
    return with_spec(queue, weight=queue.spec.weight + more)


def _text_of_weight(queue: str, more: int, _: Sequence[str]) -> str:
    return f"the weight of queue {queue} by {more} (spec.weight)"


def _without_slots(deserved: Mapping[str, Number]) -> dict[str, Number]:
    """Its due less pod slots: a queue that waits deserves more of these than it holds, which helps none of its pods."""
    return {name: deserved_share for name, deserved_share in deserved.items() if name != PODS}


def _allocated_of_deserved(held: Mapping[str, int], deserved: Mapping[str, Number]) -> str:
    deserved_share = Resources({name: int(amount) for name, amount in deserved.items()}).human()
    have = Resources(held).human()
    return "; ".join(f"{name}: {have.get(name, '0')} of {amount}" for name, amount in deserved_share.items())
