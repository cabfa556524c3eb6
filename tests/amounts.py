"""What tests ask of amounts, and the scheduler does not."""

from __future__ import annotations

from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo


def future_idle(cluster: Cluster, node: NodeInfo, resource: str) -> int:
    """What will be free of a resource: idle + releasing - pipelined."""
    column = cluster.columns.find(resource)
    leaving = 0 if column is None else node.releasing[column] - node.pipelined[column]
    return node.idle_of(resource) + leaving
