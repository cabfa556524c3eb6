"""Host ports: no two pods on a node take the same port and protocol of overlapping addresses.

The account holds, for each protocol and port that anybody takes, the nodes where it is taken and with which addresses;
so a question never looks at pods, and clusters without host ports keep nothing.
"""

from __future__ import annotations

import numpy as np

from plugins.predicates.verdicts import node_refusal
from volsched.framework.callbacks import Mask, Rows
from volsched.framework.engine import FastEngine
from volsched.model.cluster import Cluster, Observer
from volsched.model.node import NodeInfo
from volsched.model.status import ON_NODE, TaskStatus
from volsched.model.task import TaskInfo
from volsched.model.template import ANY_ADDRESS, TaskTemplate
from volsched.model.verdict import Verdict

NO_FREE_PORT = node_refusal("node(s) didn't have free ports for the requested pod ports")

PortKey = tuple[str, int]
"""Protocol and number."""


class HostPorts(Observer):
    """Which host ports are taken where: (protocol, port) -> node -> address -> number of pods."""

    def __init__(self, cluster: Cluster) -> None:
        self.taken: dict[PortKey, dict[str, dict[str, int]]] = {}
        for task in cluster.tasks.values():
            if task.node is not None and ON_NODE[task.status]:
                self._count(task, task.node, 1)

    # -- following the cluster ------------------------------------------------------------------------------------

    def follows(self, template: TaskTemplate) -> bool:
        """Say whether pods of this template take host ports."""
        return bool(template.host_ports)

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Follow one task."""
        if node_before is not None and ON_NODE[before]:
            self._count(task, node_before, -1)
        if task.node is not None and ON_NODE[task.status]:
            self._count(task, task.node, 1)

    def _count(self, task: TaskInfo, node: NodeInfo, by: int) -> None:
        for port in task.template.host_ports:
            key = (port.protocol, port.port)
            nodes = self.taken.setdefault(key, {})
            addresses = nodes.setdefault(node.name, {})
            left = addresses.get(port.ip, 0) + by
            if left:
                addresses[port.ip] = left
                continue
            addresses.pop(port.ip, None)
            if not addresses:
                del nodes[node.name]
                if not nodes:
                    del self.taken[key]

    # -- the rule -------------------------------------------------------------------------------------------------

    @staticmethod
    def applies(task: TaskInfo) -> bool:
        """Whether a pod takes any host port."""
        return bool(task.template.host_ports)

    def are_free(self, task: TaskInfo, node: NodeInfo) -> Verdict | None:
        """NodePorts: every wanted port must be free on the node."""
        name = node.name
        for port in task.template.host_ports:
            nodes = self.taken.get((port.protocol, port.port))
            if nodes and name in nodes and _meets(port.ip, nodes[name]):
                return NO_FREE_PORT
        return None

    def free_rows(self, task: TaskInfo, engine: FastEngine, rows: Rows) -> Mask:
        """Answer as ``are_free``, for many nodes at once."""
        known = engine.cluster.nodes
        free = np.ones(len(engine.cluster.rows), dtype=np.bool_)
        for port in task.template.host_ports:
            for name, addresses in self.taken.get((port.protocol, port.port), {}).items():
                if _meets(port.ip, addresses) and name in known:
                    free[known[name].row] = False
        found: Mask = free[rows]
        return found


def _meets(ip: str, addresses: dict[str, int]) -> bool:
    """Say whether an address overlaps one of those taken; 0.0.0.0 overlaps all."""
    return ip == ANY_ADDRESS or ip in addresses or ANY_ADDRESS in addresses
