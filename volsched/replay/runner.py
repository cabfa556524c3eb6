"""Discrete events over the engine: jobs come, start when the scheduler decides, and end after their duration.

The mirror, the scheduler, its actions and plugins are those of ``volsched run``. A session runs at each event, and at
the times that plugins ask for; between these the clock jumps. So a replay costs as much as its events, whatever time
lies between them.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from volsched.mirror.apply import Mirror
from volsched.mirror.settings import MirrorSettings
from volsched.model import api
from volsched.model.changes import Put
from volsched.model.errors import VolschedError
from volsched.model.plan import Bind, Evict
from volsched.replay.jobs import MOST_PODS, YEAR, ReplayJob
from volsched.replay.records import JobRecord
from volsched.replay.summary import ReplayedCluster
from volsched.replay.virtual_cluster import VirtualCluster
from volsched.scheduler import Profile, Scheduler
from volsched.simulation.manifests import Inventory

MOST_SESSIONS: Final = 100
"""The most sessions at one instant: more evictions without a move of the clock would never end."""

MOST_IDLE_WAKES: Final = 1000
"""The most fruitless sessions that a plugin asks for after the last job that could end has ended."""


LONGEST_SECONDS: Final = 1000 * YEAR
"""The latest submission after the beginning that counts."""


class ReplayError(VolschedError):
    """A replay cannot go on. The text states why."""


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """For whose pods, and which queue those without one are in."""

    scheduler_names: tuple[str, ...]
    default_queue: str = "default"


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """The progress of a replay: its clock, and how many jobs came, run, wait and are over."""

    seconds: float
    submitted: int
    running: int
    over: int
    jobs: int
    sessions: int


class _ReplayClock:
    """The virtual time for decisions, and the real one for durations, which decide nothing."""

    def __init__(self, api_server: VirtualCluster) -> None:
        self._api_server = api_server

    def now(self) -> float:
        return self._api_server.epoch + self._api_server.seconds

    def elapsed(self) -> float:
        return time.perf_counter()

    def cpu(self) -> float:
        """Return 0: a replay uses no CPU time, so that its result is the same on every machine."""
        return 0.0


class Replay:
    """One replay of jobs on a cluster under one configuration."""

    def __init__(
        self,
        inventory: Inventory,
        profile: Profile,
        jobs: Sequence[ReplayJob],
        settings: ReplaySettings,
        on_progress: Callable[[ReplayProgress], None] | None = None,
    ) -> None:
        self.records = [JobRecord(job) for job in jobs]
        self.mirror = Mirror(MirrorSettings(settings.scheduler_names, settings.default_queue, plain_pods=False))
        self.api_server = VirtualCluster(inventory, settings.scheduler_names)
        self.sessions = 0
        self._scheduler = Scheduler(self.mirror, profile, self.api_server, _ReplayClock(self.api_server))
        self._on_progress = on_progress or (lambda _: None)
        self._coming = sorted(self.records, key=lambda record: record.job.submit, reverse=True)
        self._ends: list[tuple[float, int, int, JobRecord]] = []
        self._pushed = 0
        self._running = 0
        self._over = 0
        self._by_group: dict[str, JobRecord] = {}
        self._group_of_pod: dict[str, str] = {}
        self.mirror.apply(self.api_server.begin())
        self._add_namespaces()
        self._cluster = _cluster_of(self.mirror)

    @property
    def cluster(self) -> ReplayedCluster:
        """Return the data of the cluster for the summary: the capacity for jobs, without pods that stay."""
        return self._cluster

    def run(self) -> list[JobRecord]:
        """Play everything; what became of each job, in the order in which they were given. Raises ReplayError."""
        self._settle()
        fruitless = 0
        while fruitless < MOST_IDLE_WAKES and (due := self._next()) is not None:
            if due > LONGEST_SECONDS:
                break
            self.api_server.seconds = due
            is_event = self._end_due() | self._submit_due()
            started = self._settle()
            fruitless = 0 if is_event or started or self._coming or self._ends else fruitless + 1
            self._on_progress(self._progress())
        for record in self.records:
            record.promised = self.api_server.promises.get(record.job.key, ())
        return self.records

    def _progress(self) -> ReplayProgress:
        submitted = len(self.records) - len(self._coming)
        return ReplayProgress(
            self.api_server.seconds, submitted, self._running, self._over, len(self.records), self.sessions
        )

    # -- time ---------------------------------------------------------------------------------------------------------

    def _next(self) -> float | None:
        """Return when something happens next, in seconds of the replay, or None when nothing does any more."""
        while self._ends and not self._is_current(self._ends[0]):
            heapq.heappop(self._ends)
        times = [self._ends[0][0]] if self._ends else []
        if self._coming:
            times.append(self._coming[-1].job.submit)
        wake = self._scheduler.wake_at()
        if wake is not None:
            times.append(max(wake - self.api_server.epoch, self.api_server.seconds + 1))
        return max(min(times), self.api_server.seconds) if times else None

    def _is_current(self, end: tuple[float, int, int, JobRecord]) -> bool:
        _, _, run, record = end
        return record.run == run and record.start is not None

    def _submit_due(self) -> bool:
        found = False
        while self._coming and self._coming[-1].job.submit <= self.api_server.seconds:
            self._submit(self._coming.pop())
            found = True
        return found

    def _submit(self, record: JobRecord) -> None:
        job = record.job
        if len(self._group_of_pod) + job.pods > MOST_PODS:
            raise ReplayError(
                f"with job {job.key} there would be more than {MOST_PODS} pods at once, at "
                f"{self.api_server.seconds:.0f} s"
            )
        self._by_group[job.key] = record
        for name, _ in job.members():
            self._group_of_pod[f"{job.namespace}/{name}"] = job.key
        self.api_server.submit(job)

    def _end_due(self) -> bool:
        found = False
        while self._ends and self._ends[0][0] <= self.api_server.seconds:
            end = heapq.heappop(self._ends)
            if self._is_current(end):
                self._finish(end[3])
                found = True
        return found

    def _finish(self, record: JobRecord) -> None:
        job = record.job
        record.finished(self.api_server.seconds)
        self.api_server.finish(job)
        del self._by_group[job.key]
        for name, _ in job.members():
            del self._group_of_pod[f"{job.namespace}/{name}"]
        self._running -= 1
        self._over += 1

    # -- sessions -----------------------------------------------------------------------------------------------------

    def _settle(self) -> bool:
        """Run sessions until one changes nothing for the next. Return True if a pod was placed."""
        placed = False
        for _ in range(MOST_SESSIONS):
            self.mirror.apply(self.api_server.take())
            self._scheduler.cycle()
            self.sessions += 1
            self.mirror.apply(self.api_server.move()[0])
            binds, evictions = self.api_server.step_log.take()
            placed = placed or bool(binds)
            for bind in binds:
                self._bound(bind)
            for eviction in evictions:
                self._evicted(eviction)
            if not evictions:
                break
        return placed

    def _bound(self, bind: Bind) -> None:
        record = self._record_of(bind)
        if record is None:
            return
        now = self.api_server.seconds
        if record.bound(bind.name, bind.node, now):
            self._pushed += 1
            self._running += 1
            heapq.heappush(self._ends, (now + record.job.duration, self._pushed, record.run, record))

    def _evicted(self, eviction: Evict) -> None:
        """Make the pod again; if its job lacks it, the whole job starts again, and its work is lost."""
        record = self._record_of(eviction)
        if record is None:
            return
        record.evicted += 1
        record.left(eviction.name, self.api_server.seconds)
        again = [eviction.name]
        if record.start is not None and not record.is_complete():
            again += record.running()
            record.broke(self.api_server.seconds)
            self._running -= 1
        self.api_server.delete_pods(record.job, again)
        self.api_server.create_again(record.job, again)

    def _record_of(self, step: Bind | Evict) -> JobRecord | None:
        group = self._group_of_pod.get(f"{step.namespace}/{step.name}")
        return self._by_group.get(group) if group is not None else None

    def _add_namespaces(self) -> None:
        """Have the namespaces of jobs, those that the input does not have."""
        known = set(self.mirror.cluster.queue_cache.namespaces)
        named = dict.fromkeys(record.job.namespace for record in self.records)
        self.mirror.apply(Put(_namespace(name)) for name in named if name not in known)


def _cluster_of(mirror: Mirror) -> ReplayedCluster:
    columns = mirror.cluster.columns.names
    capacity = {
        name: sum(max(0, node.allocatable_of(name) - node.used_of(name)) for node in mirror.cluster.rows)
        for name in columns
    }
    weights = {name: queue.spec.weight for name, queue in mirror.cluster.queues.items()}
    return ReplayedCluster({name: amount for name, amount in capacity.items() if amount}, weights)


def _namespace(name: str) -> api.Namespace:
    labels = {"kubernetes.io/metadata.name": name}
    return api.Namespace(metadata=api.ObjectMeta(name=name, uid=f"replay-{name}", labels=labels))
