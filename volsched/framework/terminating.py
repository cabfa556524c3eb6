"""A node without its terminating pods: nominations are checked against it.

Amounts of a node already tell what will be free. Everything else that pods hold on a node (slots, host ports, cards,
devices, affinity and spreading) is known only to plugins, which follow moves of tasks. So terminating pods are removed
during the question, and put back after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from volsched.model.cluster import Cluster
from volsched.model.nodes.columns import PODS
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus


@contextmanager
def all_left(cluster: Cluster, node: NodeInfo) -> Iterator[None]:
    """Remove terminating pods from the node inside this block, without requeueing jobs."""
    leaving = terminating_on(node)
    with cluster.without_requeue():
        for task in leaving:
            cluster.move(task, TaskStatus.RELEASING, None)
    try:
        with cluster.devices.cleaned_up(cluster.tasks):
            yield
    finally:
        for task in reversed(leaving):
            cluster.move(task, TaskStatus.RELEASING, node)


def terminating_on(node: NodeInfo) -> list[TaskInfo]:
    """Tasks that are leaving a node."""
    if not node.releasing[PODS]:
        return []
    return [task for task in node.tasks.values() if task.status is TaskStatus.RELEASING]
