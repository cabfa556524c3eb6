"""Which jobs have waited so long that nodes may be held for them, followed as jobs change."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from volsched.model.cluster import Cluster
from volsched.model.held_nodes import RESERVE_AFTER
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import TaskStatus
from volsched.model.values.duration import seconds_of
from volsched.model.waiting_time import agreed_waiting_time


class LongWaitingJobs(Observer):
    """Jobs by when they are due. Those whose time has come are kept until they are looked at and are too small.

    ``after`` is ``reserve.after`` and ``agreed`` what the plugin sla agrees, in seconds. Only administrators shorten
    these, by an annotation of the Queue: what a PodGroup states below them counts as they do (*ours*).
    """

    def __init__(self, cluster: Cluster, after: float, agreed: float) -> None:
        self._cluster = cluster
        self._after = after
        self._agreed = agreed
        self._ahead: list[tuple[float, str]] = []
        self._times: dict[str, float] = {}
        self._come: dict[str, None] = {}
        for job in cluster.jobs.values():
            self.job_changed(job, gone=False)

    def time_of(self, job: JobInfo) -> float:
        """Return when a job is due, in seconds since the epoch."""
        least = self._least(job)
        wanted = seconds_of(job.spec.annotations.get(RESERVE_AFTER, ""))
        agreed = agreed_waiting_time(job.spec.annotations) or self._agreed
        waits = least if wanted is None else max(least, wanted)
        return job.created + (min(waits, max(least, agreed)) if agreed else waits)

    def _least(self, job: JobInfo) -> float:
        """Return how long jobs of a queue wait at least."""
        queue = self._cluster.queues.get(job.queue)
        of_queue = seconds_of(queue.spec.annotations.get(RESERVE_AFTER, "")) if queue is not None else None
        stated = [self._after, *(each for each in (of_queue,) if each is not None)]
        return min([*stated, self._agreed] if self._agreed else stated)

    def queue_changed(self, queue: QueueInfo, *, gone: bool) -> None:
        """Have jobs of a queue that wait be due when the queue states it now."""
        for key in list(self._times):
            job = self._cluster.jobs.get(key)
            if job is not None and job.queue == queue.name and self._times[key] != self.time_of(job):
                self.job_changed(job, gone=False)

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Remember when a job that waits is due."""
        if gone or not self._waits(job.key):
            self._times.pop(job.key, None)
            self._come.pop(job.key, None)
            return
        time = self.time_of(job)
        self._come.pop(job.key, None)
        self._times[job.key] = time
        heapq.heappush(self._ahead, (time, job.key))

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """A job that lost a pod waits again."""
        job, waits = task.job, task.status is TaskStatus.PENDING
        if waits and job is not None and node_before is not None and job.key not in self._times:
            self.job_changed(job, gone=False)

    def come(self, now: float) -> Iterator[JobInfo]:
        """Yield the jobs whose time has come and that wait still."""
        while self._ahead and self._ahead[0][0] <= now:
            time, key = heapq.heappop(self._ahead)
            if self._times.get(key) == time:
                self._come[key] = None
        for key in list(self._come):
            if self._waits(key):
                yield self._cluster.jobs[key]
            else:
                self.leave(key)

    def leave(self, key: str) -> None:
        """Look at a job no more until it changes."""
        self._come.pop(key, None)
        self._times.pop(key, None)

    def next(self) -> float | None:
        """Return when the next job is due, in seconds since the epoch."""
        while self._ahead and not self._is_current(*self._ahead[0]):
            heapq.heappop(self._ahead)
        return self._ahead[0][0] if self._ahead else None

    def _is_current(self, time: float, key: str) -> bool:
        return self._times.get(key) == time and key not in self._come and self._waits(key)

    def _waits(self, key: str) -> bool:
        """True if a job waits that could be promised nodes."""
        cache = self._cluster.queue_cache
        return key in cache.jobs and (key in cache.unadmitted or key in cache.waiting)
