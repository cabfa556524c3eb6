"""Disks that pods name themselves (gce, aws, iscsi, rbd): most must not be on a node twice."""

from __future__ import annotations

import numpy as np

from plugins.predicates.verdicts import node_refusal
from volsched.framework.callbacks import Mask, Rows
from volsched.framework.engine import FastEngine
from volsched.model.cluster import Cluster, Observer
from volsched.model.node import NodeInfo
from volsched.model.status import ON_NODE, TaskStatus
from volsched.model.task import TaskInfo
from volsched.model.template import LegacyDisk, TaskTemplate
from volsched.model.verdict import Verdict

IN_USE = node_refusal("node(s) had no available disk")


class LegacyDisks(Observer):
    """Which disks are used where: (kind, identity) -> node -> disk as used -> number of pods."""

    def __init__(self, cluster: Cluster) -> None:
        self.used: dict[tuple[str, str], dict[str, dict[LegacyDisk, int]]] = {}
        for task in cluster.tasks.values():
            if task.node is not None and ON_NODE[task.status]:
                self._count(task, task.node, 1)

    def follows(self, template: TaskTemplate) -> bool:
        """Say whether pods of this template name disks."""
        return bool(template.legacy_disks)

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Follow one task."""
        if node_before is not None and ON_NODE[before]:
            self._count(task, node_before, -1)
        if task.node is not None and ON_NODE[task.status]:
            self._count(task, task.node, 1)

    def _count(self, task: TaskInfo, node: NodeInfo, by: int) -> None:
        for disk in task.template.legacy_disks:
            nodes = self.used.setdefault((disk.kind, disk.identity), {})
            disks = nodes.setdefault(node.name, {})
            left = disks.get(disk, 0) + by
            if left:
                disks[disk] = left
                continue
            disks.pop(disk, None)
            if not disks:
                del nodes[node.name]
                if not nodes:
                    del self.used[disk.kind, disk.identity]

    @staticmethod
    def applies(task: TaskInfo) -> bool:
        """Whether a pod names any such disk."""
        return bool(task.template.legacy_disks)

    def are_free(self, task: TaskInfo, node: NodeInfo) -> Verdict | None:
        """VolumeRestrictions: nobody on the node uses a disk of the pod in a way that excludes the pod."""
        for disk in task.template.legacy_disks:
            nodes = self.used.get((disk.kind, disk.identity))
            if nodes and any(disk.conflicts_with(other) for other in nodes.get(node.name, ())):
                return IN_USE
        return None

    def free_rows(self, task: TaskInfo, engine: FastEngine, rows: Rows) -> Mask:
        """Answer as ``are_free``, for many nodes at once."""
        known = engine.cluster.nodes
        free = np.ones(len(engine.cluster.rows), dtype=np.bool_)
        for disk in task.template.legacy_disks:
            for name, others in self.used.get((disk.kind, disk.identity), {}).items():
                if any(disk.conflicts_with(other) for other in others):
                    free[known[name].row] = False
        found: Mask = free[rows]
        return found
