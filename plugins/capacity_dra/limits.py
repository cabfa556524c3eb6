"""The quotas of devices that are in force: how much a queue may hold, with the queues above and beside it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from plugins.capacity_dra.arguments import CapacityDRAArguments
from plugins.capacity_dra.quota import DROPPED, Quota, read_quota
from volsched.plugin import ROOT, Cluster, QueueInfo, levels
from volsched.plugin.devices import COUNT, Amount, Amounts
from volsched.plugin.quota import Guarantees, QueueTree, left_by

DRA: Final = "spec.dra"


class ClaimLimits:
    """Read once for each version of a queue; ``checks_ancestors``: the queues above a queue limit it, too.

    ``deserved_amounts`` names all that any queue deserves.
    """

    def __init__(self, cluster: Cluster, arguments: CapacityDRAArguments) -> None:
        self._cluster = cluster
        self._arguments = arguments
        self.tree = QueueTree(cluster)
        self.checks_ancestors = False
        self.deserved_amounts: dict[Amount, None] = {}
        self._quotas: dict[str, tuple[object, Quota]] = {}
        self._reported: dict[str, tuple[str, ...]] = {}
        self._guarantees = self._make_guarantees()
        self._known: dict[str, Amounts] = {}

    def open(self, *, above: bool) -> Iterator[tuple[QueueInfo, str]]:
        """Begin a session, in which queues above may count. Yield what is wrong with queues and was not reported."""
        self.checks_ancestors = above
        self._guarantees = self._make_guarantees()
        self._known.clear()
        self.deserved_amounts = {key: None for name in self._cluster.queues for key in self.of(name).deserved_share}
        about_all = self._about_all_queues()
        for name in [name for name in self._quotas if name not in self._cluster.queues]:
            del self._quotas[name]
            self._reported.pop(name, None)
        for queue in self._cluster.queues.values():
            faults = (*self.of(queue.name).faults, *about_all.get(queue.name, ()))
            if faults != self._reported.get(queue.name, ()):
                self._reported[queue.name] = faults
                yield from ((queue, fault) for fault in faults)

    def _make_guarantees(self) -> Guarantees:
        return Guarantees(lambda queue: self.of(queue).guarantee, self.tree.below)

    def _about_all_queues(self) -> dict[str, tuple[str, ...]]:
        """Report on one queue what is wrong with all: a field that the cluster drops leaves no trace where it was."""
        if DRA not in self._dropped:
            return {}
        queues = self._cluster.queues.values()
        speaker = min((q.name for q in queues if q.spec.uid), key=lambda name: (name != ROOT, name), default=ROOT)
        return {speaker: (f"{DRA} of every Queue is lost: {DROPPED}",)}

    @property
    def _dropped(self) -> frozenset[str]:
        return self._cluster.dropped_fields.get("Queue", frozenset())

    def of(self, name: str) -> Quota:
        """Return the quota of a queue, without anything for one that is not there."""
        queue = self._cluster.queues.get(name)
        if queue is None:
            return Quota()
        is_kept = "Queue" in self._cluster.dropped_fields and DRA not in self._dropped
        known = self._quotas.get(name)
        if known is None or known[0] != (queue.spec, is_kept):
            known = self._quotas[name] = (queue.spec, is_kept), read_quota(queue, is_kept=is_kept)
        return known[1]

    def has_children(self, queue: str) -> bool:
        """True if queues are below this one, which then takes no work itself."""
        return self.checks_ancestors and self.tree.is_parent(queue)

    def levels(self, queue: str) -> tuple[str, ...]:
        """Return a queue, and in a hierarchy those above it."""
        return levels(self._cluster.queues, queue) if self.checks_ancestors else (queue,)

    def limited(self, level: str) -> Amounts:
        """Return what a queue's quota names, and what others beside it are guaranteed."""
        limits, left = self.of(level).limits, self._left(level)
        return {**left, **limits} if left else limits

    def _left(self, level: str) -> Amounts:
        """Return how much a queue may hold, of what others beside it are guaranteed.

        Only below a queue with a quota: the plugin does not count how many devices of a class there are.
        """
        if not self.checks_ancestors:
            return {}
        if level not in self._known:
            self._known[level] = {}  # a queue that is above itself ends here
            self._known[level] = self._left_by_others(level)
        return self._known[level]

    def _left_by_others(self, queue: str) -> Amounts:
        above = self.levels(queue)[1:]
        beside = (other for other in self.tree.below(above[0]) if other != queue) if above else ()
        kept = self._guarantees.together(beside)
        return left_by(kept, lambda key: [most for level in above if (most := self.limit(key, level)) is not None])

    def limit(self, key: Amount, level: str) -> Fraction | None:
        """Return the most that a queue may hold of an amount, less the guarantees of others, or None without limit."""
        own, left = self.own_limit(key, self.of(level)), self._left(level).get(key)
        return left if own is None else own if left is None else min(own, left)

    def own_limit(self, key: Amount, quota: Quota) -> Fraction | None:
        """Return the most that a queue's own quota lets it hold of an amount, or None without limit."""
        listed = key.device_class in quota.classes
        if key.dimension != COUNT and not self._arguments.dimensions:
            return None
        if key in quota.limits:
            return quota.limits[key]
        if not listed:
            return Fraction(0) if self._arguments.denies_unlisted else None
        return Fraction(0) if self._arguments.strict and key.dimension != COUNT else None

    def counted(self, amounts: Amounts) -> Amounts:
        """Leave out dimensions when only numbers of devices are counted."""
        if self._arguments.dimensions:
            return amounts
        return {key: amount for key, amount in amounts.items() if key.dimension == COUNT}
