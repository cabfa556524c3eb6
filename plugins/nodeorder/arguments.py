"""The weights of the scores. The keys and defaults are Volcano's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from volsched.plugin import Argument


def _weight(key: str, default: int, what: str) -> Argument:
    return Argument(f"{key}.weight", "int", default, f"Weight of {what}; 0 turns it off.")


def _of_volcano(key: str, default: int, why: str) -> Argument:
    return Argument(f"{key}.weight", "int", default, f"Taken from Volcano; {why}.", unused=why)


ARGUMENTS: tuple[Argument, ...] = (
    _weight("leastrequested", 1, "how little of a node's cpu and memory is requested"),
    _weight("mostrequested", 0, "how much of a node's cpu and memory is requested"),
    _weight("nodeaffinity", 2, "the preferred node affinity terms that a node meets"),
    _weight("podaffinity", 2, "the preferred pod affinity terms that a node's neighbourhood meets"),
    _weight("balancedresource", 1, "how evenly cpu, memory and GPUs would be used"),
    _weight("tainttoleration", 3, "how few PreferNoSchedule taints are not tolerated"),
    _weight("imagelocality", 1, "how much of the pod's images a node already has"),
    _weight("podtopologyspread", 2, "how well a node serves the topology spread constraints that are no must"),
    _of_volcano("selectorspread", 0, "Volcano reads it no more; podtopologyspread.weight spreads pods"),
    _of_volcano("volumebinding", 1, "Volcano reads it no more; volumes are not scored"),
)


@dataclass(frozen=True, slots=True)
class NodeOrderWeights:
    """One weight for each score."""

    leastrequested: int = 1
    mostrequested: int = 0
    nodeaffinity: int = 2
    podaffinity: int = 2
    balancedresource: int = 1
    tainttoleration: int = 3
    imagelocality: int = 1
    podtopologyspread: int = 2


def parse(arguments: Mapping[str, Any]) -> NodeOrderWeights:
    """Read checked arguments."""
    known = {field.name: f"{field.name}.weight" for field in fields(NodeOrderWeights)}
    return NodeOrderWeights(**{name: arguments[key] for name, key in known.items() if key in arguments})
