"""The HTTP side of the page: who may look, pages, and server-sent events with what has changed."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from volsched.asking import snapshot
from volsched.kube.serve.reader_access import ReaderAccess
from volsched.model.errors import ConfigError
from volsched.ui.follow import Follower
from volsched.ui.pages import VIEWS, Pages
from volsched.ui.picture import Picture, what_if

STATIC: Final = Path(__file__).parent / "static"
RIGHT: Final = "/ui"
"""The nonResourceURL that who looks at the page has to have the verb `get` on."""

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
HELP_SECONDS: Final = 5
MOST_NODES: Final = 64
_HEARTBEAT_SECONDS: Final = 15.0
_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Ui:
    """The application. Where there is an ``access``, it is asked about each request; else only this machine may ask."""

    def __init__(self, follower: Follower, access: ReaderAccess | None = None) -> None:
        self._follower = follower
        self._access = access
        self._pages = Pages()
        self._explaining = asyncio.Semaphore(2)

    def application(self) -> web.Application:
        """Return what serves it."""
        app = web.Application(middlewares=[self._guard])
        app.add_routes(
            [
                web.get("/", self._home),
                web.get("/healthz", _healthy),
                web.get("/what-if", self._what_if),
                web.get("/what-if/result", self._what_if_result),
                web.get("/job/{namespace}/{name}", self._job),
                web.get("/job/{namespace}/{name}/explanation", self._explanation),
                web.get("/events/{view}", self._events),
                *(web.get(f"/{view}", self._view) for view in VIEWS),
                web.static("/static", STATIC),
            ]
        )
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = await self._refusal(request)
        answer = refusal if refusal is not None else await handler(request)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    async def _refusal(self, request: web.Request) -> web.Response | None:
        if request.path == "/healthz" or request.path.startswith("/static/"):
            return None
        if self._access is None:
            host = request.host.rpartition(":")[0] if request.host.rpartition(":")[2].isdigit() else request.host
            return None if host in _LOCAL else web.Response(status=403, text="this page is for this machine alone\n")
        refused = await self._access.refusal(request.headers.get("Authorization", ""), RIGHT)
        return None if refused is None else web.Response(status=refused.status, text=refused.message + "\n")

    # -- pages --------------------------------------------------------------------------------------------------------

    async def _home(self, request: web.Request) -> web.Response:
        raise web.HTTPFound("/queues")

    async def _view(self, request: web.Request) -> web.Response:
        view = request.path.strip("/")
        _, picture = await self._picture()
        rows = self._pages.rows(view, picture, request.query)
        return _html(self._pages.page(view, rows=rows, filters=request.query, query=request.query_string))

    async def _job(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        _, picture = await self._picture()
        reasons = self._follower.reasons.get((namespace, name), [])
        return _html(
            self._pages.page("job", namespace=namespace, name=name, job=picture.job(namespace, name), reasons=reasons)
        )

    async def _explanation(self, request: web.Request) -> web.Response:
        """Ask `volsched explain`, in a process of its own: it tries changes in copies of itself."""
        _, picture = await self._picture()
        async with self._explaining:
            answer = await _explained(picture, request.match_info["namespace"], request.match_info["name"])
        return _html(self._pages.page("job_explanation", answer=answer))

    async def _what_if(self, request: web.Request) -> web.Response:
        _, picture = await self._picture()
        nodes = sorted(found.metadata.name for found in picture.known.objects if type(found).__name__ == "Node")
        resources = sorted({figures.resource for queue in picture.queues for figures in queue.figures})
        return _html(self._pages.page("what-if", queues=picture.queues, nodes=nodes, resources=resources))

    async def _what_if_result(self, request: web.Request) -> web.Response:
        _, picture = await self._picture()
        asked = request.query
        count = asked.get("count", "0")
        nodes = {asked["node"]: min(int(count), MOST_NODES)} if asked.get("node") and count.isdecimal() else {}
        quota = (asked.get("queue", ""), asked.get("resource", ""), asked.get("quota", ""))
        try:
            found = await asyncio.to_thread(what_if, picture.known, *quota, nodes)
        except KeyError as error:
            raise web.HTTPNotFound(text=f"there is no {error}\n") from None
        return _html(self._pages.page("what-if_result", difference=found, asked=asked))

    async def _picture(self) -> tuple[int, Picture]:
        try:
            return await self._follower.picture()
        except ConfigError as error:
            raise web.HTTPServiceUnavailable(text=f"the configuration in force does not hold: {error}\n") from error

    # -- what has changed ---------------------------------------------------------------------------------------------

    async def _events(self, request: web.Request) -> web.StreamResponse:
        view = request.match_info["view"]
        if view not in VIEWS:
            raise web.HTTPNotFound
        answer = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        await answer.prepare(request)
        version, picture = await self._picture()
        sent: dict[str, str] = {}
        while True:
            rows = self._pages.rows(view, picture, request.query)
            for name, data in differences(sent, rows):
                await answer.write(_event(name, data))
            sent = rows
            version, picture = await self._next(answer, version)

    async def _next(self, answer: web.StreamResponse, version: int) -> tuple[int, Picture]:
        """Wait for the next picture; a line now and then finds out who has gone."""
        while True:
            try:
                return await asyncio.wait_for(self._follower.after(version), _HEARTBEAT_SECONDS)
            except TimeoutError:
                await answer.write(b": still here\n\n")


def differences(sent: dict[str, str], rows: dict[str, str]) -> list[tuple[str, str]]:
    """Return the events that make of one list of rows another: rows that differ, or all where others came or went."""
    if list(sent) != list(rows):
        return [("rows", "\n".join(rows.values()))]
    return [(name, row) for name, row in rows.items() if row != sent[name]]


def _event(name: str, data: str) -> bytes:
    lines = "\n".join(f"data: {line}" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n\n".encode()


async def _explained(picture: Picture, namespace: str, name: str) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile(suffix=".snapshot") as file:
        file.write(await asyncio.to_thread(snapshot.written, picture.known))
        file.flush()
        flags = ["-n", namespace, "-f", file.name, "--help-seconds", str(HELP_SECONDS), "-o", "json", "--nodes"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "volsched", "explain", *flags, "--", "podgroup", name,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, problem = await process.communicate()
    return json.loads(said) if said.strip() else {"sentence": problem.decode(errors="replace").strip()}


def _html(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html")


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")
