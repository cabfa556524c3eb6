"""The states of cards: used, promised, stranded, unavailable or free. Each card is in exactly one of them.

Of the cards that no pod uses, the first state that holds counts:

    unavailable   the node is cordoned, not ready, terminating, or runs a pod that cannot be read
    promised      the card is kept for a pod that was nominated to the node, or the node is held for a job
    stranded      no pod can use the card now, as the plugin fragmentation computes it for the node
    free          any other
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from volsched.diagnose.cards import NodeCards
from volsched.diagnose.records import AnswerRecord
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo

NOT_READY: Final = frozenset(("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"))
"""Taints of nodes whose kubelet is not ready, or does not answer. The node controller sets them."""

STATES: Final = ("promised", "stranded", "unavailable")
"""The fields of ``NodeCards`` for the states of free cards."""

CARDS_PER_CORE: Final = 100
"""The units of the resource `core` of shared cards in one card."""

_MILLI: Final = 1000
_SHARED_CORE: Final = "core"


@dataclass(frozen=True, slots=True)
class FreeCards:
    """States of the free cards of all nodes.

    ``stranded`` and ``promised`` are parts of a node's free cards, from 0 to 1, by node. ``nominated`` are the amounts
    by node and resource that nominated pods request.
    """

    stranded: Mapping[str, float] = field(default_factory=dict)
    promised: Mapping[str, float] = field(default_factory=dict)
    nominated: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def differing(self, other: FreeCards) -> set[str]:
        """Return the nodes about which another value states something else."""
        pairs = ((self.stranded, other.stranded), (self.promised, other.promised), (self.nominated, other.nominated))
        return {
            name
            for mine, theirs in pairs
            if mine != theirs
            for name in mine.keys() | theirs.keys()
            if mine.get(name) != theirs.get(name)
        }


class CardBar(AnswerRecord, frozen=True):
    """The cards of one model in the whole cluster, by state. The five states add up to ``total``."""

    model: str
    used: float
    promised: float
    stranded: float
    unavailable: float
    free: float
    total: float
    nodes: int


def is_available(node: NodeInfo | None) -> bool:
    """True if a node takes new pods at all."""
    if node is None or node.spec.unschedulable or node.spec.terminating or node.spec.quarantined:
        return False
    return not any(taint.key in NOT_READY for taint in node.spec.taints)


def nominated_amounts(tasks: Iterable[TaskInfo]) -> dict[str, dict[str, int]]:
    """Return the requests of nominated pods that have no node yet, by node and resource."""
    found: dict[str, dict[str, int]] = {}
    for task in tasks:
        if task.node is None:
            amounts = found.setdefault(task.nominated, {})
            for resource, amount in task.template.request.items():
                amounts[resource] = amounts.get(resource, 0) + amount
    return found


def with_states(cards: NodeCards, node: NodeInfo | None, free_cards: FreeCards) -> NodeCards:
    """Return the cards of one model on a node with the states of the free ones."""
    used, total = amounts_of(cards)
    free = max(0.0, total - used)
    if not free:
        return cards
    if not is_available(node):
        return msgspec.structs.replace(cards, unavailable=free)
    asked = free_cards.nominated.get(cards.node, {}).get(cards.resource, 0) / _MILLI
    promised = min(free, max(asked, free * free_cards.promised.get(cards.node, 0.0)))
    stranded = _rounded((free - promised) * free_cards.stranded.get(cards.node, 0.0))
    if not (promised or stranded):
        return cards
    return msgspec.structs.replace(cards, promised=_rounded(promised), stranded=stranded)


def amounts_of(cards: NodeCards) -> tuple[float, float]:
    """Return how many cards are used, and how many there are. Of shared cards their cores decide."""
    if cards.sort != "shared":
        return cards.used, cards.total
    core = next((share for share in cards.shares if share.resource == _SHARED_CORE), None)
    if core is None:
        return 0, 0
    return _rounded(float(core.used) / CARDS_PER_CORE), _rounded(float(core.limit) / CARDS_PER_CORE)


def _rounded(cards: float) -> float:
    return round(cards, 3)


def states_in(cards: NodeCards) -> str:
    """Return the states of the cards of one model on a node, with spaces between."""
    used, total = amounts_of(cards)
    amounts = {"used": used, **{state: getattr(cards, state) for state in STATES}}
    amounts["free"] = total - sum(amounts.values())
    return " ".join(state for state, amount in amounts.items() if amount > 0)


class CardSums:
    """The cards of a cluster by model, kept up to date node by node."""

    def __init__(self) -> None:
        self._of_node: dict[str, tuple[NodeCards, ...]] = {}
        self._sums: dict[str, list[int]] = {}

    def put(self, node: str, cards: tuple[NodeCards, ...]) -> None:
        """Count the cards of a node in place of those that it had before; none for a node that is gone."""
        for each in self._of_node.pop(node, ()):
            self._add(each, -1)
        if cards:
            self._of_node[node] = cards
            for each in cards:
                self._add(each, 1)

    def _add(self, cards: NodeCards, sign: int) -> None:
        used, total = amounts_of(cards)
        sums = self._sums.setdefault(cards.model, [0] * 6)
        for place, amount in enumerate((used, cards.promised, cards.stranded, cards.unavailable, total)):
            sums[place] += sign * round(amount * _MILLI)
        sums[5] += sign
        if not sums[5]:
            del self._sums[cards.model]

    def bars(self) -> tuple[CardBar, ...]:
        """Return one bar for each model, the most cards first."""
        found = (_bar(model, sums) for model, sums in self._sums.items())
        return tuple(sorted((bar for bar in found if bar.total), key=lambda bar: (-bar.total, bar.model)))


def _bar(model: str, sums: Sequence[int]) -> CardBar:
    used, promised, stranded, unavailable, total = (amount / _MILLI for amount in sums[:5])
    total = max(total, used)  # a node may have lost cards under its pods
    free = round(total - used - promised - stranded - unavailable, 3)
    return CardBar(model, used, promised, stranded, unavailable, free, total, sums[5])
