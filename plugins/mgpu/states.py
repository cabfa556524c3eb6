"""The states of the cards of nodes as numbers, and the best placements for many nodes at once.

Equal nodes have equal answers. So a vector twin looks up one number for each node, and one score for each number.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from plugins.mgpu.placement import Best, CardPlacementSearch, ContainerRequest
from plugins.mgpu.scoring import Strategy
from plugins.mgpu.usage import CardAccount, NodeCardUsage
from volsched.plugin import Bounded, Floats

MOST_REQUESTS: Final = 64
"""Different requests for which scores by number are kept."""

LEAST_STATES: Final = 20_000
"""So many states are kept in any case, and two for each node."""

NO_PLACEMENT: Final = -1.0
_NONE: Final = 0
_FIRST: Final = 1
"""In arrays, 0 stands for nodes without cards or with unclear ones. The number of a state comes one later."""


class NodeStates:
    """The best placements on the nodes of a cluster, by the number of each node's state."""

    def __init__(self, usage: NodeCardUsage, search: CardPlacementSearch) -> None:
        self._usage = usage
        self._search = search
        self._forgotten = search.forgotten
        self._layout = -1
        self._numbers: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._scores: Bounded[tuple[ContainerRequest, ...], Floats] = Bounded(MOST_REQUESTS)

    def best(self, account: CardAccount, asks: tuple[ContainerRequest, ...]) -> Best:
        """Return the best placement of containers on a node with clear cards. ``asks`` are sorted."""
        if account.number is None:
            self._trim()
        return self._search.best_of(self._number(account), asks)

    def scores(self, asks: tuple[ContainerRequest, ...], rows: npt.NDArray[np.int64]) -> Floats:
        """Return for each row how good the best placement is, from 0 to 1; ``NO_PLACEMENT`` without any."""
        self._refresh()
        numbers = self._numbers.take(rows)
        known = self._known(asks)
        found: Floats = known.take(numbers)
        unknown = np.isnan(found)
        if unknown.any():
            for number in np.unique(numbers[unknown]).tolist():
                known[number] = self._score(number - _FIRST, asks)
            found = known.take(numbers)
        return found

    def _known(self, asks: tuple[ContainerRequest, ...]) -> Floats:
        """Return the scores so far, by number, with room for all states. NaN: not asked yet."""
        known, size = self._scores.recall(asks), len(self._search.states) + _FIRST
        if known is None or len(known) < size:
            larger: Floats = np.full(2 * size, np.nan)
            larger[_NONE] = NO_PLACEMENT
            if known is not None:
                larger[: len(known)] = known
            self._scores[asks] = known = larger
        return known

    def _score(self, number: int, asks: tuple[ContainerRequest, ...]) -> float:
        state = self._search.states[number]
        return score_of(self._search.best_of(number, asks), self._search.strategy, len(state.cards), state.memory)

    def _number(self, account: CardAccount) -> int:
        if account.number is None:
            account.number = self._search.number(account.alike)
        return account.number

    def _refresh(self) -> None:
        """Read the states of nodes that changed."""
        self._trim()
        usage, cluster = self._usage, self._usage.cluster
        changed, usage.renumbered = usage.renumbered, set()
        if self._layout != cluster.generations.layout:
            self._layout = cluster.generations.layout
            self._numbers = np.full(len(cluster.rows), _NONE, dtype=np.int64)
            changed = set(usage.nodes)
        for name in changed:
            node, account = cluster.nodes.get(name), usage.nodes.get(name)
            if node is not None:
                is_known = account is not None and not account.unclear
                self._numbers[node.row] = self._number(account) + _FIRST if account is not None and is_known else _NONE

    def _trim(self) -> None:
        """Forget all states when there are too many."""
        if len(self._search.states) > max(LEAST_STATES, 2 * len(self._usage.nodes)):
            self._search.forget()
        if self._forgotten != self._search.forgotten:
            self._forgotten = self._search.forgotten
            self._layout = -1
            self._scores.clear()
            for account in self._usage.nodes.values():
                account.number = None


def score_of(best: Best, strategy: Strategy, cards: int, memory: int) -> float:
    """Return how good a placement on a node is, from 0 to 1; ``NO_PLACEMENT`` without any.

    The node has so many ``cards`` of ``memory`` MiB each.
    """
    return NO_PLACEMENT if best.points is None else strategy.score(best.points, cards, memory)
