"""Live views: the page of a view, and server-sent events with its changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol
from urllib.parse import urlencode

from aiohttp import web

from volsched.ui.context import PageContext
from volsched.ui.pages import VIEWS, HistoryOf
from volsched.ui.picture import Picture
from volsched.ui.redaction import VisiblePicture, seen_by
from volsched.ui.streams import Streams
from volsched.ui.table import Event


class LiveView(Protocol):
    """What is shown in one browser."""

    @property
    def digest(self) -> str:
        """Return a short name for what is shown."""

    def show(self, seen: VisiblePicture, history: HistoryOf) -> list[Event]:
        """Show something else. Return the events that do so in the browser."""

    def everything(self) -> list[Event]:
        """Return the events that show all of it, whatever the browser shows."""


class LiveViews:
    """The views that are followed live."""

    def __init__(self, context: PageContext, streams: Streams) -> None:
        self._context = context
        self._streams = streams

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the addresses of the views and of their events."""
        return [
            *(web.get(f"/{view}", self._view) for view in VIEWS),
            *(web.get(f"/events/{view}", self._events) for view in VIEWS),
        ]

    async def _view(self, request: web.Request) -> web.Response:
        name = request.path.strip("/")
        _, picture, seen = await self._context.seen(request)
        view = self._context.pages.view(name, request.query)
        view.show(seen, picture.history)
        live = urlencode({**request.query, "seen": view.digest})
        return self._context.page(name, view=view, filters=request.query, live=live)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        return await self.events(request, self._context.pages.view(request.path.rpartition("/")[2], request.query))

    async def events(self, request: web.Request, view: LiveView) -> web.StreamResponse:
        """Follow a view for a reader. Raises an HTTP error if the reader has too many pages open."""
        number, picture = await self._context.source.picture()

        async def changes(picture: Picture) -> Sequence[Event]:
            return view.show(seen_by(await self._context.scope(request, picture), picture), picture.history)

        await changes(picture)
        is_known = "Last-Event-ID" not in request.headers and request.query.get("seen") == view.digest
        return await self._streams.follow(request, number, [] if is_known else view.everything(), changes)
