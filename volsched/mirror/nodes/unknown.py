"""Pods on nodes that are not known (yet): a watch of pods may be ahead of the watch of nodes."""

from __future__ import annotations

from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo


class UnknownNodes:
    """Tasks by the name of the node that they wait for."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waiting: dict[str, dict[str, TaskInfo]] = {}
        self._names: dict[str, str] = {}

    def node_for(self, task: TaskInfo, name: str) -> NodeInfo | None:
        """Return the node of that name; when it is not known, the task waits for it."""
        node = self._cluster.nodes.get(name)
        if node is None:
            self.wait(task, name)
        return node

    def wait(self, task: TaskInfo, name: str) -> None:
        """Have a task wait for the node of that name, and for no other."""
        self.leave(task.uid)
        self._waiting.setdefault(name, {})[task.uid] = task
        self._names[task.uid] = name

    def leave(self, uid: str) -> None:
        """Let a task wait for its node no longer."""
        name = self._names.pop(uid, None)
        if name is not None:
            waiting = self._waiting[name]
            del waiting[uid]
            if not waiting:
                del self._waiting[name]

    def name_of(self, task: TaskInfo) -> str:
        """Return the name of a task's node, known or not; empty without one."""
        return task.node.name if task.node is not None else self._names.get(task.uid, "")

    def arrived(self, name: str) -> None:
        """Put the tasks that wait for a node on it: it is known now."""
        for task in list(self._waiting.get(name, {}).values()):
            self.leave(task.uid)
            self._cluster.move(task, task.status, self._cluster.nodes[name])
