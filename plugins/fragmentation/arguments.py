"""What fragmentation can be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from volsched.framework.config.arguments import Argument

WEIGHT = "fragmentation.weight"
BALANCE = "fragmentation.balance"
BLOCK = "fragmentation.block"
PARTS = "fragmentation.parts"
MODEL = "fragmentation.model"
MARGIN = "fragmentation.margin"
RESOURCES = "fragmentation.resources"

ARGUMENTS: tuple[Argument, ...] = (
    Argument(WEIGHT, "int", 1, "How much a card counts: 100 points for each of it; 0 turns the plugin off.", minimum=0),
    Argument(BALANCE, "float", 3, "Weight of free cards for which no CPU or memory is left.", minimum=0, maximum=100),
    Argument(BLOCK, "float", 1, "Weight of free cards that make no whole block.", minimum=0, maximum=100),
    Argument(PARTS, "float", 1, "Weight of rests of cards that are too small.", minimum=0, maximum=100),
    Argument(MODEL, "float", 3, "Weight of cards of models that others insist on.", minimum=0, maximum=100),
    Argument(MARGIN, "int", 80, "Percent of the mean CPU and memory per card that counts.", minimum=1, maximum=200),
    Argument(RESOURCES, "names", (), "Resources that are whole cards; without any, those that nodes are seen to have."),
)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of the terms of the score; ``scale`` is points for a card, ``margin`` a fraction."""

    scale: float = 100.0
    balance: float = 3.0
    block: float = 1.0
    parts: float = 1.0
    model: float = 3.0
    margin: float = 0.8


def weights_of(arguments: Mapping[str, Any]) -> Weights:
    """Read checked arguments."""
    return Weights(
        100.0 * arguments[WEIGHT],
        arguments[BALANCE],
        arguments[BLOCK],
        arguments[PARTS],
        arguments[MODEL],
        arguments[MARGIN] / 100,
    )
