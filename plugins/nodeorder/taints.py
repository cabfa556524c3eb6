"""Taint toleration: the fewer PreferNoSchedule taints a pod does not tolerate, the better.

    score = 100 - 100 x untolerated / (most untolerated of all candidates)

and 100 when no candidate has any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from plugins.nodeorder.arguments import NodeOrderWeights
from volsched.model.api import Taint
from volsched.model.pods.placement_rules import Toleration
from volsched.plugin import (
    BatchNodeOrder,
    Cluster,
    Floats,
    NodeInfo,
    NodeProperties,
    NodeTable,
    Observer,
    PodTemplate,
    Registrar,
    Rule,
    TaskInfo,
)

SOFT = "PreferNoSchedule"
Taints = tuple[Taint, ...]


class SoftTaints(Observer):
    """The present PreferNoSchedule taints, for a quick answer if they make no difference."""

    def __init__(self, cluster: Cluster) -> None:
        self._nodes: dict[Taints, int] = {}
        self._untolerated: dict[tuple[tuple[Toleration, ...], Taints], int] = {}
        for node in cluster.rows:
            self._count(soft(node.taints), 1)

    # -- following the cluster ------------------------------------------------------------------------------------

    def node_changed(self, node: NodeInfo, before: NodeProperties | None) -> None:
        """Follow a node's taints."""
        if before is not None:
            self._count(soft(before.taints), -1)
        self._count(soft(node.taints), 1)

    def node_removed(self, node: NodeInfo) -> None:
        """Forget a node's taints."""
        self._count(soft(node.taints), -1)

    def _count(self, taints: Taints, by: int) -> None:
        left = self._nodes.get(taints, 0) + by
        if left:
            self._nodes[taints] = left
        else:
            self._nodes.pop(taints, None)

    # -- the score ------------------------------------------------------------------------------------------------

    def untolerated(self, template: PodTemplate, taints: Taints) -> int:
        """Count the taints of a node that a pod does not put up with."""
        if not taints:
            return 0
        key = (template.tolerations, taints)
        found = self._untolerated.get(key)
        if found is None:
            if len(self._untolerated) > 10_000:
                self._untolerated.clear()
            found = sum(1 for taint in taints if not template.tolerates(taint))
            self._untolerated[key] = found
        return found

    def same_everywhere(self, template: PodTemplate) -> int | None:
        """Return the score of all nodes if they are equal."""
        kinds = self._nodes
        if not kinds or (len(kinds) == 1 and () in kinds):
            return 100
        counts = {self.untolerated(template, taints) for taints in kinds}
        if len(counts) > 1:
            return None
        return 0 if counts.pop() else 100


class TaintTolerationScore:
    """Scores nodes by the soft taints that a pod does not tolerate, with a weight."""

    def __init__(self, weight: int, taints: SoftTaints) -> None:
        self._weight = weight
        self._taints = taints

    def uniform(self, task: TaskInfo) -> float | None:
        """Tell the score when taints make no difference to the pod."""
        same = self._taints.same_everywhere(task.template)
        return None if same is None else float(same * self._weight)

    def score_all(self, task: TaskInfo, nodes: Sequence[NodeInfo]) -> list[float]:
        """Score all candidates."""
        counts = [self._taints.untolerated(task.template, soft(node.taints)) for node in nodes]
        most = max(counts, default=0)
        if not most:
            return [float(100 * self._weight)] * len(counts)
        return [float((100 - 100 * count // most) * self._weight) for count in counts]

    def scores(self, task: TaskInfo, nodes: NodeTable) -> Floats:
        """Answer as ``score_all``, for many nodes at once."""
        path, rows = ("taints", ""), nodes.rows
        names = nodes.properties.names(path)
        by_id: npt.NDArray[np.int64] = np.zeros(len(names) + 1, dtype=np.int64)
        for taints, number in names.items():
            by_id[number] = self._taints.untolerated(task.template, soft(taints))  # type: ignore[arg-type]  # a fact
        counts = by_id[nodes.properties.ids(path)[rows]]
        most = int(counts.max()) if len(counts) else 0
        if not most:
            return np.full(len(rows), float(100 * self._weight))
        found: Floats = ((100 - 100 * counts // most) * self._weight).astype(np.float64)
        return found


def soft(taints: Taints) -> Taints:
    """Pick the taints that only repel."""
    if not taints:
        return taints
    return tuple(taint for taint in taints if taint.effect == SOFT)


def rules(registrar: Registrar, weights: NodeOrderWeights) -> Iterator[Rule]:
    """Score by the soft taints that pods do not tolerate."""
    if weights.tainttoleration:
        taints = TaintTolerationScore(weights.tainttoleration, registrar.account("nodeorder.taints", SoftTaints))
        yield BatchNodeOrder(taints.score_all, uniform=taints.uniform, vector=taints.scores)
