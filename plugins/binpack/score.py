"""How full a node would be with a task on it.

    score = weight x 100 x sum(w x (used + request) / allocatable) / sum(w)

over the resources that the task requests and that have a weight w; 0 when one of them would not fit. A resource that
the node does not have adds nothing above the line and its weight below it. As in Volcano's binpack.
"""

from __future__ import annotations

import numpy as np

from plugins.binpack.arguments import BinpackArguments
from volsched.framework.callbacks import Floats, Rows
from volsched.framework.engine import FastEngine
from volsched.framework.templates import keep
from volsched.model.columns import ResourceColumns
from volsched.model.node import NodeInfo
from volsched.model.task import TaskInfo
from volsched.model.template import TaskTemplate

Part = tuple[int, int, float]
"""Column, requested amount and weight of one resource."""


class BinpackScore:
    """Scores nodes for tasks; what it needs of a template is worked out once."""

    def __init__(self, arguments: BinpackArguments, columns: ResourceColumns) -> None:
        self._weights = arguments.weights
        self._scale = 100.0 * arguments.weight
        self._columns = columns
        self._columns_version = columns.version
        self._known: dict[int, tuple[TaskTemplate, tuple[Part, ...], float]] = {}

    def applies(self, task: TaskInfo) -> bool:
        """Whether the task requests anything that has a weight."""
        return bool(self._of(task.template)[1])

    def score(self, task: TaskInfo, node: NodeInfo) -> float:
        """Score one node."""
        _, parts, divisor = self._of(task.template)
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

    def scores(self, task: TaskInfo, engine: FastEngine, rows: Rows) -> Floats:
        """Answer as ``score``, for many nodes at once."""
        _, parts, divisor = self._of(task.template)
        columns = engine.columns
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

    def _of(self, template: TaskTemplate) -> tuple[TaskTemplate, tuple[Part, ...], float]:
        """Return what counts of a template."""
        if self._columns_version != self._columns.version:
            self._columns_version = self._columns.version
            self._known.clear()
        found = self._known.get(template.id)
        if found is None or found[0] is not template:
            names = sorted(template.request, key=lambda name: (name not in ("cpu", "memory"), name))
            weighted = [(name, self._weights[name]) for name in names if self._weights.get(name)]
            parts = tuple((self._columns.place(name), template.request[name], float(w)) for name, w in weighted)
            found = keep(self._known, template, (template, parts, sum(weight for _, _, weight in parts)))
        return found
