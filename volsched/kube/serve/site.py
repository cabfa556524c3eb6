"""Serves aiohttp with limits on connections: all ports of all verbs use it.

A connection costs a descriptor and no more until its first byte has come: only then TLS and the HTTP parser begin.
`connections` decides the limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, cast

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from volsched.kube.serve.connections import (
    HANDSHAKE_SECONDS,
    IDLE_SECONDS,
    Connection,
    ConnectionLimits,
    ConnectionTable,
    Stage,
    peer_of,
)
from volsched.kube.tasks import Tasks

LOOK_SECONDS: Final = 1.0
"""The time between two checks for idle connections."""

ACCEPTED_AT_ONCE: Final = 64
"""Connections that are taken in before others on the loop have their turn."""

QUIET_SECONDS: Final = 60.0
"""That connections give way is logged once in this time at most."""

MOST_HEADERS: Final = 64
"""Of one request, each of 8 KiB at most."""

_OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
_NOT_NOW: Final = (BlockingIOError, InterruptedError)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = structlog.get_logger(__name__)


class LimitedSites:
    """Serves an application on addresses, with limits on connections. ``name`` tells the port in logs and metrics."""

    def __init__(
        self, app: web.Application, name: str, limits: ConnectionLimits | None = None, *, shutdown: float = 1.0
    ) -> None:
        self.name = name
        self.table = ConnectionTable((limits or ConnectionLimits()).within_descriptors())
        self._asking: dict[RequestHandler, Connection] = {}
        app.middlewares.insert(0, self._mark)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,
            shutdown_timeout=shutdown,
            keepalive_timeout=IDLE_SECONDS,
            max_headers=MOST_HEADERS,
        )
        self._listening: list[_Listening] = []

    @property
    def addresses(self) -> list[str]:
        """Return where it listens, each `host:port`."""
        return [f"{name[0]}:{name[1]}" for name in (each.socket.getsockname() for each in self._listening)]

    async def start(self, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Accept connections of a socket that listens; with ``tls`` they have to speak it."""
        if self._runner.server is None:
            await self._runner.setup()
        self._listening.append(_Listening(self, listener, tls))

    async def stop(self) -> None:
        """Accept no more, let what is under way end for a moment, and close everything."""
        for listening in self._listening:
            await listening.close()
        for connection in self.table:
            if connection.stage in (Stage.SILENT, Stage.OPENING):
                self.table.close(connection, "end")
        if self._runner.server is not None:
            await self._runner.cleanup()

    def make_handler(self, connection: Connection) -> RequestHandler:
        """Return aiohttp's end of a connection."""
        handler = cast("web.Server", self._runner.server)()
        self._asking[handler] = connection
        return handler

    def forget(self, handler: RequestHandler) -> None:
        """Forget a connection that was lost."""
        connection = self._asking.pop(handler, None)
        if connection is not None:
            self.table.remove(connection)

    @web.middleware
    async def _mark(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note that a request waits for an answer."""
        connection = self._asking.get(request.protocol)
        now = asyncio.get_running_loop().time
        if connection is not None:
            connection.enter(Stage.ASKED, now())
        try:
            return await handler(request)
        finally:
            if connection is not None:
                connection.enter(Stage.ANSWERED, now())


class _Listening:
    """One listening socket on the running loop."""

    def __init__(
        self,
        site: LimitedSites,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.socket = listener
        self._site = site
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._opening = Tasks()
        self._reported_at = -QUIET_SECONDS
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
        listener.setblocking(False)
        self._loop.add_reader(listener.fileno(), self._accept)

    async def close(self) -> None:
        """Accept no more."""
        self._timer.cancel()
        self._loop.remove_reader(self.socket.fileno())
        self.socket.close()
        await self._opening.stop()

    def _look(self) -> None:
        table = self._site.table
        table.close_overdue(self._loop.time())
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
        self._loop.add_reader(self.socket.fileno(), self._accept)  # where it stopped for want of descriptors

    # -- new ones -------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, name = self.socket.accept()
            except _NOT_NOW:
                return
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS and not self._site.table.close_one():
                    self._loop.remove_reader(self.socket.fileno())  # until the next look
                    return
                continue  # a peer that has gone already, or there is a descriptor now
            self._take(accepted, peer_of(name))

    def _take(self, accepted: socket.socket, peer: str) -> None:
        accepted.setblocking(False)
        table, now = self._site.table, self._loop.time()
        before = table.closed.total()
        if not table.make_room(peer):
            table.closed["refused"] += 1
            accepted.close()
        else:
            connection = Connection(peer, now, lambda: None, opened=now, stalled_since=now)
            connection.close = partial(self._close_silent, accepted)
            table.add(connection)
            self._loop.add_reader(accepted.fileno(), self._open, accepted, connection)
        if table.closed.total() != before:
            self._report_refused(peer, now)

    def _report_refused(self, peer: str, now: float) -> None:
        if now - self._reported_at >= QUIET_SECONDS:
            self._reported_at = now
            table = self._site.table
            _log.warning(
                "idle connections give way to new ones",
                port=self._site.name,
                connections=len(table),
                most=table.limits.total,
                newest_peer=peer,
            )

    def _close_silent(self, accepted: socket.socket) -> None:
        self._loop.remove_reader(accepted.fileno())
        accepted.close()

    # -- from the first byte on -----------------------------------------------------------------------------------

    def _open(self, accepted: socket.socket, connection: Connection) -> None:
        self._loop.remove_reader(accepted.fileno())
        try:
            is_over = accepted.recv(1, socket.MSG_PEEK) == b""
        except _NOT_NOW:
            is_over = False
        except OSError:
            is_over = True
        if is_over:
            self._site.table.remove(connection)
            accepted.close()
            return
        connection.enter(Stage.OPENING, self._loop.time())
        connection.close = partial(_cancel, self._opening.start(self._serve(accepted, connection), "a connection"))

    async def _serve(self, accepted: socket.socket, connection: Connection) -> None:
        handler, handed_over = self._site.make_handler(connection), False
        handshake = HANDSHAKE_SECONDS if self._tls is not None else None
        try:
            await self._loop.connect_accepted_socket(
                lambda: _ForwardingProtocol(self._site, handler, connection),
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=handshake,
            )
            handed_over = True
        except (OSError, TimeoutError):  # errors of TLS among them
            self._site.table.closed["handshake"] += 1
        except asyncio.CancelledError:
            pass  # it has given way, or this is the end
        finally:
            if not handed_over:
                self._site.forget(handler)
                accepted.close()


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


class _ForwardingProtocol(asyncio.Protocol):
    """Forwards everything to aiohttp's protocol, and reports when the connection is made and lost."""

    def __init__(self, site: LimitedSites, handler: RequestHandler, connection: Connection) -> None:
        self._site = site
        self._handler = handler
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        given = cast("asyncio.Transport", transport)
        self._connection.close = given.abort
        self._connection.left_to_send = given.get_write_buffer_size
        self._handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._handler.data_received(data)

    def eof_received(self) -> None:
        self._handler.eof_received()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._site.forget(self._handler)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._handler.connection_lost(exc)
