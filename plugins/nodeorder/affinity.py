"""Preferred node affinity: the sum of the weights of the terms that a node meets.

Volcano adds this sum as it is; kube-scheduler scales it to 0..100 over the candidates.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plugins.nodeorder.arguments import NodeOrderWeights
from volsched.plugin import (
    Floats,
    NodeOrder,
    NodePropertiesView,
    NodeTable,
    PodConstraints,
    PodTemplate,
    Registrar,
    Rule,
    term_mask,
    term_selects,
)


class NodeAffinityScore:
    """The score, with its weight."""

    def __init__(self, weight: int) -> None:
        self._weight = weight

    @staticmethod
    def applies(template: PodTemplate) -> bool:
        """True if pods of a template prefer any nodes."""
        return bool(template.preferred_nodes)

    def score(self, pod: PodConstraints, node: NodePropertiesView) -> float:
        """Score one node."""
        met = sum(item.weight for item in pod.preferred_nodes if term_selects(item.term, node))
        return float(met * self._weight)

    def scores(self, pod: PodConstraints, nodes: NodeTable) -> Floats:
        """Answer as ``score``, for many nodes at once."""
        total = np.zeros(len(nodes.columns.all_rows), dtype=np.int64)
        for item in pod.preferred_nodes:
            total += item.weight * term_mask(item.term, nodes.properties)
        found: Floats = (total[nodes.rows] * self._weight).astype(np.float64)
        return found


def rules(_: Registrar, weights: NodeOrderWeights) -> Iterator[Rule]:
    """Score by the nodes that pods prefer."""
    if weights.nodeaffinity:
        affinity = NodeAffinityScore(weights.nodeaffinity)
        yield NodeOrder(affinity.score, vector=affinity.scores, applies_to=affinity.applies)
