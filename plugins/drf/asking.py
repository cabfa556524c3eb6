"""What waiting pods of each queue ask for: the names of resources, and how many pods ask for just these.

A job that changed is counted again when a session opens. In a session a pod that is placed, or is not after all, is
taken off or put back, so that a placement costs the same whatever else waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from volsched.plugin import IS_CHOSEN, PODS, Cluster, JobInfo, NodeInfo, Observer, TaskInfo, TaskStatus
from volsched.plugin.quota import JobCharges

Kind: TypeAlias = frozenset[str]
"""The resources that a pod asks for, its pod slot among them."""


class Asking(Observer):
    """The account; ``refresh`` when a session opens. ``changed`` are queues whose pods moved since it was taken."""

    def __init__(self, cluster: Cluster) -> None:
        self._waiting = JobCharges[Kind]()
        self._to_count: dict[str, JobInfo] = dict(cluster.jobs)
        self.changed: dict[str, None] = {}

    def kinds(self, queue: str) -> Iterable[Kind]:
        """Return what waiting pods of a queue ask for."""
        return self._waiting.own.of(queue)

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Count a pod that got a node, or lost it."""
        self._moved([task], before)

    def run_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Count equal pods of one job that got nodes."""
        self._moved(tasks, TaskStatus.PENDING)

    def _moved(self, tasks: Sequence[TaskInfo], before: TaskStatus) -> None:
        job, now = tasks[0].job, tasks[0].status
        if job is None:
            return
        self._to_count[job.key] = job
        self.changed[job.queue] = None
        by = (now is TaskStatus.PENDING) - (before is TaskStatus.PENDING)
        if by and (IS_CHOSEN[before] or IS_CHOSEN[now]) and self._waiting.knows(job):
            self._waiting.charge(job, {kind_of(tasks[0]): len(tasks)}, by)

    def task_ungated(self, task: TaskInfo, *, counts: bool) -> None:
        """Look at the queue again: it holds something else."""
        if task.job is not None:
            self.changed[task.job.queue] = None

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Have a job counted again, or no longer."""
        self.changed[job.queue] = None
        if gone:
            self._to_count.pop(job.key, None)
            self._forget(job.key)
        else:
            self._to_count[job.key] = job

    def refresh(self) -> None:
        """Count jobs again that have changed."""
        for job in self._to_count.values():
            self._forget(job.key)
            if job.spec.has_group or job.spec.implicit:
                kinds = Counter(map(kind_of, job.waiting.values())) if not job.blocked else Counter[Kind]()
                self._waiting.charge(job, kinds, 1)
                self.changed[job.queue] = None
        self._to_count.clear()

    def _forget(self, key: str) -> None:
        queue = self._waiting.drop(key)
        if queue:
            self.changed[queue] = None


def kind_of(task: TaskInfo) -> Kind:
    """Return the resources that a pod asks for, its pod slot among them."""
    return frozenset((*task.template.request, PODS))
