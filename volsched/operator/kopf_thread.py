"""One kopf operator on a thread with a loop of its own, as it asks for: it takes every task of its loop for its own.

It writes nothing: whoever makes one registers handlers of events and of admission only, and finalizers, annotations and
Events of its own are switched off.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from typing import Any, Final

import kopf
import structlog

from volsched.kube.backoff import Backoff
from volsched.kube.credentials import Credentials, Source

PAGE: Final = 500
REQUEST_TIMEOUT_SECONDS: Final = 30.0
SERVER_TIMEOUT_SECONDS: Final = 300
"""Whole seconds: the API server refuses a watch with a fraction."""

STOP_SECONDS: Final = 5.0
_PAUSES: Final = (1.0, 30.0)
"""Seconds between two tries: at first, and at most."""

_ONLY_ERRORS: Final = ("kopf._core.reactor.observation", "kopf._core.reactor.running")
"""They warn of kinds that do not exist, as they may, and that signals are somebody else's, as they are."""

_log = structlog.get_logger(__name__)


class KopfThread(ABC):
    """An operator that runs from `start` to `stop`, and is begun again when kopf ends by itself."""

    def __init__(self, name: str, source: Source) -> None:
        self._source = source
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_ready(self) -> bool:
        """Whether kopf has found out which kinds there are, and has begun."""
        return self._ready.is_set()

    @abstractmethod
    def _register(self, registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings) -> None:
        """Add the handlers, and what settings they need."""

    def start(self) -> None:
        """Begin."""
        logging.getLogger("kopf").setLevel(logging.WARNING)
        for name in _ONLY_ERRORS:
            logging.getLogger(name).setLevel(logging.ERROR)
        self._thread.start()

    async def stop(self) -> None:
        """End, and wait a little for that."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join, STOP_SECONDS)

    def _run(self) -> None:
        """Have kopf run until it is to stop: it gives up after a minute of outage, and lists anew when begun again."""
        backoff = Backoff(*_PAUSES)
        while not self._stopping.is_set():
            reason = "it ended"
            try:
                asyncio.run(self._operate())
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
            if not self._stopping.is_set():
                wait = backoff.next()
                name = self._thread.name
                _log.warning("kopf ended; beginning again", thread=name, error=reason, retry_in=round(wait, 1))
                self._stopping.wait(wait)

    async def _operate(self) -> None:
        registry, settings = kopf.OperatorRegistry(), _settings()

        @kopf.on.login(registry=registry, errors=kopf.ErrorsMode.PERMANENT)
        async def login(**_: Any) -> kopf.ConnectionInfo:
            return await _connection(self._source)

        self._register(registry, settings)
        await kopf.operator(
            registry=registry,
            settings=settings,
            standalone=True,
            clusterwide=True,
            stop_flag=self._stopping,
            ready_flag=self._ready,
        )


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
    """Return our own credentials in kopf's words; it asks again when the server no longer knows them."""
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
