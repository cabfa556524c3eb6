"""What binpack can be told; the keys are Volcano's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from volsched.plugin import Argument

PREFIX = "binpack.resources."

ARGUMENTS: tuple[Argument, ...] = (
    Argument("binpack.weight", "int", 1, "How much a full node counts beside other plugins' scores; 0 turns it off."),
    Argument("binpack.cpu", "int", 1, "Weight of cpu; below 0 counts as 1."),
    Argument("binpack.memory", "int", 1, "Weight of memory; below 0 counts as 1."),
    Argument("binpack.resources", "names", (), "Other resources that count, separated by commas."),
    Argument(f"{PREFIX}*", "int", 1, "Weight of one of them, by its name; below 0 counts as 1."),
)


@dataclass(frozen=True, slots=True)
class BinpackArguments:
    """The weight of the whole score, and the weight of each resource in it."""

    weight: int
    weights: Mapping[str, int]


def parse(arguments: Mapping[str, Any]) -> BinpackArguments:
    """Read checked arguments; only the resources that are listed count, whatever other weights are given."""
    weights = {name: _weight(arguments.get(PREFIX + name, 1)) for name in arguments.get("binpack.resources", ())}
    weights["cpu"] = _weight(arguments.get("binpack.cpu", 1))
    weights["memory"] = _weight(arguments.get("binpack.memory", 1))
    return BinpackArguments(arguments.get("binpack.weight", 1), weights)


def _weight(given: int) -> int:
    return given if given >= 0 else 1
