"""Usage of online pods, of the cluster and by queue, kept move by move. The rest of all usage is offline.

Metrics read it: neither a session nor a scrape looks at pods. The sum is the usage of all pods: on nodes all that hold
room (``HOLDS_ROOM``), whatever scheduler placed them; in queues the allocated ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.workload import OFFLINE, ONLINE
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import HOLDS_ROOM, IS_ALLOCATED, TaskStatus
from volsched.model.values.resources import accumulate

Amounts = Mapping[str, int]


@dataclass(slots=True)
class _OnlineShare:
    """The part of the online pods of one job in the usage of its queue."""

    queue: str
    amounts: dict[str, int] = field(default_factory=dict)


class OnlineAccounts(Observer):
    """The accounts of online pods. ``used``: on all nodes, by resource column; ``queues``: by queue, in amounts."""

    def __init__(self, cluster: Cluster) -> None:
        self.used: dict[int, int] = {}
        self.queues: dict[str, dict[str, int]] = {}
        self._jobs: dict[str, _OnlineShare] = {}
        for task in cluster.tasks.values():
            self.task_moved(task, TaskStatus.PENDING, None)

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Count an online task on nodes and in its queue."""
        if task.spec.workload != ONLINE:
            return
        status = task.status
        left, came = HOLDS_ROOM[before] and node_before is not None, HOLDS_ROOM[status] and task.node is not None
        if left != came:
            self._occupy(task, 1 if came else -1)
        if task.job is not None and IS_ALLOCATED[before] != IS_ALLOCATED[status]:
            self._charge(task.job, task.template.request, 1 if IS_ALLOCATED[status] else -1)

    def run_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Count equal tasks of one job at once."""
        count = sum(task.spec.workload == ONLINE for task in tasks)
        if count:
            first = tasks[0]
            self._occupy(first, count)
            if first.job is not None:
                self._charge(first.job, first.template.request, count)

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Let what a job's pods hold count for the queue that it is in now."""
        share = self._jobs.get(job.key)
        if share is None:
            return
        if share.queue != job.queue:
            accumulate(self._queue(share.queue), share.amounts, -1)
            share.queue = job.queue
            accumulate(self._queue(share.queue), share.amounts, 1)
        if gone:
            del self._jobs[job.key]

    def _occupy(self, task: TaskInfo, by: int) -> None:
        for column, amount in task.charge:
            self.used[column] = self.used.get(column, 0) + by * amount

    def _charge(self, job: JobInfo, request: Amounts, by: int) -> None:
        share = self._jobs.get(job.key)
        if share is None:
            share = self._jobs[job.key] = _OnlineShare(job.queue)
        accumulate(share.amounts, request, by)
        accumulate(self._queue(share.queue), request, by)

    def _queue(self, name: str) -> dict[str, int]:
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = {}
        return found

    def queue_changed(self, queue: QueueInfo, *, gone: bool) -> None:
        """Keep no empty account of a queue that is gone."""
        if gone and not self.queues.get(queue.name):
            self.queues.pop(queue.name, None)


def parts(total: Amounts, online: Amounts) -> Iterable[tuple[str, str, int]]:
    """Yield what is online and what is offline of a total: (workload, resource, amount), zeros included."""
    for resource, amount in total.items():
        served = min(amount, online.get(resource, 0))
        yield ONLINE, resource, served
        yield OFFLINE, resource, amount - served
