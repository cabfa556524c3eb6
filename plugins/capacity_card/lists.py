"""Which cards pods name, for plugins that score nodes by it; see ``framework.accounts.card_lists``."""

from __future__ import annotations

import numpy as np

from plugins.capacity_card.usage import CardUsage
from volsched.plugin import Mask, NodeInfo, PodTemplate
from volsched.plugin.cards import CardList


class NamedCards:
    """Matches lists of cards: a node fits if it offers a card of the list as a requested resource."""

    def __init__(self, usage: CardUsage) -> None:
        self._usage = usage

    def wanted(self, template: PodTemplate) -> CardList | None:
        """Return the list of a template's pods."""
        charge = self._usage.charges.of(template)
        if not charge.names:
            return None
        return CardList(charge.names, tuple(name for name, amount in charge.devices if amount))

    def resources(self) -> frozenset[str]:
        """Return the resources that are cards on some node."""
        return frozenset(self._usage.catalogue.resources.values())

    def model(self, node: NodeInfo) -> str:
        """Return the first card of a node, by name."""
        return next((card.name for card in self._usage.catalogue.of(node).cards), "")

    def rows(self, wanted: CardList) -> Mask:
        """Mark the rows whose nodes offer one of the cards."""
        catalogue = self._usage.catalogue
        does = [
            any(card in wanted.names and resource in wanted.resources for card, resource in kind)
            for kind in catalogue.kinds()
        ]
        found: Mask = np.array(does, dtype=np.bool_)[catalogue.kind_rows()]
        return found
