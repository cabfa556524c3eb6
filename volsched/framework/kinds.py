"""Nodes of one kind: those that offer the same and of which the same is used.

Whoever scores nodes by amounts alone asks once for each kind. There are few of them: a cluster has some models of
machine, and pods of few templates fill these in few ways.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from volsched.framework.callbacks import Rows
from volsched.model.cluster import Cluster
from volsched.model.node import NodeInfo

_PER_NODE: Final = 2
_FEWEST: Final = 1 << 12
"""So many kinds are numbered before the numbers are given anew: two for each node, and this many on a small cluster."""


class NodeKinds:
    """Numbers of kinds, by row of the cluster. ``epoch`` changes when the numbers mean something else."""

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
        """Number the kind that a node is of now, ahead of ``refresh``."""
        key = (node.offer, *node.used)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._known)
        return found

    def follow(self, node: NodeInfo) -> int:
        """Number a node's kind; when nothing else has changed since ``refresh``, that is caught up with, too."""
        number, log = self.of(node), self._cluster.usage_log
        if self._position + 1 == log.end and log.rows[-1] == node.row and self._layout == self._cluster.layout:
            self.numbers[node.row] = number
            self._position += 1
        return number

    def refresh(self) -> None:
        """Catch up with the nodes that changed."""
        cluster = self._cluster
        changed = cluster.usage_log.since(self._position)
        too_many = len(self._known) > max(_FEWEST, _PER_NODE * len(cluster.rows))
        stale = self._layout != cluster.layout or self._width != len(cluster.columns)
        if changed is None or stale or too_many:
            self._number_all()
        elif changed:
            nodes = cluster.rows
            self.numbers[changed] = [self.of(nodes[row]) for row in changed]
        self._position = cluster.usage_log.end

    def _number_all(self) -> None:
        cluster = self._cluster
        self._known.clear()
        self.epoch += 1
        self.numbers = np.fromiter((self.of(node) for node in cluster.rows), np.intp, len(cluster.rows))
        self._layout, self._width = cluster.layout, len(cluster.columns)
