"""Topology spreading that is no must (ScheduleAnyway): the fewer matching pods a node's domains have, the better.

    raw(node) = round(sum over constraints:  matching pods in the node's domain x ln(domains + 2) + maxSkew - 1)
    score     = 100 x (most + least - raw) / most       over the candidates that have all labels, 100 when most is 0

The logarithm keeps topologies with few domains from drowning those with many: domains are those of the candidates, and
for hosts the candidates themselves. Candidates that lack a label get 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from plugins.nodeorder.arguments import NodeOrderWeights
from volsched.framework.engine.domain_counts import DomainTable
from volsched.framework.engine.domains import Domains, domains_of, has_label
from volsched.plugin import BatchNodeOrder, Cluster, Floats, Mask, NodeInfo, NodeTable, Registrar, Rows, Rule, TaskInfo

HOST = "kubernetes.io/hostname"


class SpreadingScore:
    """The score, with its weight."""

    def __init__(self, weight: int, domains: Domains) -> None:
        self._weight = weight
        self._domains = domains

    def uniform(self, task: TaskInfo) -> float | None:
        """Tell that the pod has no such constraint."""
        spread = task.template.spread
        return None if spread and any(not item.hard for item in spread) else 0.0

    def score_all(self, task: TaskInfo, nodes: Sequence[NodeInfo]) -> list[float]:
        """Score all candidates."""
        spread = self._domains.likes_spread(task.template)
        if not spread.constraints:
            return [0.0] * len(nodes)
        counted = [node for node in nodes if all(key in node.labels for key in spread.keys)]
        raws = dict.fromkeys((node.name for node in counted), 0.0)
        for item, table in spread.constraints:
            key = item.topology_key
            domains = len(counted) if key == HOST else len({node.labels[key] for node in counted})
            weight = math.log(domains + 2)
            for node in counted:
                count = table.counts.get(node.labels[key] if table.key else node.name, 0)
                raws[node.name] += count * weight + float(item.max_skew - 1)
        rounded = {name: _rounded(raw) for name, raw in raws.items()}
        least, most = min(rounded.values(), default=0), max(rounded.values(), default=0)
        return [float(_score(rounded[n.name], least, most) * self._weight if n.name in raws else 0) for n in nodes]

    def scores(self, task: TaskInfo, nodes: NodeTable) -> Floats:
        """Answer as ``score_all``, for many nodes at once."""
        properties, rows = nodes.properties, nodes.rows
        spread = self._domains.likes_spread(task.template)
        counted: Mask = np.ones(len(rows), dtype=np.bool_)
        for key in spread.keys:
            counted &= has_label(key, properties, rows)
        inside = rows[counted]
        result = np.zeros(len(rows))
        if not len(inside) or not spread.constraints:
            return result
        raws = np.zeros(len(inside))
        for item, table in spread.constraints:
            if item.topology_key == HOST:
                domains = len(inside)
            else:
                domains = len(np.unique(properties.ids(("label", item.topology_key))[inside]))
            counts = table.by_row(properties, inside) if table.key else _by_node(table, nodes.columns.cluster, inside)
            raws = raws + (counts * math.log(domains + 2) + float(item.max_skew - 1))
        whole = np.trunc(raws)
        rounded = (whole + (raws - whole >= 0.5)).astype(np.int64)
        least, most = int(rounded.min()), int(rounded.max())
        scores = 100 * (most + least - rounded) // most if most else np.full(len(inside), 100)
        result[counted] = scores * self._weight
        return result


def _by_node(table: DomainTable, cluster: Cluster, rows: Rows) -> npt.NDArray[np.int64]:
    nodes = cluster.nodes
    counts = np.zeros(len(cluster.rows), dtype=np.int64)
    for name, count in table.counts.items():
        counts[nodes[name].row] = count
    return counts[rows]


def _rounded(raw: float) -> int:
    """Round half away from zero, as Go does."""
    whole = math.trunc(raw)
    return whole + (raw - whole >= 0.5)


def _score(raw: int, least: int, most: int) -> int:
    return 100 * (most + least - raw) // most if most else 100


def rules(registrar: Registrar, weights: NodeOrderWeights) -> Iterator[Rule]:
    """Score by how evenly pods are spread."""
    if weights.podtopologyspread:
        spread = SpreadingScore(weights.podtopologyspread, domains_of(registrar))
        yield BatchNodeOrder(spread.score_all, uniform=spread.uniform, vector=spread.scores)
