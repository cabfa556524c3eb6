"""`volsched run`: the scheduler against a cluster, wired together.

Two threads. The main one runs the I/O loop: informers, elector, executor, HTTP. The other one owns the mirror and runs
sessions. They meet in the inbox (changes in) and in the executor (steps out), and nowhere else.

How it ends:

* SIGTERM or SIGINT: no further session; the bindings that were decided are written; the lease is given back; status 0.
* The lease is lost or could not be renewed in time: nothing more is written; a plain message; status 1.
* The configuration, a flag or an address is wrong at the start: status 2.
* Anything unforeseen on either thread: status 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

import structlog

from volsched import __version__, logs, registry
from volsched.cache.mirror import Mirror, MirrorSettings
from volsched.framework.loading import DEFAULT_CONFIGURATION, IN_KUBE_SCHEDULERS_PLACE, Loaded, find_in_data
from volsched.gauges import add_gauges
from volsched.kube.client import Api
from volsched.kube.config_source import ConfigMapSource, FileSource, Verdicts
from volsched.kube.credentials import Source
from volsched.kube.elector import Elector, LeaseSettings
from volsched.kube.errors import CredentialsError, KubeSetupError
from volsched.kube.executor import ClusterExecutor
from volsched.kube.fence import Fence
from volsched.kube.http import Pages, Server
from volsched.kube.inbox import Inbox
from volsched.kube.informer import SILENCE_SECONDS, Informer
from volsched.kube.resources import watched
from volsched.kube.scheduler_metrics import SchedulerMetrics
from volsched.kube.views import Views
from volsched.kube.volumes import Volumes
from volsched.loop import SchedulingThread
from volsched.model.changes import Bound, Change
from volsched.model.errors import ConfigError
from volsched.model.plan import Tell
from volsched.scheduler import Profile

STOPPED, FAILED, MISUSED = 0, 1, 2
"""Exit statuses."""

DRAIN_SECONDS: Final = 10.0
"""How long the bindings that were decided may take to be written after SIGTERM."""

HEARTBEAT_SECONDS: Final = 60.0
"""A scheduling thread that was not seen for longer than this is stuck: `/livez` fails."""

SWITCH_SECONDS: Final = 0.001
"""How long a thread keeps the interpreter while the other one wants it; a session must not hold up the I/O loop."""

_log = structlog.get_logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that `volsched run` can be told; times are in seconds, see `volsched.cli.run` for the flags."""

    scheduler_names: tuple[str, ...] = ("volsched",)
    scheduler_conf: str = ""
    scheduler_configmap: str = ""
    schedule_period: float = 1.0
    default_queue: str = "default"
    plain_pods: str = ""
    leader_elect: bool = True
    lease: LeaseSettings = field(default_factory=lambda: LeaseSettings("kube-system", "volsched"))
    source: Source = field(default_factory=Source)
    qps: float = 0.0
    burst: int = 5000
    listen_address: str = ":8080"
    healthz_address: str = ":11251"
    dump_dir: str = ""
    binds_in_flight: int = 32
    watch_silence: float = SILENCE_SECONDS

    @property
    def is_direct(self) -> bool:
        """Whether a pod without a PodGroup is scheduled by itself."""
        return self.plain_pods == "direct"


@dataclass(slots=True)
class _End:
    """Why the program ends."""

    status: int
    message: str


class Program:
    """One run of the scheduler against one cluster: `await Program(options).run()` gives the exit status."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._inbox = Inbox()
        self._fence = Fence() if options.leader_elect else Fence.always_open()
        self._metrics = SchedulerMetrics()
        self._leading = False
        self._is_clean_end = True
        self._cleanup = contextlib.AsyncExitStack()
        self._informers: list[Informer] = []
        self._tasks: list[asyncio.Task[Any]] = []
        settings = MirrorSettings(
            scheduler_names=options.scheduler_names,
            default_queue=options.default_queue,
            plain_pods=options.is_direct,
        )
        self._thread = SchedulingThread(
            Mirror(settings),
            self._inbox,
            options.schedule_period,
            self._may_schedule,
            lambda: self._executor.backlog,
            self._metrics.cycle,
            self._crashed,
        )
        self._api: Api
        self._executor: ClusterExecutor
        self._elector: Elector | None = None
        self._verdicts = Verdicts(self._parse, self._thread.use, self._metrics.config, self._tell)
        self._end: asyncio.Future[_End]

    async def run(self) -> int:
        """Run until a signal, a lost lease or a failure; return the exit status."""
        self._end = asyncio.get_running_loop().create_future()
        self._handle_signals()
        try:
            await self._start()
        except (ConfigError, CredentialsError, KubeSetupError) as error:
            _log.error("cannot start", error=str(error))
            self._finish(MISUSED, "")
        end = await self._end
        await self._shut_down(end)
        return end.status

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
        views = Views(on_gone=self._forget)
        self._executor = ClusterExecutor(
            self._api,
            self._fence,
            views,
            self._report,
            prebinder=Volumes(self._api, self._fence, views),
            in_flight=options.binds_in_flight,
        )
        await self._serve()
        for step in (self._release, self._cancel_tasks, self._stop_executor, self._stop_thread):
            self._cleanup.push_async_callback(step)  # the last one is done first
        self._start_informers(views)
        self._thread.start(self._executor)
        await self._interruptible(self._load_configuration())
        if self._end.done():
            return
        if options.leader_elect:
            self._spawn(self._lead())
        else:
            self._begin_leading()

    async def _serve(self) -> None:
        pages = Pages(self._live_problem, self._ready_problem, self._metrics.render, self._configz)
        server = Server(pages)
        self._cleanup.push_async_callback(server.stop)
        add_gauges(
            self._metrics,
            cluster=self._thread.mirror.cluster,
            api=self._api,
            executor=self._executor,
            informers=self._informers,
            inbox=self._inbox,
            fence=self._fence,
            silence=lambda: self._thread.silence,
        )
        addresses = tuple(a for a in (self._options.listen_address, self._options.healthz_address) if a)
        await server.start(addresses)

    def _start_informers(self, views: Views) -> None:
        def sink(changes: Sequence[Change]) -> None:
            views.observe(changes)
            self._inbox.put(changes)

        for resource in watched(need_groups=not self._options.is_direct):
            informer = Informer(
                self._api,
                resource,
                sink,
                silence=self._options.watch_silence,
                on_listed=self._on_listed,
                is_full=lambda: self._inbox.is_full,
            )
            self._informers.append(informer)
            self._spawn(informer.run())

    def _on_listed(self) -> None:
        if self._all_listed:
            counts = {informer.resource.plural: informer.count for informer in self._informers if informer.count}
            _log.info("everything is listed", **counts)
            self._thread.kick()

    async def _load_configuration(self) -> None:
        options, state, verdicts = self._options, self._metrics.config, self._verdicts
        if options.scheduler_configmap:
            state.source = f"ConfigMap {options.scheduler_configmap}"
            namespace, _, name = options.scheduler_configmap.partition("/")
            source: Any = ConfigMapSource(self._api, namespace, name, find_in_data, verdicts)
        elif options.scheduler_conf:
            state.source = options.scheduler_conf
            source = FileSource(options.scheduler_conf, verdicts)
        else:
            state.source = "built-in default"
            verdicts.offer(_built_in(options))
            return
        await source.first()
        self._spawn(source.follow())

    def _parse(self, text: str) -> Profile:
        loaded: Loaded = registry.load_configuration(text)
        for warning in loaded.warnings:
            _log.warning("configuration", warning=str(warning))
        return registry.build(loaded.configuration)

    # -- leading --------------------------------------------------------------------------------------------------

    async def _lead(self) -> None:
        """Become the leader, catch up with what the one before has done, lead until that is over."""
        elector = self._elector = Elector(self._api, self._options.lease, self._fence)
        await elector.acquire()
        if elector.previous_holder:
            self._spawn(self._catch_up())
        else:
            self._begin_leading()
        reason = await elector.keep()
        self._leading = False
        self._finish(FAILED, f"lost the lease: {reason}; nothing more is written")

    async def _catch_up(self) -> None:
        """See everything that the leader before has written before the first session of this term."""
        await asyncio.gather(*(i.catch_up() for i in self._informers if i.resource.kind in ("Pod", "Node", "PodGroup")))
        _log.info("caught up with the leader before")
        self._begin_leading()

    def _begin_leading(self) -> None:
        self._leading = True
        self._thread.kick()

    def _may_schedule(self) -> bool:
        return self._leading and self._fence.is_open and self._all_listed

    @property
    def _all_listed(self) -> bool:
        return bool(self._informers) and all(informer.listed for informer in self._informers)

    # -- end ------------------------------------------------------------------------------------------------------

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._finish, STOPPED, f"stopped by {number.name}")
        loop.add_signal_handler(signal.SIGUSR2, lambda: self._thread.dump(self._options.dump_dir))
        loop.add_signal_handler(signal.SIGUSR1, _change_log_level)

    def _finish(self, status: int, message: str) -> None:
        if not self._end.done():
            self._end.set_result(_End(status, message))

    def _crashed(self, error: BaseException) -> None:
        """Take note that the scheduling thread ended; called on that thread."""
        loop = self._end.get_loop()
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._finish, FAILED, f"the scheduling thread failed: {error}")

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something beside everything else; if it fails, the program ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.append(task)

        def ended(done: asyncio.Task[T]) -> None:
            if not done.cancelled() and (error := done.exception()) is not None:
                _log.error("a part of the program failed", exc_info=error)
                self._finish(FAILED, f"failed: {error}")

        task.add_done_callback(ended)
        return task

    async def _interruptible(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for something, or for the end of the program if that comes first."""
        task = asyncio.ensure_future(work)
        awaited: set[asyncio.Future[Any]] = {task, self._end}
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            return
        await task

    async def _shut_down(self, end: _End) -> None:
        """Stop deciding, finish or drop what was decided, give the lease back, close everything."""
        if end.message:
            (_log.info if end.status == STOPPED else _log.error)(end.message)
        self._is_clean_end = end.status == STOPPED
        if not self._is_clean_end:
            self._fence.close()
        await self._cleanup.aclose()

    async def _stop_thread(self) -> None:
        """Wait for the session that runs when the program ends in good order, and for nothing otherwise."""
        await asyncio.to_thread(self._thread.stop, DRAIN_SECONDS if self._is_clean_end else 0.0)

    async def _stop_executor(self) -> None:
        if not self._is_clean_end:
            await self._executor.stop()
        elif not await self._executor.drain(DRAIN_SECONDS):
            _log.warning("some bindings were not finished; the next leader will look at their pods")

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _release(self) -> None:
        if self._elector is not None and self._is_clean_end:
            await self._elector.release()

    # -- changes --------------------------------------------------------------------------------------------------

    def _report(self, change: Change) -> None:
        self._inbox.put((change,), wake=not isinstance(change, Bound))

    def _tell(self, tell: Tell) -> None:
        self._executor.events.tell(tell)

    def _forget(self, uid: str) -> None:
        self._executor.forget(uid)

    # -- what is shown --------------------------------------------------------------------------------------------

    def _live_problem(self) -> str:
        silence = self._thread.silence
        if self._thread.is_running and silence > HEARTBEAT_SECONDS:
            return f"the scheduling thread was not seen for {silence:.0f}s"
        return ""

    def _ready_problem(self) -> str:
        missing = [informer.resource.plural for informer in self._informers if not informer.listed]
        if missing or not self._informers:
            return f"not listed yet: {', '.join(missing) or 'anything'}"
        return "" if self._metrics.config.hash else "no configuration yet"

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
                "text": self._verdicts.text_in_force,
            },
            "leader": self._fence.is_open,
            "logLevel": logs.level_name(),
        }


def _change_log_level() -> None:
    level = "info" if logs.level_name() == "debug" else "debug"
    logs.set_level(level)
    _log.info("log level changed", level=level)


def _built_in(options: Options) -> str:
    """The configuration that applies when none is given."""
    in_its_place = options.scheduler_names == ("default-scheduler",)
    return IN_KUBE_SCHEDULERS_PLACE if in_its_place else DEFAULT_CONFIGURATION


def run(options: Options) -> int:
    """Run the scheduler until it ends; return the exit status."""
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(Program(options).run())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Use uvloop where it is installed; it makes binding cheaper."""
    try:
        import uvloop  # noqa: PLC0415 - only there on some platforms
    except ImportError:
        return None
    return uvloop.new_event_loop  # type: ignore[no-any-return,unused-ignore]
