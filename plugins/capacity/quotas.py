"""What queues may have, hold and deserve, and which goes first.

A queue is asked about itself, and over a hierarchy about every queue above it. The rules are those of Volcano's plugin
of this name; differences are marked. Amounts are made again when a Queue states something else or the cluster has
other amounts; what is held follows moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import ClassVar, Final

from plugins.capacity.amounts import doubts, in_a_tree, lost, side_by_side
from volsched.plugin import (
    MAX_AMOUNT,
    ROOT,
    Cluster,
    ConditionReason,
    JobInfo,
    Numbers,
    QueueInfo,
    Scope,
    Shortfall,
    Step,
    Verdict,
    in_base_units,
)
from volsched.plugin.quota import (
    NO_AMOUNTS,
    NO_PLACE,
    At,
    QueueDemands,
    QueueUsageObserver,
    QuotaAmounts,
    ResourceQuotas,
    Suggestion,
    asked_of,
    figures,
    named,
    path_key,
    raises,
    share,
    there,
)

NAME: Final = "capacity"
INSUFFICIENT: Final = "InsufficientQueueCapability"


class CapacityQuotas(ResourceQuotas):
    """The quotas; over a hierarchy it is also known which queues have no place there."""

    name: ClassVar[str] = NAME

    def __init__(
        self, cluster: Cluster, usage: QueueUsageObserver, demand: QueueDemands, *, hierarchical: bool
    ) -> None:
        super().__init__(cluster, usage, demand)
        self._hierarchical = hierarchical
        self._parents: frozenset[str] = frozenset()
        self._lost: Mapping[str, str] = {}
        self._doubts: Mapping[str, tuple[str, ...]] = {}
        self.limits: Numbers = {}
        """What each queue may have, by queue and resource, as metrics show it."""

    def state_amounts(self) -> Mapping[str, QuotaAmounts]:
        """Return the amounts that Queues state, within what there is."""
        queues, total = self._cluster.queues, there(self._cluster)
        found = in_a_tree(queues, total) if self._hierarchical else side_by_side(queues, total)
        if self._hierarchical:
            self._parents = _parents(self._cluster)
            self._lost = lost(queues)
            self._doubts = doubts(queues, found)
        self.limits = {
            (name, resource): in_base_units(resource, amount)
            for name in queues
            for resource, amount in found.get(name, NO_AMOUNTS).limit.items()
            if amount < MAX_AMOUNT
        }
        return found

    def faults(self) -> dict[str, tuple[str, ...]]:
        """Return what is to be told of queues: that they have no place, and which amounts contradict each other."""
        lost = {name: (f"{why}; it takes no work",) for name, why in self._lost.items()}
        return {name: (*lost.get(name, ()), *self._doubts.get(name, ())) for name in {**lost, **self._doubts}}

    # -- refusals -----------------------------------------------------------------------------------------------------

    def is_parent(self, queue: str) -> bool:
        """True if a queue has others below it, and so takes no work itself."""
        return queue in self._parents

    def closed(self, queue: str, step: At) -> Verdict | None:
        """Report that a queue takes no work at all. *ours*: others go on, where Volcano's plugin stops them all."""
        why = self._lost.get(queue)
        if self.is_parent(queue) or not why:
            return super().closed(queue, step)
        message = f'queue "{queue}" has no place in the hierarchy of queues: {why}; correct spec.parent'
        return Verdict(step, NAME, Scope.QUEUE, NO_PLACE, message, shown_as=ConditionReason.QUEUE_INVALID)

    def exceeds(self, queue: str, level: str, short: tuple[Shortfall, ...]) -> Verdict:
        """A pod would take its queue, or one above it, beyond what that may have."""
        short = tuple(sorted(short, key=lambda each: each.resource))
        message = f"{named(queue, level)} may have no more: {figures(short)}"
        return Verdict(Step.ALLOCATABLE, NAME, Scope.QUEUE, INSUFFICIENT, message, short, queue=level)

    # -- order and suggestions ----------------------------------------------------------------------------------------

    def order(self, queue: QueueInfo) -> tuple[int, tuple[tuple[object, ...], ...]]:
        """Higher priority first, then the smaller share: of queues above, where two part, then their own.

        Among equal shares a queue that deserves nothing goes first. Where queues above are equal the older one goes
        first (*ours*), so that the order has no circles.
        """
        path = (*self.ancestors(queue.name)[::-1], queue.name)
        return path_key(self._cluster.queues, queue, path, self._place)

    def _place(self, level: str) -> tuple[Fraction, bool]:
        return self.share(level), not self.amounts(level).deserves_anything

    def share_now(self, level: str) -> Fraction:
        """Return the largest part of what it deserves that a queue holds; 1 for a queue that deserves nothing."""
        amounts = self.amounts(level)
        if not amounts.deserves_anything:
            return Fraction(1)
        return share(self.allocated(level), {name: amount for name, amount in amounts.deserved.items() if amount})

    def suggestions(self, job: JobInfo) -> Iterator[Suggestion]:
        """Yield a larger capability of the queue and of those above it, and more that it may reclaim."""
        yield from super().suggestions(job)
        if own := self._cluster.queues.get(job.queue):
            yield from raises(own, "deserved", sorted(own.spec.deserved.keys() & asked_of(job)))


def _parents(cluster: Cluster) -> frozenset[str]:
    """Return the queues of which any other states that it is below them."""
    return frozenset(queue.spec.parent or ROOT for queue in cluster.queues.values() if queue.name != ROOT)
