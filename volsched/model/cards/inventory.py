"""The cards of Node objects, for ``volsched cards`` and for checks of names in annotations.

The plugin ``capacity-card`` keeps the same amounts as nodes change; here they are computed once, from objects alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from volsched.model import api
from volsched.model.cards.names import CardNameFn
from volsched.model.cards.naming import no_names
from volsched.model.cards.node_cards import NodeCardResources, cards_of
from volsched.model.errors import QuantityError, nearest
from volsched.model.values.quantity import amount_of

_MOST_NAMED: Final = 3
_PARTS: Final = re.compile(r"[^0-9a-z]+")


@dataclass(frozen=True, slots=True)
class CardInventory:
    """The cards of all nodes. ``nodes``: cards by node, without nodes that have none; ``totals``: milli-cards by card.

    ``resources``: the resource of each card; if nodes differ, that of the first node by name. ``warnings``: pairs of a
    node and a problem of its labels, by name. ``has_unnamed``: some resource looks like cards and has no name.
    """

    nodes: Mapping[str, NodeCardResources] = field(default_factory=dict)
    totals: Mapping[str, int] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[tuple[str, str], ...] = ()
    has_unnamed: bool = False

    def meant_by(self, name: str) -> tuple[str, ...]:
        """Return the cards that an unknown name probably means: a few at most, maybe none.

        People write ``A100`` where a node's label is ``NVIDIA-A100-SXM4-80GB``: cards that have all parts of the name
        count, else those of the resource of that name, else the most similar name.
        """
        parts = _parts(name)
        longer = [card for card in sorted(self.totals) if parts and parts <= _parts(card)]
        of_resource = [card for card in sorted(self.totals) if self.resources[card] == name]
        likely = longer or of_resource
        if not likely:
            spelt = nearest(name, sorted(self.totals))
            likely = [spelt] if spelt else []
        return tuple(likely[:_MOST_NAMED])


def card_inventory_of(nodes: Iterable[api.Node], name_of: CardNameFn = no_names) -> CardInventory:
    """Return what nodes offer in all. A quantity that is none counts as not there."""
    offers = {node.metadata.name: cards_of_node(node, name_of) for node in nodes}
    totals: Counter[str] = Counter()
    resources: dict[str, set[str]] = {}
    for offered in offers.values():
        for card in offered.cards:
            totals[card.name] += card.amount
            resources.setdefault(card.name, set()).add(card.resource)
    counts = {card: min(found) for card, found in sorted(resources.items())}
    return CardInventory(
        {name: offers[name] for name in sorted(offers) if offers[name].cards},
        dict(sorted(totals.items())),
        counts,
        tuple((name, message) for name in sorted(offers) for message in _warnings(offers[name], counts)),
        any(offered.unnamed for offered in offers.values()),
    )


def _warnings(offered: NodeCardResources, counts: Mapping[str, str]) -> Iterator[str]:
    yield from offered.warnings
    for card in offered.cards:
        if counts[card.name] != card.resource:
            message = f"offers {card.name} as {card.resource}, and other nodes as {counts[card.name]}"
            yield f"{message}; pods that name the card must ask for {counts[card.name]}"


def cards_of_node(node: api.Node, name_of: CardNameFn = no_names) -> NodeCardResources:
    """Return what one node offers."""
    return cards_of(node.metadata.labels, _amounts(node), name_of)


def _amounts(node: api.Node) -> dict[str, int]:
    amounts = {}
    for name, text in node.status.allocatable.items():
        try:
            amounts[name] = amount_of(name, text)
        except QuantityError:
            continue
    return amounts


def _parts(name: str) -> frozenset[str]:
    return frozenset(part for part in _PARTS.split(name.casefold()) if part)
