"""`volsched run`: the scheduler against a cluster, wired together.

Two threads. The main one runs the I/O loop: informers, elector, executor, HTTP. The other one owns the mirror and runs
sessions. They meet in the inbox (changes in) and in the executor (steps out).

How it ends:

* SIGTERM or SIGINT: no further session; the decided bindings are written; the lease is given back; status 0.
* The lease is lost or could not be renewed in time: nothing more is written; a plain message; status 1.
* The configuration, a flag or an address is wrong at the start: status 2.
* Anything unforeseen on either thread: status 1.

``SchedulerProgram`` is one class: it wires the parts together, and ends them in the reverse order.
"""

from __future__ import annotations

import asyncio
import math
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final

import structlog

from volsched import __version__, logs, registry
from volsched.framework.accounts.admissions import Admissions
from volsched.framework.boundary import Bounds
from volsched.framework.config.loading import DEFAULT_CONFIGURATION, IN_KUBE_SCHEDULERS_PLACE, Loaded, find_in_data
from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import Api
from volsched.kube.lead import leases
from volsched.kube.lead.elector import LeaseSettings, Predecessor
from volsched.kube.serve.connections import Network
from volsched.kube.serve.http import PageContents, Server
from volsched.kube.serve.listeners import Listeners
from volsched.kube.serve.loop_lag import STUCK_SECONDS
from volsched.kube.serve.reader_access import ReaderAccess
from volsched.kube.serve.scheduler_metrics import SchedulerMetrics
from volsched.kube.watch.config_source import ConfigMapSource, ConfigReports, FileSource
from volsched.kube.watch.inbox import Inbox
from volsched.kube.watch.informer import SILENCE_SECONDS, Informer, unheard, unlisted
from volsched.kube.watch.node_selection import NodeSelection
from volsched.kube.watch.resources import watched
from volsched.kube.watch.schemas import follow_queue_schema
from volsched.kube.watch.served_kinds import POD_GROUPS, WORKLOADS, Discovery, ServedInformer
from volsched.kube.write.executor import ClusterExecutor
from volsched.kube.write.views import Views
from volsched.mirror.apply import Mirror
from volsched.mirror.kept import kept_annotations
from volsched.mirror.settings import MirrorSettings
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.changes import Bound, Change
from volsched.model.plan import RecordEvent
from volsched.model.pods.limits import DEFAULT, KEPT_BYTES, PodLimits
from volsched.ports import CycleReport
from volsched.run.builtin_queues import make_builtin_queues
from volsched.run.explanations import Explanations
from volsched.run.gauges import add_connections, add_gauges, add_loop, tables_of
from volsched.run.loop import LoopSettings, SchedulingThread
from volsched.run.plugin_errors import PluginErrors
from volsched.run.process import FAILED, Process, look_again, run_process
from volsched.run.snapshots import Snapshots
from volsched.scheduler import Profile

SESSION_SECONDS: Final = 8.0
"""The time for the running session after SIGTERM. The decided writes have the rest of the time."""

SWITCH_SECONDS: Final = 0.001
"""The time that a thread keeps the interpreter while another wants it. A session must not delay the I/O loop."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """The options of `volsched run`. Times are in seconds, see `volsched.cli.run` for the flags."""

    scheduler_names: tuple[str, ...] = ("volsched",)
    scheduler_conf: str = ""
    scheduler_configmap: str = ""
    schedule_period: float = 1.0
    settle: float = 0.0
    default_queue: str = "default"
    node_selector: tuple[tuple[str, str], ...] = ()
    plain_pods: str = ""
    pod_limits: PodLimits = DEFAULT
    kept_bytes: int = KEPT_BYTES
    always_unschedulable: bool = False
    session_budget: float = 5.0
    admission_timeout: float = 600.0
    leader_elect: bool = True
    lease: LeaseSettings = field(default_factory=lambda: LeaseSettings("kube-system", "volsched"))
    source: Source = field(default_factory=Source)
    qps: float = 0.0
    burst: int = 5000
    listen_address: str = ":8080"
    metrics_auth: bool = False
    healthz_address: str = ":11251"
    node_address: tuple[Network, ...] = ()
    dump_dir: str = ""
    binds_in_flight: int = 32
    watch_silence: float = SILENCE_SECONDS

    @property
    def is_direct(self) -> bool:
        """True if a pod without a PodGroup is scheduled by itself."""
        return self.plain_pods == "direct"

    @property
    def makes_builtin_queues(self) -> bool:
        """True if it replaces Volcano's scheduler, which makes the built-in queues."""
        return "volcano" in self.scheduler_names


def loop_settings(options: SchedulerOptions) -> LoopSettings:
    """Return how sessions are held."""
    admissions = Admissions(options.admission_timeout or math.inf)
    bounds = Bounds(options.session_budget, contains_faults=True, admissions=admissions)
    return LoopSettings(options.schedule_period, bounds, options.always_unschedulable)


class SchedulerProgram(Process):
    """One run of the scheduler against one cluster: `await SchedulerProgram(...).run()` gives the exit status."""

    def __init__(self, options: SchedulerOptions, listeners: Listeners) -> None:
        super().__init__(leader_elect=options.leader_elect)
        self._options = options
        self._listeners = listeners
        self._inbox = Inbox.settling(options.settle)
        self._metrics = SchedulerMetrics()
        self._leading = False
        self._informers: list[Informer] = []
        self._annotations = kept_annotations(registry.installed_annotations())
        settings = MirrorSettings(
            scheduler_names=options.scheduler_names,
            default_queue=options.default_queue,
            plain_pods=options.is_direct,
            pod_limits=options.pod_limits,
            annotations=self._annotations,
            kept_bytes=options.kept_bytes,
        )
        self._thread = SchedulingThread(
            Mirror(settings),
            self._inbox,
            loop_settings(options),
            self._may_schedule,
            self._is_listed,
            lambda: self._executor.backlog,
            self._take_in,
            self._crashed,
        )
        self._api: Api
        self._snapshots: Snapshots | None = None
        self._executor: ClusterExecutor
        self._config_reports = ConfigReports(
            self._parse, self._thread.use, self._metrics.config, self._record_event, is_reporting=False
        )
        self._plugin_errors = PluginErrors(partial(self._call_from_thread, self._config_reports.warn_of_plugin))
        self._metrics.add_plugin_errors(self._plugin_errors.numbers)

    # -- start ----------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        options = self._options
        _log.info(
            "starting",
            version=__version__,
            scheduler_names=options.scheduler_names,
            plain_pods=options.plain_pods,
            leader_elect=options.leader_elect,
        )
        self._api = await Api.connect(options.source, qps=options.qps, burst=options.burst)
        self._cleanup.push_async_callback(self._api.close)
        _log.info("API server", server=self._api.server, credentials=self._api.origin)
        views = Views(on_deleted=self._forget, on_queue=self._queue_shown, on_placed=self._placed)
        self._executor = ClusterExecutor(
            self._api,
            self._fence,
            views,
            self._report,
            in_flight=options.binds_in_flight,
        )
        following = tables_of(self._informers, lambda: self._apis(self._api))
        for part in (self._executor, views, self._inbox, self._thread.mirror):
            self._tables.add(part.tables())
        self._tables.add(following)
        self._tables.add_source(self._thread.table_sizes)
        await self._serve()
        for step in (self._end_lease, self._cancel_tasks, self._stop_executor, self._stop_thread):
            self._cleanup.push_async_callback(step)  # the last one is done first
        self._start_informers(views)
        self._thread.start(self._executor)
        await self._interruptible(self._load_configuration())
        if self._end.done():
            return
        if options.leader_elect:
            self._lead(options.source, options.lease, self._follow_up)
        else:
            self._begin_leading()

    async def _serve(self) -> None:
        options, state = self._options, self._metrics.config
        self._snapshots = Snapshots(
            self._api,
            options.scheduler_names,
            options.default_queue,
            lambda: (self._config_reports.text_in_force, state.source),
            self._annotations.trim,
            options.kept_bytes,
        )
        pages = PageContents(
            self._live_problem,
            self._ready_problem,
            self._metrics.render,
            self._configz,
            self._snapshots.take,
            Explanations(self._snapshots.take).of,
        )
        access = ReaderAccess(self._api) if options.metrics_auth else None
        server = Server(pages, self._listeners, access, options.node_address)
        self._cleanup.push_async_callback(server.stop)
        add_gauges(
            self._metrics,
            mirror=self._thread.mirror,
            apis=lambda: self._apis(self._api),
            executor=self._executor,
            informers=self._informers,
            inbox=self._inbox,
            fence=self._fence,
            silence=lambda: self._thread.silence,
        )
        add_loop(self._metrics, self._loop_lag, self._tables)
        add_connections(self._metrics, lambda: server.sites)
        await server.start(self._options.listen_address, self._options.healthz_address)

    def _start_informers(self, views: Views) -> None:
        selection, memory_use = NodeSelection(self._options.node_selector), self._thread.mirror.memory_use

        def sink(found: Sequence[Change]) -> None:
            before = memory_use.passed
            changes = memory_use.of(selection.of(found))
            views.observe(changes)
            self._inbox.put(changes, kib=memory_use.passed - before)

        how: dict[str, Any] = {
            "silence": self._options.watch_silence,
            "on_listed": self._on_listed,
            "is_full": lambda: self._inbox.is_full,
            "trim": self._annotations.trim,
        }
        for resource in watched(need_groups=not self._options.is_direct):
            self._informers.append(Informer(self._api, resource, sink, **how))
        discovery = Discovery(self._api, native.GROUP)
        for served in (POD_GROUPS, WORKLOADS):
            self._informers.append(ServedInformer(self._api, discovery, served, sink, **how))
        for informer in self._informers:
            self._spawn(informer.run(), f"informer of {informer.resource.plural}")
        self._spawn(look_again(memory_use, self._informers), "look again at what was refused")
        self._follow_history_of(self._informers)
        self._spawn(follow_queue_schema(self._api, self._report), "schema of Queues")

    def _on_listed(self) -> None:
        if self._is_listed():
            counts = {informer.resource.plural: informer.count for informer in self._informers if informer.count}
            _log.info("everything is listed", **counts)
            self._thread.kick()

    async def _load_configuration(self) -> None:
        options, state, verdicts = self._options, self._metrics.config, self._config_reports
        if options.scheduler_configmap:
            state.source = f"{leases.CONFIG_MAP}{options.scheduler_configmap}"
            namespace, _, name = options.scheduler_configmap.partition("/")
            source: Any = ConfigMapSource(self._api, namespace, name, find_in_data, verdicts)
        elif options.scheduler_conf:
            state.source = options.scheduler_conf
            source = FileSource(options.scheduler_conf, verdicts)
        else:
            state.source = leases.BUILT_IN
            verdicts.offer(_built_in(options))
            return
        await source.first()
        self._spawn(source.follow(), "configuration")

    def _parse(self, text: str) -> tuple[Profile, list[str]]:
        loaded: Loaded = registry.load_configuration(text)
        return registry.build(loaded.configuration), [str(warning) for warning in loaded.warnings]

    # -- leading --------------------------------------------------------------------------------------------------

    def _lease_metadata(self) -> Mapping[str, Mapping[str, str]]:
        options, state = self._options, self._metrics.config
        return leases.metadata_of(options.scheduler_names, options.default_queue, state.source, state.hash)

    async def _follow_up(self, before: Predecessor) -> None:
        """Begin to lead, once everything that the leader before has written was seen."""
        if before.holder:
            needed = [i for i in self._informers if i.resource.kind in ("Pod", "Node", "PodGroup", native.KIND)]
            await asyncio.gather(*(informer.catch_up() for informer in needed))
            _log.info("caught up with the leader before")
        self._begin_leading(leases.hash_in(before.annotations, self._metrics.config.source))

    def _begin_leading(self, reported_hash: str = "") -> None:
        self._leading = True
        self._config_reports.start_reporting(reported_hash)
        self._thread.kick()
        if self._options.makes_builtin_queues:
            work = make_builtin_queues(self._api, self._fence, self._options.default_queue)
            self._spawn(work, "standing queues", ends=True)

    def _may_schedule(self) -> bool:
        return self._leading and self._fence.is_open and self._is_listed()

    def _is_listed(self) -> bool:
        return bool(self._informers) and all(informer.listed for informer in self._informers)

    # -- end ------------------------------------------------------------------------------------------------------

    def _handle_signals(self) -> None:
        super()._handle_signals()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR2, self._dump)

    def _dump(self) -> None:
        """Leave what the scheduler believes, and a snapshot of what there is, in a folder."""
        folder = self._options.dump_dir
        self._thread.dump(folder)
        if self._snapshots is not None:
            self._spawn(self._snapshots.write(folder), "snapshot", ends=True)

    def _crashed(self, error: BaseException) -> None:
        """Note that the scheduling thread ended; called on that thread."""
        self._finish_from_thread(FAILED, f"the scheduling thread failed: {error}")

    async def _stop_thread(self) -> None:
        """Wait for the session that runs, unless the program has to end at once."""
        wait = 0.0 if self._is_hasty_end else SESSION_SECONDS
        await asyncio.to_thread(self._thread.stop, wait)

    async def _stop_executor(self) -> None:
        """Let the executor finish its writes, or stop it at once after a failure."""
        if not self._is_clean_end:
            await self._executor.stop()
        elif not await self._executor.drain(self._time_left):
            _log.warning("some bindings were not finished; the next leader will look at their pods")

    # -- changes --------------------------------------------------------------------------------------------------

    def _take_in(self, report: CycleReport) -> None:
        """Take in what a session did; called on the scheduling thread."""
        self._metrics.cycle(report)
        self._plugin_errors.cycle(report)
        for event in report.whole:
            about = f"{event.namespace}/{event.name}" if event.namespace else event.name
            _log.info("an Event names no other namespace", kind=event.kind, object=about, message=event.message)

    def _report(self, change: Change) -> None:
        self._inbox.put((change,), wake=not isinstance(change, Bound))

    def _record_event(self, event: RecordEvent) -> None:
        self._executor.events.record(event)

    def _queue_shown(self, queue: api.Queue) -> None:
        self._executor.statuses.queue_shown(queue)

    def _forget(self, uid: str) -> None:
        self._executor.forget(uid)

    def _placed(self, uid: str) -> None:
        self._executor.placed(uid)

    # -- what is shown --------------------------------------------------------------------------------------------

    def _live_problem(self) -> str:
        silence = self._thread.silence
        if self._thread.is_running and silence > STUCK_SECONDS:
            return f"the scheduling thread was not seen for {silence:.0f}s"
        return ""

    def _ready_problem(self) -> str:
        problem = unlisted(self._informers) or unheard(self._informers)
        return problem or ("" if self._metrics.config.hash else "no configuration yet")

    def _configz(self) -> dict[str, Any]:
        config = self._metrics.config
        return {
            "version": __version__,
            "options": asdict(self._options),
            "configuration": {
                "source": config.source,
                "valid": config.valid,
                "problem": config.problem,
                "hash": config.hash,
                "newestHash": config.newest,
                "verdict": config.verdict,
                "loadedAt": config.loaded_at,
                "text": self._config_reports.text_in_force,
            },
            "leader": self._fence.is_open,
            "logLevel": logs.level_name(),
        }


def _built_in(options: SchedulerOptions) -> str:
    """Return the configuration that applies when none is given."""
    in_its_place = options.scheduler_names == ("default-scheduler",)
    return IN_KUBE_SCHEDULERS_PLACE if in_its_place else DEFAULT_CONFIGURATION


def run(options: SchedulerOptions, listeners: Listeners) -> int:
    """Run the scheduler until it ends. Return the exit status."""
    sys.setswitchinterval(SWITCH_SECONDS)
    return run_process(lambda: SchedulerProgram(options, listeners))
