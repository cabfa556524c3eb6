"""Preferred node affinity: the sum of the weights of the terms that a node meets.

Volcano adds this sum as it is; kube-scheduler scales it to 0..100 over the candidates.
"""

from __future__ import annotations

import numpy as np

from volsched.framework.callbacks import Floats, Rows
from volsched.framework.engine import FastEngine
from volsched.framework.nodeterms import term_mask, term_selects
from volsched.model.node import NodeInfo
from volsched.model.task import TaskInfo


class NodeAffinityScore:
    """The score, with its weight."""

    def __init__(self, weight: int) -> None:
        self._weight = weight

    @staticmethod
    def applies(task: TaskInfo) -> bool:
        """Whether the pod prefers any nodes."""
        return bool(task.template.preferred_nodes)

    def score(self, task: TaskInfo, node: NodeInfo) -> float:
        """Score one node."""
        met = sum(item.weight for item in task.template.preferred_nodes if term_selects(item.term, node))
        return float(met * self._weight)

    def scores(self, task: TaskInfo, engine: FastEngine, rows: Rows) -> Floats:
        """Answer as ``score``, for many nodes at once."""
        total = np.zeros(len(engine.cluster.rows), dtype=np.int64)
        for item in task.template.preferred_nodes:
            total += item.weight * term_mask(item.term, engine.facts)
        found: Floats = (total[rows] * self._weight).astype(np.float64)
        return found
