"""Live views: the page of a view, and server-sent events with its changes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol
from urllib.parse import urlencode

from aiohttp import web

from volsched.ui.context import HEADERS, PageContext
from volsched.ui.pages import VIEWS, HistoryOf
from volsched.ui.picture import Picture
from volsched.ui.redaction import VisiblePicture, seen_by
from volsched.ui.table import Event, Table

STREAM: Final = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
"""Of events: a proxy in front hands on each as it comes."""

STREAMS_OF_ONE: Final = 32
MOST_STREAMS: Final = 512
"""Open pages of one person, and of all."""

HEARTBEAT_SECONDS: Final = 15.0


Changes = Callable[[Picture], Awaitable[list[Event]]]
"""Returns the events by which a page shows another picture."""


class LiveView(Protocol):
    """A view in one browser: ``show`` a picture, and send the events that it returns."""

    @property
    def table(self) -> Table:
        """Return the rows."""

    def show(self, seen: VisiblePicture, history: HistoryOf) -> list[Event]:
        """Show something else. The events that do so where it was shown before."""

    def caption(self) -> Event:
        """Return the event that shows the words above the table."""


class LiveViews:
    """The views that are followed live."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self.streams: Counter[str] = Counter()
        """The open pages of each reader."""

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the addresses of the views and of their events."""
        return [web.get("/events/{view}", self._events), *(web.get(f"/{view}", self._view) for view in VIEWS)]

    async def _view(self, request: web.Request) -> web.Response:
        name = request.path.strip("/")
        _, picture, seen = await self._context.seen(request)
        view = self._context.pages.view(name, request.query)
        view.show(seen, picture.history)
        live = urlencode({**request.query, "seen": view.table.digest})
        return self._context.page(name, view=view, filters=request.query, live=live)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["view"]
        if name not in VIEWS:
            raise web.HTTPNotFound
        return await self.events(request, self._context.pages.view(name, request.query))

    async def events(self, request: web.Request, view: LiveView) -> web.StreamResponse:
        """Follow a view for a reader. Raises an HTTP error if the reader has too many pages open."""
        number, picture = await self._context.source.picture()

        async def changes(picture: Picture) -> list[Event]:
            return view.show(seen_by(await self._context.scope(request, picture), picture), picture.history)

        await changes(picture)
        is_known = "Last-Event-ID" not in request.headers and request.query.get("seen") == view.table.digest
        begin = [] if is_known else [view.table.everything(), view.caption()]
        return await self.follow(request, number, begin, changes)

    async def follow(
        self, request: web.Request, number: int, begin: Sequence[Event], changes: Changes
    ) -> web.StreamResponse:
        """Send events to a reader who has picture ``number``: those to begin with, then the changes of each picture.

        Raises an HTTP error if the reader has too many pages open.
        """
        with self._streaming(await self._context.asker(request)):
            answer = web.StreamResponse(headers={**HEADERS, **STREAM})
            await answer.prepare(request)
            await answer.write(b"".join(_event(event, number) for event in begin))
            try:
                while True:
                    number, picture = await self._next(answer, request, number)
                    if events := await changes(picture):
                        await answer.write(b"".join(_event(event, number) for event in events))
            except (web.HTTPException, ConnectionResetError):
                return answer  # the reader may look no more, and hears why when the browser asks again; or has gone

    @contextmanager
    def _streaming(self, asker: str) -> Iterator[None]:
        """Count a stream of a reader. Raises an HTTP error if there are too many."""
        if self.streams[asker] >= STREAMS_OF_ONE or self.streams.total() >= MOST_STREAMS:
            raise web.HTTPTooManyRequests(text="too many pages are open; close one\n", headers={"Retry-After": "10"})
        self.streams[asker] += 1
        try:
            yield
        finally:
            self.streams[asker] -= 1
            if not self.streams[asker]:
                del self.streams[asker]

    async def _next(self, answer: web.StreamResponse, request: web.Request, number: int) -> tuple[int, Picture]:
        """Wait for the next picture. A line now and then finds readers that have gone, or lost access."""
        while True:
            try:
                return await asyncio.wait_for(self._context.source.after(number), HEARTBEAT_SECONDS)
            except TimeoutError:
                await self._context.who(request)
                await answer.write(b": still here\n\n")


def _event(event: Event, number: int) -> bytes:
    name, data = event
    lines = "\n".join(f"data: {line}" for line in data.splitlines() or [""])
    return f"event: {name}\nid: {number}\n{lines}\n\n".encode()
