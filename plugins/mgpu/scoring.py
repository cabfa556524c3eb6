"""How full the cards of a node are, in exact integers, and as a score.

For one card with a share ``uc`` of its core and ``um`` of its memory in use, and ``w`` percent the weight of core::

    points = w x uc^2 + (100 - w) x um^2

brought to a common denominator, so that nothing is rounded. The mean over the cards of a node, as a share of what full
cards have, is the node's *fullness*, from 0 (idle) to 1 (full). Squares reward cards that are full beside cards that
are empty: binpack maximises fullness, spread minimises it. Inside one node the order is that of the design's mean of
squared free shares does; unlike that one it also has the right direction between nodes (*ours*).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from plugins.mgpu.devices import CORE_OF_CARD, FreeCard

_PERCENT: Final = 100


@dataclass(frozen=True, slots=True)
class Strategy:
    """What makes a placement good: full cards (``packs``) or evenly used ones, and what limits it.

    ``weight_of_core`` is in percent, memory has the rest; ``most_instances`` containers can share a card.
    """

    packs: bool = True
    weight_of_core: int = 20
    most_instances: int = 16

    def points(self, core: Any, memory: Any, memory_of_card: int) -> Any:
        """Return the points of a card of which so much is used (numbers, or arrays of them)."""
        of_core = self.weight_of_core * memory_of_card * memory_of_card * core * core
        return of_core + (_PERCENT - self.weight_of_core) * CORE_OF_CARD * CORE_OF_CARD * memory * memory

    def total(self, cards: Iterable[FreeCard], memory_of_card: int) -> int:
        """Return the points of cards that are used as they are."""
        return sum(
            self.points(max(0, CORE_OF_CARD - card.core), max(0, memory_of_card - card.memory), memory_of_card or 1)
            for card in cards
        )

    def most(self, cards: int, memory_of_card: int) -> int:
        """Return the points of so many full cards."""
        memory = memory_of_card or 1
        return _PERCENT * CORE_OF_CARD * CORE_OF_CARD * memory * memory * cards

    def score(self, points: int, cards: int, memory_of_card: int) -> float:
        """Return how good a node with these points is, from 0 to 1."""
        fullness = points / self.most(cards, memory_of_card)
        return fullness if self.packs else 1.0 - fullness
