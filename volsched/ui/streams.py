"""Streams of server-sent events: what changes in a part of a page, for one browser.

A browser that does not read gets nothing further: its stream is closed, and a new one begins with everything.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from aiohttp import web

from volsched.ui.access import Visibility
from volsched.ui.context import HEADERS, PageContext
from volsched.ui.picture import Picture
from volsched.ui.table import Event

STREAM: Final = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
"""Of events: a proxy in front hands on each as it comes."""

STREAMS_OF_ONE: Final = 32
MOST_STREAMS: Final = 512
"""Open pages of one person, and of all."""

HEARTBEAT_SECONDS: Final = 15.0
PATIENCE_SECONDS: Final = 10.0
"""The time that a browser may take to read a chunk."""

SHARE: Final = 0.125
"""The part of a core that streams may take together, beside the sessions of the page."""

CHUNK: Final = 1 << 16
"""Characters that are written at once."""


Changes = Callable[[Picture], Awaitable[Sequence[Event]]]
"""Returns the events by which a page shows another picture."""


class Budget:
    """The CPU that all streams together may take: ``wait`` until what was spent before is paid off."""

    def __init__(self, share: float) -> None:
        """``share`` is the largest part of a core."""
        self._share = share
        self._free_at = 0.0

    def wait(self, now: float) -> float:
        """Return the seconds to wait before more may be spent. ``now`` is any clock in seconds."""
        return max(0.0, self._free_at - now)

    def spend(self, seconds: float, now: float) -> None:
        """Note CPU seconds that were spent."""
        self._free_at = max(self._free_at, now) + seconds / self._share


class LivePart(Protocol):
    """A part of a page in one browser."""

    async def show(self, scope: Visibility, picture: Picture) -> Sequence[Event]:
        """Show another picture. Return the events that do so in the browser."""

    def everything(self) -> Iterable[Event]:
        """Return the events that show everything, whatever is shown."""

    @property
    def digest(self) -> str:
        """Return a short name for what is shown."""


class Sections:
    """A part whose sections are made anew for each picture; those that changed are sent. The events have their names.

    ``make`` returns the HTML of the sections by name. It raises an HTTP error if there is nothing to show any more.
    """

    def __init__(self, make: Callable[[Visibility, Picture], Awaitable[Mapping[str, str]]]) -> None:
        self._make = make
        self.html: Mapping[str, str] = {}

    async def show(self, scope: Visibility, picture: Picture) -> Sequence[Event]:
        """Show another picture."""
        before, self.html = self.html, await self._make(scope, picture)
        return [(name, html) for name, html in self.html.items() if before.get(name) != html]

    def everything(self) -> Iterable[Event]:
        """Return the events that show all sections."""
        return list(self.html.items())

    @property
    def digest(self) -> str:
        """Return a short name for what is shown."""
        return hashlib.sha256("\0".join(self.html.values()).encode()).hexdigest()[:16]


class Streams:
    """The open streams. ``open_of`` counts those of each reader."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._budget = Budget(SHARE)
        self.open_of: Counter[str] = Counter()

    async def serve(self, request: web.Request, part: LivePart) -> web.StreamResponse:
        """Follow a part of a page for a reader. Raises an HTTP error if the reader has too many pages open."""
        number, picture = await self._context.source.picture()

        async def changes(picture: Picture) -> Sequence[Event]:
            return await part.show(await self._context.scope(request, picture), picture)

        await changes(picture)
        is_known = "Last-Event-ID" not in request.headers and request.query.get("seen") == part.digest
        return await self.follow(request, number, [] if is_known else part.everything(), changes)

    async def follow(
        self, request: web.Request, number: int, begin: Iterable[Event], changes: Changes
    ) -> web.StreamResponse:
        """Send events to a reader who has picture ``number``: those to begin with, then the changes of each picture.

        Raises an HTTP error if the reader has too many pages open.
        """
        with self._counted(await self._context.asker(request)):
            answer = web.StreamResponse(headers={**HEADERS, **STREAM})
            await answer.prepare(request)
            try:
                await _send(answer, begin, number)
                begin = ()  # it may be large
                while True:
                    number, picture = await self._next(request, answer, number)
                    began = time.thread_time()
                    events = await changes(picture)
                    self._budget.spend(time.thread_time() - began, time.monotonic())
                    await _send(answer, events, number)
            except (web.HTTPException, ConnectionError):
                pass  # the reader may look no more, and hears why when the browser asks again; or has gone
            except TimeoutError:
                if request.transport is not None:
                    request.transport.abort()  # drops what was not read
            return answer

    @contextmanager
    def _counted(self, asker: str) -> Iterator[None]:
        """Count a stream of a reader. Raises an HTTP error if there are too many."""
        if self.open_of[asker] >= STREAMS_OF_ONE or self.open_of.total() >= MOST_STREAMS:
            raise web.HTTPTooManyRequests(text="too many pages are open; close one\n", headers={"Retry-After": "10"})
        self.open_of[asker] += 1
        try:
            yield
        finally:
            self.open_of[asker] -= 1
            if not self.open_of[asker]:
                del self.open_of[asker]

    async def _next(self, request: web.Request, answer: web.StreamResponse, number: int) -> tuple[int, Picture]:
        """Wait for the next picture. A line now and then finds readers that have gone, or lost access."""
        while True:
            try:
                found = await asyncio.wait_for(self._context.source.after(number), HEARTBEAT_SECONDS)
                while seconds := self._budget.wait(time.monotonic()):
                    await asyncio.sleep(seconds)
                    found = await self._context.source.picture()
                return found
            except TimeoutError:
                await self._context.who(request)
                await _write(answer, b": still here\n\n")


async def _send(answer: web.StreamResponse, events: Iterable[Event], number: int) -> None:
    """Write events in chunks. Each event is made when those before it have been read, but for one chunk."""
    waiting = ""
    for event in events:
        waiting += _text(event, number)
        if len(waiting) >= CHUNK:
            await _write_all(answer, waiting)
            waiting = ""
    await _write_all(answer, waiting)


async def _write_all(answer: web.StreamResponse, text: str) -> None:
    for start in range(0, len(text), CHUNK):
        await _write(answer, text[start : start + CHUNK].encode())


async def _write(answer: web.StreamResponse, data: bytes) -> None:
    """Write a chunk. Raises TimeoutError if the browser does not read."""
    await asyncio.wait_for(answer.write(data), PATIENCE_SECONDS)


def _text(event: Event, number: int) -> str:
    name, data = event
    lines = "\n".join(f"data: {line}" for line in data.splitlines() or [""])
    return f"event: {name}\nid: {number}\n{lines}\n\n"
