"""`volsched controllers` wired together.

One event loop for informers, elector, workers and HTTP; kopf on threads beside it. Every replica follows the cluster,
so that it can go on at once; only the one that leads writes, and it stands aside while Volcano's own controllers run.
Admission is no writing: every replica answers.

``ControllerProgram`` has an attribute for each part that it wires together.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from volsched import __version__, logs
from volsched.controllers.objects import WORKLOADS, ManagedPodGroup, RawJob
from volsched.controllers.writes import COMMAND, GROUP, JOB, QUEUE, ApiKind
from volsched.kube.client.rest import Api
from volsched.kube.lead.elector import Predecessor
from volsched.kube.serve.http import PageContents, Server
from volsched.kube.serve.listeners import Listeners
from volsched.kube.serve.metrics import Metrics
from volsched.kube.serve.reader_access import ReaderAccess
from volsched.kube.watch.informer import Informer, Sink, unheard, unlisted
from volsched.kube.watch.resources import VOLCANO, Resource
from volsched.kube.write.events import Events
from volsched.model import api
from volsched.model.changes import Change, Deleted
from volsched.model.plan import RecordEvent
from volsched.operator.engine import ControllerEngine
from volsched.operator.gauges import add_gauges
from volsched.operator.kopf_watch import KopfWatch
from volsched.operator.options import ControllerOptions
from volsched.operator.volcano import VolcanoWatch
from volsched.operator.watch_health import WatchHealth
from volsched.operator.webhooks.listening import Listening
from volsched.operator.writer import Writer
from volsched.run.gauges import (
    add_connections,
    add_lease,
    add_loop,
    add_quarantine,
    add_requests,
    add_watches,
    tables_of,
)
from volsched.run.process import FAILED, Process, look_again, run_process

if TYPE_CHECKING:
    from volsched.kube.serve.site import LimitedSites
    from volsched.operator.webhooks.admission import Admission, Neighbourhood

LOOK_SECONDS: Final = 1.0
"""The time between two checks whether Volcano's controllers still run."""

_log = structlog.get_logger(__name__)


JOBS: Final = Resource(JOB.name, JOB.group_version, JOB.plural, RawJob, optional=True)


BOUNDED: Final = frozenset({GROUP.name, *(kind for _, kind in WORKLOADS.values())})
"""Kinds beside Volcano Jobs that the memory bound covers; of pods only little is kept anyway."""


def watched(scheduler_names: Sequence[str]) -> tuple[Resource, ...]:
    """Return the kinds with very many objects, followed by informers."""
    pods = [
        Resource("Pod", "v1", "pods", api.Pod, field_selector=f"spec.schedulerName={name}") for name in scheduler_names
    ]
    return (
        Resource("Namespace", "v1", "namespaces", api.Namespace),
        Resource("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", api.PriorityClass),
        *(Resource(kind, version, f"{kind.lower()}s", struct) for struct, (version, kind) in WORKLOADS.items()),
        Resource("PodGroup", VOLCANO, "podgroups", ManagedPodGroup),
        *pods,
    )


class ControllerProgram(Process):
    """One run of the controllers against one cluster: `await ControllerProgram(...).run()` gives the exit status."""

    def __init__(self, options: ControllerOptions, listeners: Listeners) -> None:
        super().__init__(leader_elect=options.leader_elect)
        self._options = options
        self._listeners = listeners
        self._metrics = Metrics()
        self._informers: list[Informer] = []
        self._needed: list[Informer] = []
        """Those that the controllers work from. Admission alone does not hold them up."""
        self._volcano = VolcanoWatch(options.volcano_grace, time.monotonic, options.volcano.mode)
        self._leading = False
        self._sign: str | None = None
        self._look = asyncio.Event()
        self._watch_health = WatchHealth(time.monotonic)
        self._api: Api
        self._engine: ControllerEngine
        self._events: Events
        self._kopf: KopfWatch
        self._neighbours: Neighbourhood | None = None
        self._admission: Admission | None = None

    # -- start ----------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        options = self._options
        _log.info("starting", version=__version__, scheduler_names=options.scheduler_names)
        self._api = await Api.connect(options.source, qps=options.qps, burst=options.burst)
        self._cleanup.push_async_callback(self._api.close)
        _log.info("API server", server=self._api.server, credentials=self._api.origin)
        self._events = Events(self._api, self._fence, lambda: 0)
        self._engine = ControllerEngine(options, Writer(self._api, self._fence), self._events.record)
        self._kopf = KopfWatch(options.source, self._see, self._kopf_died)
        if options.webhooks is not None:
            self._make_admission(options.webhooks)
        following = tables_of(self._informers, lambda: self._apis(self._api))
        for tables in (self._engine.tables(), self._events.tables(), following):
            self._tables.add(tables)
        await self._serve()
        for step in (self._kopf.stop, self._end_lease, self._stop_events, self._cancel_tasks):
            self._cleanup.push_async_callback(step)  # the last one is done first
        self._start_informers()
        self._follow_history_of(self._needed)
        self._kopf.start()
        self._start_admission()
        self._spawn(self._watch_other_controllers(), "look for Volcano's controllers")
        for number in range(options.workers):
            self._spawn(self._engine.queue.worker(), f"worker {number}")
        if options.leader_elect:
            self._lead(options.source, options.lease, self._begin_leading)
        else:
            self._leading = True

    def _make_admission(self, listening: Listening) -> None:
        # numpy and the rules of every plugin: a fifth of the CPU time and of the memory of a start without webhooks
        from volsched.operator.webhooks.admission import Admission, Neighbourhood  # noqa: PLC0415

        self._neighbours = Neighbourhood(self._engine.store.queues, self._options.scheduler_names)
        self._admission = Admission(
            self._options.source,
            listening,
            self._neighbours,
            self._engine.groups_in,
            self._kopf_died,
            strict=self._options.webhook_strict,
        )

    async def _serve(self) -> None:
        add_loop(self._metrics, self._loop_lag, self._tables)
        add_requests(self._metrics, lambda: self._apis(self._api))
        add_watches(self._metrics, self._informers)
        add_lease(self._metrics, self._fence)
        add_quarantine(self._metrics, self._engine.event_handlers.quarantine)
        add_gauges(self._metrics, self._engine, lambda: bool(self._sign))
        if self._admission is not None:
            self._admission.add_gauges(self._metrics)
        pages = PageContents(self._live_problem, self._serving_problem, self._metrics.render, self._configz)
        access = ReaderAccess(self._api) if self._options.metrics_auth else None
        server = Server(pages, self._listeners, access, self._options.node_address)
        add_connections(self._metrics, lambda: [*server.sites, *self._webhook_sites()])
        self._cleanup.push_async_callback(server.stop)
        await server.start(self._options.listen_address, self._options.healthz_address)

    def _webhook_sites(self) -> list[LimitedSites]:
        site = self._admission.site if self._admission is not None else None
        return [site] if site is not None else []

    def _start_informers(self) -> None:
        for resource in watched(self._options.scheduler_names):
            sink = self._observe_namespaces if resource.kind == "Namespace" else self._engine.event_handlers.observe
            bounded = partial(self._observe_bounded, resource.kind, sink) if resource.kind in BOUNDED else sink
            self._needed.append(self._follow(resource, partial(self._observe, bounded)))
        jobs = partial(self._observe_bounded, RawJob.__name__, self._engine.event_handlers.observe_jobs)
        self._needed.append(self._follow(JOBS, partial(self._observe, jobs)))
        self._spawn(look_again(self._engine.memory_use, self._informers), "look again at what was refused")
        for resource in self._options.volcano.resources():
            self._needed.append(self._follow(resource, self._observe_volcano))

    def _follow(self, resource: Resource, sink: Sink) -> Informer:
        informer = Informer(self._api, resource, sink, silence=self._options.watch_silence, on_listed=self._look.set)
        self._informers.append(informer)
        self._spawn(informer.run(), f"informer of {resource.plural}")
        return informer

    def _start_admission(self) -> None:
        """Answer reviews from now on, leader or not. Cards are known from the Nodes."""
        if self._admission is not None and self._neighbours is not None:
            self._follow(Resource("Node", "v1", "nodes", api.Node), self._neighbours.observe)
            self._cleanup.push_async_callback(self._admission.stop)
            self._admission.start()

    def _observe(self, take: Sink, changes: Sequence[Change]) -> None:
        """Let the engine take in changes of an informer. No more is reported about a deleted object."""
        for change in changes:
            if isinstance(change, Deleted):
                self._events.forget(change.uid)
        take(changes)

    def _observe_bounded(self, kind: str, take: Sink, changes: Sequence[Change]) -> None:
        """Take in changes of a kind, and return the objects of which only the identity is kept.

        These may be of another kind; the store decides about them.
        """
        take(self._engine.memory_use.of(changes, kind))

    def _see(self, kind: ApiKind, is_there: bool, raw: dict[str, Any]) -> None:
        self._engine.event_handlers.see(kind, is_there, raw)
        if not is_there and kind is not COMMAND:  # a Command is deleted first, then why it is not carried out is told
            self._events.forget(str(raw["metadata"].get("uid")))
        if kind is QUEUE and self._neighbours is not None:
            self._neighbours.queue_changed(str(raw["metadata"]["name"]))

    def _observe_namespaces(self, changes: Sequence[Change]) -> None:
        self._engine.event_handlers.observe(changes)
        if self._neighbours is not None:
            self._neighbours.observe(changes)

    def _observe_volcano(self, changes: Sequence[Change]) -> None:
        self._volcano.observe(changes)
        self._look.set()

    # -- who writes -----------------------------------------------------------------------------------------------

    async def _begin_leading(self, before: Predecessor) -> None:
        """Begin to lead, once what the leader before has done was seen."""
        if before.holder:
            await asyncio.gather(*(informer.catch_up() for informer in self._needed))
            _log.info("caught up with the leader before")
        self._leading = True
        self._look.set()

    async def _watch_other_controllers(self) -> None:
        """Write while we lead and Volcano's controllers do not run. Report whenever that changes."""
        while True:
            self._look.clear()
            self._watch_health.note(tuple(informer.version for informer in self._informers))
            if self._leading and not self._ready_problem():
                await self._begin_or_pause()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), LOOK_SECONDS)

    async def _begin_or_pause(self) -> None:
        """Pause the controllers if there is a sign of Volcano's own, else begin."""
        sign = self._volcano.sign()
        if self._sign is None or bool(sign) != bool(self._sign):
            self._log_builtin_queues(sign)
        self._sign = sign
        if sign and self._engine.is_active:
            self._engine.pause()
        elif not sign and not self._engine.is_active:
            await self._engine.begin()

    def _log_builtin_queues(self, sign: str) -> None:
        if sign:
            message = f"{sign}: standing aside"
            _log.warning(message)
            self._record_on_lease("Warning", "StandingAside", message)
        elif self._sign is not None:
            message = "Volcano's own controllers are gone: taking over"
            _log.info(message)
            self._record_on_lease("Normal", "TakingOver", message)
        elif self._options.volcano.mode == "never":
            _log.info("everything is listed, whether Volcano's own controllers run is not asked: at work")
        else:
            _log.info("everything is listed, Volcano's own controllers do not run: at work")

    def _record_on_lease(self, kind: str, reason: str, message: str) -> None:
        """Tell about this process where an administrator finds it: on the Lease that it holds."""
        lease = self._options.lease
        if self._lease is not None:
            uid = self._lease.lease_uid
            self._events.record(
                RecordEvent(
                    "Lease",
                    "coordination.k8s.io/v1",
                    lease.namespace,
                    lease.name,
                    uid,
                    kind,
                    reason,
                    message,
                    "Leading",
                )
            )

    # -- end ------------------------------------------------------------------------------------------------------

    def _kopf_died(self, reason: str) -> None:
        """Note that nothing is heard any more; called on the thread that ended."""
        self._finish_from_thread(FAILED, reason)

    async def _stop_events(self) -> None:
        await self._events.drain(1.0 if self._is_clean_end else 0.0)

    # -- what is shown --------------------------------------------------------------------------------------------

    def _live_problem(self) -> str:
        """Return why this process had better be started again: nothing is heard from kopf."""
        heard = self._watch_health.seconds
        problem = self._kopf.liveness_problem(heard)
        return problem or (self._admission.liveness_problem(heard) if self._admission is not None else "")

    def _ready_problem(self) -> str:
        """Return what the controllers wait for before they work; empty when they can."""
        return unlisted(self._needed) or ("" if self._kopf.is_ready else "not listed yet: queues")

    def _serving_problem(self) -> str:
        """Return why no requests should come here: something is not listed, or reviews cannot be answered."""
        problem = self._ready_problem() or unlisted(self._informers) or unheard(self._informers)
        return problem or (self._admission.problem if self._admission is not None else "")

    def _configz(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "options": asdict(self._options),
            "leader": self._fence.is_open,
            "active": self._engine.is_active,
            "standingAside": self._sign or "",
            "logLevel": logs.level_name(),
        }


def run(options: ControllerOptions, listeners: Listeners) -> int:
    """Run the controllers until they end. Return the exit status."""
    return run_process(lambda: ControllerProgram(options, listeners))
