"""What the scheduler serves over HTTP: probes, metrics, its effective configuration.

`/livez` says whether the scheduling loop still turns, `/readyz` whether everything has been listed (a follower with
warm caches is ready), `/healthz` that the process answers at all.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import structlog
from aiohttp import web

from volsched.kube.errors import KubeSetupError
from volsched.kube.metrics import CONTENT_TYPE

Check: TypeAlias = Callable[[], str]
"""Returns what is wrong, empty when nothing is."""

_SHUTDOWN_SECONDS: Final = 1.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Pages:
    """What the pages say. `configuration` is anything that JSON can hold; `metrics` is Prometheus' text."""

    live: Check
    ready: Check
    metrics: Callable[[], bytes]
    configuration: Callable[[], Any]


class Server:
    """Serves the pages on some addresses, each `host:port` (`:8080` is every interface, port 0 a free one)."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._runner: web.AppRunner | None = None
        self.addresses: list[str] = []

    async def start(self, addresses: tuple[str, ...]) -> None:
        """Listen; raises KubeSetupError when an address cannot be had."""
        app = web.Application()
        pages = self._pages
        app.router.add_get("/healthz", _checking(lambda: ""))
        app.router.add_get("/livez", _checking(pages.live))
        app.router.add_get("/readyz", _checking(pages.ready))
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/configz", self._configuration)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        for address in dict.fromkeys(addresses):
            host, port = parse_address(address)
            try:
                await web.TCPSite(self._runner, host or None, port).start()
            except OSError as error:
                raise KubeSetupError(f"cannot listen on {address}: {error.strerror or error}") from error
        self.addresses = [_text(name) for name in self._runner.addresses]
        _log.info("serving", addresses=self.addresses)

    async def stop(self) -> None:
        """Stop serving."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._pages.metrics(), headers={"Content-Type": CONTENT_TYPE})

    async def _configuration(self, _: web.Request) -> web.Response:
        text = json.dumps(self._pages.configuration(), indent=2, default=str)
        return web.Response(text=text + "\n", content_type="application/json")


def parse_address(address: str) -> tuple[str, int]:
    """Split `host:port`, where the host may be absent or a bracketed IPv6 address; raises KubeSetupError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise KubeSetupError(f"{address!r} is no address to listen on; write host:port or :port")
    return host.strip("[]"), int(port)


def _checking(check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        problem = check()
        return web.Response(text=(problem or "ok") + "\n", status=503 if problem else 200)

    return answer


def _text(name: Any) -> str:
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)
