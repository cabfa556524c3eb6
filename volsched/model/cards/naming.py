"""Names of cards whose nodes have no label ``<prefix>/<type>.product``: entries map resources to them.

Of several entries for one resource the first counts whose label a node has. A card of an entry is one unit of its
resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from volsched.model.cards.names import CardNameFn, resource_by_name
from volsched.model.cards.vendors import VENDORS, CardLabel


@dataclass(frozen=True, slots=True)
class MappedCard:
    """The cards of a resource are called ``name``, or where that is empty as ``label`` tells."""

    resource: str
    name: str = ""
    label: CardLabel | None = None

    def of(self, labels: Mapping[str, str]) -> str:
        """Return the card on a node with these labels, empty where they do not tell."""
        return self.name or (self.label.read(labels) if self.label is not None else "")


class CardMapping:
    """The mappings in force. ``keys`` are the labels of nodes that they read."""

    def __init__(self, mapped: Iterable[MappedCard] = ()) -> None:
        self._of: dict[str, list[MappedCard]] = {}
        for each in mapped:
            self._of.setdefault(each.resource, []).append(each)
        self._resources = {each.name: each.resource for found in self._of.values() for each in found if each.name}
        labels = [each.label for found in self._of.values() for each in found if each.label is not None]
        self.keys = frozenset(key for label in labels for key in label.keys)

    def card_of(self, resource: str, labels: Mapping[str, str]) -> str:
        """Return the card name of a resource on a node with these labels; empty if no entry tells."""
        return next(filter(None, (each.of(labels) for each in self._of.get(resource, ()))), "")

    def resource_of(self, card: str) -> str | None:
        """Return the resource that a card's name tells: that of an entry, or of a share, or None where it does not."""
        return self._resources.get(card) or resource_by_name(card)


BY_VENDORS: Final = tuple(
    MappedCard(resource, label=label) for resources, labels in VENDORS for resource in resources for label in labels
)
"""The built-in table as entries."""

UNMAPPED: Final = CardMapping()
BY_VENDOR_LABELS: Final = CardMapping(BY_VENDORS)
no_names: Final[CardNameFn] = UNMAPPED.card_of
"""Names no card."""


def first_name(functions: Iterable[CardNameFn]) -> CardNameFn:
    """Return a function that gives a card the first name that any of these functions has for it."""
    asked = tuple(functions)
    return lambda resource, labels: next(filter(None, (fn(resource, labels) for fn in asked)), "")
