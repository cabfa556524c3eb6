"""What the pods of a cluster want on average: the measure by which cards on a node count as lost.

A pure function of sums over pods, rounded, so that it seldom changes and is the same after a restart: CPU and memory
per card to an eighth of an octave, shares of the demand to 1/32.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from volsched.plugin.cards import WHOLE

SHARES: Final = 32
"""Shares of the demand are in so many parts."""
_STEPS: Final = 8
_STEP_OF_SIZE: Final = 5
MOST_CARDS: Final = 1_024
"""Cards of one node at most that are distinguished."""


@dataclass(slots=True)
class CardSums:
    """What pods with cards want in all, in thousandths of cards, thousandths of cores, and bytes.

    ``blocks``: cards by how many whole ones a container wants; ``sizes``: by the percent of a card, in steps of five.
    """

    cards: int = 0
    cpu: int = 0
    memory: int = 0
    blocks: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)

    def add(self, other: CardSums, count: int) -> None:
        """Add so many pods of a kind, or take them off."""
        self.cards += count * other.cards
        self.cpu += count * other.cpu
        self.memory += count * other.memory
        _add(self.blocks, other.blocks, count)
        _add(self.sizes, other.sizes, count)


def _add(sums: dict[int, int], more: Mapping[int, int], count: int) -> None:
    for key, amount in more.items():
        sums[key] = sums.get(key, 0) + count * amount
        if not sums[key]:
            del sums[key]


def size_of(percent: int) -> int:
    """Return the size that a part of a card counts as: the next higher multiple of five percent."""
    return -(-percent // _STEP_OF_SIZE) * _STEP_OF_SIZE


def size_below(percent: int) -> int:
    """Return the size that a device which is a part of a card counts as: the next lower multiple of five percent.

    What is free of devices is rounded down, so a rest of the very size is none that is too small.
    """
    return max(_STEP_OF_SIZE, percent // _STEP_OF_SIZE * _STEP_OF_SIZE)


@dataclass(frozen=True, slots=True)
class AverageDemand:
    """CPU (thousandths of a core) and memory (bytes) per card, next to nothing while no pod wants cards.

    ``blocks`` and ``sizes`` are shares of the demand, in 1/32, by number of whole cards and by percent of a card.
    """

    cpu: float = 1.0
    memory: float = 1.0
    blocks: tuple[tuple[int, int], ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()

    def block_losses(self, most: int) -> list[int]:
        """Return the waste outside blocks for each number of free cards, in 1/32 card: sum of D_n x (F mod n)."""
        return [sum(share * (free % n) for n, share in self.blocks) for free in range(min(most, MOST_CARDS) + 1)]

    def part_losses(self) -> list[int]:
        """Return the waste of a free part for each percent, in 1/32 percent: l x sum of P_s with s > l."""
        return [free * sum(share for size, share in self.sizes if size > free) for free in range(WHOLE + 1)]

    @property
    def in_blocks(self) -> int:
        """Return the share of the demand for whole cards, in 1/32."""
        return sum(share for _, share in self.blocks)


NO_DEMAND: Final = AverageDemand()


def average_demand_of(sums: CardSums) -> AverageDemand:
    """Return what pods want on average."""
    if sums.cards <= 0:
        return NO_DEMAND
    return AverageDemand(
        _rounded(1000 * sums.cpu / sums.cards),
        _rounded(1000 * sums.memory / sums.cards),
        _shares(sums.blocks.items(), sums.cards),
        _shares(sums.sizes.items(), sums.cards),
    )


def _rounded(value: float) -> float:
    return math.exp2(round(_STEPS * math.log2(max(1.0, value))) / _STEPS)


def _shares(amounts: Iterable[tuple[int, int]], whole: int) -> tuple[tuple[int, int], ...]:
    shares = ((key, (2 * SHARES * amount + whole) // (2 * whole)) for key, amount in sorted(amounts))
    return tuple((key, share) for key, share in shares if share)
