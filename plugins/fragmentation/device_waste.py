"""The waste that a pod causes on cards that are devices, computed once for each state of a node's cards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from plugins.fragmentation.card_requests import PodCards
from plugins.fragmentation.device_cards import DeviceCards, State, free_in
from plugins.fragmentation.waste import Ints, OnDevices, Waste, taken
from volsched.plugin import Bounded, Floats, NodeInfo, Rows, Seen
from volsched.plugin.cards import PartRequest

_MOST_TABLES: Final = 64


@dataclass(slots=True)
class _ByState:
    """What a pod does to cards that are devices, by the number of their state; see ``OnDevices``."""

    after: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    saved: Floats = field(default_factory=lambda: np.zeros(0))

    def add(self, more: list[OnDevices]) -> None:
        """Know further states, in order of their numbers."""
        self.after = np.concatenate([self.after, np.array([found.after for found in more], dtype=np.int64)])
        self.saved = np.concatenate([self.saved, np.array([found.saved for found in more])])


class DeviceWaste:
    """What pods do to the cards of nodes that are devices."""

    def __init__(self, cards: DeviceCards, waste: Waste) -> None:
        self._cards = cards
        self._waste = waste
        self._seen = Seen()
        self._by_state: Bounded[tuple[PartRequest, ...], _ByState] = Bounded(_MOST_TABLES)

    def of_node(self, card_request: PodCards, node: NodeInfo) -> OnDevices:
        """Return what a pod does to those cards of a node that are devices."""
        self._cards.refresh()
        amounts, state = card_request.amounts, self._cards.state(node)
        left = [(offer.column, amount) for offer, amount in amounts if node.leaves_to_devices(offer.column)]
        is_served = any(amount for _, amount in left)
        found = self._of_state(card_request.served if is_served else card_request.devices, state)
        return found._replace(served=tuple(column for column, _ in left))

    def of_states(self, wanted: tuple[PartRequest, ...], states: Rows) -> tuple[Ints, Floats]:
        """Return what is free of cards that are devices after a pod, and what it saves, for nodes in these states."""
        if self._seen.differs(self._waste.version):
            self._by_state.clear()
        table = self._by_state.recall(wanted)
        if table is None:
            table = self._by_state[wanted] = _ByState()
        unknown = self._cards.states[len(table.after) :]
        if unknown:
            table.add([self._of_state(wanted, state) for state in unknown])
        return table.after[states], table.saved[states]

    def _of_state(self, wanted: tuple[PartRequest, ...], state: State) -> OnDevices:
        after = taken(state, wanted) if wanted else state
        return OnDevices(free_in(state), free_in(after), self._waste.waste_saved(wanted, state) if wanted else 0.0)
