"""What capacity-card shows in numbers: quotas, holdings and cards, in whole cards.

Each mapping is made again when what it was made from has changed, and given again otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from plugins.capacity_card.card_quotas import CardRules
from plugins.capacity_card.demands import CardDemands
from plugins.capacity_card.ordering import QueueShares
from plugins.capacity_card.reclaim import CardReclaimView
from plugins.capacity_card.requests.requests import Names, cards_of, lists_of
from plugins.capacity_card.usage import CardUsage, Placed
from volsched.model.pods.workload import WORKLOADS
from volsched.plugin import Cluster, Numbers, Series, SeriesFn
from volsched.plugin.cards import MILLI, idle_of, joined
from volsched.plugin.quota import CachedNumbers

_QUEUE: Final = ("queue_name", "card")

CAPACITY: Final = Series("volcano_queue_card_capacity", "The queue's quota of a card", _QUEUE)
DESERVED: Final = Series(
    "volcano_queue_card_deserved", "What it deserves; its quota within the cluster where no queue says so", _QUEUE
)
GUARANTEE: Final = Series("volsched_queue_card_guarantee", "Cards that are kept for the queue", _QUEUE)
RECLAIMABLE: Final = Series("volsched_queue_card_reclaimable", "Cards that other queues could take back", _QUEUE)
ALLOCATED: Final = Series("volcano_queue_card_allocated", "Cards that pods of the queue hold", _QUEUE)
REQUEST: Final = Series("volcano_queue_card_request", "Cards that they hold or wait for, by list of cards", _QUEUE)
INQUEUE: Final = Series("volcano_queue_card_inqueue", "Cards reserved for jobs that were admitted, by list", _QUEUE)
TOTAL: Final = Series("volsched_cluster_cards", "Cards that pods may take on all nodes", ("card",))
IDLE: Final = Series("volsched_cluster_cards_idle", "Of those, cards that no pod takes", ("card",))
WORKLOAD: Final = Series(
    "volsched_cluster_workload_cards", "Cards that placed online and offline pods of queues hold", ("card", "workload")
)
QUEUE_WORKLOAD: Final = Series("volsched_queue_workload_cards", "The same of each queue", ("queue", "card", "workload"))
REFUSALS: Final = Series(
    "volsched_queue_card_refusals", "Pods and jobs refused by quota", ("queue", "reason"), counts=True
)


UNKNOWN: Final = "unknown"
"""The label of lists of which no node offers any card."""


class CardSeries:
    """The numbers of all series."""

    def __init__(self, cluster: Cluster, usage: CardUsage, demands: CardDemands, view: CardReclaimView) -> None:
        self._cluster = cluster
        self._usage = usage
        self._held = usage.held.with_below
        self._placed = usage.placed
        self._demands = demands
        self._made = CachedNumbers().get
        self._idle = IdleCards(usage)
        self._view = view

    def metrics(self, order: QueueShares, rules: CardRules) -> Mapping[Series, SeriesFn]:
        """Return all series with what counts them."""
        return {
            CAPACITY: self._capacity,
            DESERVED: partial(self._deserved, order),
            GUARANTEE: self._guarantee,
            RECLAIMABLE: self._reclaimable,
            ALLOCATED: self._allocated,
            REQUEST: self._request,
            INQUEUE: self._inqueue,
            TOTAL: self._total,
            IDLE: self._idle.numbers,
            WORKLOAD: self._by_workload,
            QUEUE_WORKLOAD: self._by_queue_and_workload,
            REFUSALS: partial(self._refusals, rules),
        }

    def _capacity(self) -> Numbers:
        limits = self._usage.limits
        return self._made("capacity", limits.version, lambda: _cards(self._each(limits.quota)))

    def _deserved(self, order: QueueShares) -> Numbers:
        deserved = order.deserved()
        state = (self._usage.limits.version, self._usage.catalogue.stock)
        return self._made(
            "deserved",
            state,
            lambda: _cards((name, cards_of(deserved_share)) for name, deserved_share in deserved.items()),
        )

    def _guarantee(self) -> Numbers:
        limits = self._usage.limits
        return self._made(
            "guarantee", limits.version, lambda: _cards(self._each(lambda name: limits.card_quota(name).guarantee))
        )

    def _reclaimable(self) -> Numbers:
        usage = self._usage
        state = (self._held.version, usage.limits.version)
        return self._made(
            "reclaimable", state, lambda: _cards(self._each(lambda name: cards_of(self._view.reclaimable(name))))
        )

    def _allocated(self) -> Numbers:
        usage = self._usage
        state = (self._held.version, usage.limits.version)
        return self._made("allocated", state, lambda: _cards(self._each(self._cards_held)))

    def _cards_held(self, queue: str) -> Mapping[str, int]:
        """Return what a queue holds, and zero for cards that it may hold."""
        return {**dict.fromkeys(self._usage.limits.quota(queue), 0), **cards_of(self._held.of(queue))}

    def _request(self) -> Numbers:
        self._demands.refresh()
        state = (self._held.version, self._demands.version, self._usage.limits.version)
        return self._made("request", state, lambda: _cards(self._each(self._asked)))

    def _asked(self, queue: str) -> Mapping[str, int]:
        found = dict(self._cards_held(queue))
        for names, amount in lists_of(self._demands.of(queue).pending).items():
            label = self._label(names)
            found[label] = found.get(label, 0) + amount
        return found

    def _label(self, names: Names) -> str:
        """Return a list without cards that no node offers: texts of users must not become labels."""
        return joined(tuple(name for name in names if name in self._usage.catalogue.resources)) or UNKNOWN

    def _inqueue(self) -> Numbers:
        self._demands.refresh()
        state = (self._demands.version, self._usage.limits.version)
        return self._made("inqueue", state, lambda: _cards(self._each(self._reserved)))

    def _reserved(self, queue: str) -> Mapping[str, int]:
        found: Counter[str] = Counter()
        for names, amount in lists_of(self._demands.of(queue).reserved).items():
            found[self._label(names)] += amount
        return found

    def _total(self) -> Numbers:
        catalogue = self._usage.catalogue
        return self._made("total", catalogue.stock, lambda: _in_cards(catalogue.totals))

    def _by_workload(self) -> Numbers:
        """Return what all queues hold together, and zero of cards that there are."""
        usage = self._usage

        def made() -> Numbers:
            total: dict[Placed, int] = {(card, w): 0 for card in usage.catalogue.totals for w in WORKLOADS}
            for name in self._cluster.queues:
                for key, amount in self._placed.own.of(name).items():
                    total[key] = total.get(key, 0) + amount
            return {held: amount / MILLI for held, amount in total.items()}

        return self._made("workload", (self._held.version, usage.limits.version, usage.catalogue.stock), made)

    def _by_queue_and_workload(self) -> Numbers:
        """Return what each queue holds, and zero of cards that it may hold."""
        usage = self._usage

        def made() -> Numbers:
            return {
                (name, card, workload): self._placed.with_below.of(name).get((card, workload), 0) / MILLI
                for name in self._cluster.queues
                for card in self._cards_held(name)
                for workload in WORKLOADS
            }

        return self._made("queue workload", (self._held.version, usage.limits.version), made)

    def _refusals(self, rules: CardRules) -> Numbers:
        """Refusals of the queues that are there. What was counted of one that is gone is not shown."""

        def living() -> Numbers:
            return {
                labels: count for labels, count in rules.refusal_counts.items() if labels[0] in self._cluster.queues
            }

        return self._made("refusals", (rules.refusal_counts.total(), self._usage.limits.version), living)

    def _each(self, cards_of: Callable[[str], Mapping[str, int]]) -> Iterator[tuple[str, Mapping[str, int]]]:
        return ((name, cards_of(name)) for name in self._cluster.queues)


class IdleCards:
    """How many cards of each model no pod takes, by whomever they are taken. Follows the nodes that changed."""

    def __init__(self, usage: CardUsage) -> None:
        self._usage = usage
        self._of: dict[str, Mapping[str, int]] = {}
        self._sums: dict[str, int] = {}
        self._numbers: Numbers = {}

    def numbers(self) -> Numbers:
        """Idle cards by name; none below zero."""
        changed = self._usage.changed_nodes
        if changed:
            before = dict(self._sums)
            for node in changed.values():
                self._put(node.name, {card.name: idle_of(node, card) for card in self._usage.catalogue.of(node).cards})
            changed.clear()
            there = self._usage.catalogue.totals
            self._sums = {name: amount for name, amount in self._sums.items() if name in there}
            if before != self._sums:
                self._numbers = _in_cards(self._sums)
        return self._numbers

    def _put(self, node: str, idle: Mapping[str, int]) -> None:
        for cards, by in ((idle, 1), (self._of.pop(node, {}), -1)):
            for name, amount in cards.items():
                self._sums[name] = self._sums.get(name, 0) + by * amount
        if idle:
            self._of[node] = idle


def _cards(queues: Iterable[tuple[str, Mapping[str, int]]]) -> Numbers:
    return {(queue, card): amount / MILLI for queue, cards in queues for card, amount in cards.items()}


def _in_cards(amounts: Mapping[str, int]) -> Numbers:
    return {(card,): amount / MILLI for card, amount in amounts.items()}
