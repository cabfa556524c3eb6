"""How queues stand: their dues, what they hold of these, and which of them work is kept out of.

Dues are made again when a Queue states something else or the cluster has other amounts; what is held follows moves.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import Final

from plugins.capacity.dues import DueAmounts, doubts, in_a_tree, lost, side_by_side
from volsched.model.values.resources import UNLIMITED
from volsched.plugin import MAX_AMOUNT, ROOT, Cluster, Numbers, Observer, QueueInfo, in_base_units
from volsched.plugin.quota import QueueDemand, QueueUsageObserver, share, there

NO_DUE: Final = DueAmounts({}, {}, {}, {})
NO_DEMAND: Final = QueueDemand()


class QueueDues(Observer):
    """Follows what Queues state; ``catch_up`` when a session opens."""

    def __init__(self, cluster: Cluster, held: QueueUsageObserver, *, hierarchical: bool) -> None:
        self._cluster = cluster
        self._hierarchical = hierarchical
        self.held = held
        self._version = 0
        self._made_from: Hashable = None
        self._dues: Mapping[str, DueAmounts] = {}
        self._parents: frozenset[str] = frozenset()
        self._shares: dict[str, tuple[int, Fraction]] = {}
        self.lost: Mapping[str, str] = {}
        """Queues that have no place in the hierarchy, and why; work is kept out of them."""
        self.doubts: Mapping[str, tuple[str, ...]] = {}
        """What queues state that cannot be kept beside what those above and below them state, by queue."""
        self.limits: Numbers = {}
        """What each queue may have, by queue and resource, as metrics show it."""

    def queue_changed(self, queue: QueueInfo, *, gone: bool) -> None:
        """Have dues made again."""
        self._version += 1

    def catch_up(self) -> None:
        """Make dues again if anything has changed that they are made from."""
        cluster = self._cluster
        made_from = self._version, tuple(cluster.node_ledger.totals), cluster.columns.left_to_devices
        if made_from == self._made_from:
            return
        self._made_from = made_from
        self._dues = (in_a_tree if self._hierarchical else side_by_side)(cluster.queues, there(cluster))
        if self._hierarchical:
            self._parents = _parents(cluster)
            self.lost = lost(cluster.queues)
            self.doubts = doubts(cluster.queues, self._dues)
        self._shares.clear()
        self.limits = {
            (name, resource): in_base_units(resource, amount)
            for name in cluster.queues
            for resource, amount in self.due(name).limit.items()
            if amount < MAX_AMOUNT
        }

    def faults(self) -> dict[str, tuple[str, ...]]:
        """Return what is to be told of queues: that they have no place, and which amounts contradict each other."""
        lost = {name: (f"{why}; it takes no work",) for name, why in self.lost.items()}
        return {name: (*lost.get(name, ()), *self.doubts.get(name, ())) for name in {**lost, **self.doubts}}

    def due(self, queue: str) -> DueAmounts:
        """Return the dues of a queue; one that hangs nowhere has none."""
        return self._dues.get(queue, NO_DUE)

    def is_within(self, queue: str, request: Mapping[str, int]) -> bool | None:
        """Whether a queue with a request holds no more than it deserves of all of it; None: it states nothing of it."""
        held, stated = self.held.by(queue), self.due(queue).stated
        asked = [name for name in request if name in stated]
        return all(held.get(name, 0) + request[name] <= stated[name] for name in asked) if asked else None

    def levels(self, queue: str) -> tuple[str, ...]:
        """Return the queues whose limits count for a queue: itself, and over a hierarchy those above it."""
        return self.held.levels(queue)

    def ancestors(self, queue: str) -> tuple[str, ...]:
        """Return the queues above a queue, its parent first, without the root."""
        return tuple(level for level in self.levels(queue)[1:] if level != ROOT)

    def limit(self, queue: str, resource: str) -> int:
        """Return how much a queue may have of a resource; of what devices serve nobody knows how much there is."""
        due = self.due(queue)
        if self._cluster.is_left_to_devices(resource):
            return due.capability.get(resource, UNLIMITED)
        return due.limit.get(resource, 0)

    def share(self, queue: str) -> Fraction:
        """Return the largest part of its due that a queue holds; 1 for a queue that deserves nothing."""
        known, version = self._shares.get(queue), self.held.version(queue)
        if known is not None and known[0] == version:
            return known[1]
        due = self.due(queue)
        deserved = {name: amount for name, amount in due.deserved.items() if amount}
        found = share(self.held.by(queue), deserved) if due.deserves_anything else Fraction(1)
        self._shares[queue] = version, found
        return found

    def has_children(self, queue: str) -> bool:
        """Whether a queue has others below it, and so takes no work itself."""
        return queue in self._parents


def _parents(cluster: Cluster) -> frozenset[str]:
    """Return the queues of which any other states that it is below them."""
    return frozenset(queue.spec.parent or ROOT for queue in cluster.queues.values() if queue.name != ROOT)
