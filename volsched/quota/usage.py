"""The amounts of each queue: of tasks that have a node, or were promised one.

``QueueUsage`` adds up amounts of any dimensions, ``JobCharges`` what each job is charged for. ``QueueUsageObserver``
adds up requests, with pods as slots. Tasks without a node whose admission gate was lifted count as well, unless
``ungated`` is false. With ``above`` the amounts of a queue count in every queue above it, too; ``places`` is the tree
for that, where it is not the one by `spec.parent`. The amounts follow from the status and node of each task, so an
account that follows moves is right after a rollback.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic

from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_CHOSEN, TaskStatus
from volsched.model.values.resources import PODS, accumulate
from volsched.quota.amounts import D, request_with_slot
from volsched.quota.tree import QueueTree

NOTHING: Final[Mapping[str, int]] = {}
_NO_AMOUNTS: Final[Mapping[Any, int]] = {}


class QueueUsage(Generic[D]):
    """Sums of amounts by queue, without zeros. ``levels`` returns the queues in which one counts, itself first.

    Without ``levels`` a queue counts in itself alone.

    ``version`` changes with any of them.
    """

    def __init__(self, levels: Callable[[str], Sequence[str]] | None = None) -> None:
        self._levels = levels
        self._sums: dict[str, dict[D, int]] = {}
        self._versions: dict[str, int] = {}
        self.version = 0

    def of(self, level: str) -> Mapping[D, int]:
        """Return what counts in a queue."""
        return self._sums.get(level, _NO_AMOUNTS)

    def items(self) -> Iterator[tuple[str, Mapping[D, int]]]:
        """Yield what counts in each queue."""
        yield from self._sums.items()

    def version_of(self, level: str) -> int:
        """Return a version, which changes when what counts in a queue may have changed."""
        return self._versions.get(level, 0)

    def add(self, queue: str, amounts: Mapping[D, int], by: int) -> None:
        """Add amounts to a queue ``by`` times, or take them off (-1), in all its levels."""
        self.version += 1
        for level in (queue,) if self._levels is None else self._levels(queue):
            self._versions[level] = self.version
            accumulate(self._sums.setdefault(level, {}), amounts, by)

    def clear(self) -> None:
        """Forget all amounts, to add them again."""
        self.version += 1
        self._sums.clear()
        self._versions = dict.fromkeys(self._versions, self.version)


class JobCharges(Generic[D]):
    """What jobs are charged for: a job that moves to another queue takes it along.

    ``own`` has the sums of queues, ``with_below`` those of queues with all below them; ``levels`` as of ``QueueUsage``.
    """

    def __init__(self, levels: Callable[[str], Sequence[str]] | None = None) -> None:
        self._jobs: dict[str, tuple[str, dict[D, int]]] = {}
        self.own: QueueUsage[D] = QueueUsage()
        self.with_below = self.own if levels is None else QueueUsage[D](levels)

    def of(self, job: JobInfo) -> Mapping[D, int]:
        """Return what a job is charged for."""
        charged = self._jobs.get(job.key)
        return charged[1] if charged is not None else _NO_AMOUNTS

    def charge(self, job: JobInfo, amounts: Mapping[D, int], by: int) -> None:
        """Charge a job and its queue for amounts, or no longer (-1)."""
        charged = self._jobs.get(job.key)
        if charged is None:
            charged = self._jobs[job.key] = (job.queue, {})
        accumulate(charged[1], amounts, by)
        self.add(charged[0], amounts, by)

    def follow(self, job: JobInfo, *, gone: bool) -> None:
        """Let what a job is charged for count for the queue that it is in now."""
        charged = self._jobs.get(job.key)
        if charged is None:
            return
        if charged[0] != job.queue:
            self.add(charged[0], charged[1], -1)
            self.add(job.queue, charged[1], 1)
            self._jobs[job.key] = (job.queue, charged[1])
        if gone:
            del self._jobs[job.key]

    def knows(self, job: JobInfo) -> bool:
        """True if a job was charged for anything, even if for nothing now."""
        return job.key in self._jobs

    def drop(self, key: str) -> str:
        """Charge a job for nothing any more. Return the queue that was charged, empty for none."""
        charged = self._jobs.pop(key, None)
        if charged is None:
            return ""
        self.add(charged[0], charged[1], -1)
        return charged[0]

    def add_up_again(self) -> None:
        """Add up the sums of levels again, as queues are below others now."""
        if self.with_below is not self.own:
            self.with_below.clear()
            for queue, amounts in self.own.items():
                self.with_below.add(queue, amounts, 1)

    def add(self, queue: str, amounts: Mapping[D, int], by: int) -> None:
        """Charge a queue for amounts, or no longer (-1)."""
        self.own.add(queue, amounts, by)
        if self.with_below is not self.own:
            self.with_below.add(queue, amounts, by)


class QueueUsageObserver(Observer):
    """Follows the cluster. Ask ``refresh`` when a session opens, so that changes of the tree of queues are in."""

    def __init__(
        self, cluster: Cluster, *, above: bool = False, places: QueueTree | None = None, ungated: bool = True
    ) -> None:
        self._cluster = cluster
        self._counts_ungated = ungated
        self._places = places if places is not None or not above else QueueTree(cluster)
        self._tree: Hashable = None
        self._sums = QueueUsage[str](self.levels)
        self._queue_of: dict[str, str] = {}
        self.refresh()

    def by(self, queue: str) -> Mapping[str, int]:
        """Return what a queue holds, in the units of resources and in pods; without zeros."""
        return self._sums.of(queue)

    def version(self, queue: str) -> int:
        """Return a version, which changes when what a queue holds may have changed."""
        return self._sums.version_of(queue)

    @property
    def is_in_tree(self) -> bool:
        """True if the amounts of a queue count in every queue above it."""
        return self._places is not None

    def levels(self, queue: str) -> tuple[str, ...]:
        """Return the queues in which a queue counts: itself, and with ``above`` those above it, the root last."""
        return (queue,) if self._places is None else self._places.tree.levels(queue)

    def allocated(self, queue: str) -> dict[str, int]:
        """Return what a queue holds between sessions of resources, on nodes alone: without tasks that have none yet."""
        held = {name: amount for name, amount in self.by(queue).items() if name != PODS}
        for name, amounts in self._cluster.queue_cache.ungated.items() if self._counts_ungated else ():
            if queue in self.levels(name):
                accumulate(held, {n: amount for n, amount in amounts.items() if n != PODS}, -1)
        return held

    @property
    def _version(self) -> Hashable:
        return self._cluster.generations.queue_tree if self._places is None else self._places.version

    def refresh(self) -> None:
        """Count again when queues came, went or are below others now."""
        if self._tree == self._version:
            return
        self._tree = self._version
        self._sums.clear()
        for queue in self._cluster.queues.values():
            self._add(queue.name, {**queue.allocated, PODS: queue.placed}, 1)
            if self._counts_ungated:
                self._add(queue.name, self._cluster.queue_cache.ungated.get(queue.name, NOTHING), 1)
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
        """Add amounts to a queue and what it counts in. One that is gone is counted when it is there again."""
        if self._tree == self._version and queue in self._cluster.queues:
            self._sums.add(queue, amounts, by)
