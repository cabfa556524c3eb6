"""The data of the overview: cards by state, reasons, promises, faults, recent jobs, and one day of the cluster."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from volsched.diagnose.card_states import CardBar
from volsched.diagnose.reasons import ReasonCount
from volsched.framework.quota_report import QuotaTable
from volsched.mirror.quarantine import QuarantinedObject
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.status import HOLDS_ROOM, TaskStatus
from volsched.ui.history import DayPoint

MOST_REASONS: Final = 3
HOUR_SECONDS: Final = 3600
MINUTE_SECONDS: Final = 60

STARTED, ENDED, EVICTED = "started", "ended", "evicted"
_FAR: Final = float("inf")


@dataclass(frozen=True, slots=True)
class RecentCounts:
    """Jobs that started, ended and were evicted in the last hour, or from ``since`` (seconds since the epoch)."""

    started: int = 0
    ended: int = 0
    evicted: int = 0
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Overview:
    """The state of the whole cluster. ``tables`` are those of plugins; ``faults`` are objects that are set aside."""

    bars: tuple[CardBar, ...] = ()
    reasons: tuple[ReasonCount, ...] = ()
    tables: tuple[QuotaTable, ...] = ()
    faults: tuple[QuarantinedObject, ...] = ()
    recent: RecentCounts = field(default_factory=RecentCounts)
    day: tuple[DayPoint, ...] = ()


class RecentJobs(Observer):
    """Counts jobs that start, end, or are evicted, minute by minute for one hour.

    A job starts with its first running pod, and ends when its last pod has left its node and none waits. While
    ``is_hearing`` is False, moves are those of a session, which are taken back. ``due`` is when counts next change
    without an event, in seconds since the epoch.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.is_hearing = True
        self.due = _FAR
        self._cluster = cluster
        self._since: float | None = None
        self._starting: set[str] = set()
        self._leaving: set[str] = set()
        self._losing: set[str] = set()
        self._evicted: set[str] = set()
        self._minutes: deque[tuple[int, Counter[str]]] = deque()
        cluster.observe(self)

    def task_started(self, task: TaskInfo) -> None:
        """Hear that a pod runs."""
        if task.job is not None and task.job.counts[TaskStatus.RUNNING] <= 1:
            self._starting.add(task.job.key)
            self._evicted.discard(task.job.key)

    def task_lost(self, task: TaskInfo) -> None:
        """Hear that a pod is gone or has failed."""
        if task.job is not None and task.evicted and task.job.key not in self._evicted:
            self._losing.add(task.job.key)

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Hear that a pod has left its node."""
        if self.is_hearing and task.job is not None and HOLDS_ROOM[before] and not HOLDS_ROOM[task.status]:
            self._leaving.add(task.job.key)

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Forget a job that is no more."""
        if gone:
            self._evicted.discard(job.key)

    def counted(self, now: float) -> RecentCounts:
        """Return the counts up to now, in seconds since the epoch."""
        if self._since is None:
            self._since = now  # what happened before the first look was only read
            self._drop_news()
        self._count(now)
        while self._minutes and self._minutes[0][0] <= now - HOUR_SECONDS - MINUTE_SECONDS:
            self._minutes.popleft()
        self.due = self._minutes[0][0] + HOUR_SECONDS + MINUTE_SECONDS if self._minutes else _FAR
        total = sum((counts for _, counts in self._minutes), Counter[str]())
        since = self._since if now - self._since < HOUR_SECONDS else 0.0
        return RecentCounts(total[STARTED], total[ENDED], total[EVICTED], since)

    def _count(self, now: float) -> None:
        self._evicted |= self._losing
        ended = [key for key in self._leaving if key not in self._evicted and self._is_over(key)]
        found = Counter({STARTED: len(self._starting), ENDED: len(ended), EVICTED: len(self._losing)})
        if found.total():
            minute = int(now) // MINUTE_SECONDS * MINUTE_SECONDS
            if not self._minutes or self._minutes[-1][0] != minute:
                self._minutes.append((minute, Counter()))
            self._minutes[-1][1].update(found)
        self._drop_news()

    def _drop_news(self) -> None:
        self._starting.clear()
        self._leaving.clear()
        self._losing.clear()

    def _is_over(self, key: str) -> bool:
        job = self._cluster.jobs.get(key)
        if job is None:
            return True
        return not job.waiting and not any(count for status, count in enumerate(job.counts) if HOLDS_ROOM[status])
