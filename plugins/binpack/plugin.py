"""binpack: prefer the node that a pod fills most.

    score = weight x 100 x sum(w x (used + request) / allocatable) / sum(w)

over the resources that the pod requests and that have a weight w; 0 when one of them would not fit. A resource that
the node does not have adds nothing above the line and its weight below it. Score and keys of arguments are those of
Volcano's binpack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from volsched.plugin import (
    MOST_KEPT,
    Argument,
    Bounded,
    Floats,
    NodeAmounts,
    NodeOrder,
    NodeTable,
    PodRequest,
    PodTemplate,
    Registrar,
    ResourceColumns,
    Resources,
)

NAME = "binpack"
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
    """Read checked arguments. Only listed resources count; weights of other resources are ignored."""
    weights = {name: _weight(arguments.get(PREFIX + name, 1)) for name in arguments.get("binpack.resources", ())}
    weights["cpu"] = _weight(arguments.get("binpack.cpu", 1))
    weights["memory"] = _weight(arguments.get("binpack.memory", 1))
    return BinpackArguments(arguments.get("binpack.weight", 1), weights)


def _weight(given: int) -> int:
    return given if given >= 0 else 1


def build(arguments: Mapping[str, Any]) -> BinpackPlugin:
    """Make the plugin from checked arguments."""
    return BinpackPlugin(parse(arguments))


class BinpackPlugin:
    """Prefer the node that a task fills most."""

    name: ClassVar[str] = NAME

    def __init__(self, arguments: BinpackArguments) -> None:
        self._arguments = arguments

    def on_session_open(self, registrar: Registrar) -> None:
        """Register the score, unless its weight is 0."""
        if self._arguments.weight:
            packing = registrar.account("binpack", lambda cluster: BinpackScore(self._arguments, cluster.columns))
            registrar.register(NodeOrder(packing.score, vector=packing.scores, applies_to=packing.applies))


Part = tuple[int, int, float]
"""Column, requested amount and weight of one resource."""


class BinpackScore:
    """Scores nodes for tasks. What it needs of a template is worked out once."""

    def __init__(self, arguments: BinpackArguments, columns: ResourceColumns) -> None:
        self._weights = arguments.weights
        self._scale = 100.0 * arguments.weight
        self._columns = columns
        self._columns_version = columns.version
        self._known: Bounded[Resources, tuple[tuple[Part, ...], float]] = Bounded(MOST_KEPT)

    def applies(self, template: PodTemplate) -> bool:
        """True if pods of a template request anything that has a weight."""
        return bool(self._of(template.request)[0])

    def score(self, pod: PodRequest, node: NodeAmounts) -> float:
        """Score one node."""
        parts, divisor = self._of(pod.request)
        allocatable, used = node.allocatable, node.used
        total = 0.0
        for column, request, weight in parts:
            capacity = allocatable[column]
            if capacity == 0:
                continue
            after = request + used[column]
            if after > capacity:
                return 0.0
            total += after * weight / capacity
        return total / divisor * self._scale

    def scores(self, pod: PodRequest, nodes: NodeTable) -> Floats:
        """Answer as ``score``, for many nodes at once."""
        parts, divisor = self._of(pod.request)
        columns, rows = nodes.columns, nodes.rows
        total = np.zeros(len(rows))
        fits = np.ones(len(rows), dtype=np.bool_)
        for column, request, weight in parts:
            capacity = columns.allocatable[column][rows]
            after = columns.used[column][rows] + request
            if np.count_nonzero(capacity) == len(rows):
                fits &= after <= capacity
                total += after * weight / capacity
            else:
                has = capacity != 0
                fits &= ~has | (after <= capacity)
                total += np.where(has, after * weight / np.where(has, capacity, 1), 0.0)
        found: Floats = np.where(fits, total / divisor * self._scale, 0.0)
        return found

    def _of(self, request: Resources) -> tuple[tuple[Part, ...], float]:
        """Return what counts of a request, and the sum of the weights."""
        if self._columns_version != self._columns.version:
            self._columns_version = self._columns.version
            self._known.clear()
        found = self._known.recall(request)
        if found is None:
            names = sorted(request, key=lambda name: (name not in ("cpu", "memory"), name))
            weighted = [(name, self._weights[name]) for name in names if self._weights.get(name)]
            parts = tuple((self._columns.place(name), request[name], float(w)) for name, w in weighted)
            found = self._known[request] = (parts, sum(weight for _, _, weight in parts))
        return found
