"""Pods with a refused binding: the time of the next try, and the refusals that were not reported yet."""

from __future__ import annotations

import heapq

from volsched.model.cluster import Cluster
from volsched.model.pods.task import TaskInfo


class BindingBackoffs:
    """Tasks that back off. Times are in seconds since the epoch."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._heap: list[tuple[float, str]] = []
        """(time, uid), some of them out of date: ``_due`` states which count."""
        self._due: dict[str, float] = {}
        self._failed: dict[str, TaskInfo] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def tick(self, now: float) -> None:
        """Let tasks whose back-off is over be tried again."""
        due = self.next()
        while due is not None and due <= now:
            self.release(self._cluster.tasks[self._heap[0][1]])
            due = self.next()

    def next(self) -> float | None:
        """Return when the next task may be tried again, or None when none backs off for a time."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def back_off(self, task: TaskInfo, until: float | None) -> None:
        """Keep a task out until then; with None until its pod states something else."""
        task.backing_off = True
        self._failed[task.uid] = task
        if until is not None:
            self._due[task.uid] = until
            heapq.heappush(self._heap, (until, task.uid))

    def release(self, task: TaskInfo) -> None:
        """Let a task be tried again now."""
        task.backing_off = False
        self._due.pop(task.uid, None)
        if task.job is not None:
            task.job.requeue()

    def pod_changed(self, task: TaskInfo) -> None:
        """Retry a task whose pod changed, unless it backs off for a time."""
        if task.backing_off and task.uid not in self._due:
            self.release(task)

    def forget(self, uid: str) -> None:
        """Drop data about a deleted pod."""
        self._due.pop(uid, None)
        self._failed.pop(uid, None)

    def take_failed(self) -> list[TaskInfo]:
        """Return the tasks whose binding failed since this was last called and that wait again."""
        failed, self._failed = self._failed, {}
        return list(failed.values())
