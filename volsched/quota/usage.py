"""Amounts of each queue during a session: the requests of its tasks that have a node or were promised one.

Pods count beside resources, as slots. Tasks without a node whose admission gate was lifted count as well, unless
``ungated`` is false. With ``above`` the amounts of a queue count in every queue above it, too; ``places`` is the tree
for that, where it is not the one by `spec.parent`. The amounts follow from the status and node of each task, so an
account that follows moves is right after a rollback.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_CHOSEN, TaskStatus
from volsched.model.values.resources import PODS, accumulate
from volsched.quota.amounts import request_with_slot
from volsched.quota.tree import QueueTree

NOTHING: Final[Mapping[str, int]] = {}


class QueueUsageObserver(Observer):
    """Follows the cluster; ask ``refresh`` when a session opens, so that changes of the tree of queues are in."""

    def __init__(
        self, cluster: Cluster, *, above: bool = False, places: QueueTree | None = None, ungated: bool = True
    ) -> None:
        self._cluster = cluster
        self._counts_ungated = ungated
        self._places = places if places is not None or not above else QueueTree(cluster)
        self._tree: Hashable = None
        self._held: dict[str, dict[str, int]] = {}
        self._changes = 0
        self._versions: dict[str, int] = {}
        self._queue_of: dict[str, str] = {}
        self.refresh()

    def by(self, queue: str) -> Mapping[str, int]:
        """Return what a queue holds, in the units of resources and in pods; without zeros."""
        return self._held.get(queue, NOTHING)

    def version(self, queue: str) -> int:
        """Return a version, which changes when what a queue holds may have changed."""
        return self._versions.get(queue, 0)

    @property
    def is_in_tree(self) -> bool:
        """Whether the amounts of a queue count in every queue above it."""
        return self._places is not None

    def levels(self, queue: str) -> tuple[str, ...]:
        """Return the queues in which a queue counts: itself, and with ``above`` those above it, the root last."""
        return (queue,) if self._places is None else self._places.tree.levels(queue)

    def allocated(self, queue: str) -> dict[str, int]:
        """Return what a queue holds between sessions of resources, on nodes alone: without tasks that have none yet."""
        held = {name: amount for name, amount in self.by(queue).items() if name != PODS}
        for name, amounts in self._cluster.queue_ledger.ungated.items() if self._counts_ungated else ():
            if queue in self.levels(name):
                accumulate(held, {n: amount for n, amount in amounts.items() if n != PODS}, -1)
        return held

    @property
    def _version(self) -> Hashable:
        return self._cluster.clocks.queue_tree if self._places is None else self._places.version

    def refresh(self) -> None:
        """Count again when queues came, went or are below others now."""
        if self._tree == self._version:
            return
        self._tree = self._version
        self._held.clear()
        self._versions.clear()
        for queue in self._cluster.queues.values():
            self._add(queue.name, {**queue.allocated, PODS: queue.placed}, 1)
            if self._counts_ungated:
                self._add(queue.name, self._cluster.queue_ledger.ungated.get(queue.name, NOTHING), 1)
        self._queue_of = {job.key: job.queue for job in self._cluster.jobs.values()}

    def catch_up(self) -> None:
        """Refresh, by a former name."""
        warnings.warn("catch_up ends with the next minor version; it is refresh", DeprecationWarning, stacklevel=2)
        self.refresh()

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Charge and uncharge."""
        if IS_CHOSEN[before] != IS_CHOSEN[task.status]:
            self._count(task, 1 if IS_CHOSEN[task.status] else -1)

    def run_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Charge equal tasks of one job together."""
        self._count(tasks[0], len(tasks))

    def task_ungated(self, task: TaskInfo, *, counts: bool) -> None:
        """Charge and uncharge a task without a node whose gate was lifted."""
        if self._counts_ungated:
            self._count(task, 1 if counts else -1)

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Follow a job into another queue, with all that it holds."""
        before = self._queue_of.get(job.key, job.queue)
        if before != job.queue:
            held = {**job.allocated, PODS: job.placed_count}
            self._add(before, held, -1)
            self._add(job.queue, held, 1)
        if gone:
            self._queue_of.pop(job.key, None)
        else:
            self._queue_of[job.key] = job.queue

    def _count(self, task: TaskInfo, by: int) -> None:
        if task.job is not None:
            self._add(task.job.queue, request_with_slot(task), by)

    def _add(self, queue: str, amounts: Mapping[str, int], by: int) -> None:
        """Add amounts to a queue and what it counts in; one that is gone is counted when it is there again."""
        if self._tree != self._version or queue not in self._cluster.queues:
            return
        self._changes += 1
        for level in self.levels(queue):
            self._versions[level] = self._changes
            accumulate(self._held.setdefault(level, {}), amounts, by)
