"""Connections of one peer that ask for nothing, as any pod may open them, and how the processes answer beside them."""

from __future__ import annotations

import contextlib
import functools
import http.client
import resource
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tools.patience import PATIENCE

POD, NODE = "127.0.0.2", "127.0.0.1"
"""Who floods, and who asks beside it."""

PROBE_SECONDS: Final = 1.0
"""Within this a probe is answered, however many connections are idle."""


@contextlib.contextmanager
def idle(
    port: int, count: int, peer: str = POD, *, at: str = NODE, said: bytes = b"", tls: bool = False
) -> Iterator[None]:
    """Hold many connections of one peer that ask for nothing, or stop within a request."""
    with contextlib.ExitStack() as held:
        for _ in range(count):
            open_one(held, port, peer, at=at, said=said, tls=tls)
        yield


def open_one(
    held: contextlib.ExitStack, port: int, peer: str = POD, *, at: str = NODE, said: bytes = b"", tls: bool = False
) -> None:
    """Open one of them, which is closed with ``held``."""
    with contextlib.suppress(OSError):  # it has given way already
        one = held.enter_context(socket.create_connection((at, port), PATIENCE, (peer, 0)))
        if tls:
            one = held.enter_context(unverified().wrap_socket(one))
        one.sendall(said)


@functools.cache
def unverified() -> ssl.SSLContext:
    """Return what takes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@dataclass
class Flood:
    """Idle connections to several ports at once, opened again as they end, with probes beside them until it is closed.

    ``slowest`` is the longest that a probe took, in seconds; ``unanswered`` those that had no answer with status 200.
    """

    ports: Sequence[int]
    count: int
    slowest: float = 0.0
    probes: int = 0
    unanswered: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> Flood:
        """Begin."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * self.count * len(self.ports))), hard))
        for port in self.ports:
            for work in (self._hold, self._probe):
                self._threads.append(threading.Thread(target=work, args=(port,), daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def close(self) -> None:
        """End it."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _hold(self, port: int) -> None:
        half = b"GET /livez HTTP/1.1\r\nX-Half: "
        while not self._over.is_set():
            with contextlib.ExitStack() as held:
                for number in range(self.count):
                    if self._over.is_set():
                        return
                    open_one(held, port, said=half if number % 2 else b"")
                self._over.wait(5.0)

    def _probe(self, port: int) -> None:
        while not self._over.wait(0.5):
            began = time.monotonic()
            asking = http.client.HTTPConnection(NODE, port, timeout=PATIENCE, source_address=(NODE, 0))
            try:
                asking.request("GET", "/livez")
                if asking.getresponse().status != http.client.OK:
                    self.unanswered.append(f"port {port}: another status")
            except OSError as error:
                self.unanswered.append(f"port {port}: {error}")
            finally:
                asking.close()
            self.probes += 1
            self.slowest = max(self.slowest, time.monotonic() - began)
