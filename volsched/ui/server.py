"""The HTTP application of the page: guards each request, and serves the pages."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from aiohttp import web

from volsched.ui.access import AccessReviews
from volsched.ui.context import HEADERS, PageContext
from volsched.ui.job_page import JobPage
from volsched.ui.jobs_page import JobsPage
from volsched.ui.live_views import LiveViews
from volsched.ui.node_page import NodePage
from volsched.ui.nodes_page import NodesPage
from volsched.ui.overview_page import OverviewPage
from volsched.ui.queue_page import QueuePage
from volsched.ui.search_page import SearchPage
from volsched.ui.source import PictureSource
from volsched.ui.streams import Streams
from volsched.ui.what_if_page import WhatIfPage

STATIC: Final = Path(__file__).parent / "static"

_LONGEST_PART: Final = 255
"""The longest part of a path: more than a name has, and as much as a file name."""
_OPEN: Final = ("/healthz", "/static/")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Ui:
    """The application. With ``access`` each reader is reviewed; without, the reader needs the ``link``."""

    def __init__(self, source: PictureSource, access: AccessReviews | None = None, grafana_url: str = "") -> None:
        self.context = PageContext(source, access, grafana_url)
        self.streams = Streams(self.context)
        self.views = LiveViews(self.context, self.streams)
        self._parts = (
            OverviewPage(self.context, self.views),
            JobsPage(self.context, self.views),
            self.views,
            JobPage(self.context, self.streams),
            QueuePage(self.context, self.streams),
            NodesPage(self.context, self.streams),
            NodePage(self.context, self.streams),
            WhatIfPage(self.context),
            SearchPage(self.context),
        )

    def application(self) -> web.Application:
        """Return what serves it."""
        app = web.Application(middlewares=[self._guard])
        app.on_cleanup.append(self._stop)
        app.add_routes(
            [
                web.get("/", self._home),
                web.get("/state", self._state),
                web.get("/healthz", _healthy),
                web.static("/static", STATIC),
            ]
        )
        for part in self._parts:
            app.add_routes(part.routes())
        return app

    def link(self, address: str) -> str:
        """Return what to open in a browser, for a page at `host:port`."""
        return f"https://{address}" if self.context.access is not None else self.context.secret.link(address)

    async def _stop(self, _: web.Application) -> None:
        await self.context.questions.stop()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if self.context.access is None:
                self.context.secret.check_origin(request)
            if not (request.path.startswith(_OPEN) or self._is_handed_over(request) or _is_no_page(request)):
                await self.context.who(request)
            if any(len(os.fsencode(part)) > _LONGEST_PART for part in request.path.split("/")):
                raise web.HTTPNotFound
            answer = await handler(request)
        except web.HTTPException as error:
            error.headers.update(HEADERS)
            raise
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    def _is_handed_over(self, request: web.Request) -> bool:
        return self.context.access is None and self.context.secret.is_handed_over(request)

    async def _home(self, request: web.Request) -> web.Response:
        if self._is_handed_over(request):
            return self.context.secret.hand_over(request)
        raise web.HTTPFound("/overview")

    async def _state(self, request: web.Request) -> web.Response:
        """Return the state of the source for the header, and nothing if the reader has it already."""
        if request.query.get("seen") == self.context.digest:
            return web.Response(status=204)
        return self.context.page("state_news")


def _is_no_page(request: web.Request) -> bool:
    """True if the request is refused for every reader: pages can only be read."""
    return isinstance(request.match_info.http_exception, web.HTTPMethodNotAllowed)


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")
