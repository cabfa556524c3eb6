"""What fragmentation can be told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from volsched.plugin import Argument, ArgumentProblem

WEIGHT = "fragmentation.weight"
BALANCE = "fragmentation.balance"
BLOCK = "fragmentation.block"
PARTS = "fragmentation.parts"
MODEL = "fragmentation.model"
MARGIN = "fragmentation.margin"
RESOURCES = "fragmentation.resources"
DRIVERS = "fragmentation.drivers"

KNOWN_DRIVERS: Final = ("gpu.amd.com", "gpu.intel.com", "gpu.nvidia.com")
"""Drivers whose devices are cards without being named: those of other things offer devices, too."""

_LONGEST_DRIVER: Final = 63
_DRIVER: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)

ARGUMENTS: tuple[Argument, ...] = (
    Argument(WEIGHT, "int", 1, "How much a card counts: 100 points for each of it; 0 turns the plugin off.", minimum=0),
    Argument(BALANCE, "float", 3, "Weight of free cards for which no CPU or memory is left.", minimum=0, maximum=100),
    Argument(BLOCK, "float", 1, "Weight of free cards that make no whole block.", minimum=0, maximum=100),
    Argument(PARTS, "float", 1, "Weight of rests of cards that are too small.", minimum=0, maximum=100),
    Argument(MODEL, "float", 3, "Weight of cards of models that others insist on.", minimum=0, maximum=100),
    Argument(MARGIN, "int", 80, "Percent of the mean CPU and memory per card that counts.", minimum=1, maximum=200),
    Argument(RESOURCES, "names", (), "Resources that are whole cards; without any, those that nodes are seen to have."),
    Argument(
        DRIVERS,
        "names",
        KNOWN_DRIVERS,
        "DRA drivers whose devices are cards; devices of others do not count.",
        holds=("domain",),
    ),
)


def check_arguments(values: Mapping[str, Any]) -> Iterator[ArgumentProblem]:
    """Refuse what cannot be the name of a driver: such a one would have no devices, and nothing would be said."""
    for driver in values[DRIVERS]:
        if len(driver) > _LONGEST_DRIVER or not _DRIVER.fullmatch(driver):
            message = f'names "{driver}", which cannot be a DRA driver: one is called as a domain is, as gpu.nvidia.com'
            yield ArgumentProblem(DRIVERS, f"{message}, by at most {_LONGEST_DRIVER} letters")


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of the terms of the score. ``scale``: points per card. ``margin``: a fraction."""

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
