"""The scheduler's HTTP pages: probes, metrics, its effective configuration.

`/livez` tells whether the scheduling loop still runs, `/readyz` whether everything has been listed (a follower with
warm caches is ready), `/healthz` that the process answers at all. The probes have an address of their own, so that a
NetworkPolicy can tell readers from the node, and stay open where `access` guards the other pages.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import structlog
from aiohttp import web

from volsched.kube.errors import ApiError
from volsched.kube.serve.connections import ConnectionLimits, Network
from volsched.kube.serve.listeners import Listeners
from volsched.kube.serve.metrics import CONTENT_TYPE
from volsched.kube.serve.reader_access import AccessRefusal, ReaderAccess
from volsched.kube.serve.site import LimitedSites
from volsched.model.values.names import is_name

Check: TypeAlias = Callable[[], str]
"""Returns what is wrong, empty when nothing is."""

_SHUTDOWN_SECONDS: Final = 1.0
_HEADERS: Final = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}}
"""Of refusals, by status."""

EXPLAINED: Final = {
    "pod": ("", "pods"),
    "podgroup": ("scheduling.volcano.sh", "podgroups"),
    "job": ("batch.volcano.sh", "jobs"),
    "deployment": ("apps", "deployments"),
    "replicaset": ("apps", "replicasets"),
    "statefulset": ("apps", "statefulsets"),
    "daemonset": ("apps", "daemonsets"),
    "queue": ("scheduling.volcano.sh", "queues"),
}
"""Kinds of `/explain`, each with the API group and resource that its reader must be allowed to get."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PageContents:
    """The sources of the pages. `configuration` is any JSON value; `metrics` is Prometheus' text.

    `snapshot` returns a file with the whole cluster, or raises ApiError; it is served only with an `access`.
    """

    live: Check
    ready: Check
    metrics: Callable[[], bytes]
    configuration: Callable[[], Any]
    snapshot: Callable[[], Awaitable[bytes]] | None = None
    explain: Callable[[str, str, str, str], Awaitable[tuple[int, bytes]]] | None = None
    """Returns a status and JSON for a reader, a kind, namespace and name; served only with an `access`."""


class Server:
    """Serves the pages on addresses, each `host:port` (`:8080` is every interface, port 0 a free one).

    Where there is an `access`, it is asked who may read metrics and configuration, and their address speaks TLS. From
    ``kubelet`` any number of connections may ask for probes, as far as there are places at all.
    """

    def __init__(
        self,
        pages: PageContents,
        listeners: Listeners,
        access: ReaderAccess | None = None,
        kubelet: tuple[Network, ...] = (),
    ) -> None:
        self._pages = pages
        self._listeners = listeners
        self._access = access
        self._kubelet = kubelet
        self.sites: list[LimitedSites] = []
        self.addresses: list[str] = []

    async def start(self, pages_at: str, probes_at: str) -> None:
        """Listen: for all pages, and for the probes alone; empty is nowhere.

        Raises KubeSetupError when an address cannot be had.
        """
        if pages_at:
            tls = _tls() if self._access is not None else None
            kubelet = self._kubelet if probes_at in ("", pages_at) else ()
            await self._listen("pages", pages_at, [*self._probes(), *self._others()], tls, kubelet)
        if probes_at and probes_at != pages_at:
            await self._listen("probes", probes_at, self._probes(), None, self._kubelet)
        self.addresses = [address for site in self.sites for address in site.addresses]
        _log.info("serving", addresses=self.addresses, guarded=self._access is not None)

    async def stop(self) -> None:
        """Stop serving."""
        for site in self.sites:
            await site.stop()

    async def _listen(
        self,
        name: str,
        address: str,
        routes: list[web.RouteDef],
        tls: ssl.SSLContext | None,
        kubelet: tuple[Network, ...],
    ) -> None:
        app = web.Application()
        app.add_routes(routes)
        site = LimitedSites(app, name, ConnectionLimits(unlimited=kubelet), shutdown=_SHUTDOWN_SECONDS)
        self.sites.append(site)
        await site.start(self._listeners.take(address), tls)

    def _probes(self) -> list[web.RouteDef]:
        return [
            web.get("/healthz", _checking(lambda: "")),
            web.get("/livez", _checking(self._pages.live)),
            web.get("/readyz", _checking(self._pages.ready)),
        ]

    def _others(self) -> list[web.RouteDef]:
        routes = [
            web.get("/metrics", self._guarded(self._metrics)),
            web.get("/configz", self._guarded(self._configuration)),
        ]
        if self._access is not None and self._pages.snapshot is not None:
            routes.append(web.get("/debug/snapshot", self._guarded(partial(self._snapshot, self._pages.snapshot))))
        if self._access is not None and self._pages.explain is not None:
            routes.append(web.get("/explain", partial(self._explain, self._access, self._pages.explain)))
        return routes

    def _guarded(self, page: Callable[[], Awaitable[web.Response]]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            if self._access is not None:
                refusal = await self._access.refusal(
                    request.headers.get("Authorization", ""), request.path, request.remote or ""
                )
                if refusal is not None:
                    return _refused(refusal)
            return await page()

        return answer

    async def _metrics(self) -> web.Response:
        return web.Response(body=self._pages.metrics(), headers={"Content-Type": CONTENT_TYPE})

    async def _configuration(self) -> web.Response:
        text = json.dumps(self._pages.configuration(), indent=2, default=str)
        return web.Response(text=text + "\n", content_type="application/json")

    async def _explain(
        self,
        access: ReaderAccess,
        explain: Callable[[str, str, str, str], Awaitable[tuple[int, bytes]]],
        request: web.Request,
    ) -> web.Response:
        kind, namespace, name = (request.query.get(key, "") for key in ("kind", "namespace", "name"))
        is_placed = namespace == "" if kind == "queue" else is_name(namespace)
        if kind not in EXPLAINED or not is_name(name) or not is_placed:
            return _refused(
                AccessRefusal(400, f"ask with kind ({', '.join(EXPLAINED)}), name, and but for queues namespace")
            )
        authorization = request.headers.get("Authorization", "")
        refusal = await access.refusal_of(
            authorization, *EXPLAINED[kind], namespace, name, address=request.remote or ""
        )
        if refusal is not None:
            return _refused(refusal)
        try:
            status, body = await explain(access.asker(authorization), kind, namespace, name)
        except ApiError as error:
            return _refused(AccessRefusal(503, f"the cluster cannot be read: {error.message}"))
        kind_of_text = "application/json" if status == web.HTTPOk.status_code else "text/plain"
        return web.Response(body=body, status=status, content_type=kind_of_text)

    async def _snapshot(self, snapshot: Callable[[], Awaitable[bytes]]) -> web.Response:
        try:
            body = await snapshot()
        except ApiError as error:
            return web.Response(text=f"the cluster cannot be read: {error.message}\n", status=503)
        return web.Response(body=body, content_type="application/gzip")


def _tls() -> ssl.SSLContext:
    # cryptography is 0.1 CPU seconds and 10 MB; pages that everybody may read need none of it
    from volsched.kube.serve.serving_tls import self_signed_context  # noqa: PLC0415

    return self_signed_context()


def _refused(refusal: AccessRefusal) -> web.Response:
    return web.Response(text=refusal.message + "\n", status=refusal.status, headers=_HEADERS.get(refusal.status))


def _checking(check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        problem = check()
        return web.Response(text=(problem or "ok") + "\n", status=503 if problem else 200)

    return answer
