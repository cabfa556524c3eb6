"""Classes of nodes by amounts: nodes of one class have equal allocatable and equal used amounts.

Scores that depend on amounts alone are computed once for each class. There are few classes: a cluster has some models
of machines, and pods of few templates fill these in few ways.
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
"""The number of classes after which numbers are assigned anew: two a node, and this many on a small cluster."""
_SPARE: Final = 24
"""Spare columns for new classes."""


class AmountClasses:
    """Numbers of classes, by row of the cluster. ``epoch`` changes when the numbers are assigned anew."""

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
        """Return the class of a node as it is now, also before ``refresh``."""
        key = (node.offer, *node.used)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._known)
        return found

    def follow(self, node: NodeInfo) -> int:
        """Return the class of a node; if only this node changed since ``refresh``, refresh its number, too."""
        number, log = self.of(node), self._cluster.node_cache.usage_log
        if (
            self._position + 1 == log.end
            and log.rows[-1] == node.row
            and self._layout == self._cluster.generations.layout
        ):
            self.numbers[node.row] = number
            self._position += 1
        return number

    def refresh(self) -> None:
        """Catch up with the nodes that changed."""
        cluster = self._cluster
        changed = cluster.node_cache.usage_log.since(self._position)
        too_many = len(self._known) > max(_FEWEST, _PER_NODE * len(cluster.rows))
        stale = self._layout != cluster.generations.layout or self._width != len(cluster.columns)
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
        self._layout, self._width = cluster.generations.layout, len(cluster.columns)


class ClassScores:
    """The scores of node classes, shared by all templates with equal questions to the same callbacks.

    ``lines`` has a line for each node order that is asked, ``sums`` the same with the lines above added up; without any
    there is one line of zeros. Minus infinity: nodes of the class are refused; not a number: not asked yet. ``size`` is
    the number of columns. The numbers of classes are those of this ``epoch``.
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
        """Add columns for new classes. Clear the table if numbers were assigned anew."""
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
        """Store the scores of one class. Return False if the sum is not a number."""
        total = 0.0
        for line, score in enumerate(scores or (0.0,)):
            total += score
            self.lines[line, node_class] = score
            self.sums[line, node_class] = total
        return not math.isnan(total)

    def put_all(self, node_classes: Rows, scores: Sequence[Floats]) -> None:
        """Store the scores of some classes: for each order, the scores of these classes."""
        self.lines[:, node_classes] = 0.0
        for line, found in enumerate(scores):
            self.lines[line, node_classes] = found
        self.sums[:, node_classes] = np.add.accumulate(self.lines[:, node_classes])

    def close(self, node_classes: int | Rows) -> None:
        """Mark some classes as refused."""
        self.lines[:, node_classes] = self.sums[:, node_classes] = -np.inf
