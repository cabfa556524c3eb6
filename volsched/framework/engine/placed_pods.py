"""Nodes and placed pods as ``domains`` needs them, apart from the counts of pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from volsched.framework.engine.domain_counts import EligibleNodes, Finder, PlacedTerm, Selection, add_to
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo, NodeProperties
from volsched.model.pods.placement_rules import PodTerm, Toleration
from volsched.model.pods.task import TaskInfo
from volsched.model.selectors import NodeSelector
from volsched.model.status import ON_NODE


class PlacedTerms(Finder[PlacedTerm]):
    """The terms of one kind that placed pods have, or had lately."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[PodTerm, PlacedTerm] = {}

    def add(self, sought: PlacedTerm) -> None:
        """Find this one too from now on."""
        super().add(sought)
        self.known[sought.term] = sought

    def remove(self, sought: PlacedTerm) -> None:
        """Do not find this one any more."""
        super().remove(sought)
        del self.known[sought.term]

    def forget_idle(self, most: int) -> bool:
        """Drop the terms that no placed pod has, if there are more than so many; True if any was dropped."""
        idle = [term for term in self.known.values() if not term.table.counts] if self.size > most else ()
        if len(idle) <= most:
            return False
        for placed_term in idle:
            self.remove(placed_term)
        return True


class PodIndex:
    """Placed pods by label key, value and uid (``by_label``), for the labels that a rule asked about."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.by_label: dict[str, dict[str, dict[str, TaskInfo]]] = {}

    def note(self, task: TaskInfo, node: NodeInfo | None) -> None:
        """Follow a pod to a node, or off all nodes."""
        for key, values in self.by_label.items():
            value = task.spec.labels.get(key)
            if value is not None:
                if node is not None:
                    values.setdefault(value, {})[task.uid] = task
                elif value in values:
                    values[value].pop(task.uid, None)

    def candidates(self, selection: Selection) -> Iterable[TaskInfo]:
        """Return the pods that may match a selection, narrowed by a required label if there is one."""
        pair = next((pair for term in selection.terms for pair in term.selector.equal), None)
        if pair is None:
            return _placed(self._cluster)
        key, value = pair
        values = self.by_label.get(key)
        if values is None:
            values = self.by_label[key] = {}
            for task in _placed(self._cluster):
                if key in task.spec.labels:
                    values.setdefault(task.spec.labels[key], {})[task.uid] = task
        return values.get(value, {}).values()


class DomainNodes:
    """The number of nodes of each domain, by topology key (``counts``), and eligible nodes of spread constraints."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.counts: dict[str, dict[str, int]] = {}
        self.eligible: dict[tuple[object, ...], EligibleNodes] = {}

    def enter(self, properties: NodeProperties) -> None:
        """Take a node in."""
        for key, nodes in self.counts.items():
            if key in properties.labels:
                value = properties.labels[key]
                nodes[value] = nodes.get(value, 0) + 1
        for eligible in self.eligible.values():
            eligible.enter(properties)

    def leave(self, properties: NodeProperties) -> None:
        """Forget a node."""
        for key, nodes in self.counts.items():
            if key in properties.labels:
                add_to(nodes, properties.labels[key], -1)
        for eligible in self.eligible.values():
            eligible.leave(properties)

    def watch(self, key: str) -> None:
        """Count nodes by a topology key from now on; an empty key stands for the node itself."""
        if key and key not in self.counts:
            nodes = self.counts[key] = {}
            for node in self._cluster.rows:
                if key in node.labels:
                    add_to(nodes, node.labels[key], 1)

    def eligible_for(
        self, keys: tuple[str, ...], selector: NodeSelector | None, tolerations: tuple[Toleration, ...] | None
    ) -> EligibleNodes:
        """Return the nodes that count for a spread constraint. They are followed from now on."""
        key = (keys, selector, tolerations)
        found = self.eligible.get(key)
        if found is None:
            found = self.eligible[key] = EligibleNodes(keys, selector, tolerations)
            for node in self._cluster.rows:
                found.enter(node.spec)
        return found

    def keep(self, keys: set[str]) -> None:
        """Forget all topology keys but these."""
        self.counts = {key: nodes for key, nodes in self.counts.items() if key in keys}


def _placed(cluster: Cluster) -> Iterator[TaskInfo]:
    return (task for task in cluster.tasks.values() if task.node is not None and ON_NODE[task.status])
