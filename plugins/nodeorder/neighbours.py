"""Preferred pod affinity: points for domains with pods that one likes to be near, or that like to be near.

    raw(node) = sum over the pod's preferred terms:             weight x pods of the term in the node's domain
              + sum over such terms of pods placed already:     weight x pods with that term in the node's domain
    score     = 100 x (raw - least) / (most - least)            over all candidates, 0 when all are equal

with weights below 0 for anti-affinity. As in Volcano, required affinity terms of placed pods give no points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from plugins.nodeorder.arguments import NodeOrderWeights
from volsched.framework.engine.domain_counts import DomainTable
from volsched.framework.engine.domains import Domains, domains_of
from volsched.plugin import BatchNodeOrder, Floats, NodeInfo, NodeTable, Registrar, Rule, TaskInfo

Points = list[tuple[DomainTable, int]]


class PodAffinityScore:
    """The score, with its weight."""

    def __init__(self, weight: int, domains: Domains) -> None:
        self._weight = weight
        self._domains = domains

    def uniform(self, task: TaskInfo) -> float | None:
        """Tell that there is nothing that the pod likes, or that likes the pod."""
        return None if self._points(task) else 0.0

    def score_all(self, task: TaskInfo, nodes: Sequence[NodeInfo]) -> list[float]:
        """Score all candidates."""
        points = self._points(task)
        raws = [_raw(points, node) for node in nodes]
        least, span = _range(min(raws, default=0), max(raws, default=0))
        return [float(int(100.0 * ((raw - least) / span)) * self._weight) for raw in raws]

    def scores(self, task: TaskInfo, nodes: NodeTable) -> Floats:
        """Answer as ``score_all``, for many nodes at once."""
        rows = nodes.rows
        raws: npt.NDArray[np.int64] = np.zeros(len(rows), dtype=np.int64)
        for table, weight in self._points(task):
            raws += weight * table.by_row(nodes.properties, rows)
        if not len(rows):
            return np.zeros(0)
        least, span = _range(int(raws.min()), int(raws.max()))
        found: Floats = ((100.0 * ((raws - least) / span)).astype(np.int64) * self._weight).astype(np.float64)
        return found

    def _points(self, task: TaskInfo) -> Points:
        """Tables with what one pod in them is worth. Tables without pods are left out."""
        points: Points = [(claim.table, 1) for claim in self._domains.drawing(task) if claim.table.counts]
        template = task.template
        if template.preferred_affinity or template.preferred_anti_affinity:
            points += [
                (table, weight) for table, weight in self._domains.preferred_terms(template).terms if table.counts
            ]
        return points


def _raw(points: Points, node: NodeInfo) -> int:
    labels = node.labels
    return sum(weight * table.counts.get(labels[table.key], 0) for table, weight in points if table.key in labels)


def _range(least: int, most: int) -> tuple[int, int]:
    return least, most - least or 1


def rules(registrar: Registrar, weights: NodeOrderWeights) -> Iterator[Rule]:
    """Score by the pods that pods prefer near them."""
    if weights.podaffinity:
        near = PodAffinityScore(weights.podaffinity, domains_of(registrar))
        yield BatchNodeOrder(near.score_all, uniform=near.uniform, vector=near.scores)
