"""What CPU pods hold on each node and may hold there, kept move by move; and the rule that refuses them.

    used + request <= quota      for every resource that has a quota, asked for or not; being equal passes

``used`` counts the CPU pods on the node whom the quotas are for, of any scheduler, from the moment that a node is
chosen for them (in this session, or promised) until they are gone: one that is being deleted still holds its own.
A node that is over its quota therefore takes no CPU pod at all. Pods that ask for an accelerator are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from plugins.crossquota.arguments import CrossQuotaArguments
from plugins.crossquota.devices import DeviceNames
from plugins.crossquota.pods import Amounts, CpuPods
from plugins.crossquota.quota import NodeQuota, quota_of
from volsched.framework.callbacks import Mask, Rows
from volsched.framework.engine import FastEngine
from volsched.model.cluster import Cluster, Observer
from volsched.model.node import NodeFacts, NodeInfo
from volsched.model.resources import MAX_AMOUNT
from volsched.model.status import ON_NODE, TaskStatus
from volsched.model.task import TaskInfo
from volsched.model.template import TaskTemplate
from volsched.model.verdict import Scope, Shortfall, Step, Verdict

NAME = "crossquota"
REASON = "FailedScheduling"

Table = npt.NDArray[np.int64]


class NodeBudgets(Observer):
    """The accounts of all nodes, and the predicate on them.

    ``quotas`` has the GPU nodes only; ``used`` every node that CPU pods have been on, since it may become one.
    ``refusals`` counts answers by resource. ``changed`` are nodes whose numbers may be others than when it was emptied.
    """

    def __init__(self, cluster: Cluster, arguments: CrossQuotaArguments) -> None:
        self.pods = CpuPods(arguments)
        self.resources = arguments.limits.resources
        self.quotas: dict[str, NodeQuota] = {}
        self.used: dict[str, list[int]] = {}
        self.changed: dict[str, NodeInfo] = {}
        self.unsaid: dict[str, NodeInfo] = {}
        self.refusals = dict.fromkeys(self.resources, 0)
        self._cluster = cluster
        self._arguments = arguments
        self._nothing = [0] * len(self.resources)
        self._table = NodeTable(len(self.resources))
        for node in cluster.rows:
            self.node_changed(node, None)
        for task in cluster.tasks.values():
            if self.follows(task.template):
                self.task_moved(task, TaskStatus.PENDING, None)

    # -- following the cluster ----------------------------------------------------------------------------------------

    def follows(self, template: TaskTemplate) -> bool:
        """Only CPU pods count."""
        return self.pods.include(template)

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Take a pod off the node that it left and put it on the one where it is."""
        request = self.pods.request(task.template)
        if request is None or not self.pods.selects(task):
            return
        if node_before is not None and ON_NODE[before]:
            self._charge(node_before, request, -1)
        if task.node is not None and ON_NODE[task.status]:
            self._charge(task.node, request, 1)

    def _charge(self, node: NodeInfo, request: Amounts, by: int) -> None:
        used = self.used.get(node.name)
        if used is None:
            used = self.used[node.name] = list(self._nothing)
        for place, amount in enumerate(request):
            used[place] += by * amount
        self._note(node)

    def node_changed(self, node: NodeInfo, before: NodeFacts | None) -> None:
        """Look at a node's quotas again; its annotations are told of when they say something else that is wrong."""
        known = self.quotas.pop(node.name, None)
        if is_gpu_node(node, self._arguments.devices, self._cluster.columns.names):
            found = self.quotas[node.name] = quota_of(node, self._arguments.limits)
            told = (known.faults, known.doubts) if known is not None else ((), ())
            if told != (found.faults, found.doubts):
                self.unsaid[node.name] = node
        self._note(node)

    def node_removed(self, node: NodeInfo) -> None:
        """Forget a node."""
        for kept in (self.quotas, self.used, self.unsaid):
            kept.pop(node.name, None)
        self._note(node)

    def _note(self, node: NodeInfo) -> None:
        self.changed[node.name] = node
        self._table.changed[node.name] = node

    def take_changed(self) -> Iterable[str]:
        """Return the names of nodes that changed since this was last called."""
        changed, self.changed = self.changed, {}
        return changed

    def take_unsaid(self) -> Iterator[tuple[NodeInfo, NodeQuota]]:
        """Yield nodes whose annotations have become wrong in another way since this was last called."""
        unsaid, self.unsaid = self.unsaid, {}
        for node in unsaid.values():
            quota = self.quotas.get(node.name)
            if quota is not None:
                yield node, quota

    # -- questions ----------------------------------------------------------------------------------------------------

    def of(self, node: NodeInfo) -> tuple[list[int], Amounts] | None:
        """Return what is used of each resource on a GPU node, and its quotas; None for another node."""
        quota = self.quotas.get(node.name)
        return None if quota is None else (self.used.get(node.name, self._nothing), quota.amounts)

    def table(self) -> NodeTable:
        """Return the same about all nodes, up to date."""
        self._table.refresh(self._cluster, self)
        return self._table

    # -- the predicate ------------------------------------------------------------------------------------------------

    def applies(self, task: TaskInfo) -> bool:
        """Whether the pod asks for no accelerator."""
        return self.pods.include(task.template)

    def key(self, task: TaskInfo) -> bool | None:
        """Whether quotas and scores are for this pod: its labels decide, which are not part of its template."""
        return True if self.pods.selects(task) else None

    def refuse(self, task: TaskInfo, node: NodeInfo) -> Verdict | None:
        """Refuse a CPU pod that would take a GPU node above one of its quotas."""
        account, request = self.of(node), self.pods.request(task.template)
        if account is None or request is None or not self.pods.selects(task):
            return None
        used, quotas = account
        for place, amount in enumerate(request):
            if used[place] + amount > quotas[place]:
                return self._refusal(request, used, quotas)
        return None

    def _refusal(self, request: Amounts, used: list[int], quotas: Amounts) -> Verdict:
        each = zip(self.resources, request, used, quotas, strict=True)
        shortfalls = tuple(Shortfall(*numbers) for numbers in each if numbers[1] + numbers[2] > numbers[3])
        for shortfall in shortfalls:
            self.refusals[shortfall.resource] += 1
        message = "; ".join(f"{shortfall.resource} quota exceeded" for shortfall in shortfalls)
        could_fit = all(amount <= quota for amount, quota in zip(request, quotas, strict=True))
        return Verdict(Step.PREDICATE, NAME, Scope.NODE, REASON, message, shortfalls, resolvable=could_fit)

    def admit_rows(self, task: TaskInfo, engine: FastEngine, rows: Rows) -> Mask:
        """Answer as ``refuse``, for many nodes at once."""
        passes = np.ones(len(rows), dtype=np.bool_)
        request = self.pods.request(task.template)
        if request is None or not self.pods.selects(task):
            return passes
        table = self.table()
        counted = table.is_gpu[rows]
        for place, (resource, amount) in enumerate(zip(self.resources, request, strict=True)):
            exceeded = counted & (table.used[place][rows] > table.quotas[place][rows] - amount)
            self.refusals[resource] += int(np.count_nonzero(exceeded))
            passes &= ~exceeded
        return passes


@dataclass(slots=True)
class NodeTable:
    """The accounts as columns: (resource x row) used and quota, and which rows are GPU nodes (all else is 0 there)."""

    width: int
    used: Table = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    quotas: Table = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    is_gpu: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    changed: dict[str, NodeInfo] = field(default_factory=dict)
    layout: int = -1

    def refresh(self, cluster: Cluster, budgets: NodeBudgets) -> None:
        """Copy what changed; everything when rows were numbered anew."""
        nodes: Iterable[NodeInfo] = self.changed.values()
        if self.layout != cluster.layout:
            shape = (self.width, len(cluster.rows))
            self.used, self.quotas = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
            self.is_gpu = np.zeros(len(cluster.rows), dtype=np.bool_)
            self.layout = cluster.layout
            nodes = cluster.rows
        for node in nodes:
            account = budgets.of(node)
            self.is_gpu[node.row] = account is not None
            if account is not None:
                self.used[:, node.row] = [min(amount, MAX_AMOUNT + 1) for amount in account[0]]
                self.quotas[:, node.row] = account[1]
        self.changed.clear()


def is_gpu_node(node: NodeInfo, devices: DeviceNames, names: list[str]) -> bool:
    """Say whether a node has an accelerator: allocatable, or in its capacity only while its device plugin restarts.

    ``names`` are those of the cluster's resource columns.
    """
    offered = (name for name, amount in zip(names, node.allocatable, strict=False) if amount > 0)
    built_in = (name for name, amount in node.facts.capacity.items() if amount > 0)
    return any(map(devices.include, offered)) or any(map(devices.include, built_in))
