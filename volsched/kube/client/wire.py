"""HTTP/1.1 as far as an API server needs it: small requests over kept connections, and watches.

A scheduler spends most of its time for a pod on requests, and most of that inside a general HTTP client. And a watch
must never wait for a lost connection, which a general client can do for ever if a chunked body breaks off at the wrong
byte. So this is our own: one request at a time on a connection, answers with a length or in chunks, and a connection is
closed after anything unexpected. No proxies, no redirects, no compression: `rest.py` uses aiohttp if a proxy is
configured.

One module, as one subject: a request and its answer on one connection.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

IDLE_SECONDS: Final = 30.0
"""The longest idle time of a reused connection: something between us and the server may have dropped it."""

CONNECT_SECONDS: Final = 10.0
LARGEST_HEAD: Final = 1 << 16
LARGEST_BODY: Final = 1 << 28
LARGEST_ANSWER: Final = 1 << 25
"""The largest answer, watches aside: a larger page of a list is requested in parts."""

LARGEST_REFUSAL: Final = 1 << 16
UNREAD_LIMIT: Final = 1 << 22
"""Unread bytes of a watch above which the connection pauses."""

_NO_BODY: Final = frozenset({204, 304})

P = TypeVar("P", bound=asyncio.Protocol)

StartWrite: TypeAlias = Callable[[float], float]


class WireError(Exception):
    """A request failed below HTTP. `sent` states whether the server may have got it, `late` whether time ran out.

    `too_large`: the answer is larger than is taken in.
    """

    def __init__(self, message: str, *, sent: bool, late: bool = False, too_large: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.late = late
        self.too_large = too_large

    def anew(self) -> WireError:
        """Return an equal exception to raise: this one would keep references to frames."""
        return WireError(str(self), sent=self.sent, late=self.late, too_large=self.too_large)


@dataclass(slots=True)
class Answer:
    """The server's answer. Names of headers are in lower case."""

    status: int
    phrase: str
    headers: Mapping[str, str]
    body: bytes


# --- reading answers ------------------------------------------------------------------------------------------------


class Body:
    """Takes a body out of the bytes of a connection: counted, in chunks, or up to the connection's end.

    `done` is set once it is complete; `rest` has the bytes after it. Raises ValueError for bytes that are not HTTP.
    """

    __slots__ = ("_after_chunk", "_buffer", "_chunked", "_in_trailer", "_left", "_until_end", "done", "rest")

    def __init__(self, answer: Answer) -> None:
        self.done = False
        self.rest = b""
        self._buffer = b""
        self._after_chunk = self._in_trailer = self._until_end = False
        self._left = 0
        self._chunked = "chunked" in answer.headers.get("transfer-encoding", "").lower()
        length = answer.headers.get("content-length")
        if answer.status in _NO_BODY:
            self._chunked, self.done = False, True
        elif not self._chunked and length is None:
            self._until_end = True
        elif not self._chunked:
            self._left = _size(length or "", 10)
            self.done = self._left == 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the parts of the body that some more bytes bring."""
        if self.done:
            self.rest += data
            return []
        if self._chunked:
            return self._feed_chunks(data)
        if self._until_end:
            return [data]
        part, self.rest = data[: self._left], data[self._left :]
        self._left -= len(part)
        self.done = self._left == 0
        return [part]

    def is_whole_at_end(self) -> bool:
        """True if the body is complete when the connection ends here."""
        return self.done or self._until_end

    def _feed_chunks(self, data: bytes) -> list[bytes]:
        data = self._buffer + data if self._buffer else data
        parts: list[bytes] = []
        at, end = 0, len(data)
        while not self.done and at < end:
            if self._left:
                part = data[at : at + self._left]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                self._after_chunk = self._left == 0
                continue
            line_end = data.find(b"\r\n", at)
            if line_end < 0:
                if end - at > LARGEST_HEAD:
                    raise ValueError("a line of a chunked body has no end")
                break
            self._take_line(data[at:line_end])
            at = line_end + 2
        self._buffer = b"" if self.done else data[at:]
        if self.done:
            self.rest = data[at:]
        return parts

    def _take_line(self, line: bytes) -> None:
        """Take the bytes between chunks: the end of one, the size of the next, the trailer's lines."""
        if self._after_chunk:
            if line:
                raise ValueError("a chunk is longer than it said")
            self._after_chunk = False
        elif self._in_trailer:
            self.done = not line
        else:
            self._left = _size(line.partition(b";")[0].decode("latin-1"), 16)
            self._in_trailer = self._left == 0


class _Reading:
    """An answer that is coming in: its head first, then its body in parts. Raises ValueError for what is not HTTP."""

    __slots__ = ("_body", "_head", "answer")

    def __init__(self) -> None:
        self._head = b""
        self._body: Body | None = None
        self.answer: Answer | None = None
        """The answer as soon as its head is there, without its body."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the parts of the body in some more bytes; none while the head is not complete."""
        if self._body is None:
            found = read_head(self._head + data if self._head else data)
            if found is None:
                self._head += data
                return []
            self.answer, data = found
            self._body = Body(self.answer)
        return self._body.feed(data)

    def whole(self, *, at_end: bool = False) -> Answer | None:
        """Return the answer if it is complete, or is when the connection ends here."""
        if self._body is None or not (self._body.is_whole_at_end() if at_end else self._body.done):
            return None
        return self.answer

    @property
    def is_last(self) -> bool:
        """True if the connection must not be used again: extra bytes came, or the server closes it."""
        closes = self.answer is not None and self.answer.headers.get("connection", "").lower() == "close"
        return closes or (self._body is not None and bool(self._body.rest))


def read_head(data: bytes) -> tuple[Answer, bytes] | None:
    """Return an answer without its body and the bytes after its head, or None while the head is not complete."""
    while True:
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if len(data) > LARGEST_HEAD:
                raise ValueError("its head has no end")
            return None
        answer = _parse_head(data[:end])
        data = data[end + 4 :]
        if not 100 <= answer.status < 200:  # after which another head follows
            return answer, data


def _parse_head(head: bytes) -> Answer:
    lines = head.decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    status, _, phrase = rest.partition(" ")
    if not version.startswith("HTTP/1.") or len(status) != 3 or not status.isdigit():
        raise ValueError(f"it begins with {lines[0][:80]!r}")
    headers = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"a header line is {line[:80]!r}")
        headers[name.strip().lower()] = value.strip()
    return Answer(int(status), phrase, headers, b"")


def _size(text: str, base: int) -> int:
    size = int(text, base)
    if not 0 <= size <= LARGEST_BODY:
        raise ValueError(f"{text!r} is no size")
    return size


# --- connections ----------------------------------------------------------------------------------------------------
#
# A TLS connection takes 256 KiB, and the garbage collector seldom looks at what is old. So nothing here is left in a
# circle of references when a connection ends: it lets go of its transport, and of each exception that was raised.


class _Connection(asyncio.Protocol):
    """A kept connection: at most one request at a time."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._transport: asyncio.Transport | None = None
        self._reading = _Reading()
        self._parts: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[Answer] | None = None
        self.idle_since = time.monotonic()
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Take bytes in; bytes without a request mean that the server and we disagree."""
        if self._waiter is None:
            self.close()
            return
        try:
            self._advance(data)
        except ValueError as error:
            self._fail(WireError(f"the answer is not HTTP: {error}", sent=True))

    def eof_received(self) -> bool:
        """Let the transport close."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Fail what was under way: the server may have got it."""
        self.is_open = False
        self._transport = None
        answer = self._reading.whole(at_end=True)
        if answer is not None:
            self._finish(answer)
        self._fail(WireError(f"the connection was lost: {error or 'closed by the server'}", sent=True))
        self._wire.lost(self)

    async def exchange(self, request: bytes, within: float) -> Answer:
        """Send a request and return its answer. Raises WireError. The connection is closed if that fails."""
        if self._transport is None or not self.is_open:
            raise WireError("the connection is closed", sent=False)
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Answer] = loop.create_future()
        self._waiter = waiter
        timer = loop.call_later(within, self._fail, WireError(f"no answer in {within:.1f}s", sent=True, late=True))
        try:
            self._transport.write(request)
            return await waiter
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()
            self._waiter = None
            del waiter
            self.idle_since = time.monotonic()

    def close(self) -> None:
        """Close at once."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _advance(self, data: bytes) -> None:
        self._parts += self._reading.feed(data)
        self._size += len(data)
        if self._size > LARGEST_ANSWER:
            message = f"the answer has more than {LARGEST_ANSWER >> 20} MiB"
            self._fail(WireError(message, sent=True, too_large=True))
            self.close()
            return
        answer = self._reading.whole()
        if answer is not None:
            self.is_open = self.is_open and not self._reading.is_last
            self._finish(answer)

    def _finish(self, answer: Answer) -> None:
        answer.body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._reading, self._parts, self._size = _Reading(), [], 0
        if not self.is_open:
            self.close()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(answer)

    def _fail(self, error: WireError) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


class Stream(asyncio.Protocol):
    """A connection for one watch. `await start(...)` gives the answer's head; `await read()` the bytes as they come."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reading = _Reading()
        self._unread: list[bytes] = []
        self._unread_size = 0
        self._paused = False
        self._ended = False
        self._error: WireError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take bytes in."""
        try:
            self._advance(data)
        except ValueError as error:
            self._stop(WireError(f"the answer is not HTTP: {error}", sent=True))
        self._wake()

    def eof_received(self) -> bool:
        """Let the transport close."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """End; that is no error if the body was complete."""
        self._transport = None
        if self._reading.whole(at_end=True) is not None:
            self._ended = True
        self._stop(WireError(f"the connection was lost: {error or 'closed by the server'}", sent=True))
        self._wake()

    async def start(self, request: bytes, within: float) -> Answer:
        """Send the request and return the head of the answer, with the body only of a refusal. Raises WireError."""
        if self._transport is None:
            raise WireError("the connection is closed", sent=False)
        self._transport.write(request)
        deadline = time.monotonic() + within
        while (answer := self._reading.answer) is None:
            await self._wait(deadline - time.monotonic())
        if answer.status != 200:
            answer.body = await self._rest(deadline)
        return answer

    async def read(self, silence: float) -> bytes:
        """Return the bytes that came, empty only at the end. Raises WireError, also after that long without any."""
        while not self._unread and not self._ended:
            await self._wait(silence)
        taken = self._unread[0] if len(self._unread) == 1 else b"".join(self._unread)
        self._unread.clear()
        self._unread_size = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return taken

    def close(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    async def _rest(self, deadline: float) -> bytes:
        """Return a refusal's body, or as much of it as comes in time."""
        parts = b""
        try:
            while len(parts) < LARGEST_REFUSAL and (part := await self.read(deadline - time.monotonic())):
                parts += part
        except WireError:
            pass
        return parts

    def _advance(self, data: bytes) -> None:
        for part in self._reading.feed(data):
            if part:
                self._unread.append(part)
                self._unread_size += len(part)
        if self._reading.whole() is not None:
            self._ended = True
        elif self._unread_size > UNREAD_LIMIT and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    async def _wait(self, within: float) -> None:
        if self._error is not None:
            raise self._error.anew()
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        late = WireError(f"nothing came for {within:.1f}s", sent=True, late=True)
        timer = loop.call_later(max(0.0, within), self._stop, late)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None
        if self._error is not None and not self._unread and not self._ended:
            raise self._error.anew()

    def _stop(self, error: WireError) -> None:
        if self._error is None:
            self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Wire:
    """Connections to one server: at most `limit` kept ones for requests (more wait for their turn), any for watches."""

    def __init__(self, url: str, context: ssl.SSLContext | None, server_name: str | None, limit: int) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = context if parts.scheme == "https" else None
        self._server_name = (server_name or self._host) if self._tls is not None else None
        self._prefix = parts.path.rstrip("/")
        self._authority = parts.netloc.rpartition("@")[2]
        self._limit = limit
        self._free: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._streams: set[Stream] = set()
        self._making = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    async def request(
        self,
        method: str,
        path: str,
        headers: str,
        body: bytes | None,
        within: float,
        start_write: StartWrite | None = None,
    ) -> Answer:
        """Send one request and return its answer. Raises WireError. `headers` are whole lines.

        `start_write` is asked once there is a connection, right before the request goes: it returns how many of the
        seconds that are left it may take, or raises.
        """
        deadline = time.monotonic() + within
        connection = await self._acquire(deadline)
        try:
            left = max(0.001, deadline - time.monotonic())
            return await connection.exchange(
                self._bytes(method, path, headers, body), start_write(left) if start_write else left
            )
        finally:
            if connection.is_open:
                self._free.append(connection)
            self._wake()

    async def stream(self, path: str, headers: str, within: float) -> tuple[Answer, Stream]:
        """Open a watch on a connection of its own. Raises WireError if its head does not come in time."""
        stream = await self._connect(Stream, min(CONNECT_SECONDS, within))
        self._streams.add(stream)
        try:
            return await stream.start(self._bytes("GET", path, headers, None), within), stream
        except BaseException:
            self.end(stream)
            raise

    def end(self, stream: Stream) -> None:
        """Close a watch."""
        self._streams.discard(stream)
        stream.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._all):
            connection.close()
        for stream in list(self._streams):
            self.end(stream)

    def lost(self, connection: _Connection) -> None:
        """Forget a connection that is closed."""
        self._all.discard(connection)
        if connection in self._free:
            self._free.remove(connection)
        self._wake()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _bytes(self, method: str, path: str, headers: str, body: bytes | None) -> bytes:
        length = "" if body is None else f"Content-Length: {len(body)}\r\n"
        head = f"{method} {self._prefix}{path} HTTP/1.1\r\nHost: {self._authority}\r\n{headers}{length}\r\n".encode()
        return head + (body or b"")

    async def _acquire(self, deadline: float) -> _Connection:
        while True:
            while self._free:
                connection = self._free.pop()
                if connection.is_open and time.monotonic() - connection.idle_since < IDLE_SECONDS:
                    return connection
                connection.close()
            if len(self._all) + self._making < self._limit:
                return await self._connect_kept(deadline)
            await self._wait_for_turn(deadline)

    async def _wait_for_turn(self, deadline: float) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(max(0.001, deadline - time.monotonic())):
                await turn
        except TimeoutError as error:
            raise WireError("all connections were busy", sent=False, late=True) from error
        finally:
            if turn in self._queue:
                self._queue.remove(turn)

    async def _connect_kept(self, deadline: float) -> _Connection:
        self._making += 1
        try:
            connection = await self._connect(
                lambda: _Connection(self), min(CONNECT_SECONDS, max(0.001, deadline - time.monotonic()))
            )
        finally:
            self._making -= 1
            self._wake()
        self._all.add(connection)
        return connection

    async def _connect(self, make: Callable[[], P], within: float) -> P:
        try:
            async with asyncio.timeout(max(0.001, within)):
                _, protocol = await asyncio.get_running_loop().create_connection(
                    make, self._host, self._port, ssl=self._tls, server_hostname=self._server_name
                )
        except (OSError, TimeoutError, ssl.SSLError) as error:
            reason = str(error) or type(error).__name__
            raise WireError(f"cannot connect to {self._authority}: {reason}", sent=False) from error
        return protocol

    def _wake(self) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
