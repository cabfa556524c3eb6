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
from plugins.crossquota.pods import Amounts, CpuPods
from plugins.crossquota.quota import NodeQuota, quota_of
from volsched.framework.resource_patterns import DeviceNames
from volsched.plugin import (
    MAX_AMOUNT,
    ON_NODE,
    Cluster,
    Mask,
    NodeInfo,
    NodeProperties,
    NodeTable,
    Observer,
    PodTemplate,
    Rows,
    Scope,
    Shortfall,
    Step,
    TaskInfo,
    TaskStatus,
    Verdict,
)

NAME = "crossquota"
REASON = "FailedScheduling"

Table = npt.NDArray[np.int64]
Ids = npt.NDArray[np.intp]


class NodeAccount:
    """One node: what CPU pods hold there of each resource, and its quotas; None for what is no GPU node."""

    __slots__ = ("amounts", "quota", "used")

    def __init__(self, width: int) -> None:
        self.used = [0] * width
        self.quota: NodeQuota | None = None
        self.amounts: Amounts = ()


class NodeBudgets(Observer):
    """The accounts of all nodes, and the predicate on them.

    ``accounts`` has the GPU nodes, and others that CPU pods have been on, since these may become such. ``refusals``
    counts answers by resource.
    """

    def __init__(self, cluster: Cluster, arguments: CrossQuotaArguments) -> None:
        self.pods = CpuPods(arguments)
        self.resources = arguments.limits.resources
        self.accounts: dict[str, NodeAccount] = {}
        self.refusals = dict.fromkeys(self.resources, 0)
        self._cluster = cluster
        self._arguments = arguments
        self._changed: dict[str, NodeInfo] = {}
        self._unreported: dict[str, NodeInfo] = {}
        self._table = BudgetTable(len(self.resources))
        for node in cluster.rows:
            self.node_changed(node, None)
        for task in cluster.tasks.values():
            if self.follows(task.template):
                self.task_moved(task, TaskStatus.PENDING, None)

    # -- following the cluster ----------------------------------------------------------------------------------------

    def follows(self, template: PodTemplate) -> bool:
        """Only CPU pods count."""
        return self.pods.include(template)

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Move a pod from its former node to the present one."""
        left = node_before if ON_NODE[before] else None
        came = task.node if ON_NODE[task.status] else None
        if left is came:
            return
        request = self.pods.request(task.template)
        if request is None or not self.pods.selects(task):
            return
        if left is not None:
            self._charge(left, request, -1)
        if came is not None:
            self._charge(came, request, 1)

    def _charge(self, node: NodeInfo, request: Amounts, by: int) -> None:
        used = self._account(node).used
        for place, amount in enumerate(request):
            used[place] += by * amount
        self._note(node)

    def node_changed(self, node: NodeInfo, before: NodeProperties | None) -> None:
        """Read a node's quotas again. New faults of its annotations are reported."""
        is_gpu = is_gpu_node(node, self._arguments.devices, self._cluster.columns.names)
        if not is_gpu and node.name not in self.accounts:
            return
        account = self._account(node)
        known, account.quota = account.quota, quota_of(node, self._arguments.limits) if is_gpu else None
        account.amounts = account.quota.amounts if account.quota is not None else ()
        if account.quota is not None and account.quota.complaints != (known.complaints if known is not None else ()):
            self._unreported[node.name] = node
        self._note(node)

    def node_removed(self, node: NodeInfo) -> None:
        """Forget a node."""
        self.accounts.pop(node.name, None)
        self._note(node)

    def _account(self, node: NodeInfo) -> NodeAccount:
        found = self.accounts.get(node.name)
        if found is None:
            found = self.accounts[node.name] = NodeAccount(len(self.resources))
        return found

    def _note(self, node: NodeInfo) -> None:
        self._changed[node.name] = self._table.changed[node.name] = node

    def take_changed(self) -> Iterable[str]:
        """Return the names of nodes whose numbers may be others than when this was last called."""
        changed, self._changed = self._changed, {}
        return changed

    def take_unreported(self) -> Iterator[tuple[NodeInfo, NodeQuota]]:
        """Yield nodes whose annotations have become wrong in another way since this was last called."""
        unreported, self._unreported = self._unreported, {}
        for node in unreported.values():
            account = self.of(node)
            if account is not None and account.quota is not None:
                yield node, account.quota

    # -- questions ----------------------------------------------------------------------------------------------------

    def of(self, node: NodeInfo) -> NodeAccount | None:
        """Return the account of a GPU node, or None for another node."""
        account = self.accounts.get(node.name)
        return account if account is not None and account.amounts else None

    def table(self) -> BudgetTable:
        """Return the same about all nodes, up to date."""
        self._table.refresh(self._cluster, self)
        return self._table

    # -- the predicate ------------------------------------------------------------------------------------------------

    def applies(self, template: PodTemplate) -> bool:
        """True if pods of a template ask for no accelerator."""
        return self.pods.include(template)

    def refuse(self, template: PodTemplate, node: NodeInfo) -> Verdict | None:
        """Refuse a CPU pod that would take a GPU node above one of its quotas."""
        account, request = self.of(node), self.pods.request(template)
        if account is None or request is None:
            return None
        for amount, used, quota in zip(request, account.used, account.amounts, strict=True):
            if used + amount > quota:
                return self._refusal(request, account)
        return None

    def _refusal(self, request: Amounts, account: NodeAccount) -> Verdict:
        shortfalls, could_fit = [], True
        for resource, amount, used, quota in zip(self.resources, request, account.used, account.amounts, strict=True):
            if used + amount > quota:
                shortfalls.append(Shortfall(resource, amount, used, quota))
                could_fit = could_fit and amount <= quota
                self.refusals[resource] += 1
        message = "; ".join([f"{shortfall.resource} quota exceeded" for shortfall in shortfalls])
        return Verdict(Step.PREDICATE, NAME, Scope.NODE, REASON, message, tuple(shortfalls), resolvable=could_fit)

    def admit_rows(self, template: PodTemplate, nodes: NodeTable) -> Mask:
        """Answer as ``refuse``, for many nodes at once."""
        rows = nodes.rows
        passes = np.ones(len(rows), dtype=np.bool_)
        for resource, exceeded in self._exceeded(template, rows):
            self.refusals[resource] += int(np.count_nonzero(exceeded))
            passes &= ~exceeded
        return passes

    def wordings(self, template: PodTemplate, nodes: NodeTable) -> Ids:
        """Number the nodes by their exceeded quotas: only these are in the message."""
        rows = nodes.rows
        numbers: Ids = np.zeros(len(rows), dtype=np.intp)
        for _, exceeded in self._exceeded(template, rows):
            _, numbers = np.unique(2 * numbers + exceeded, return_inverse=True)
        return numbers

    def _exceeded(self, template: PodTemplate, rows: Rows) -> Iterator[tuple[str, Mask]]:
        """For each resource, on which of the nodes the pod would take it above its quota."""
        request = self.pods.request(template)
        if request is None:
            return
        table = self.table()
        counted = table.is_gpu[rows]
        for place, (resource, amount) in enumerate(zip(self.resources, request, strict=True)):
            yield resource, counted & (table.used[place][rows] > table.quotas[place][rows] - amount)


@dataclass(slots=True)
class BudgetTable:
    """The accounts as columns: (resource x row) used and quota, and which rows are GPU nodes (all else is 0 there)."""

    width: int
    used: Table = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    quotas: Table = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    is_gpu: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    changed: dict[str, NodeInfo] = field(default_factory=dict)
    layout: int = -1

    def refresh(self, cluster: Cluster, budgets: NodeBudgets) -> None:
        """Copy what changed. Everything when rows were numbered again."""
        nodes: Iterable[NodeInfo] = self.changed.values()
        if self.layout != cluster.generations.layout:
            shape = (self.width, len(cluster.rows))
            self.used, self.quotas = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
            self.is_gpu = np.zeros(len(cluster.rows), dtype=np.bool_)
            self.layout = cluster.generations.layout
            nodes = cluster.rows
        for node in nodes:
            account = budgets.of(node)
            self.is_gpu[node.row] = account is not None
            if account is not None:
                self.used[:, node.row] = [min(amount, MAX_AMOUNT + 1) for amount in account.used]
                self.quotas[:, node.row] = account.amounts
        self.changed.clear()


def is_gpu_node(node: NodeInfo, devices: DeviceNames, names: list[str]) -> bool:
    """Return whether a node has an accelerator: allocatable, or only in its capacity while its device plugin restarts.

    ``names`` are those of the cluster's resource columns.
    """
    offered = (name for name, amount in zip(names, node.allocatable, strict=False) if amount > 0)
    built_in = (name for name, amount in node.spec.capacity.items() if amount > 0)
    return any(map(devices.include, offered)) or any(map(devices.include, built_in))
