"""The formula: what a pod on a node would waste, free cards that no pod could use then.

In cards, of a node with ``G`` free cards (parts added up), ``F`` entirely free ones, ``C`` free CPU and ``M`` memory:

    waste = balance x max(0, G - C/c, G - M/m)              c, m: CPU and memory that pods want per card, less a margin
          + block x sum of D_n x (G - n x floor(F / n))     D_n: the part of the demand that comes in n whole cards
          + parts x sum of P_s x sum of l_i below s         P_s: the part in parts of size s; l_i: free of card i
    score = waste(before) - waste(after)
          - model x scarce(node) x cards of the pod         scarce: see ``scarcity``
          - 0.03 x G after - 0.00001 x cores after          the fullest of equal nodes

Every amount is an integer until it is weighed, and vectors are added in the order of the plain form, so both agree to
the bit. ``docs/plugins/fragmentation.md`` says why each term is there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from plugins.fragmentation.arguments import Weights
from plugins.fragmentation.average_demand import SHARES
from plugins.fragmentation.card_requests import PodCards
from plugins.fragmentation.cluster_cards import MILLI, Offer
from plugins.fragmentation.demand import Demand
from volsched.model.nodes.columns import CPU, MEMORY
from volsched.plugin import Bounded, Floats, NodeAmounts, NodeInfo, Rows
from volsched.plugin.cards import WHOLE, PartRequest

BEST_FIT: Final = 0.03
BEST_FIT_CPU: Final = 0.00001 / MILLI
"""For each thousandth of a core."""
_MOST_STATES: Final = 50_000

Ints = npt.NDArray[np.int64]


class Saved(NamedTuple):
    """What a pod takes out of blocks and rests, in 1/32 percent of a card: waste before it, less waste after it."""

    block: int
    parts: int


class OnDevices(NamedTuple):
    """Cards that are devices: free before and after a pod, in thousandths, and what it saves, in cards.

    ``served``: the columns of resources that the node leaves to its devices.
    """

    free: int = 0
    after: int = 0
    saved: float = 0.0
    served: tuple[int, ...] = ()


NO_DEVICES: Final = OnDevices()


@dataclass(frozen=True, slots=True)
class ScorePlan:
    """What a pod takes, laid out for vectors: by (before or after, column, node).

    ``columns`` are those of CPU, memory and cards, ``amounts`` what the pod takes of each, nothing before it is there.
    ``whole``: the places among the cards of those of which whole ones are wanted.
    """

    columns: Rows
    amounts: Ints
    units: Ints
    whole: tuple[int, ...]

    @classmethod
    def of(cls, card_request: PodCards) -> ScorePlan:
        """Lay out what a pod takes."""
        columns, units = _laid_out(tuple([offer for offer, _ in card_request.amounts]))
        taken = [card_request.cpu, card_request.memory, *[amount for _, amount in card_request.amounts]]
        amounts = np.array([[0] * len(taken), taken], dtype=np.int64)[:, :, np.newaxis]
        whole = tuple([n for n, (offer, amount) in enumerate(card_request.amounts) if offer.is_whole and amount])
        return cls(columns, amounts, units, whole)


@lru_cache(maxsize=16)
def _laid_out(offers: tuple[Offer, ...]) -> tuple[Rows, Ints]:
    """Return the columns of CPU, memory and cards, and the units of these, each in a line of its own."""
    columns = np.array([[column] for column in (CPU, MEMORY, *(offer.column for offer in offers))])
    return columns, np.array([offer.unit for offer in offers], dtype=np.int64).reshape(-1, 1)


class Waste:
    """The formula with the means of the present demand. Ask ``refresh`` before anything else."""

    def __init__(self, weights: Weights, demand: Demand) -> None:
        self._weights = weights
        self._demand = demand
        self._blocks: list[int] = [0]
        self._remainders: list[int] = []
        self._in_blocks = 0
        self._losses = np.zeros(1, dtype=np.int64)
        self._cpu = self._memory = math.inf
        self._saved: Bounded[tuple[tuple[PartRequest, ...], tuple[int, ...]], Saved] = Bounded(_MOST_STATES)
        self.version = -1

    def refresh(self) -> None:
        """Work out anew what follows from the means when they are others. ``version`` is that of the demand."""
        demand = self._demand
        demand.refresh()
        if self.version != demand.version:
            self.version = demand.version
            average_demand = demand.average_demand
            self._blocks = average_demand.block_losses(demand.richest.cards // MILLI)
            self._losses = np.array(self._blocks)
            self._remainders = average_demand.part_losses()
            margin = self._weights.margin
            self._cpu, self._memory = margin * average_demand.cpu, margin * average_demand.memory
            self._in_blocks = average_demand.in_blocks
            self._saved.clear()

    # -- of one node --------------------------------------------------------------------------------------------------

    def by_amounts(
        self,
        card_request: PodCards,
        node: NodeAmounts | NodeInfo,
        parts: float,
        devices: OnDevices = NO_DEVICES,
    ) -> float:
        """Score a node by its amounts. ``parts`` is what is saved on cards that are distinguished, in cards."""
        allocatable, used, weights = node.allocatable, node.used, self._weights
        cpu, memory = allocatable[CPU] - used[CPU], allocatable[MEMORY] - used[MEMORY]
        free, after = devices.free, devices.after
        blocks = []
        for (column, unit, is_whole), amount in card_request.amounts:
            if column in devices.served:
                continue
            idle = allocatable[column] - used[column]
            free += idle * unit // MILLI
            after += (idle - amount) * unit // MILLI
            if is_whole and amount:
                blocks.append((self._block(idle) - self._block(idle - amount)) / SHARES)
        lost = self._unbalanced(free, cpu, memory) - self._unbalanced(
            after, cpu - card_request.cpu, memory - card_request.memory
        )
        score = weights.balance * lost
        for saved in blocks:
            score += weights.block * saved
        score += parts + devices.saved
        return weights.scale * (score - BEST_FIT * (after / MILLI) - BEST_FIT_CPU * (cpu - card_request.cpu))

    def _unbalanced(self, cards: int, cpu: int, memory: int) -> float:
        """Return the free cards that pods of mean size have no CPU or no memory for."""
        return max(cards / MILLI - min(cpu / self._cpu, memory / self._memory), 0.0)

    def _block(self, idle: int) -> int:
        """Return what of free whole cards (in thousandths) is in no block that pods want, in 1/32 of a card."""
        return self._blocks[min(max(idle // MILLI, 0), len(self._blocks) - 1)]

    def of_model(self, card_request: PodCards) -> float:
        """Return what a pod loses for each unit of a node's scarcity."""
        return -self._weights.scale * self._weights.model * (card_request.cards / MILLI)

    def waste_saved(self, wanted: tuple[PartRequest, ...], free: tuple[int, ...]) -> float:
        """Return by how much a pod reduces the waste in blocks and parts of cards, weighted, in cards."""
        saved, weights = self._saved_on(wanted, free), self._weights
        return (weights.block * saved.block + weights.parts * saved.parts) / (SHARES * WHOLE)

    def _saved_on(self, wanted: tuple[PartRequest, ...], free: tuple[int, ...]) -> Saved:
        """Return what a pod takes out of blocks and rests. The same for all nodes whose cards are as free."""
        found = self._saved.recall((wanted, free))
        if found is None:
            after = taken(free, wanted)
            block = self._block_loss(free) - self._block_loss(after)
            remainders = sum(self._remainders[card] for card in free) - sum(self._remainders[card] for card in after)
            found = self._saved[wanted, free] = Saved(block, remainders)
        return found

    def _block_loss(self, free: tuple[int, ...]) -> int:
        """Return what of some cards is in no block of whole ones, in 1/32 percent of a card."""
        whole = sum(1 for card in free if card >= WHOLE)
        in_remainders = sum(free) - WHOLE * whole
        return self._in_blocks * in_remainders + WHOLE * self._blocks[min(whole, len(self._blocks) - 1)]

    # -- of many nodes ------------------------------------------------------------------------------------------------

    def weighed(self, plan: ScorePlan, both: Ints, cards: Floats) -> Floats:
        """Weigh what a pod saves, by what is free before it and after it: columns of a plan, and cards in all."""
        lost = np.maximum(cards - np.minimum(both[:, 0] / self._cpu, both[:, 1] / self._memory), 0.0)
        score: Floats = self._weights.balance * (lost[0] - lost[1])
        for place in plan.whole:
            losses = self._losses.take(both[:, 2 + place] // MILLI, mode="clip")
            score = score + self._weights.block * ((losses[0] - losses[1]) / SHARES)
        return score

    def scaled(self, score: Floats, both: Ints, cards: Floats) -> Floats:
        """Prefer the fullest of equal nodes, and count in points."""
        found: Floats = self._weights.scale * (score - BEST_FIT * cards[1] - BEST_FIT_CPU * both[1, 0])
        return found


def taken(free: tuple[int, ...], wanted: tuple[PartRequest, ...]) -> tuple[int, ...]:
    """Return what is free of each card, ascending, after a pod: the tightest cards that have room, as mgpu packs."""
    left = list(free)
    for cards, percent in sorted(wanted, key=lambda one: (-one.percent, -one.cards)):
        fitting = [place for place, card in enumerate(left) if card >= percent][:cards]
        for place in fitting:
            left[place] -= percent
        left.sort()
    return tuple(left)
