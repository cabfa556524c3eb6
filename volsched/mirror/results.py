"""The results of writes: bindings and evictions that succeeded or were refused."""

from __future__ import annotations

from volsched.mirror.binding_backoffs import BindingBackoffs
from volsched.mirror.groups import Groups
from volsched.mirror.nodes import UnknownNodes
from volsched.mirror.pods import ASSUMED
from volsched.model.changes import BindFailed, Bound, EvictFailed, GroupWriteFailed
from volsched.model.cluster import Cluster
from volsched.model.status import TaskStatus
from volsched.model.verdict import BINDER, ConditionReason, Scope, Step, Verdict


class Results:
    """Takes in what the executor reports of its writes."""

    def __init__(
        self, cluster: Cluster, groups: Groups, unknown_nodes: UnknownNodes, binding_backoffs: BindingBackoffs
    ) -> None:
        self._cluster = cluster
        self._groups = groups
        self._unknown_nodes = unknown_nodes
        self._binding_backoffs = binding_backoffs

    def take(self, change: Bound | BindFailed | EvictFailed | GroupWriteFailed) -> None:
        """Take one result in."""
        match change:
            case Bound():
                self._bound(change)
            case BindFailed():
                self._bind_failed(change)
            case EvictFailed():
                self._evict_failed(change)
            case GroupWriteFailed():
                self._groups.write_failed(change)

    def _bound(self, change: Bound) -> None:
        task = self._cluster.tasks.get(change.uid)
        if task is None or task.status not in (TaskStatus.BINDING, TaskStatus.PENDING):
            return
        if task.node is not None and task.node.name == change.node:
            self._cluster.move_quietly(task, TaskStatus.BOUND)
        else:  # its node went while the binding was under way; the API server takes such a binding too
            self._cluster.move(task, TaskStatus.BOUND, self._unknown_nodes.node_for(task, change.node))
        task.refusal = None

    def _bind_failed(self, change: BindFailed) -> None:
        task = self._cluster.tasks.get(change.uid)
        if task is None or task.status not in ASSUMED or task.node is None or task.node.name != change.node:
            return
        self._cluster.move(task, TaskStatus.PENDING, None)
        message = f'binding to node "{change.node}" failed: {change.message}'
        shown_as = ConditionReason.SCHEDULER_ERROR
        task.refusal = Verdict(Step.PREDICATE, BINDER, Scope.POD, "FailedScheduling", message, shown_as=shown_as)
        self._binding_backoffs.back_off(task, change.retry_at)

    def _evict_failed(self, change: EvictFailed) -> None:
        task = self._cluster.tasks.get(change.uid)
        if task is not None and task.status is TaskStatus.RELEASING and not task.spec.terminating:
            task.evicted = False
            self._cluster.move(task, TaskStatus.RUNNING, task.node)
