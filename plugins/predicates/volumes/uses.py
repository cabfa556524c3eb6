"""The nodes on which claims are used."""

from __future__ import annotations

from plugins.predicates.volumes.claims import keys_of
from volsched.plugin import ON_NODE, Cluster, NodeInfo, Observer, PodTemplate, TaskInfo, TaskStatus


class ClaimUses(Observer):
    """Claim -> node -> number of pods. ``version`` changes with them.

    ``news`` are the pairs that came or went since the last call; None if they were not read for long.
    """

    LONG = 100_000

    def __init__(self, cluster: Cluster) -> None:
        self.nodes: dict[str, dict[str, int]] = {}
        self.version = 0
        self.news: list[tuple[str, str]] | None = None
        for task in cluster.tasks.values():
            if task.template.claims and task.node is not None and ON_NODE[task.status]:
                self._count(task, task.node, 1)

    def follows(self, template: PodTemplate) -> bool:
        """Return whether pods of this template have claims."""
        return bool(template.claims)

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Follow one task."""
        was = node_before if node_before is not None and ON_NODE[before] else None
        now = task.node if task.node is not None and ON_NODE[task.status] else None
        if was is now:
            return
        self.version += 1
        if was is not None:
            self._count(task, was, -1)
        if now is not None:
            self._count(task, now, 1)

    def _count(self, task: TaskInfo, node: NodeInfo, by: int) -> None:
        for key in keys_of(task.template):
            nodes = self.nodes.setdefault(key, {})
            before = nodes.get(node.name, 0)
            if before + by:
                nodes[node.name] = before + by
            else:
                del nodes[node.name]
                if not nodes:
                    del self.nodes[key]
            if self.news is not None and (not before or not before + by):
                self.news.append((key, node.name))
        if self.news is not None and len(self.news) > self.LONG:
            self.news = None

    def others(self, key: str, task: TaskInfo) -> bool:
        """True if any pod but this one uses a claim."""
        nodes = self.nodes.get(key)
        if not nodes:
            return False
        own = task.node.name if task.node is not None and ON_NODE[task.status] else ""
        return sum(nodes.values()) > (own in nodes)
