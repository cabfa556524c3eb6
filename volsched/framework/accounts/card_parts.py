"""What is free of single cards: told by the plugin that gives out parts of them, read by those that score nodes.

How plugins share this: ``sources``.
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
    """What one container takes: ``percent`` of each of ``cards`` different cards."""

    cards: int
    percent: int


class CardSource(Protocol):
    """Tells what pods want of cards that are shared, and what is free of each card of a node."""

    def wanted(self, template: PodTemplate) -> tuple[PartRequest, ...]:
        """Return what the pods of a template want, none when they want no such card."""

    def free(self, node: NodeInfo) -> tuple[int, ...]:
        """Return the percent that is free of each card, ascending; nothing where that is not known."""


class CardParts(Sources[CardSource]):
    """The sources of all plugins."""

    __slots__ = ()

    def wanted(self, template: PodTemplate) -> tuple[PartRequest, ...]:
        """Return what the pods of a template want of cards that any plugin shares."""
        return tuple(wanted for source in self.sources.values() for wanted in source.wanted(template))

    def free(self, node: NodeInfo) -> tuple[int, ...]:
        """Return the percent that is free of each card of a node, as the first plugin that knows it states."""
        return next(filter(None, (source.free(node) for source in self.sources.values())), ())


if not TYPE_CHECKING:  # a type checker knows the present names alone
    __getattr__ = former(__name__, {"ACCOUNT": (":CARD_PARTS", "it is CARD_PARTS")})
