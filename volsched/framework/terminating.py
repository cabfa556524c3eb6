"""A node as it will be once its terminating pods are gone: what a nomination is checked against.

Amounts show by themselves what will be free. Whatever else pods hold on a node (its slots, host ports, cards, devices,
the places that affinity and spreading count) is known to plugins alone, and they follow where tasks stand. So those who
are leaving are taken off while a question is asked, and put back.
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
    """Have those who are leaving a node off it; what stands afterwards is theirs again, and nobody is woken."""
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
