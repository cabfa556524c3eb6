"""Things that pods on one node must not share: host ports, and disks that they name themselves.

The account holds, for each such thing, the nodes where it is used and in which forms; so a question never looks at
pods, and clusters without such things keep nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np

from volsched.plugin import (
    ON_NODE,
    Cluster,
    Mask,
    NodeInfo,
    NodeTable,
    Observer,
    PodTemplate,
    TaskInfo,
    TaskStatus,
    Verdict,
)


class Thing(Protocol):
    """Something in the form in which a pod has it; hashable."""

    def conflicts_with(self, other: Self) -> bool:
        """Return whether both cannot be on one node."""
        ...


Key = TypeVar("Key")
Form = TypeVar("Form", bound=Thing)


class Exclusive(Observer, Generic[Key, Form]):
    """Things that pods have: key -> node -> form -> number of pods. Forms of different keys never conflict."""

    REFUSAL: ClassVar[Verdict]

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._had: dict[Key, dict[str, dict[Form, int]]] = {}
        templates = {task.template.id: task.template for task in cluster.tasks.values()}
        wanting = {number for number, template in templates.items() if self.follows(template)}
        for task in cluster.tasks.values() if wanting else ():
            if task.template.id in wanting and task.node is not None and ON_NODE[task.status]:
                self._count(task, task.node, 1)

    def wanted(self, template: PodTemplate) -> Iterable[tuple[Key, Form]]:
        """Return the things of pods of this template."""
        raise NotImplementedError

    # -- following the cluster ------------------------------------------------------------------------------------

    def follows(self, template: PodTemplate) -> bool:
        """Return whether pods of this template have any such thing."""
        return any(True for _ in self.wanted(template))

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Follow one task."""
        if node_before is not None and ON_NODE[before]:
            self._count(task, node_before, -1)
        if task.node is not None and ON_NODE[task.status]:
            self._count(task, task.node, 1)

    def _count(self, task: TaskInfo, node: NodeInfo, by: int) -> None:
        for key, form in self.wanted(task.template):
            nodes = self._had.setdefault(key, {})
            forms = nodes.setdefault(node.name, {})
            left = forms.get(form, 0) + by
            if left:
                forms[form] = left
                continue
            forms.pop(form, None)
            if not forms:
                del nodes[node.name]
                if not nodes:
                    del self._had[key]

    # -- the rule -------------------------------------------------------------------------------------------------

    def are_free(self, template: PodTemplate, node: NodeInfo) -> Verdict | None:
        """Everything that the pod wants must be free on the node."""
        for key, form in self.wanted(template):
            nodes = self._had.get(key)
            if nodes and any(form.conflicts_with(other) for other in nodes.get(node.name, ())):
                return self.REFUSAL
        return None

    def free_rows(self, template: PodTemplate, nodes: NodeTable) -> Mask:
        """Answer as ``are_free``, for many nodes at once."""
        known = self._cluster.nodes
        free = np.ones(len(self._cluster.rows), dtype=np.bool_)
        for key, form in self.wanted(template):
            for name, forms in self._had.get(key, {}).items():
                if name in known and any(form.conflicts_with(other) for other in forms):
                    free[known[name].row] = False
        found: Mask = free[nodes.rows]
        return found
