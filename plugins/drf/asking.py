"""What waiting pods of each queue ask for: the names of resources, and how many pods ask for just these.

A job that changed is counted again when a session opens. In a session a pod that is placed, or is not after all, is
taken off or put back, so that a placement costs the same whatever else waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from volsched.plugin import IS_CHOSEN, PODS, Cluster, JobInfo, NodeInfo, Observer, TaskInfo, TaskStatus

Kind: TypeAlias = frozenset[str]
"""The resources that a pod asks for, its pod slot among them."""


class Asking(Observer):
    """The account; ``refresh`` when a session opens. ``changed`` are queues whose pods moved since it was taken."""

    def __init__(self, cluster: Cluster) -> None:
        self._kinds: dict[str, Counter[Kind]] = {}
        self._jobs: dict[str, tuple[str, Counter[Kind]]] = {}
        self._to_count: dict[str, JobInfo] = dict(cluster.jobs)
        self.changed: dict[str, None] = {}

    def kinds(self, queue: str) -> Iterable[Kind]:
        """Return what waiting pods of a queue ask for."""
        return self._kinds.get(queue, _NOBODY)

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
        known = self._jobs.get(job.key)
        if by and known is not None and (IS_CHOSEN[before] or IS_CHOSEN[now]):
            _add(self._kinds.setdefault(known[0], Counter()), {kind_of(tasks[0]): len(tasks)}, by)
            _add(known[1], {kind_of(tasks[0]): len(tasks)}, by)

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
                kinds = Counter(map(kind_of, job.waiting.values())) if not job.barred else Counter[Kind]()
                self._jobs[job.key] = job.queue, kinds
                _add(self._kinds.setdefault(job.queue, Counter()), kinds, 1)
                self.changed[job.queue] = None
        self._to_count.clear()

    def _forget(self, key: str) -> None:
        queue, kinds = self._jobs.pop(key, ("", _NOBODY))
        if queue:
            self.changed[queue] = None
            _add(self._kinds.setdefault(queue, Counter()), kinds, -1)
            if not self._kinds[queue]:
                del self._kinds[queue]


def kind_of(task: TaskInfo) -> Kind:
    """Return the resources that a pod asks for, its pod slot among them."""
    return frozenset((*task.template.request, PODS))


def _add(account: Counter[Kind], kinds: dict[Kind, int], by: int) -> None:
    for kind, count in kinds.items():
        account[kind] += by * count
        if not account[kind]:
            del account[kind]


_NOBODY: Counter[Kind] = Counter()
