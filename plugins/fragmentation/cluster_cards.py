"""Which resources are cards, and how much of a card each unit of them is.

Whole cards: ``nvidia.com/gpu`` and ``amd.com/gpu``, what a node has a label ``<resource>.product`` for, what another
plugin counts as cards, or what the configuration names. Shares: ``nvidia.com/gpu.shared``, of which the label
``nvidia.com/gpu.replicas`` says how many one card makes, where nodes differ the fewest; MIG slices,
``nvidia.com/mig-<n>g.<memory>``, n of a card's seven parts; and ``mgpu-core``, a hundred to a card, whose cards are
distinguished by the plugin that shares them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from volsched.plugin import ChangedNodes, Cluster, NodeAmounts, NodeInfo
from volsched.plugin.cards import CardLists

MILLI: Final = 1_000
"""Thousandths of a card, and of a unit of an extended resource."""
WHOLE_CARDS: Final = ("amd.com/gpu", "nvidia.com/gpu")
MPS: Final = "nvidia.com/gpu.shared"
REPLICAS: Final = "nvidia.com/gpu.replicas"
CORE: Final = "vke.volcengine.com/mgpu-core"
_MIG: Final = re.compile(r"nvidia\.com/mig-([1-7])g\..+", re.ASCII)
_SLICES: Final = 7
_MILLI_OF_CORE: Final = 10
_PRODUCT: Final = ".product"
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)


class Offer(NamedTuple):
    """A resource that is cards: its column, thousandths of a card to a unit, and whether units are whole cards."""

    column: int
    unit: int
    is_whole: bool


class _CardLabels(NamedTuple):
    """What a node says of its cards in labels: resources that it names a product of, and the replicas of a card."""

    products: tuple[str, ...]
    replicas: tuple[int, ...]


class ClusterCards:
    """The resources of a cluster that are cards; looked up again when nodes say something else of themselves."""

    def __init__(self, cluster: Cluster, named: Sequence[str], lists: CardLists) -> None:
        self._cluster = cluster
        self._lists = lists
        self._named = tuple(named)
        self._changes = ChangedNodes(cluster)
        self._labels: list[_CardLabels] = []
        self._products: Counter[str] = Counter()
        self._replicas: Counter[int] = Counter()
        self._seen: object = None
        self.all: tuple[Offer, ...] = ()
        self.version = 0
        """Another one whenever ``all`` is."""

    @property
    def names(self) -> Sequence[str]:
        """Return the resources by their columns."""
        return self._cluster.columns.names

    def refresh(self) -> None:
        """Look again, if nodes have changed, or another plugin tells what cards are."""
        changed, seen = self._changes.take(), (self._cluster.columns.version, len(self._lists.sources))
        if changed == [] and self._seen == seen:
            return
        self._seen = seen
        if changed is None:
            self._look_at_all()
        else:
            self._look_at(changed)
        found = tuple(self._found())
        if found != self.all:
            self.all = found
            self.version += 1

    def _look_at_all(self) -> None:
        self._labels = [_card_labels(node) for node in self._cluster.rows]
        self._products = Counter(name for found in self._labels for name in found.products)
        self._replicas = Counter(count for found in self._labels for count in found.replicas)

    def _look_at(self, rows: Iterable[int]) -> None:
        """Count what nodes say now in place of what they said."""
        for row in rows:
            before, now = self._labels[row], _card_labels(self._cluster.rows[row])
            self._labels[row] = now
            self._products.subtract(before.products)
            self._products.update(now.products)
            self._replicas.subtract(before.replicas)
            self._replicas.update(now.replicas)
        self._products, self._replicas = +self._products, +self._replicas

    def _found(self) -> Iterable[Offer]:
        columns = self._cluster.columns
        whole = set(self._named or (*WHOLE_CARDS, *self._products))
        counted = self._lists.resources() if not self._named else ()
        for name in sorted(columns.names):
            part = 0 if name in whole else self._unit(name)
            is_whole = name in whole or (not part and name in counted)
            unit = MILLI if is_whole else part
            if unit and (column := columns.find(name)) is not None:
                yield Offer(column, unit, is_whole)

    def _unit(self, name: str) -> int:
        if name == CORE:
            return _MILLI_OF_CORE
        if name == MPS:
            return MILLI // min(self._replicas, default=1)
        slices = _MIG.fullmatch(name)
        return MILLI * int(slices[1]) // _SLICES if slices else 0

    def cards(self, node: NodeInfo | NodeAmounts) -> int:
        """Return the thousandths of a card that a node has."""
        return sum(max(0, node.allocatable[offer.column]) * offer.unit // MILLI for offer in self.all)

    def free(self, node: NodeInfo | NodeAmounts) -> int:
        """Return the thousandths of a card that are free on a node."""
        return sum(
            max(0, node.allocatable[offer.column] - node.used[offer.column]) * offer.unit // MILLI for offer in self.all
        )


def _card_labels(node: NodeInfo) -> _CardLabels:
    products = tuple([key.removesuffix(_PRODUCT) for key in node.labels if key.endswith(_PRODUCT)])
    replicas = node.labels.get(REPLICAS, "")
    return _CardLabels(products, (int(replicas),) if _NUMBER.fullmatch(replicas) else ())
