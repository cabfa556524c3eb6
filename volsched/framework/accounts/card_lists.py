"""Lists of cards in pods: the plugin that reads them shares them with plugins that score nodes.

``sources`` explains how plugins share this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from volsched.framework.accounts.sources import Sources
from volsched.framework.columns.arrays import Mask
from volsched.framework.deprecated_names import former
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.template import PodTemplate

CARD_LISTS: Final = "framework.card_lists"
"""The name under which plugins share this account (``session.account(CARD_LISTS, CardLists.of_cluster)``)."""


class CardList(NamedTuple):
    """Alternative cards, the best first, and the requested resources."""

    names: tuple[str, ...]
    resources: tuple[str, ...]


class CardListSource(Protocol):
    """Tells which cards pods name, and which nodes offer one of them."""

    def wanted(self, template: PodTemplate) -> CardList | None:
        """Return the list of a template's pods, None when they name no card."""

    def rows(self, wanted: CardList) -> Mask:
        """Mark the rows of the cluster whose nodes offer a card of a list, as a requested resource."""

    def resources(self) -> frozenset[str]:
        """Return the resources that are cards on some node."""

    def model(self, node: NodeInfo) -> str:
        """Return the first card of a node; empty when it has none."""


class CardLists(Sources[CardListSource]):
    """The sources of all plugins."""

    __slots__ = ()

    def wanted(self, template: PodTemplate) -> CardList | None:
        """Return the list of a template's pods, by the first plugin that knows one."""
        return next((found for source in self.sources.values() if (found := source.wanted(template))), None)

    def resources(self) -> frozenset[str]:
        """Return the resources that are cards, by any plugin."""
        return frozenset[str]().union(*(source.resources() for source in self.sources.values()))

    def model(self, node: NodeInfo) -> str:
        """Return the first card of a node, by the first plugin that knows one; empty without cards."""
        return next(filter(None, (source.model(node) for source in self.sources.values())), "")

    def rows(self, wanted: CardList) -> list[Mask]:
        """Return the rows on which a card of a list is offered, by each plugin."""
        return [source.rows(wanted) for source in self.sources.values()]


if not TYPE_CHECKING:  # a type checker knows the present names alone
    __getattr__ = former(__name__, {"ACCOUNT": (":CARD_LISTS", "it is CARD_LISTS")})
