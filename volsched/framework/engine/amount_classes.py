"""The shapes of nodes: nodes of one shape offer the same, and the same of it is used.

Whoever scores nodes by amounts alone asks once for each shape. There are few of them: a cluster has some models of
machine, and pods of few templates fill these in few ways.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from volsched.framework.columns.arrays import Floats, Rows
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo

_PER_NODE: Final = 2
_FEWEST: Final = 1 << 12
"""So many shapes are numbered before the numbers are given again: two a node, and this many on a small cluster."""
_SPARE: Final = 24
"""Places that are made at once for shapes to come."""


class AmountClasses:
    """Numbers of shapes, by row of the cluster. ``epoch`` changes when the numbers mean something else."""

    def __init__(self, cluster: Cluster) -> None:
        self.epoch = 0
        self.numbers: Rows = np.arange(0)
        self._cluster = cluster
        self._layout = -1
        self._width = 0
        self._position = 0
        self._known: dict[tuple[int, ...], int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, node: NodeInfo) -> int:
        """Number the shape that a node is of now, ahead of ``refresh``."""
        key = (node.offer, *node.used)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._known)
        return found

    def follow(self, node: NodeInfo) -> int:
        """Number a node's shape; when nothing else has changed since ``refresh``, that is caught up with, too."""
        number, log = self.of(node), self._cluster.node_cache.usage_log
        if (
            self._position + 1 == log.end
            and log.rows[-1] == node.row
            and self._layout == self._cluster.clocks.layout_generation
        ):
            self.numbers[node.row] = number
            self._position += 1
        return number

    def refresh(self) -> None:
        """Catch up with the nodes that changed."""
        cluster = self._cluster
        changed = cluster.node_cache.usage_log.since(self._position)
        too_many = len(self._known) > max(_FEWEST, _PER_NODE * len(cluster.rows))
        stale = self._layout != cluster.clocks.layout_generation or self._width != len(cluster.columns)
        if changed is None or stale or too_many:
            self._number_all()
        elif changed:
            nodes = cluster.rows
            self.numbers[changed] = [self.of(nodes[row]) for row in changed]
        self._position = cluster.node_cache.usage_log.end

    def _number_all(self) -> None:
        cluster = self._cluster
        self._known.clear()
        self.epoch += 1
        self.numbers = np.fromiter((self.of(node) for node in cluster.rows), np.intp, len(cluster.rows))
        self._layout, self._width = cluster.clocks.layout_generation, len(cluster.columns)


class ClassScores:
    """What nodes of each shape are worth to all templates that ask the same of the same callbacks.

    ``lines`` has a line for each node order that is asked, ``sums`` the same with the lines above added up; without any
    there is one line of zeros. Minus infinity: nodes of the shape will not do; not a number: that was not asked yet.
    ``size`` is how many shapes there is a place for, whose numbers are those of the shapes' ``epoch``.
    """

    __slots__ = ("__weakref__", "epoch", "lines", "size", "sums")

    def __init__(self, orders: int) -> None:
        self.epoch = -1
        self.size = 0
        self.lines: Floats = np.empty((max(1, orders), 0))
        self.sums: Floats = self.lines

    def forget(self) -> None:
        """Ask everything again."""
        self.epoch = -1

    def make_room(self, node_classes: AmountClasses) -> None:
        """Have a place for every shape that there is now; numbers that mean something else are not known."""
        if self.epoch != node_classes.epoch:
            self.epoch, self.size = node_classes.epoch, 0
            self.lines = self.sums = self.lines[:, :0]
        missing = len(node_classes) - self.size
        if missing > 0:
            more = np.full((len(self.lines), missing + self.size + _SPARE), np.nan)
            self.lines = np.concatenate((self.lines, more), axis=1)
            self.sums = np.concatenate((self.sums, more), axis=1)
            self.size = self.lines.shape[1]

    def put(self, node_class: int, scores: Sequence[float]) -> bool:
        """Note what one shape is worth; return whether that is a number."""
        total = 0.0
        for line, score in enumerate(scores or (0.0,)):
            total += score
            self.lines[line, node_class] = score
            self.sums[line, node_class] = total
        return not math.isnan(total)

    def put_all(self, node_classes: Rows, scores: Sequence[Floats]) -> None:
        """Note what some shapes are worth: for each order, the scores of these shapes."""
        self.lines[:, node_classes] = 0.0
        for line, found in enumerate(scores):
            self.lines[line, node_classes] = found
        self.sums[:, node_classes] = np.add.accumulate(self.lines[:, node_classes])

    def close(self, node_classes: int | Rows) -> None:
        """Note that nodes of some shapes will not do."""
        self.lines[:, node_classes] = self.sums[:, node_classes] = -np.inf
