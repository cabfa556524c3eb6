"""How many free cards cannot be used now, and why, by model.

Of the free cards of a node, in this order, each counted once:

    cpu, memory   no CPU (memory) is left for them, at what pods want per card on average; the scarcer of the two counts
    parts         rests of cards that are smaller than the smallest part that any pod wants
    model         no pod that waits may go there, while others wait for cards
    scattered     no node of the cluster has as many whole cards free as most of the demanded ones come in

Kept by node as nodes change; sums by model follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from plugins.fragmentation.demand import Demand
from plugins.fragmentation.means import SHARES, Means
from plugins.fragmentation.offers import MILLI, Offers
from plugins.fragmentation.wishes import Group, Wishes
from volsched.framework.accounts.card_parts import WHOLE, CardParts
from volsched.framework.accounts.quota_report import STRANDED_CARDS, QuotaRow, QuotaTable, Value
from volsched.framework.rules import Metric, Rule, ShownTable
from volsched.model.cluster import Cluster
from volsched.model.node import NodeInfo
from volsched.model.values.series import Numbers, Series

CAUSES: Final = ("cpu", "memory", "parts", "model", "scattered")
PRODUCT: Final = ".product"
OTHER: Final = "other"

CARDS: Final = Series("volsched_cards", "Cards of all nodes", ("model",))
FREE: Final = Series("volsched_cards_free", "Cards that are free, parts of cards added up", ("model",))
STRANDED: Final = Series("volsched_cards_stranded", "Free cards that no pod can use now", ("model", "cause"))


@dataclass(slots=True)
class Loss:
    """What of some nodes' cards is there, is free, and cannot be used, by cause; in thousandths of a card.

    ``scattered``: so many are whole and free, of nodes that have fewer than most pods want.
    """

    cards: int = 0
    free: int = 0
    cpu: int = 0
    memory: int = 0
    parts: int = 0
    model: int = 0
    scattered: int = 0

    def add(self, other: Loss, by: int = 1) -> None:
        """Add what is lost elsewhere, or take it off."""
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name) + by * getattr(other, item.name))


@dataclass(frozen=True, slots=True)
class FreeCards:
    """What is free of one node: thousandths of its ``cards``, of a core, bytes; each card in percent."""

    cards: int
    free: int
    cpu: int
    memory: int
    each: tuple[int, ...]

    @property
    def whole(self) -> int:
        """How many cards are entirely free."""
        return sum(1 for card in self.each if card >= WHOLE)

    def loss(self, means: Means, *, is_wanted: bool) -> Loss:
        """Return what of it cannot be used; ``scattered`` is what would be if whole cards were too few."""
        found = Loss(self.cards, self.free)
        by_cpu = min(self.free, max(0, self.free - int(MILLI * max(0, self.cpu) / means.cpu)))
        by_memory = min(self.free, max(0, self.free - int(MILLI * max(0, self.memory) / means.memory)))
        if by_cpu >= by_memory:
            found.cpu = by_cpu
        else:
            found.memory = by_memory
        left = self.free - max(by_cpu, by_memory)
        smallest = min((size for size, _ in means.sizes), default=WHOLE)
        found.parts = min(left, sum(card for card in self.each if card < smallest) * MILLI // WHOLE)
        left -= found.parts
        if not is_wanted:
            found.model = left
        else:
            found.scattered = min(left, self.whole * MILLI)
        return found


@dataclass(slots=True)
class _Seen:
    """One node as it was last counted."""

    model: str
    whole: int
    loss: Loss


@dataclass(slots=True)
class _Sums:
    """Sums by model, and nodes by how many whole cards are free there."""

    nodes: dict[str, _Seen] = field(default_factory=dict)
    models: dict[str, Loss] = field(default_factory=dict)
    whole: Counter[int] = field(default_factory=Counter)

    def put(self, name: str, seen: _Seen | None) -> bool:
        """Count a node as it is now; whether that is another way than before."""
        before = self.nodes.pop(name, None)
        if seen is not None:
            self.nodes[name] = seen
        if before == seen:
            return False
        for item, by in ((before, -1), (seen, 1)):
            if item is not None:
                self.models.setdefault(item.model, Loss()).add(item.loss, by)
                self.whole[item.whole] += by
        return True


class Stranded:
    """The account. What it shows is worked out again for the nodes that changed, and for all when pods want others."""

    def __init__(self, cluster: Cluster, offers: Offers, wishes: Wishes, demand: Demand, parts: CardParts) -> None:
        self._cluster = cluster
        self._offers = offers
        self._wishes = wishes
        self._demand = demand
        self._parts = parts
        self._sums = _Sums()
        self._seen: object = None
        self._position = 0
        self._groups: frozenset[Group] = frozenset()
        self._changes = -1
        self._numbers: tuple[Numbers, Numbers, Numbers] = ({}, {}, {})

    def registered(self) -> Iterator[Rule]:
        """Return the numbers and the table that are shown."""
        yield Metric(CARDS, lambda: self.numbers()[0])
        yield Metric(FREE, lambda: self.numbers()[1])
        yield Metric(STRANDED, lambda: self.numbers()[2])
        yield ShownTable(self.table)

    def numbers(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return the numbers of the series; the same objects while nothing has changed."""
        if self._catch_up():
            models = self.by_model()
            self._numbers = (
                {(model,): loss.cards / MILLI for model, loss in models.items()},
                {(model,): loss.free / MILLI for model, loss in models.items()},
                {(model, cause): getattr(loss, cause) / MILLI for model, loss in models.items() for cause in CAUSES},
            )
        return self._numbers

    def table(self) -> QuotaTable:
        """Return the table for people: a line for each model, and one for all of them."""
        self._catch_up()
        models = self.by_model()
        rows = [QuotaRow((model,), _figures(loss)) for model, loss in sorted(models.items())]
        if len(rows) > 1:
            rows.append(QuotaRow((None,), _figures(_total(models.values()))))
        return QuotaTable(STRANDED_CARDS, "Stranded cards", ("card",), ("cards", "free", "stranded", *CAUSES), rows)

    def by_model(self) -> Mapping[str, Loss]:
        """Return what is lost of each model."""
        most = max((count for count, nodes in self._sums.whole.items() if nodes), default=0)
        is_scattered = 0 < most < self._commonest()
        found = {}
        for model, loss in self._sums.models.items():
            if loss.cards:
                shown = found[model] = Loss()
                shown.add(loss)
                shown.scattered = loss.scattered if is_scattered else 0
        return found

    def _commonest(self) -> int:
        """Return the number of whole cards per container in which most of the demanded whole cards come."""
        return max(self._demand.means.blocks, key=lambda block: (block[1], -block[0]), default=(0, SHARES))[0]

    # -- following ----------------------------------------------------------------------------------------------------

    def _catch_up(self) -> bool:
        self._demand.refresh()
        cluster = self._cluster
        if self._changes != cluster.clocks.changes:
            self._changes = cluster.clocks.changes
            self._groups = frozenset(self._waiting())
        seen = (self._demand.version, cluster.node_ledger.facts_version, self._groups)
        changed = cluster.node_ledger.usage_log.since(self._position)
        self._position = cluster.node_ledger.usage_log.end
        if seen != self._seen or changed is None:
            self._seen = seen
            self._sums = _Sums()
            changed = list(range(len(cluster.rows)))
        elif not changed:
            return False
        wanted = self._demand.accepted_by(self._groups)
        is_new = False
        for row in changed:
            is_new |= self._look_at(cluster.rows[row], is_wanted=bool(wanted[row]))
        return is_new

    def _waiting(self) -> Iterator[Group]:
        """Yield which nodes the jobs accept that wait for cards, by the first pod of each."""
        for job in self._cluster.queue_ledger.waiting.values():
            task = next(iter(job.waiting.values()), None)
            if task is not None and not job.barred:
                wish = self._wishes.of(task.template)
                if wish.cards:
                    yield wish.group

    def _look_at(self, node: NodeInfo, *, is_wanted: bool) -> bool:
        free = self.free_on(node)
        if not free.cards:
            return self._sums.put(node.name, None)
        loss = free.loss(self._demand.means, is_wanted=is_wanted)
        return self._sums.put(node.name, _Seen(model_of(node), free.whole, loss))

    def free_on(self, node: NodeInfo) -> FreeCards:
        """Return what is free of a node."""
        each = self._parts.free(node)
        for offer in self._offers.all:
            if offer.is_whole:
                each += (WHOLE,) * max(0, (node.allocatable[offer.column] - node.used[offer.column]) // MILLI)
        free, cards = self._offers.free(node), self._offers.cards(node)
        return FreeCards(cards, free, node.idle_of("cpu"), node.idle_of("memory"), each)


def model_of(node: NodeInfo) -> str:
    """Return what a node's label ``<prefix>/<type>.product`` says, of several the first; ``other`` without one."""
    keys = sorted(key for key in node.labels if key.endswith(PRODUCT) and node.labels[key])
    return node.labels[keys[0]] if keys else OTHER


def _total(losses: Iterable[Loss]) -> Loss:
    found = Loss()
    for loss in losses:
        found.add(loss)
    return found


def _figures(loss: Loss) -> dict[str, Value]:
    causes = {cause: getattr(loss, cause) for cause in CAUSES}
    figures = {"cards": loss.cards, "free": loss.free, "stranded": sum(causes.values()), **causes}
    return {name: _cards(amount) for name, amount in figures.items()}


def _cards(amount: int) -> Value:
    whole, rest = divmod(amount, MILLI)
    return f"{amount / MILLI:.3f}".rstrip("0") if rest else whole
