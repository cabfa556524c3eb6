"""One kopf operator on a thread and loop of its own: it takes every task of its loop for its own.

It writes nothing: only handlers of events and of admission are registered, and its own finalizers, annotations and
Events are switched off.

A process whose kopf is dead would look alive and see nothing. So kopf is started again when it ends; one that fails and
does not get to its end (1.45 may wait for ever for watches that were reconnecting) and a thread that ends take the
process with them. If kopf has not been well for long although others reach the API server, whether it ends again and
again or hangs, the liveness probe fails.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

import kopf
import structlog

from volsched.kube.client.backoff import Backoff
from volsched.kube.client.credentials import Credentials, Source
from volsched.kube.lead.elector import make_identity
from volsched.kube.tasks import Tasks

PAGE: Final = 500
REQUEST_TIMEOUT_SECONDS: Final = 30.0
SERVER_TIMEOUT_SECONDS: Final = 300
"""Whole seconds: the API server refuses a watch with a fraction."""

STOP_SECONDS: Final = 5.0

SETTLED_SECONDS: Final = 90.0
"""Kopf that has run so long is well: it tries to reach the server for about a minute, and ends."""

ENDING_SECONDS: Final = 30.0
"""Kopf that has failed and not ended after so long never will."""

PATIENCE_SECONDS: Final = 300.0
"""The time without a well kopf, with a reachable API server, after which the process should be started again."""

_BEAT_SECONDS: Final = 1.0
_PAUSES: Final = (1.0, 30.0)
"""Seconds between two tries: at first, and at most."""

_ONLY_ERRORS: Final = ("kopf._core.reactor.observation", "kopf._core.reactor.running")
"""Loggers with useless warnings: kinds may be missing, and signals are handled elsewhere."""

_log = structlog.get_logger(__name__)


class KopfThread(ABC):
    """An operator that runs from `start` to `stop`, and is started again when kopf ends by itself.

    `on_death` is called, on any thread, with the reason of an end that was not requested.
    """

    def __init__(self, name: str, source: Source, on_death: Callable[[str], None]) -> None:
        self._source = source
        self._on_death = on_death
        self._well_at = time.monotonic()
        self._reason = "it has never begun"
        self._stopping = threading.Event()
        self._stop_run = threading.Event()
        self._ready = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_ready(self) -> bool:
        """True if kopf has found out which kinds there are, and has begun."""
        return self._ready.is_set()

    def liveness_problem(self, heard: float) -> str:
        """Return why the process should be started again; empty if kopf was well recently.

        `heard` is for how many seconds others have reached the API server: while that is down kopf is not to blame.
        """
        silence = time.monotonic() - self._well_at
        if min(silence, heard) <= PATIENCE_SECONDS or self._stopping.is_set():
            return ""
        return f"{self._thread.name} was not well for {silence:.0f}s: {self._reason}"

    @abstractmethod
    def _register(self, registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings) -> None:
        """Add the handlers, and what settings they need."""

    def start(self) -> None:
        """Begin."""
        logging.getLogger("kopf").setLevel(logging.WARNING)
        for name in _ONLY_ERRORS:
            logging.getLogger(name).setLevel(logging.ERROR)
        self._well_at = time.monotonic()
        self._thread.start()

    async def stop(self) -> None:
        """End, and wait a little for that."""
        self._stopping.set()
        self._stop_run.set()
        await asyncio.to_thread(self._thread.join, STOP_SECONDS)

    def _run(self) -> None:
        """Have kopf run until it is to stop, and report it if it is over before."""
        try:
            self._keep_running()
        except BaseException as error:
            self._on_death(f"the thread {self._thread.name} ended: {_shown(error)}")
            raise

    def _keep_running(self) -> None:
        """Start kopf again whenever it ends: it gives up after a minute of outage, and lists again then."""
        backoff = Backoff(*_PAUSES)
        while not self._stopping.is_set():
            reason, ending = "it ended", _Ending(self._report_no_end)
            try:
                asyncio.run(self._operate(ending))
            except (Exception, asyncio.CancelledError) as error:
                reason = _shown(error)
            finally:
                ending.came()
            if not self._stopping.is_set():
                wait = backoff.next()
                name, self._reason = self._thread.name, reason
                _log.warning("kopf ended; beginning again", thread=name, error=reason, retry_in=round(wait, 1))
                self._stopping.wait(wait)

    def _report_no_end(self, why: str) -> None:
        if not self._stopping.is_set():
            self._on_death(f"{self._thread.name} failed and does not end: {why}")

    async def _operate(self, ending: _Ending) -> None:
        begun, stop = asyncio.Event(), threading.Event()
        self._stop_run = stop
        if self._stopping.is_set():
            return
        ours = asyncio.all_tasks()
        try:
            roots = await self._begin_kopf(begun, stop)
            tasks = Tasks(lambda what, error: self._on_death(f"{self._thread.name}: {what} failed: {error}"))
            beat = tasks.start(self._beat(begun, roots, ending), "heartbeat")
            try:
                await kopf.run_tasks(roots, ignored={*ours, beat})
            finally:
                await tasks.stop()
        except BaseException as error:
            ending.is_due(_shown(error))
            raise
        finally:
            ending.is_due("it ended")
            stop.set()  # kopf waits for it on a thread, and this loop does not end before that does

    async def _beat(self, begun: asyncio.Event, roots: Collection[asyncio.Task[None]], ending: _Ending) -> None:
        """Note that kopf is well, as long as this loop turns and kopf runs; not before it has run for a while."""
        settled = None
        while not any(root.done() for root in roots):
            now = time.monotonic()
            if begun.is_set():
                self._ready.set()
                settled = settled or now + SETTLED_SECONDS
                if now >= settled:
                    self._well_at, self._reason = now, "it hangs"
            await asyncio.sleep(_BEAT_SECONDS)
        ending.is_due(_failures(roots))

    async def _begin_kopf(self, begun: asyncio.Event, stop: threading.Event) -> Collection[asyncio.Task[None]]:
        registry, settings = kopf.OperatorRegistry(), _settings()

        @kopf.on.login(registry=registry, errors=kopf.ErrorsMode.PERMANENT)
        async def login(**_: Any) -> kopf.ConnectionInfo:
            return await _connection(self._source)

        self._register(registry, settings)
        identity: Any = make_identity()  # else kopf asks who the user is, and that of the image has no name
        return await kopf.spawn_tasks(
            registry=registry,
            settings=settings,
            identity=identity,
            standalone=True,
            clusterwide=True,
            stop_flag=stop,
            ready_flag=begun,
        )


class _Ending:
    """Reports, on a thread of its own since the loop may hang, an end that is due and does not come."""

    def __init__(self, record_event: Callable[[str], None]) -> None:
        self._record_event = record_event
        self._timer: threading.Timer | None = None

    def is_due(self, why: str) -> None:
        """Wait for the end from now on; only the first time counts."""
        if self._timer is None:
            self._timer = threading.Timer(ENDING_SECONDS, self._record_event, [why])
            self._timer.daemon = True
            self._timer.start()

    def came(self) -> None:
        """Wait no longer."""
        if self._timer is not None:
            self._timer.cancel()


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _failures(tasks: Iterable[asyncio.Task[None]]) -> str:
    failed = [task for task in tasks if task.done() and not task.cancelled() and task.exception() is not None]
    return "; ".join(f"{task.get_name()}: {task.exception()}" for task in failed) or "it was not told to end"


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.watching.chunk_size = PAGE
    settings.watching.server_timeout = SERVER_TIMEOUT_SECONDS
    settings.networking.request_timeout = REQUEST_TIMEOUT_SECONDS
    settings.persistence.finalizer = "volsched.io/never-written"
    settings.process.ultimate_exiting_timeout = None
    return settings


async def _connection(source: Source) -> kopf.ConnectionInfo:
    """Return our own credentials in kopf's form. It asks again when the server refuses them."""
    found = await Credentials.load(source)
    scheme, _, token = found.authorization.partition(" ")
    return kopf.ConnectionInfo(
        server=found.host,
        ca_path=found.tls.ca_file,
        insecure=not found.tls.verify,
        scheme=scheme or None,
        token=token or None,
        certificate_path=found.tls.certificate,
        private_key_path=found.tls.key,
        proxy_url=found.proxy,
    )
