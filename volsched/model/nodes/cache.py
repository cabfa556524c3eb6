"""The cache of nodes: allocatable and used amounts, exact after every move, and the log of changed rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from volsched.model.former import renamed_attributes
from volsched.model.generations import ClusterEvent, Generations, RowLog
from volsched.model.nodes.columns import ResourceColumns
from volsched.model.nodes.node import NodeInfo, NodeProperties
from volsched.model.observers import Observers
from volsched.model.pods.task import TaskInfo
from volsched.model.status import HOLDS_ROOM, TaskStatus

_OFFERS_PER_NODE = 4
"""The most numbers of sets of allocatable amounts per node, before unused numbers are dropped."""


class NodeCache:
    """All nodes, by name and, in order of their names, by row.

    ``totals`` is what nodes offer together and ``total_used`` what of it is taken, by column. On the nodes
    ``with_terminating_pods`` room is being freed: pods are terminating there, or others were promised their room.
    ``usage_log`` names the rows where anything changed, ``properties_log`` those where properties of the node did.
    ``offered`` hears of resources that tasks asked for in vain and that a node offers now.
    """

    def __init__(
        self,
        columns: ResourceColumns,
        generations: Generations,
        observers: Observers,
        offered: Callable[[Sequence[str]], None],
    ) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.rows: list[NodeInfo] = []
        self.totals: list[int] = []
        self.total_used: list[int] = []
        self.with_terminating_pods: dict[str, NodeInfo] = {}
        self.usage_log = RowLog()
        self.properties_log = RowLog()
        self._columns = columns
        self._generations = generations
        self._observers = observers
        self._offered = offered
        self._offers: dict[tuple[int, ...], int] = {}

    # -- nodes ----------------------------------------------------------------------------------------------------

    @property
    def properties_version(self) -> tuple[int, int]:
        """Changes whenever nodes come or go, or their properties or offers change."""
        return self._generations.layout, self.properties_log.end

    def put(self, nodes: Iterable[tuple[NodeProperties, Mapping[str, int]]]) -> None:
        """Add or replace nodes: their properties, and their allocatable amounts (in project units)."""
        before: dict[str, NodeProperties | None] = {}
        arrived = changed = False
        for properties, allocatable in nodes:
            node = self.nodes.get(properties.name)
            if node is None:
                node = self.nodes[properties.name] = NodeInfo(properties, self._columns)
                before[node.name] = None
                self._set_allocatable(node, allocatable)
                arrived = True
                continue
            known = node.spec
            has_changed = known != properties
            if has_changed:
                node.spec = properties
            if self._set_allocatable(node, allocatable) or has_changed:
                before.setdefault(node.name, known)
                self._note_properties(node)
                changed = True
        if arrived:
            self._number_rows()
        for name, properties_before in before.items():
            self._notify_changed(self.nodes[name], properties_before)
        if changed:
            self._generations.wake(ClusterEvent.NODE_CHANGED)

    def set_spec(self, node: NodeInfo, properties: NodeProperties) -> None:
        """Change a node's own properties, at once."""
        before = node.spec
        if properties == before:
            return
        node.spec = properties
        self._note_properties(node)
        self._notify_changed(node, before)
        self._generations.wake(ClusterEvent.NODE_CHANGED)

    def _note_properties(self, node: NodeInfo) -> None:
        self.properties_log.append(node.row)
        self.usage_log.append(node.row)

    def _notify_changed(self, node: NodeInfo, before: NodeProperties | None) -> None:
        self._observers.notify(lambda observer: observer.node_changed(node, before))

    def remove(self, name: str) -> None:
        """Forget a node. Its tasks must have been moved or removed before."""
        node = self.nodes.pop(name)
        for column, amount in enumerate(node.allocatable):
            self.totals[column] -= amount
        self.with_terminating_pods.pop(name, None)
        self._number_rows()
        self._observers.notify(lambda observer: observer.node_removed(node))

    def touch(self, node: NodeInfo) -> None:
        """Note that something on a node changed, so that answers about it are asked again."""
        self.usage_log.append(node.row)

    def touch_all(self) -> None:
        """Note that something changed on every node."""
        for node in self.rows:
            self.touch(node)
        self._generations.wake(ClusterEvent.DEVICES_CHANGED)

    def touch_named(self, name: str) -> None:
        """Note that something on a node changed, if it is there."""
        node = self.nodes.get(name)
        if node is not None:
            self.touch(node)

    # -- what they offer --------------------------------------------------------------------------------------------

    def _set_allocatable(self, node: NodeInfo, allocatable: Mapping[str, int]) -> bool:
        """Set what pods may take on a node. Return True if that is anything new."""
        in_vain = self._columns.in_vain()
        if not in_vain.isdisjoint(allocatable):
            self._offered([name for name in allocatable if name in in_vain])
        columns = {self._columns.column(name): amount for name, amount in allocatable.items()}
        self.widen()
        changed = False
        for column, before in enumerate(node.allocatable):
            amount = columns.get(column, 0)
            if amount != before:
                self.totals[column] += amount - before
                node.allocatable[column] = amount
                changed = True
        if changed:
            self._number_offer(node)
        return changed

    def _number_offer(self, node: NodeInfo) -> None:
        node.offer = self._offers.setdefault(tuple(node.allocatable), len(self._offers))

    def _number_rows(self) -> None:
        self.rows[:] = [self.nodes[name] for name in sorted(self.nodes)]
        if len(self._offers) > _OFFERS_PER_NODE * len(self.rows):
            self._offers.clear()
            for node in self.rows:
                self._number_offer(node)
        for row, node in enumerate(self.rows):
            node.row = row
        self._generations.layout += 1
        self._generations.wake(ClusterEvent.NODE_CHANGED)

    def widen(self) -> None:
        """Give every list of amounts a place for each column that was named since."""
        size = len(self._columns)
        missing = size - len(self.totals)
        if missing <= 0:
            return
        for amounts in (self.totals, self.total_used):
            amounts.extend([0] * missing)
        for node in self.nodes.values():
            for amounts in (node.allocatable, node.used, node.releasing, node.pipelined):
                amounts.extend([0] * (size - len(amounts)))

    # -- what is taken ------------------------------------------------------------------------------------------------

    def charge(self, node: NodeInfo, task: TaskInfo, status: TaskStatus, by: int) -> None:
        """Count a task that stands so on a node, or (-1) count it no more."""
        if HOLDS_ROOM[status]:
            used, total = node.used, self.total_used
            for column, amount in task.charge:
                change = by * amount
                used[column] += change
                total[column] += change
            if status is TaskStatus.RELEASING:
                self._charge_future(node, node.releasing, task, by)
        elif status is TaskStatus.PIPELINED:
            self._charge_future(node, node.pipelined, task, by)
        if by > 0:
            node.tasks[task.uid] = task
        else:
            node.tasks.pop(task.uid, None)
        self.usage_log.append(node.row)

    def _charge_future(self, node: NodeInfo, amounts: list[int], task: TaskInfo, by: int) -> None:
        for column, amount in task.charge:
            amounts[column] += by * amount
        node.terminating_pods += by
        if node.terminating_pods:
            self.with_terminating_pods[node.name] = node
        else:
            self.with_terminating_pods.pop(node.name, None)

    def allocate_each(self, tasks: Sequence[TaskInfo], nodes: Iterator[NodeInfo]) -> int:
        """Allocate equal pending tasks, each to the next of some nodes. Return how many.

        If choosing the next node fails, no task has moved.
        """
        charge, count = tasks[0].charge, 0
        note, allocated = self.usage_log.rows.append, TaskStatus.ALLOCATED
        try:
            for task, node in zip(tasks, nodes, strict=False):
                used = node.used
                for column, amount in charge:
                    used[column] += amount
                node.tasks[task.uid] = task
                task.status, task.node = allocated, node
                note(node.row)
                count += 1
        except BaseException:
            self._take_back(tasks[:count])
            raise
        self.usage_log.trim()
        for column, amount in charge:
            self.total_used[column] += count * amount
        return count

    def _take_back(self, tasks: Sequence[TaskInfo]) -> None:
        """Set tasks to pending again whose amounts were not added to the totals yet."""
        for task in tasks:
            if (node := task.node) is not None:
                for column, amount in task.charge:
                    node.used[column] -= amount
                del node.tasks[task.uid]
                task.status, task.node = TaskStatus.PENDING, None
                self.usage_log.append(node.row)

    if not TYPE_CHECKING:  # a type checker finds the former names itself
        __getattr__ = renamed_attributes({"facts_log": "properties_log", "facts_version": "properties_version"})
