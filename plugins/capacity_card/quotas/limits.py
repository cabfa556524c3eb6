"""What each queue may hold, from its object: cpu and memory of ``spec.capability``, cards of its annotation.

What a queue does not name it may not hold (*ours*: that is 0, for cpu and memory as for cards). The quotas of all
queues together may be more than the cluster has, and a quota less than what its queue holds; then nothing more is let
in. What other queues are guaranteed is left for them: of the cards that
there are, in a hierarchy of those that the queue above may have. With ``is_hierarchical`` an ancestor limits what
its subtree holds, in what it names: cards when it has the annotation, cpu and memory when its capability has them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from plugins.capacity_card.quotas.quota import OF_QUEUES, CardQuota, Cards, quota_of
from plugins.capacity_card.requests.requests import RESOURCES, Amounts, Dimension, resources_of
from volsched.model.values.quantity import UNLIMITED
from volsched.plugin import Cluster, QueueInfo
from volsched.plugin.cards import CARD_QUOTA
from volsched.plugin.quota import Guarantees, left_by

ROOT: Final = "root"


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """The limits of one queue.

    ``other`` counts for a card that is not named. ``left`` is what guarantees of other queues leave of cards, where
    they have any. ``is_empty``: the queue states nothing at all, not even 0.
    """

    queue: str
    amounts: Amounts
    other: int = 0
    is_empty: bool = False
    left: Amounts = field(default_factory=dict)

    def of(self, dimension: Dimension) -> int:
        """Return how much of cpu, memory or a card the queue may hold."""
        quota = self.amounts.get(dimension, self.other)
        return min(quota, self.left.get(dimension, quota)) if self.left else quota

    def yields(self, dimension: Dimension) -> bool:
        """True if guarantees of other queues keep a queue below its quota of a card."""
        return self.of(dimension) < self.amounts.get(dimension, self.other)


def own_limit(queue: QueueInfo, quota: CardQuota) -> QueueLimit:
    """Return what a queue may hold by its own object."""
    stated = resources_of(queue.spec.capability)
    is_empty = not (stated or queue.spec.annotations.get(CARD_QUOTA, "").strip())
    return QueueLimit(queue.name, {**dict.fromkeys(RESOURCES, 0), **stated, **_single(quota.cards)}, is_empty=is_empty)


def ancestor_limit(queue: QueueInfo, quota: CardQuota, *, has_card_quota: bool) -> QueueLimit:
    """Return what a queue lets everything below it hold together: no limit where it states none."""
    stated = {**dict.fromkeys(RESOURCES, UNLIMITED), **resources_of(queue.spec.capability)}
    return QueueLimit(queue.name, {**stated, **_single(quota.cards)}, other=0 if has_card_quota else UNLIMITED)


def _single(cards: Cards) -> dict[Dimension, int]:
    """Return amounts of cards as dimensions."""
    return {(card,): amount for card, amount in cards.items()}


class QueueLimits:
    """The limits of all queues. ``version`` changes with any of them, with queues coming, going and moving.

    ``there`` is what the cluster has of each card, and may change: call ``stock_changed`` then.
    """

    def __init__(self, cluster: Cluster, there: Cards, *, is_hierarchical: bool) -> None:
        self._cluster = cluster
        self._there = there
        self.is_hierarchical = is_hierarchical
        self._quotas: dict[str, CardQuota] = {}
        self._read_from: dict[str, Hashable] = {}
        self._chains: dict[str, tuple[QueueLimit, ...]] = {}
        self._levels: dict[str, tuple[str, ...]] = {}
        self._faulty: dict[str, QueueInfo] = {}
        self._guarantees: Guarantees | None = None
        self._siblings: dict[str, list[str]] = {}
        self._are_any = False
        self.version = 0
        for queue in cluster.queues.values():
            self.put(queue)

    def put(self, queue: QueueInfo) -> None:
        """Read a queue that is new or changed."""
        stated = _stated(queue)
        if self._read_from.get(queue.name) == stated:  # nothing but its status has changed
            return
        self._read_from[queue.name] = stated
        before, quota = self._quotas.get(queue.name), quota_of(queue.spec.annotations)
        if quota.errors and (before is None or before.errors != quota.errors):
            self._faulty[queue.name] = queue
        self._quotas[queue.name] = quota
        self._changed()

    def remove(self, queue: QueueInfo) -> None:
        """Forget a queue."""
        self._quotas.pop(queue.name, None)
        self._read_from.pop(queue.name, None)
        self._faulty.pop(queue.name, None)
        self._changed()

    def stock_changed(self) -> None:
        """Take it that the cluster has other cards: that counts where any are guaranteed."""
        if self._refresh_guarantees():
            self._changed()

    def _changed(self) -> None:
        self._chains.clear()
        self._levels.clear()
        self._guarantees = None
        self.version += 1

    def _refresh_guarantees(self) -> bool:
        """Find out again what is guaranteed if queues have changed. Return whether anything is."""
        if self._guarantees is None:
            self._siblings = {}
            for queue in self._cluster.queues:
                if queue != self._parent(queue):
                    self._siblings.setdefault(self._parent(queue), []).append(queue)
            self._guarantees = Guarantees(self._guaranteed, lambda queue: self._siblings.get(queue, ()))
            self._are_any = any(map(self._guaranteed, self._quotas))
        return self._are_any

    def _kept_for_others(self, name: str) -> Amounts:
        """Return what the queues beside one are guaranteed together; without zeros, as these keep nothing."""
        if not self._refresh_guarantees() or self._guarantees is None:
            return {}
        beside = (other for other in self._siblings.get(self._parent(name), ()) if other != name)
        return self._guarantees.together(beside)

    def _guaranteed(self, name: str) -> Amounts:
        return {(card,): amount for card, amount in self.card_quota(name).guarantee.items() if amount}

    def _parent(self, name: str) -> str:
        return (self._cluster.queues[name].spec.parent or ROOT) if self.is_hierarchical else ""

    def card_quota(self, name: str) -> CardQuota:
        """Return the quota of cards of one queue."""
        return self._quotas.get(name, CardQuota())

    def take_faults(self) -> list[tuple[QueueInfo, str]]:
        """Return what is wrong in annotations of queues. Each once, and again when it is something else."""
        found = [
            (queue, "; ".join(map(str, self._quotas[name].errors))) for name, queue in sorted(self._faulty.items())
        ]
        self._faulty.clear()
        return found

    def quota(self, name: str) -> Mapping[str, int]:
        """Return the card quotas of a queue."""
        return self.card_quota(name).cards

    def chain(self, name: str) -> tuple[QueueLimit, ...]:
        """Return all limits that hold for what is charged to a queue, its own first."""
        found = self._chains.get(name)
        if found is None:
            found = self._chains[name] = tuple(self._limits(name))
        return found

    def _limits(self, name: str) -> Iterator[QueueLimit]:
        if name not in self._cluster.queues:
            return iter(())
        above: list[QueueLimit] = []
        for level in reversed(self.levels(name)):
            limit = self._limit(level, is_own=level == name)
            above.append(replace(limit, left=self._left(level, above)))
        return reversed(above)

    def levels(self, name: str) -> tuple[str, ...]:
        """Return a queue, and in a hierarchy those above it that there are."""
        found = self._levels.get(name)
        if found is None:
            found = self._levels[name] = tuple(self._way_up(name)) or (name,)
        return found

    def _way_up(self, name: str) -> dict[str, None]:
        queues, found = self._cluster.queues, dict[str, None]()
        while name in queues and name not in found:
            found[name] = None
            name = queues[name].spec.parent if self.is_hierarchical else ""
        return found

    def _limit(self, name: str, *, is_own: bool) -> QueueLimit:
        queue, quota = self._cluster.queues[name], self.card_quota(name)
        if is_own:
            return own_limit(queue, quota)
        return ancestor_limit(queue, quota, has_card_quota=CARD_QUOTA in queue.spec.annotations)

    def _left(self, name: str, above: list[QueueLimit]) -> Amounts:
        """Return what others' guarantees leave a queue of what there is, and of what queues above it may hold."""
        kept = self._kept_for_others(name)
        return left_by(kept, lambda card: [self._there.get(card[0], 0), *(limit.of(card) for limit in above)])


def _stated(queue: QueueInfo) -> Hashable:
    """Everything of a queue that quotas and shares are made from."""
    amounts = (queue.spec.capability, queue.spec.deserved, queue.spec.guarantee)
    listed = tuple(tuple(sorted(found.items())) for found in amounts)
    texts = tuple(queue.spec.annotations.get(name) for name in OF_QUEUES)
    return texts, queue.spec.parent, queue.spec.priority, queue.spec.reclaimable, listed
