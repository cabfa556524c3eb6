"""Nodes as the mirror takes them in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from volsched.mirror import reading
from volsched.mirror.kept import AnnotationReader
from volsched.mirror.nodes.closed import ClosedNodes
from volsched.mirror.nodes.unknown import UnknownNodes
from volsched.mirror.problems import ReadingProblems
from volsched.model import api
from volsched.model.changes import Gone
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeProperties
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
        """Take nodes in, together; pods that were there before their node are on it now."""
        self._cluster.node_cache.put(nodes)
        for spec, _ in nodes:
            self._unknown.arrived(spec.name)

    def drop(self, gone: Gone) -> None:
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
