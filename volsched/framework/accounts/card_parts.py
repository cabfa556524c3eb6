"""Free parts of single cards: the plugin that gives them out shares them with plugins that score nodes.

``sources`` explains how plugins share this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from volsched.framework.accounts.sources import Sources
from volsched.framework.deprecated_names import former
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.template import PodTemplate

CARD_PARTS: Final = "framework.card_parts"
"""The name under which plugins share this account (``session.account(CARD_PARTS, CardParts.of_cluster)``)."""

WHOLE: Final = 100
"""Percent of a card that is entirely free."""


class PartRequest(NamedTuple):
    """The request of one container: ``percent`` of each of ``cards`` different cards."""

    cards: int
    percent: int


class CardSource(Protocol):
    """A source of the requests of pods for shared cards, and of the free part of each card of a node."""

    def wanted(self, template: PodTemplate) -> tuple[PartRequest, ...]:
        """Return what the pods of a template want, none when they want no such card."""

    def free(self, node: NodeInfo) -> tuple[int, ...]:
        """Return the percent that is free of each card, ascending. Nothing where that is not known."""


class CardParts(Sources[CardSource]):
    """The sources of all plugins."""

    __slots__ = ()

    def wanted(self, template: PodTemplate) -> tuple[PartRequest, ...]:
        """Return the requests of a template for cards that any plugin shares."""
        return tuple(wanted for source in self.sources.values() for wanted in source.wanted(template))

    def free(self, node: NodeInfo) -> tuple[int, ...]:
        """Return the free percent of each card of a node, by the first plugin that knows it."""
        return next(filter(None, (source.free(node) for source in self.sources.values())), ())


if not TYPE_CHECKING:  # a type checker knows the present names alone
    __getattr__ = former(__name__, {"ACCOUNT": (":CARD_PARTS", "it is CARD_PARTS")})
