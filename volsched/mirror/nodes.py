"""Nodes in the mirror, pods on unknown nodes, and nodes that take no new pods.

A node is closed to new pods while an unreadable pod runs there. A watch of pods may be ahead of the watch of nodes, so
tasks may wait for their node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from volsched.mirror import reading
from volsched.mirror.kept import AnnotationReader
from volsched.mirror.problems import ReadingProblems
from volsched.mirror.quarantine import Identity, Quarantine, QuarantinedObject
from volsched.model import api
from volsched.model.changes import Deleted
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo, NodeProperties
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus

NodeReading = tuple[NodeProperties, Mapping[str, int]]
"""The properties of a node, and its allocatable amounts in the units of ``model.values.quantity``."""


class Nodes:
    """The nodes of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        problems: ReadingProblems,
        closed: ClosedNodes,
        unknown: UnknownNodes,
        annotations: AnnotationReader,
    ) -> None:
        self._cluster = cluster
        self._problems = problems
        self._closed = closed
        self._unknown = unknown
        self._annotations = annotations

    def read(self, found: api.Node) -> NodeReading:
        """Return what a Node object states."""
        spec, allocatable = reading.node_spec(found, self._problems.reporter("Node", found))
        spec = replace(spec, annotations=self._annotations.of("Node", found.metadata.annotations))
        return self._closed.spec_of(spec), allocatable

    def put(self, nodes: Sequence[NodeReading]) -> None:
        """Take nodes in, together. Pods that were there before their node are on it now."""
        self._cluster.node_cache.put(nodes)
        for spec, _ in nodes:
            self._unknown.arrived(spec.name)

    def drop(self, gone: Deleted) -> None:
        """Forget a node: pods that are bound to it wait for it, pods that are being bound are pending again."""
        node = self._cluster.nodes.get(gone.name)
        if node is None:
            return
        for task in list(node.tasks.values()):
            if task.status is TaskStatus.BINDING:
                self._cluster.move(task, TaskStatus.PENDING, None)
            else:
                self._cluster.move(task, task.status, None)
                self._unknown.wait(task, gone.name)
        self._cluster.node_cache.remove(gone.name)


class ClosedNodes:
    """Has the specs of nodes state whether an object in quarantine closes them."""

    def __init__(self, cluster: Cluster, quarantine: Quarantine) -> None:
        self._cluster = cluster
        self._quarantine = quarantine

    def quarantine(self, found: QuarantinedObject | None) -> None:
        """Leave an object as it was last understood. The node of an unreadable pod takes no new pods."""
        if found is None:
            return
        if found.uid in self._cluster.tasks:
            found = replace(found, node="")
        before = self._quarantine.add(found)
        self._close_or_open(found, before)

    def take_back(self, identity: Identity | None) -> None:
        """End the quarantine of an object that could be taken in."""
        if identity is not None:
            self._close_or_open(self._quarantine.drop(identity))

    def spec_of(self, spec: NodeProperties) -> NodeProperties:
        """Return the spec of a node with what the quarantine adds to it."""
        return self._closed_or_not(spec) if self._quarantine else spec

    def _close_or_open(self, *found: QuarantinedObject | None) -> None:
        """Have the nodes on which these run take something new or not, as it is now."""
        for name in {each.node for each in found if each is not None}:
            node = self._cluster.nodes.get(name)
            if node is not None:
                self._cluster.node_cache.set_spec(node, self._closed_or_not(node.spec))

    def _closed_or_not(self, spec: NodeProperties) -> NodeProperties:
        closed = spec.name in self._quarantine.closed_nodes()
        return spec if spec.quarantined == closed else replace(spec, quarantined=closed)


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
