"""What is free of each card, in percent, for plugins that score nodes by it; see ``framework.accounts.card_parts``."""

from __future__ import annotations

from plugins.mgpu.devices import CORE_OF_CARD, NodeCardState
from plugins.mgpu.placement import ContainerRequest
from plugins.mgpu.usage import NodeCardUsage
from volsched.plugin import Bounded, NodeInfo, PodTemplate
from volsched.plugin.cards import PartRequest


class FreeParts:
    """Reads the usage of cards. A card is as free as the scarcer of its core and its memory."""

    def __init__(self, usage: NodeCardUsage) -> None:
        self._usage = usage
        self._known: Bounded[NodeCardState, tuple[int, ...]] = Bounded(10_000)

    def wanted(self, template: PodTemplate) -> tuple[PartRequest, ...]:
        """Return what the containers of a template's pods take, by core."""
        if not self._usage.follows(template):
            return ()
        return tuple(_wanted(ask) for ask in self._usage.requests.of(template).asks)

    def free(self, node: NodeInfo) -> tuple[int, ...]:
        """Return the percent that is free of each card, ascending."""
        account = self._usage.nodes.get(node.name)
        if account is None or account.unclear:
            return ()
        state = account.alike
        found = self._known.recall(state)
        if found is None:
            found = self._known[state] = _free(state)
        return found


def _wanted(ask: ContainerRequest) -> PartRequest:
    return PartRequest(ask.cards, min(CORE_OF_CARD, max(1, ask.core)))


def _free(state: NodeCardState) -> tuple[int, ...]:
    memory = max(1, state.memory)
    return tuple(sorted(min(card.core, card.memory * CORE_OF_CARD // memory) for card in state.cards))
