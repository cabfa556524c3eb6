"""The cards of all nodes: looked at once for each version of a node, kept and added up from then on.

``CardCatalogue`` has many attributes: the same cards by node, by kind of node and by name, kept together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from volsched.plugin import Cluster, NodeInfo, NodePropertiesView
from volsched.plugin.cards import NO_CARDS, SUFFIXES, UNMAPPED, CardMapping, CardOffer, NodeCardResources, cards_of

Kind: TypeAlias = tuple[tuple[str, str], ...]
"""What nodes of a kind offer, amounts aside: pairs of card and resource."""


_MOST_KNOWN: Final = 20_000

NO_KIND: Final = 0
"""The kind of nodes without cards, and of unknown nodes."""


class CardCatalogue:
    """Which node offers which cards, and what that makes in all.

    ``totals`` are milli-cards by name, without zeros. ``resources`` states which resource a card is; should nodes
    differ in that, the first in order of names. ``mapping`` names cards that labels of the design do not. ``version``
    changes with ``resources``, ``stock`` with ``totals``.
    """

    def __init__(self, cluster: Cluster, mapping: CardMapping = UNMAPPED) -> None:
        self._cluster = cluster
        self.mapping = mapping
        self._of: dict[str, NodeCardResources] = {}
        self._alike: dict[Hashable, NodeCardResources] = {}
        self._extended: list[int] = []
        self._columns = 0
        self._offers: Counter[tuple[str, str]] = Counter()
        self._kinds: dict[Kind, int] = {(): NO_KIND}
        self._kind_of: dict[str, int] = {}
        self._rows: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._layout = -1
        self._warned: dict[str, tuple[str, ...]] = {}
        self._warnings: dict[str, NodeInfo] = {}
        self.totals: dict[str, int] = {}
        self.resources: dict[str, str] = {}
        self.version = 0
        self.stock = 0
        for node in cluster.nodes.values():
            self.put(node)

    def of(self, node: NodeInfo) -> NodeCardResources:
        """Return what a node offers."""
        return self._of.get(node.name, NO_CARDS)

    def kind_of(self, node: NodeInfo | NodePropertiesView) -> int:
        """Return the number of a node's kind, its place in ``kinds``."""
        return self._kind_of.get(node.name, NO_KIND)

    # -- following nodes ----------------------------------------------------------------------------------------------

    def put(self, node: NodeInfo) -> bool:
        """Look at a node that is new or whose properties changed. Return True if it offers other cards than before."""
        now, before = self._look_at(node), self._of.get(node.name)
        self._of[node.name] = now
        self._note_warnings(node, now.warnings)
        self._set_kind(node, tuple((card.name, card.resource) for card in now.cards))
        if before is not None and before.cards == now.cards:
            return False
        self._count(before.cards if before is not None else (), now.cards)
        return True

    def remove(self, node: NodeInfo) -> None:
        """Forget a node."""
        self._count(self._of.pop(node.name).cards, ())
        self._kind_of.pop(node.name, None)
        self._warned.pop(node.name, None)
        self._warnings.pop(node.name, None)

    def _look_at(self, node: NodeInfo) -> NodeCardResources:
        """Return what a node offers; most nodes offer the same cards as others."""
        names = self._cluster.columns.names
        if self._columns != len(names):
            self._extended, self._columns = [c for c, name in enumerate(names) if "/" in name], len(names)
        amounts = tuple(node.allocatable[column] for column in self._extended)
        keys = self.mapping.keys
        labels = {key: text for key, text in node.labels.items() if key.endswith(SUFFIXES) or key in keys}
        stated = (tuple(sorted(labels.items())), amounts)
        found = self._alike.get(stated)
        if found is None:
            if len(self._alike) >= _MOST_KNOWN:
                self._alike.clear()
            offered = {names[column]: amount for column, amount in zip(self._extended, amounts, strict=True)}
            found = self._alike[stated] = cards_of(labels, offered, self.mapping.card_of)
        return found

    def _count(self, before: tuple[CardOffer, ...], now: tuple[CardOffer, ...]) -> None:
        for cards, by in ((now, 1), (before, -1)):
            for card in cards:
                self._add(card, by)
        self.stock += 1

    def _add(self, card: CardOffer, by: int) -> None:
        name, offer = card.name, (card.name, card.resource)
        self.totals[name] = self.totals.get(name, 0) + by * card.amount
        if not self.totals[name]:
            del self.totals[name]
        self._offers[offer] += by
        if not self._offers[offer]:
            del self._offers[offer]
        if self._offers[offer] == (1 if by > 0 else 0):
            self._name_resource(name)

    def _name_resource(self, name: str) -> None:
        resource = min((r for card, r in self._offers if card == name), default=None)
        if resource != self.resources.get(name):
            self.version += 1
        if resource is not None:
            self.resources[name] = resource
        else:
            self.resources.pop(name, None)

    # -- warnings -----------------------------------------------------------------------------------------------------

    def _note_warnings(self, node: NodeInfo, warnings: tuple[str, ...]) -> None:
        if warnings and warnings != self._warned.get(node.name):
            self._warnings[node.name] = node
        self._warned[node.name] = warnings

    def take_warnings(self) -> list[tuple[NodeInfo, str]]:
        """Return new warnings about missing labels of nodes, each once until it changes."""
        found = [(node, "; ".join(self._warned[name])) for name, node in sorted(self._warnings.items())]
        self._warnings.clear()
        return found

    # -- many nodes at once -------------------------------------------------------------------------------------------

    def kinds(self) -> list[Kind]:
        """Return all kinds of nodes that there were, in order of their numbers."""
        return list(self._kinds)

    def kind_rows(self) -> npt.NDArray[np.int32]:
        """Return the number of each row's kind."""
        if self._layout != self._cluster.generations.layout:
            nodes = self._cluster.rows
            self._rows = np.fromiter((self._kind_of[node.name] for node in nodes), np.int32, len(nodes))
            self._layout = self._cluster.generations.layout
        return self._rows

    def _set_kind(self, node: NodeInfo, kind: Kind) -> None:
        number = self._kinds.setdefault(kind, len(self._kinds))
        self._kind_of[node.name] = number
        if self._layout == self._cluster.generations.layout:
            self._rows[node.row] = number
