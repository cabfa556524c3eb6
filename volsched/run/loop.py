"""The scheduling thread: owns mirror and scheduler, takes changes in, and runs sessions.

It is the mirror's only writer. Requests of other threads (another configuration, a dump, the end) are noted and done
between two sessions.

``SchedulingThread`` has many attributes: requests of other threads wait in it until a session is over.
"""

from __future__ import annotations

import gc
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import structlog

from volsched import __version__
from volsched.framework.boundary import Bounds
from volsched.kube.watch.inbox import Inbox
from volsched.mirror.apply import Mirror
from volsched.model.changes import Bound
from volsched.model.cluster import Cluster
from volsched.model.plan import Executor
from volsched.ports import CycleReport
from volsched.scheduler import Profile, Scheduler

IDLE_SESSION_SECONDS: Final = 30.0
"""A session is run this often even if nothing has changed; a guard, not a need."""

BUSY_BACKLOG: Final = 64
"""The most waiting bindings with which a session begins: another one would only make the queue longer."""

BINDINGS_PER_SECOND: Final = 4000
"""The rate of a fast API server; with more waiting bindings the next session waits as long as this one would need."""

LONGEST_WAIT_SECONDS: Final = 0.5
"""The longest such wait."""

ORPHAN_GRACE_SECONDS: Final = 2.0
"""The time that a pod may lack its PodGroup before that is reported: a controller may be about to make it."""

GC_THRESHOLDS: Final = (50_000, 50, 100)
"""Once everything is listed and out of the collector's sight: sessions make little that stays."""

GC_THRESHOLDS_LISTING: Final = (500_000, 50, 100)
"""Until everything is listed: that makes many objects that stay and next to no garbage."""

_log = structlog.get_logger(__name__)


class SystemClock:
    """The time of this machine. `beat` is called when CPU time is read, as a session does at every job."""

    def __init__(self, beat: Callable[[], None] = lambda: None) -> None:
        self._beat = beat

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def elapsed(self) -> float:
        """Return seconds on a clock that never goes back."""
        return time.perf_counter()

    def cpu(self) -> float:
        """Return seconds of CPU that the calling thread has used."""
        self._beat()
        return time.thread_time()


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Settings of sessions: the longest time between two looks in seconds, and those of `Scheduler`."""

    period: float
    bounds: Bounds
    always_unschedulable: bool = False


class SchedulingThread:
    """Owns mirror and scheduler: takes changes in, runs a session if something changed and writing is allowed.

    `may_schedule` is asked before each session, `is_listed` tells whether all objects have come; `on_crash` gets the
    exception that ended the thread, should that happen.
    """

    def __init__(
        self,
        mirror: Mirror,
        inbox: Inbox,
        settings: LoopSettings,
        may_schedule: Callable[[], bool],
        is_listed: Callable[[], bool],
        backlog: Callable[[], int],
        on_cycle: Callable[[CycleReport], None],
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self.mirror = mirror
        self.heartbeat = time.monotonic()
        self.cycles = 0
        self._inbox = inbox
        self._settings = settings
        self._may_schedule = may_schedule
        self._is_listed = is_listed
        self._backlog = backlog
        self._on_cycle = on_cycle
        self._on_crash = on_crash
        self._scheduler: Scheduler | None = None
        self._profile: Profile | None = None
        self._executor: Executor | None = None
        self._dump_to: str | None = None
        self._is_due = True
        self._frozen = False
        self._gave_way = False
        self._session_at = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name="scheduler", daemon=True)

    @property
    def is_running(self) -> bool:
        """True if it was started and has not ended."""
        return self._thread.is_alive()

    def start(self, executor: Executor) -> None:
        """Begin; steps go to this executor."""
        self._executor = executor
        gc.set_threshold(*GC_THRESHOLDS_LISTING)
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Let the running session end and no other begin. Return True if it ended within `timeout` seconds."""
        self._stopping.set()
        self._inbox.wake()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def use(self, profile: Profile) -> None:
        """Use another configuration from the next session on."""
        self._profile = profile
        self._inbox.wake()

    def dump(self, folder: str) -> None:
        """Write the mirror to a file as soon as no session runs."""
        self._dump_to = folder
        self._inbox.wake()

    def kick(self) -> None:
        """Run a session soon, also without changes."""
        self._is_due = True
        self._inbox.wake()

    @property
    def silence(self) -> float:
        """Seconds since the thread was seen last."""
        return time.monotonic() - self.heartbeat

    # -- inside ---------------------------------------------------------------------------------------------------

    def _guarded(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
        except BaseException as error:
            _log.exception("the scheduling thread failed")
            self._on_crash(error)

    def _turn(self) -> None:
        self._inbox.wait(self._wait_seconds())
        self._beat()
        allowed, is_listed = self._may_schedule(), self._is_listed()  # first: what these promise is in the inbox by now
        changes = self._inbox.take()
        self.mirror.apply(changes)
        if is_listed:
            self._freeze_once()
        self._log_quarantine()
        if not self._is_due:
            self._is_due = any(type(change) is not Bound for change in changes)
        self._configure()
        if self._dump_to is not None:
            folder, self._dump_to = self._dump_to, None
            write_dump(self.mirror.cluster, folder)
        if not allowed:
            self.mirror.events.forget_what_happened()
        if self._scheduler is None or self._stopping.is_set() or not allowed:
            return
        if self._is_session_due():
            self._run_session(self._scheduler)

    def _beat(self) -> None:
        self.heartbeat = time.monotonic()

    def _log_quarantine(self) -> None:
        """Log the API objects that could not be read."""
        for found in self.mirror.quarantine.take_errors():
            _log.error(
                "an object is set aside",
                kind=found.kind,
                object=f"{found.namespace}/{found.name}",
                exc_info=found.error,
            )

    def _wait_seconds(self) -> float:
        """Until the next look: the period, or sooner when something is due at a known time."""
        backlog = self._backlog()
        if backlog > BUSY_BACKLOG:
            self._stopping.wait(min(LONGEST_WAIT_SECONDS, backlog / BINDINGS_PER_SECOND))
        due = self._due_at()
        if due is None:
            return self._settings.period
        return max(0.0, min(self._settings.period, due - time.time()))

    def _due_at(self) -> float | None:
        """Return when a back-off or a grace ends (seconds since the epoch), or None if no time is known."""
        return self._scheduler.wake_at() if self._scheduler is not None else self.mirror.next_retry()

    def _configure(self) -> None:
        profile, self._profile = self._profile, None
        if profile is None or self._executor is None:
            return
        if self._scheduler is None:
            self._scheduler = Scheduler(
                self.mirror,
                profile,
                self._executor,
                SystemClock(self._beat),
                orphan_grace=ORPHAN_GRACE_SECONDS,
                always_unschedulable=self._settings.always_unschedulable,
                bounds=replace(self._settings.bounds, news=self._has_news),
            )
        else:
            self._scheduler.reconfigure(profile)
        self._is_due = True

    def _is_session_due(self) -> bool:
        if self._is_due or time.monotonic() - self._session_at > IDLE_SESSION_SECONDS:
            return True
        due = self._due_at()
        return due is not None and due <= time.time()

    def table_sizes(self) -> dict[str, int]:
        """Return how many entries the scheduler keeps, by table; none before it has a configuration."""
        return self._scheduler.table_sizes() if self._scheduler is not None else {}

    def _run_session(self, scheduler: Scheduler) -> None:
        report = scheduler.cycle()
        self.cycles += 1
        self._session_at = time.monotonic()
        self._gave_way = report.gave_way
        what_was_left = bool(report.over) or report.gave_way or report.is_unfinished
        self._is_due = report.steps > 0 or what_was_left  # what was done may let more be done
        if report.over:
            _log.warning("a session ended before it was through", reason=report.over)
        self._on_cycle(report)

    def _has_news(self) -> bool:
        """True if changes wait. After a session that gave way for them the next one goes on to its end."""
        return not self._gave_way and self._inbox.received > self._inbox.taken

    def _freeze_once(self) -> None:
        """Take what the first listing brought out of the garbage collector's sight: it stays."""
        if not self._frozen:
            self._frozen = True
            gc.set_threshold(*GC_THRESHOLDS)
            gc.freeze()  # uncollected: listing makes no garbage to speak of, and looking for it takes a quarter second


def write_dump(cluster: Cluster, folder: str) -> None:
    """Write the state of the scheduler to a JSON file in a folder, and its name to the log. A failure is logged."""
    name = f"volsched-mirror-{os.getpid()}-{time.strftime('%Y%m%dT%H%M%S')}.json"
    try:
        path = Path(folder or tempfile.gettempdir()) / name  # there need not be a folder for temporary files
        path.write_text(json.dumps(describe(cluster), indent=1, sort_keys=True, default=str))
    except OSError as error:
        _log.error("the mirror could not be dumped", folder=folder, error=str(error))
    else:
        _log.info("dumped the mirror", path=str(path))


def describe(cluster: Cluster) -> dict[str, Any]:
    """Return the cluster as plain values."""
    names = list(cluster.columns.names)

    def amounts(values: Sequence[int]) -> dict[str, int]:
        return {name: value for name, value in zip(names, values, strict=False) if value}

    return {
        "version": __version__,
        "nodes": {
            node.name: {
                "allocatable": amounts(node.allocatable),
                "used": amounts(node.used),
                "releasing": amounts(node.releasing),
                "pods": sorted(task.key for task in node.tasks.values()),
            }
            for node in cluster.nodes.values()
        },
        "pods": {
            task.uid: {
                "name": task.key,
                "status": task.status.name,
                "node": task.node.name if task.node else "",
                "job": task.job.key if task.job else "",
                "waits": task.refusal.message if task.refusal else "",
            }
            for task in cluster.tasks.values()
        },
        "jobs": {
            job.key: {
                "phase": job.phase,
                "queue": job.queue,
                "min_available": job.spec.min_available,
                "ready": job.ready_count,
                "waits": job.refusal.message if job.refusal else "",
            }
            for job in cluster.jobs.values()
        },
        "queues": {
            queue.name: {"state": queue.spec.reported_state, "allocated": dict(queue.allocated)}
            for queue in cluster.queues.values()
        },
    }
