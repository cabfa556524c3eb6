"""How many free cards cannot be used now, and why, by model.

Of the free cards of a node, in this order, each counted once:

    cpu, memory   no CPU (memory) is left for them, at what pods want per card on average; the scarcer of the two counts
    parts         rests of cards that are smaller than the smallest part that any pod wants
    model         no pod that waits may go there, while others wait for cards
    scattered     no node of the cluster has as many whole cards free as most of the demanded ones come in

Nodes are columns here, so a cluster is counted in a few operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from plugins.fragmentation.average_demand import SHARES, AverageDemand
from plugins.fragmentation.card_requests import CardRequests, Group
from plugins.fragmentation.cluster_cards import MILLI, ClusterCards
from plugins.fragmentation.demand import Demand, KnownDevices
from plugins.fragmentation.device_cards import DeviceCards, product_of
from volsched.model.nodes.columns import CPU, MEMORY
from volsched.plugin import Cluster, Mask, NodeColumns, NodeInfo, Numbers, Report, Rows, Series
from volsched.plugin.cards import WHOLE, CardLists, CardParts
from volsched.plugin.quota import IS_STRANDED, STRANDED_CARDS, QuotaRow, QuotaTable, Value

Ints = npt.NDArray[np.int64]

CAUSES: Final = ("cpu", "memory", "parts", "model", "scattered")
PRODUCT: Final = ".product"
OTHER: Final = "other"

CARDS: Final = Series("volsched_cards", "Cards of all nodes", ("model",))
FREE: Final = Series("volsched_cards_free", "Cards that are free, parts of cards added up", ("model",))
STRANDED: Final = Series("volsched_cards_stranded", "Free cards that no pod can use now", ("model", "cause"))


class Lines(NamedTuple):
    """What is free of each node, by row: cards there and free (thousandths), CPU and memory; rests and whole cards.

    ``rests`` are thousandths of cards in parts that are smaller than any part that pods want, ``whole`` how many cards
    are entirely free, ``is_wanted`` marks where any waiting pod may go.
    """

    cards: Ints
    free: Ints
    cpu: Ints
    memory: Ints
    remainders: Ints
    whole: Ints
    is_wanted: Mask

    def losses(self, average_demand: AverageDemand, *, is_scattered: bool) -> dict[str, Ints]:
        """Return the thousandths of cards that cannot be used, by cause. Each counts for the first one that holds."""
        by_cpu, by_memory = (
            self._without(self.cpu, average_demand.cpu),
            self._without(self.memory, average_demand.memory),
        )
        left = self.free - np.maximum(by_cpu, by_memory)
        parts = np.minimum(left, self.remainders)
        left = left - parts
        nothing = np.zeros_like(left)
        return {
            "cpu": np.where(by_cpu >= by_memory, by_cpu, 0),
            "memory": np.where(by_cpu >= by_memory, 0, by_memory),
            "parts": parts,
            "model": np.where(self.is_wanted, 0, left),
            "scattered": np.where(self.is_wanted, np.minimum(left, self.whole * MILLI), 0) if is_scattered else nothing,
        }

    def _without(self, amount: Ints, per_card: float) -> Ints:
        """Return the free cards for which nothing is left of an amount."""
        enough: Ints = (MILLI * np.maximum(amount, 0) / per_card).astype(np.int64)
        found: Ints = np.clip(self.free - enough, 0, self.free)
        return found


class Stranded:
    """The account. What it shows is worked out again for the nodes that changed, and for all when pods want others."""

    def __init__(
        self,
        cluster: Cluster,
        cluster_cards: ClusterCards,
        card_requests: CardRequests,
        demand: Demand,
        parts: CardParts,
        devices: KnownDevices,
        lists: CardLists,
    ) -> None:
        self._lists = lists
        self._cluster = cluster
        self._cluster_cards = cluster_cards
        self._card_requests = card_requests
        self._demand = demand
        self._parts = parts
        self._devices = devices
        self._columns = NodeColumns(cluster)
        self._each: dict[int, tuple[int, ...]] = {}
        self._models: list[str] = []
        self._of_model: Rows = np.zeros(0, dtype=np.intp)
        self._seen: object = None
        self._properties: object = None
        self._position = 0
        self._groups: frozenset[Group] = frozenset()
        self._changes = -1
        self._found: dict[str, dict[str, int]] = {}
        self._numbers: tuple[Numbers, Numbers, Numbers] = ({}, {}, {})
        self._by_node: dict[str, float] = {}

    def report(self) -> Report:
        """Return the numbers and the table that are reported."""
        return Report(
            metrics={
                CARDS: lambda: self.numbers()[0],
                FREE: lambda: self.numbers()[1],
                STRANDED: lambda: self.numbers()[2],
            },
            table=self.table,
            free_cards={IS_STRANDED: self.by_node},
        )

    def numbers(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return the numbers of the series. The same objects while nothing has changed."""
        if self._refresh():
            found = self._found
            self._numbers = (
                {(model,): loss["cards"] / MILLI for model, loss in found.items()},
                {(model,): loss["free"] / MILLI for model, loss in found.items()},
                {(model, cause): loss[cause] / MILLI for model, loss in found.items() for cause in CAUSES},
            )
        return self._numbers

    def by_node(self) -> dict[str, float]:
        """Return the stranded part of each node's free cards, without nodes that have none."""
        self.numbers()
        return self._by_node

    def table(self) -> QuotaTable:
        """Return the table for people: a line for each model, and one for all of them."""
        self.numbers()
        rows = [QuotaRow((model,), _figures(loss)) for model, loss in sorted(self._found.items())]
        if len(rows) > 1:
            every = {name: sum(loss[name] for loss in self._found.values()) for name in ("cards", "free", *CAUSES)}
            rows.append(QuotaRow((None,), _figures(every)))
        return QuotaTable(STRANDED_CARDS, "Stranded cards", ("card",), ("cards", "free", "stranded", *CAUSES), rows)

    def _commonest(self) -> int:
        """Return the number of whole cards per container in which most of the demanded whole cards come."""
        return max(self._demand.average_demand.blocks, key=lambda block: (block[1], -block[0]), default=(0, SHARES))[0]

    # -- following ----------------------------------------------------------------------------------------------------

    def _refresh(self) -> bool:
        """Count again if anything has changed. Nodes are columns, so a cluster takes a few operations."""
        self._demand.refresh()
        self._devices.cards.refresh()
        cluster, cache = self._cluster, self._cluster.node_cache
        if self._changes != cluster.generations.change:
            self._changes = cluster.generations.change
            self._groups = frozenset(self._waiting())
        versions = (self._demand.version, cache.properties_version, cache.usage_log.end, cluster.devices.pool_log.end)
        seen = (*versions, self._groups)
        if seen == self._seen:
            return False
        self._seen = seen
        self._follow_cards()
        found = self._count()
        is_new, self._found = found != self._found, found
        return is_new

    def _follow_cards(self) -> None:
        """Look again at the single cards of nodes that changed, and at what all nodes are when these have."""
        cache, rows = self._cluster.node_cache, self._cluster.rows
        changed = cache.usage_log.since(self._position)
        self._position = cache.usage_log.end
        properties = (cache.properties_version, self._devices.cards.version, len(self._lists.sources))
        if self._properties != properties or changed is None:
            self._properties = properties
            models = [model_of(node, self._devices.cards, self._lists) for node in rows]
            self._models = sorted(set(models))
            self._of_model = np.array([self._models.index(model) for model in models], dtype=np.intp)
            self._each.clear()
            changed = list(range(len(rows)))
        if not self._parts.sources:
            return
        for row in changed:
            each = self._parts.free(rows[row])
            if each:
                self._each[row] = each
            else:
                self._each.pop(row, None)

    def _count(self) -> dict[str, dict[str, int]]:
        lines = self._lines()
        most = int(lines.whole.max(initial=0))
        losses = lines.losses(self._demand.average_demand, is_scattered=0 < most < self._commonest())
        rows, lost = self._cluster.rows, sum(losses.values(), np.zeros_like(lines.free))
        self._by_node = {rows[row].name: float(lost[row] / lines.free[row]) for row in np.flatnonzero(lost).tolist()}
        found: dict[str, dict[str, int]] = {model: {} for model in self._models}
        for name, amounts in {"cards": lines.cards, "free": lines.free, **losses}.items():
            sums = np.zeros(len(self._models), dtype=np.int64)
            np.add.at(sums, self._of_model, amounts)
            for model, amount in zip(self._models, sums.tolist(), strict=True):
                found[model][name] = amount
        return {model: sums for model, sums in found.items() if sums["cards"]}

    def _lines(self) -> Lines:
        columns = self._columns
        columns.refresh()
        offered, idle = columns.allocatable, columns.allocatable - columns.used
        cards, free, whole, remainders = (np.zeros(len(columns.all_rows), dtype=np.int64) for _ in range(4))
        for column, unit, is_whole in self._cluster_cards.all:
            cards += np.maximum(offered[column], 0) * unit // MILLI
            free += np.maximum(idle[column], 0) * unit // MILLI
            if is_whole:
                whole += np.maximum(idle[column], 0) // MILLI
        devices = self._devices.cards
        if devices.is_any:
            cards += np.array([devices.total(node.name) for node in self._cluster.rows], dtype=np.int64)
            free += devices.free
        smallest = min((size for size, _ in self._demand.average_demand.sizes), default=WHOLE)
        distinguished = [*self._each.items(), *((row, devices.states[n]) for row, n in enumerate(devices.numbers) if n)]
        for row, each in distinguished:
            whole[row] += each.count(WHOLE)
            remainders[row] += sum(card for card in each if card < smallest) * MILLI // WHOLE
        wanted = self._demand.accepted_by(self._groups)
        return Lines(cards, free, idle[CPU], idle[MEMORY], remainders, whole, wanted)

    def _waiting(self) -> Iterator[Group]:
        """Yield which nodes the jobs accept that wait for cards, by the first pod of each."""
        for job in self._cluster.queue_cache.waiting.values():
            task = next(iter(job.waiting.values()), None)
            if task is not None and not job.blocked:
                claimed = self._devices.claims.still_to_allocate(task)
                card_request = self._card_requests.of(task.template, claimed)
                if card_request.cards:
                    yield card_request.group


def model_of(node: NodeInfo, devices: DeviceCards, lists: CardLists) -> str:
    """Return what a node's label ``<prefix>/<type>.product`` says, of several the first.

    Without one it is the name by which another plugin counts its cards, else what the driver says of them, and
    ``other`` if neither says anything.
    """
    keys = sorted(key for key in node.labels if key.endswith(PRODUCT) and node.labels[key])
    if keys:
        return node.labels[keys[0]]
    counted = lists.model(node)
    if counted:
        return counted
    products = (product_of(device) for card in devices.cards_of(node.name) for device, _ in card.parts)
    return next(filter(None, products), OTHER)


def _figures(sums: Mapping[str, int]) -> dict[str, Value]:
    causes = {cause: sums[cause] for cause in CAUSES}
    figures = {"cards": sums["cards"], "free": sums["free"], "stranded": sum(causes.values()), **causes}
    return {name: _cards(amount) for name, amount in figures.items()}


def _cards(amount: int) -> Value:
    whole, rest = divmod(amount, MILLI)
    return f"{amount / MILLI:.3f}".rstrip("0") if rest else whole
