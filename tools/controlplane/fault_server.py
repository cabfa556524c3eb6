"""The proxy's own thread: its socket, its connections, and the watches that are open.

Each connection of a client has one connection to the API server behind it, and one task that carries one request after
the other. When the client leaves, that task is cancelled, whatever it waits for.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any

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
    WatchFault,
)
from tools.controlplane.http1 import (
    HEAD_LIMIT_BYTES,
    LAST_CHUNK,
    Head,
    HttpRequest,
    body_pieces,
    chunk,
    has_body,
    read_head,
    read_request,
    status_of,
)
from tools.controlplane.request_counts import NO_ANSWER, RequestCounts, Write

_WHOLE_ANSWER_BYTES = 64 * 1024
"""An answer up to this size is sent in one write."""

_UNSENT_BYTES = 256 * 1024
"""With more than this unsent, reading from the API server waits for the client."""


class FaultServer:
    """Accepts clients and decides for each request what happens to it. All of it belongs to one event loop."""

    def __init__(
        self,
        counts: RequestCounts,
        tls: ssl.SSLContext,
        upstream: tuple[str, int],
        upstream_tls: ssl.SSLContext,
        authorization: bytes | None,
    ) -> None:
        self.rules: list[FaultRule] = []
        self.authorization = authorization
        self.watches: set[Watch] = set()
        self.connections: set[ProxyConnection] = set()
        self.through = asyncio.Event()
        self.through.set()
        self._counts = counts
        self._tls = tls
        self._upstream = upstream
        self._upstream_tls = upstream_tls
        self._refusing = False
        self.is_closed = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._listener.setblocking(False)
        self._tasks: set[asyncio.Task[None]] = set()
        self.spawn(self._accept())

    @property
    def port(self) -> int:
        """Return the port it listens on."""
        port: int = self._listener.getsockname()[1]
        return port

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to the API server."""
        host, port = self._upstream
        return await asyncio.open_connection(host, port, ssl=self._upstream_tls, limit=HEAD_LIMIT_BYTES)

    def delay_for(self, request: HttpRequest) -> float:
        """Return for how many seconds a request is held back."""
        met = [rule for rule in self._rules_for(request) if isinstance(rule.fault, Latency)]
        for rule in met:
            rule.hit()
        return sum(rule.fault.seconds for rule in met if isinstance(rule.fault, Latency))

    def fault_for(self, request: HttpRequest) -> InjectedFault | None:
        """Return what is to happen to a request, by the first rule that meets it."""
        for rule in self._rules_for(request):
            if not isinstance(rule.fault, Latency):
                rule.hit()
                return rule.fault
        return None

    def count(self, request: HttpRequest, status: int, *, forwarded: bool) -> None:
        """Count a request whose fate is known."""
        self._counts.add(request.method, request.path, is_watch=request.is_watch, status=status, forwarded=forwarded)

    def sending(self, request: HttpRequest) -> Write | None:
        """Note in the journal, where one is kept, that a request is sent on now."""
        return self._counts.sending(request.method, request.path)

    def add_rule(self, rule: FaultRule) -> None:
        """Apply a rule from now on, also to the watches that are open."""
        self.rules.append(rule)
        for watch in list(self.watches):
            request, fault = watch.request, rule.fault
            if isinstance(fault, WatchFault) and not watch.is_armed and _meets(rule, request):
                rule.hit()
                watch.arm(fault)

    def remove_rule(self, rule: FaultRule) -> None:
        """Apply a rule no longer."""
        with contextlib.suppress(ValueError):
            self.rules.remove(rule)

    def partition(self, on: bool, *, reset: bool) -> None:
        """Let nothing through, or everything again."""
        self._refusing = on and reset
        if on and not reset:
            self.through.clear()
        else:
            self.through.set()
        if self._refusing:
            for connection in list(self.connections):
                connection.reset()

    async def close(self) -> None:
        """Stop listening and drop every connection; nothing is under way any more then."""
        self.is_closed = True
        for connection in list(self.connections):
            connection.reset()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine until it ends or the server is closed."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _rules_for(self, request: HttpRequest) -> list[FaultRule]:
        return [rule for rule in self.rules if _meets(rule, request)]

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self.through.wait()
            client, _ = await loop.sock_accept(self._listener)
            await self.through.wait()
            if self._refusing:
                _reset_on_close(client)
                client.close()
            else:
                self.spawn(self._greet(client))

    async def _greet(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            await loop.connect_accepted_socket(lambda: _ClientProtocol(self, loop), client, ssl=self._tls)


class _ClientProtocol(asyncio.StreamReaderProtocol):
    """A client's side of the connection; its end cancels what is under way for it."""

    def __init__(self, server: FaultServer, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(asyncio.StreamReader(limit=HEAD_LIMIT_BYTES, loop=loop), self._begin, loop=loop)
        self._server = server
        self._serving: asyncio.Task[None] | None = None

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server.is_closed:  # its greeting was cancelled, which comes about a turn of the loop later
            writer.transport.abort()
            return
        self._serving = self._server.spawn(ProxyConnection(self._server, reader, writer).run())

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._serving:
            self._serving.cancel()


class Watch:
    """An open watch, and how much of it may still pass once a fault has met it."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.fault: WatchFault | None = None
        self.copying: asyncio.Task[None] | None = None
        self._is_between_events = True
        self._events_left = 0

    @property
    def is_armed(self) -> bool:
        """True if a fault has met it."""
        return self.fault is not None

    @property
    def is_due(self) -> bool:
        """True if the fault is to happen now."""
        return self.is_armed and self._events_left == 0

    def arm(self, fault: WatchFault) -> None:
        """Let the fault happen after the events that it lets through, and never within one."""
        self.fault = fault
        self._events_left = fault.after_events + (0 if self._is_between_events else 1)
        if self.is_due and self.copying:
            self.copying.cancel()

    def let_through(self, payload: bytes) -> bytes:
        """Return the part of a payload that may pass."""
        end = len(payload)
        if self.is_armed:
            end = 0
            while self._events_left and end < len(payload):
                newline = payload.find(b"\n", end)
                end = len(payload) if newline < 0 else newline + 1
                self._events_left -= newline >= 0
        if payload:
            self._is_between_events = payload[end - 1 : end] == b"\n"
        return payload[:end]


class ProxyConnection:
    """One client's connection, and the one to the API server behind it."""

    def __init__(self, server: FaultServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self) -> None:
        """Carry one request after the other until one side leaves; an answer that breaks off ends the connection."""
        self._server.connections.add(self)
        try:
            while (request := await read_request(self._reader)) is not None:
                await self._server.through.wait()
                if not await self._exchange(request):
                    break
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            self._writer.transport.abort()
        finally:
            self._server.connections.discard(self)
            self._hang_up()
            self._writer.close()

    def reset(self) -> None:
        """Reset the client's connection: it finds out with its next read or write."""
        if (found := self._writer.get_extra_info("socket")) is not None:  # else it is closed already
            _reset_on_close(found)
        self._writer.transport.abort()

    async def _exchange(self, request: HttpRequest) -> bool:
        """Carry one request and its answer; tell whether the connection can take another."""
        server = self._server
        if delay := server.delay_for(request):
            await asyncio.sleep(delay)
        fault = server.fault_for(request)
        if isinstance(fault, Reset | BlackHole | Respond) and not fault.after:
            server.count(request, fault.status if isinstance(fault, Respond) else NO_ANSWER, forwarded=False)
            return await self._fail(fault)
        written = server.sending(request)
        head = await self._forward(request)
        if written:
            written.status = status_of(head)
        server.count(request, status_of(head), forwarded=True)
        await server.through.wait()
        if isinstance(fault, Reset | BlackHole | Respond):
            self._hang_up()
            return await self._fail(fault)
        if isinstance(fault, Truncate):
            return await self._truncate(head, fault.keep)
        if request.is_watch and status_of(head) == HTTPStatus.OK:
            return await self._watch(request, head, fault if isinstance(fault, WatchFault) else None)
        return await self._answer(request, head)

    async def _forward(self, request: HttpRequest) -> Head:
        """Send a request to the API server and return the head of its answer."""
        if self._upstream is None or self._upstream[0].at_eof():
            self._hang_up()
            self._upstream = await self._server.connect()
        reader, writer = self._upstream
        authorization = self._server.authorization
        head = request.head.with_value(b"authorization", authorization) if authorization else request.head.raw
        writer.write(head + request.body)
        await writer.drain()
        answer = await read_head(reader)
        if answer is None:
            raise ConnectionResetError("the API server closed the connection")
        return answer

    async def _answer(self, request: HttpRequest, head: Head) -> bool:
        """Pass the API server's answer on."""
        reader = self._upstream_reader
        length = head.length
        if not has_body(request.method, status_of(head)):
            self._send(head.raw)
        elif length is not None and length <= _WHOLE_ANSWER_BYTES:
            self._send(head.raw + await reader.readexactly(length))
        else:
            self._send(head.raw)
            async for piece in body_pieces(reader, head):
                await self._server.through.wait()
                self._send(piece.wire)
                await self._drain()
            if length is None and not head.is_chunked:
                return False
        return b"close" not in (head.value(b"connection") or b"").lower()

    async def _watch(self, request: HttpRequest, head: Head, fault: WatchFault | None) -> bool:
        """Pass a watch on until it ends, or until what a fault lets through has passed."""
        watch = Watch(request)
        self._send(head.raw)
        if fault:
            watch.arm(fault)
        if not watch.is_due:
            copying = watch.copying = self._server.spawn(self._copy(watch, head))
            self._server.watches.add(watch)
            try:
                await asyncio.wait({copying})
            finally:
                self._server.watches.discard(watch)
                copying.cancel()
            if not watch.is_due:
                copying.result()
                return True
        self._hang_up()
        return await self._end_watch(head, watch.fault)

    async def _copy(self, watch: Watch, head: Head) -> None:
        async for piece in body_pieces(self._upstream_reader, head):
            await self._server.through.wait()
            passing = watch.let_through(piece.payload)
            if len(passing) == len(piece.payload):
                self._send(piece.wire)
            elif passing:
                self._send(chunk(passing))
            if watch.is_due:
                return
            await self._drain()

    async def _end_watch(self, head: Head, fault: WatchFault | None) -> bool:
        match fault:
            case FailWatch() if b"json" in (head.value(b"content-type") or b""):
                self._send(chunk(fault.event()) + LAST_CHUNK)
            case EndWatch() | FailWatch():
                self._send(LAST_CHUNK)
            case ResetWatch():
                self.reset()
                return False
            case StallWatch():
                await _for_ever()
        return True

    async def _truncate(self, head: Head, keep: int) -> bool:
        """Pass the head and the first bytes of the body on, then end the connection."""
        self._send(head.raw)
        async for piece in body_pieces(self._upstream_reader, head):
            frame = piece.wire.index(b"\r\n") + 2 if head.is_chunked else 0
            self._send(piece.wire[: frame + min(keep, len(piece.payload))])
            keep -= len(piece.payload)
            if keep <= 0:
                break
        return False

    async def _fail(self, fault: Reset | BlackHole | Respond) -> bool:
        match fault:
            case Respond():
                self._send(_answer_of(fault))
                return True
            case BlackHole():
                await _for_ever()
            case Reset():
                self.reset()
        return False

    @property
    def _upstream_reader(self) -> asyncio.StreamReader:
        if self._upstream is None:
            raise ConnectionResetError("there is no connection to the API server")
        return self._upstream[0]

    def _send(self, data: bytes) -> None:
        if not self._writer.transport.is_closing():  # the client has left; asyncio would log it for every piece
            self._writer.write(data)

    async def _drain(self) -> None:
        if self._writer.transport.get_write_buffer_size() > _UNSENT_BYTES:
            await self._writer.drain()

    def _hang_up(self) -> None:
        """Drop the connection to the API server, and with it whatever it still answers."""
        upstream, self._upstream = self._upstream, None
        if upstream:
            upstream[1].transport.abort()


def _meets(rule: FaultRule, request: HttpRequest) -> bool:
    return rule.matches(request.method, request.path, is_watch=request.is_watch)


def _answer_of(fault: Respond) -> bytes:
    body = fault.body.encode()
    lines = [
        f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}",
        f"Content-Type: {fault.content_type}",
        f"Content-Length: {len(body)}",
    ]
    if fault.retry_after is not None:
        lines.append(f"Retry-After: {fault.retry_after}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def _reset_on_close(sock: socket.socket) -> None:
    """Make closing a socket send a reset instead of an orderly end."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def _for_ever() -> None:
    """Wait until the task is cancelled, as it is when the client leaves."""
    await asyncio.get_running_loop().create_future()
