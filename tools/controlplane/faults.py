"""A proxy in front of the API server that makes it fail in chosen ways, and counts what it is asked.

A client gets a kubeconfig file that points here. The proxy ends its TLS with the API server's own certificate, reads
each request, applies the first rule that meets it, and passes the request on with the client's own token (client
certificates do not get through). Everything runs on a thread of its own, so that a test that blocks does not stop the
proxy, and all methods may be called from any thread.

    with FaultProxy(cluster) as proxy:
        with proxy.inject(conflict(), method="POST", path="/binding$", times=3) as rule:
            ...
            rule.wait(3)
        proxy.inject(EndWatch())             # every watch that is open, and each new one, until removed
        proxy.partition(True)                # nothing gets through, nothing is refused
        assert proxy.counts.count("create", "/pods/*/binding") == 1
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import urlsplit

from tools.controlplane.credentials import write_kubeconfig
from tools.controlplane.fault_rules import (
    BlackHole,
    EndWatch,
    FailWatch,
    FaultRule,
    InjectedFault,
    Latency,
    Reset,
    ResetWatch,
    Respond,
    StallWatch,
    Truncate,
    bad_gateway_page,
    conflict,
    gone,
    server_error,
    too_many_requests,
)
from tools.controlplane.fault_server import FaultServer
from tools.controlplane.lifetime import Startable
from tools.controlplane.plane import ControlPlane
from tools.controlplane.request_counts import RequestCounts
from tools.patience import PATIENCE

__all__ = [
    "BlackHole",
    "EndWatch",
    "FailWatch",
    "FaultProxy",
    "FaultRule",
    "Latency",
    "Reset",
    "ResetWatch",
    "Respond",
    "StallWatch",
    "Truncate",
    "bad_gateway_page",
    "conflict",
    "gone",
    "server_error",
    "too_many_requests",
]

T = TypeVar("T")


class FaultProxy(Startable):
    """One proxy in front of one control plane; a context manager, also an asynchronous one.

    `authorization` replaces the clients' own Authorization header in what is passed on, when given.
    """

    def __init__(self, control_plane: ControlPlane, *, authorization: str | None = None) -> None:
        self.counts = RequestCounts()
        self._control_plane = control_plane
        self._authorization = authorization.encode() if authorization else None
        self._server: FaultServer | None = None
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._written = 0

    # ------------------------------------------------------------------------------------------- start and stop

    def start(self) -> Self:
        """Listen on a random port of loopback."""
        self._thread.start()
        self._server = self._call_soon(self._make_server)
        return self

    def stop(self) -> None:
        """Close all connections."""
        if self._server:
            server, self._server = self._server, None
            asyncio.run_coroutine_threadsafe(server.close(), self._loop).result(PATIENCE)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE)
        self._loop.close()

    # --------------------------------------------------------------------------------------------- for clients

    @property
    def url(self) -> str:
        """Return where clients find it."""
        return f"https://127.0.0.1:{self._running.port}"

    def kubeconfig(self) -> Path:
        """Write a kubeconfig file of the administrator, through this proxy."""
        self._written += 1
        return write_kubeconfig(
            self._control_plane.folder / f"proxy-{self._running.port}-{self._written}.kubeconfig",
            server=self.url,
            ca_file=self._control_plane.credentials.ca_file,
            token=self._control_plane.credentials.admin_token,
        )

    def kubeconfig_for(self, service_account: str, namespace: str) -> Path:
        """Write a kubeconfig file with a service account's rights, through this proxy."""
        return self._control_plane.kubeconfig_for(service_account, namespace, server=self.url)

    # ------------------------------------------------------------------------------------------------- faults

    def inject(
        self,
        fault: InjectedFault,
        *,
        method: str | None = None,
        path: str | None = None,
        watch: bool | None = None,
        times: int | None = None,
    ) -> FaultRule:
        """Apply a fault to requests from now on, `times` of them or until the rule is removed.

        `path` is a regular expression that is searched in the path without the query; `watch` states whether only
        watches (or none) are met; None stands for all. Of several rules the one injected first is applied. A fault of
        watches meets those that are open, too.
        """
        rule = FaultRule(fault, method=method, path=path, watch=watch, times=times, remove=self._remove)
        self._call_soon(lambda: self._running.add_rule(rule))
        return rule

    def clear(self) -> None:
        """Remove all rules."""
        self._call_soon(self._running.rules.clear)

    def partition(self, on: bool, *, reset: bool = False) -> None:
        """Cut all clients off, or let them through again.

        While it is on nothing is accepted and nothing is answered, as with a cable pulled; what was under way goes on
        when it is over. With `reset` open connections are reset and new ones, too, as with a server that is gone.
        """
        self._call_soon(lambda: self._running.partition(on, reset=reset))

    @property
    def open_watches(self) -> int:
        """Return how many watches are open."""
        return self._call_soon(lambda: len(self._running.watches))

    # -------------------------------------------------------------------------------------------------- inside

    @property
    def _running(self) -> FaultServer:
        if self._server is None:
            raise RuntimeError("this fault proxy is not running")
        return self._server

    def _make_server(self) -> FaultServer:
        keys = self._control_plane.credentials
        upstream = urlsplit(self._control_plane.url)
        address = (upstream.hostname or "", upstream.port or 443)
        return FaultServer(self.counts, keys.server_context(), address, keys.client_context(), self._authorization)

    def _remove(self, rule: FaultRule) -> None:
        if self._server:
            self._call_soon(lambda: self._running.remove_rule(rule))

    def _call_soon(self, call: Callable[[], T]) -> T:
        """Return what a call returns that is made on the proxy's thread."""
        done: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run() -> None:
            try:
                done.set_result(call())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(PATIENCE)
