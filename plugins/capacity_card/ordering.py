"""Which node is better, and which queue goes first.

Of a list of cards the leftmost is liked best: a node scores 100 x 0.5^index x ``nodeOrderWeight`` for the first card of
the list that it offers (100, 50, 25, 12.5 and so on), whatever is left of quota or cards. A task of one card, or of
none, tells no nodes apart.

Of queues the one of higher ``spec.priority`` goes first, then the one with the smaller share: the largest part of what
it deserves that it holds of anything; what it deserves none of is passed over. A queue deserves, of cards, what it
states and is guaranteed; where no queue states what it deserves, its quota within what the cluster has, as in Volcano's
design. Of cpu and memory it deserves ``spec.deserved`` within what others' guarantees leave, and not less than its own
guarantee. A queue that states nothing while others do deserves no cards: if it deserves nothing else either, it comes
after all that hold less than they deserve. In a hierarchy those queues are compared that stand right below the one
where the ways up meet; equal ones by age, so that the order has no circles.

With ``usage.halfLife`` the share is of use over time: the cards of any model that the queue held, over its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import truediv
from typing import Final, TypeAlias

import numpy as np

from plugins.capacity_card.quotas.quota import Cards
from plugins.capacity_card.requests.charges import ChargedCard
from plugins.capacity_card.requests.requests import Amounts, Dimension, cards_of
from plugins.capacity_card.usage import CardUsage
from volsched.model.nodes.columns import CPU as CPU_COLUMN
from volsched.model.nodes.columns import MEMORY as MEMORY_COLUMN
from volsched.plugin import CPU, MEMORY, Cluster, Floats, NodePropertiesView, NodeTable, PodTemplate, QueueInfo
from volsched.plugin.quota import Number, PastUse, guaranteed, path_key, room, share

BEST_SCORE: Final = 100.0
_COLUMNS: Final = ((CPU, CPU_COLUMN), (MEMORY, MEMORY_COLUMN))

Place: TypeAlias = tuple[Number | float, bool]
"""The share of a queue, and whether it deserves nothing while others state what they deserve."""


class CardScore:
    """Scores nodes for tasks with a list of cards."""

    def __init__(self, usage: CardUsage, weight: float) -> None:
        self._usage = usage
        self._weight = weight

    def score(self, template: PodTemplate, node: NodePropertiesView) -> float:
        """Score one node."""
        return self._points(template, self._usage.offered(template, node))

    def scores(self, template: PodTemplate, nodes: NodeTable) -> Floats:
        """``score`` for many nodes."""
        points = (self._points(template, charged) for charged in self._usage.offered_by_kinds(template))
        found: Floats = np.fromiter(points, np.float64)[self._usage.catalogue.kind_rows()[nodes.rows]]
        return found

    def _points(self, template: PodTemplate, charged: ChargedCard | None) -> float:
        names = self._usage.charges.of(template).names
        if charged is None or len(names) < 2:
            return 0.0
        return BEST_SCORE * 0.5 ** names.index(charged.card) * self._weight


class QueueShares:
    """Orders queues by priority and share."""

    def __init__(self, cluster: Cluster, usage: CardUsage) -> None:
        self._cluster = cluster
        self._usage = usage
        self._held = usage.held.with_below
        self._shares: dict[str, tuple[tuple[int, ...], Place]] = {}
        self._deserved: dict[str, Amounts] = {}
        self._made_from: tuple[int, ...] = ()
        self._any_deserved = False

    def key(self, queue: QueueInfo) -> tuple[int, tuple[tuple[object, ...], ...]]:
        """Return the place of a queue. Smaller goes first."""
        return self._key(queue, self._place_now)

    def past_use(self, half_life: float) -> PastUse:
        """Return an account of the cards that queues hold over time. ``half_life`` is in seconds."""

        def cards(queue: QueueInfo) -> Mapping[str, int]:
            return cards_of(self._held.of(queue.name))

        return PastUse(self._cluster, half_life, cards, self._usage.limits.levels)

    def past_order(self, past: PastUse) -> Callable[[QueueInfo], object]:
        """Return the key by use over time. It moves with the clock, so it is not kept."""

        def place(name: str) -> Place:
            weight = self._cluster.queues[name].spec.weight if name in self._cluster.queues else 1
            return past.sum_key(name, cards_of(self._held.of(name)), weight), self._place_now(name)[1]

        return lambda queue: self._key(queue, place)

    def _key(self, queue: QueueInfo, place: Callable[[str], Place]) -> tuple[int, tuple[tuple[object, ...], ...]]:
        if not self._usage.limits.is_hierarchical:
            return -queue.spec.priority, (place(queue.name),)
        return path_key(self._cluster.queues, queue, self._usage.limits.levels(queue.name)[::-1], place)

    def _place_now(self, name: str) -> Place:
        deserved = self.deserved().get(name, {})
        state = (self._held.version_of(name), *self._made_from)
        known = self._shares.get(name)
        if known is not None and known[0] == state:
            return known[1]
        waits = not deserved and self._any_deserved
        self._shares[name] = state, (1 if waits else share(self._held.of(name), deserved, truediv), waits)
        return self._shares[name][1]

    def deserved(self) -> Mapping[str, Amounts]:
        """Return what each queue deserves, without zeros, made again when limits or the cluster changed."""
        usage = self._usage
        made_from = (
            usage.limits.version,
            usage.catalogue.stock,
            *self._cluster.node_cache.totals[: MEMORY_COLUMN + 1],
        )
        if made_from != self._made_from:
            self._deserved, self._made_from = self._share_out(), made_from
        return self._deserved

    def _share_out(self) -> dict[str, Amounts]:
        queues, limits = self._cluster.queues, self._usage.limits
        quotas = {name: limits.card_quota(name) for name in queues}
        self._any_deserved = any(quota.deserved is not None for quota in quotas.values())
        found: dict[str, Amounts] = {}
        total, kept = self._resources(), guaranteed(self._cluster)
        for name, queue in queues.items():
            own, free = queue.spec.guarantee, room(total, kept, queue.spec.guarantee, {})
            deserved_share: dict[Dimension, int] = {
                key: max(min(queue.spec.deserved.get(key, 0), free.get(key, 0)), own.get(key, 0)) for key, _ in _COLUMNS
            }
            cards = quotas[name].deserved or {} if self._any_deserved else self._within_stock(quotas[name].cards)
            deserved_share.update({(card,): amount for card, amount in cards.items()})
            found[name] = {dimension: amount for dimension, amount in deserved_share.items() if amount > 0}
        return found

    def _resources(self) -> dict[str, int]:
        """Return what the cluster has of cpu and memory."""
        totals = self._cluster.node_cache.totals[: MEMORY_COLUMN + 1]  # shorter while no node has reported
        return {name: totals[column] for name, column in _COLUMNS if column < len(totals)}

    def _within_stock(self, quota: Cards) -> Cards:
        there = self._usage.catalogue.totals
        return {card: min(most, there.get(card, 0)) for card, most in quota.items()}
