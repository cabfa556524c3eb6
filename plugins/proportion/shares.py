"""What each queue deserves: the cluster shared out by weight among queues that ask for something.

The rule is Volcano's proportion plugin's. In each round every queue gets its weight's part of what remains, bounded by
what it may have and by what it asks for, and never less than it is guaranteed; then the rest is shared out again.

There the rounds end when next to nothing remains. Here the first round is followed by what endless rounds come to: each
resource rises at the speed of the weights in all queues that can take more of it, until there is none left. Amounts are
exact fractions, so that no rounding decides who is over.

In a tree the cluster is divided from the root down (``volsched.quota.division``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from volsched.plugin import PODS, ROOT, Cluster, QueueInfo, Resources
from volsched.plugin.quota import (
    Amounts,
    Claim,
    QueueDemand,
    Tree,
    capability_of,
    divide,
    guaranteed,
    limits,
    limits_in,
    of_nodes,
    summed,
    there,
)

Demands = Mapping[str, QueueDemand[str]]
Parts = dict[str, Fraction]


@dataclass(slots=True)
class QueueShare:
    """One queue in the division: what it asks for, what it may have, and what it deserves of that."""

    queue: QueueInfo
    request: Amounts
    limit: Mapping[str, int]
    deserved: Parts = field(default_factory=dict)

    def most(self, name: str) -> int:
        """Return the most that the queue can deserve of a resource: its limit or request, the smaller."""
        return min(self.limit.get(name, 0), self.request.get(name, 0))


# -- what queues bring into the division ------------------------------------------------------------------------------


def side_by_side(cluster: Cluster, demands: Demands) -> dict[str, QueueShare]:
    """Share the cluster out among the queues that have jobs."""
    total, kept = there(cluster), guaranteed(cluster)
    found: dict[str, QueueShare] = {}
    for name, demand in sorted(demands.items()):
        queue = cluster.queues.get(name)
        if queue is not None:
            found[name] = QueueShare(queue, _held_and_pending(queue, demand), limits(queue, total, kept))
    share_out(found.values(), total)
    return found


def in_a_tree(tree: Tree, cluster: Cluster, demands: Demands) -> dict[str, QueueShare]:
    """Divide the cluster among the queues of a tree, the root left out."""
    total = there(cluster)
    leaves = {name: demand for name, demand in demands.items() if not tree.below(name)}
    claims = summed(tree, {name: _claim(queue, leaves.get(name)) for name, queue in cluster.queues.items()})
    deserved, most = divide(tree, claims, total), limits_in(tree, claims, total)
    return {
        name: QueueShare(queue, claims[name].request, most[name], dict(deserved[name]))
        for name, queue in cluster.queues.items()
        if name != ROOT
    }


def _claim(queue: QueueInfo, demand: QueueDemand[str] | None) -> Claim:
    """Return what a queue claims itself: what its pods hold and, if it may take them, what those that wait ask for."""
    held = {**queue.allocated, PODS: queue.placed}
    request = held if demand is None else _held_and_pending(queue, demand)
    return Claim(queue.spec.weight, request, of_nodes(queue.spec.guarantee), capability_of(queue))


def _held_and_pending(queue: QueueInfo, demand: QueueDemand[str]) -> dict[str, int]:
    return {**Resources(demand.pending).plus(queue.allocated), PODS: demand.waiting + queue.placed}


# -- the division of queues side by side ------------------------------------------------------------------------------


def share_out(queue_shares: Iterable[QueueShare], total: Amounts) -> None:
    """Fill in every queue's ``deserved``."""
    sharing = list(queue_shares)
    weight = sum(queue_share.queue.spec.weight for queue_share in sharing)
    there = {name: amount for name, amount in total.items() if amount > 0}
    if weight <= 0 or not there:
        return
    parts = {name: Fraction(amount, weight) for name, amount in there.items()}
    for queue_share in sharing:
        queue_share.deserved = _first_part(queue_share, parts)
    for name, amount in there.items():
        left = amount - sum(queue_share.deserved.get(name, Fraction(0)) for queue_share in sharing)
        _fill_up(name, Fraction(left), sharing)


def _first_part(queue_share: QueueShare, parts: Mapping[str, Fraction]) -> Parts:
    """Return what a queue deserves after the first round."""
    deserved: Parts = {}
    guarantee = of_nodes(queue_share.queue.spec.guarantee)
    for name in {**parts, **guarantee}:
        amount = min(parts.get(name, Fraction(0)) * queue_share.queue.spec.weight, Fraction(queue_share.most(name)))
        amount = max(amount, Fraction(guarantee.get(name, 0)))
        if amount:
            deserved[name] = amount
    return deserved


def _fill_up(name: str, left: Fraction, queue_shares: Sequence[QueueShare]) -> None:
    """Divide what is left of a resource by weight among the queues that can take more."""
    room = {
        place: queue_share.most(name) - queue_share.deserved.get(name, Fraction(0))
        for place, queue_share in enumerate(queue_shares)
        if queue_share.queue.spec.weight > 0
    }
    full_at = sorted(
        (amount / queue_shares[place].queue.spec.weight, place) for place, amount in room.items() if amount > 0
    )
    weight = sum(queue_shares[place].queue.spec.weight for _, place in full_at)
    level = Fraction(0)
    for full, place in full_at:
        if (full - level) * weight >= left:
            level += max(left, Fraction(0)) / weight
            break
        left -= (full - level) * weight
        weight -= queue_shares[place].queue.spec.weight
        level = full
    for _, place in full_at:
        queue_share = queue_shares[place]
        more = min(room[place], level * queue_share.queue.spec.weight)
        if more:
            queue_share.deserved[name] = queue_share.deserved.get(name, Fraction(0)) + more
