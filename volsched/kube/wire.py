"""HTTP/1.1 requests over kept connections, with nothing that a binding does not need.

Most of what a scheduler spends on a pod is spent on saying so, and most of that inside a general HTTP client. This one
sends one request at a time on a connection, understands answers with a length and in chunks, and gives a connection up
as soon as anything about it is odd. No proxies, no redirects, no compression: who needs those takes aiohttp
(`client.py` does when a proxy is configured).
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final, cast
from urllib.parse import urlsplit

IDLE_SECONDS: Final = 30.0
"""A connection that was idle for longer is not used again: what is between us and the server may have dropped it."""

CONNECT_SECONDS: Final = 10.0
LARGEST_HEAD: Final = 1 << 16
LARGEST_BODY: Final = 1 << 28

_NO_BODY: Final = frozenset({204, 304})


class WireError(Exception):
    """A request failed below HTTP. `sent` says whether the server may have got it, `late` whether time ran out."""

    def __init__(self, message: str, *, sent: bool, late: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.late = late


@dataclass(slots=True)
class Answer:
    """What the server said; names of headers are in lower case."""

    status: int
    phrase: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class _Reading:
    """An answer that is coming in: its head once that is complete, and what its body still lacks."""

    answer: Answer | None = None
    length: int = -1
    parts: list[bytes] = field(default_factory=list)


class _Connection(asyncio.Protocol):
    """One connection: at most one request at a time."""

    def __init__(self, pool: Wire) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._reading = _Reading()
        self._waiter: asyncio.Future[Answer] | None = None
        self.idle_since = time.monotonic()
        self.is_open = False

    # -- asyncio.Protocol -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Take bytes in; what comes without a request means that the server and we disagree."""
        if self._waiter is None:
            self.close()
            return
        self._buffer = self._buffer + data if self._buffer else data
        try:
            self._advance()
        except ValueError as error:
            self._fail(WireError(f"the answer is not HTTP: {error}", sent=True))

    def eof_received(self) -> bool:
        """Let the transport close."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Fail what was under way: the server may have got it."""
        self.is_open = False
        self._fail(WireError(f"the connection was lost: {error or 'closed by the server'}", sent=True))
        self._pool.lost(self)

    # -- requests -------------------------------------------------------------------------------------------------

    async def exchange(self, request: bytes, within: float) -> Answer:
        """Send a request and return its answer; raises WireError. The connection is closed if that fails."""
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
            self.idle_since = time.monotonic()

    def close(self) -> None:
        """Close at once."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: WireError) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    def _finish(self, answer: Answer) -> None:
        self._reading = _Reading()
        if self._buffer or answer.headers.get("connection", "").lower() == "close":
            self.close()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(answer)

    # -- parsing --------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Read as much as there is; raises ValueError when it is not HTTP."""
        reading = self._reading
        if reading.answer is None and not self._read_head(reading):
            return
        answer = reading.answer
        if answer is None:
            return
        if reading.length >= 0:
            self._read_counted(reading, answer)
        else:
            self._read_chunks(reading, answer)

    def _read_head(self, reading: _Reading) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > LARGEST_HEAD:
                raise ValueError("its head has no end")
            return False
        head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
        answer = _parse_head(head)
        if 100 <= answer.status < 200:  # something is to follow
            return self._read_head(reading)
        reading.answer = answer
        if answer.status in _NO_BODY:
            reading.length = 0
        elif "chunked" in answer.headers.get("transfer-encoding", "").lower():
            reading.length = -1
        else:
            reading.length = int(answer.headers["content-length"]) if "content-length" in answer.headers else 0
            if not 0 <= reading.length <= LARGEST_BODY:
                raise ValueError("its length is odd")
            if "content-length" not in answer.headers:
                raise ValueError("it has no length")
        return True

    def _read_counted(self, reading: _Reading, answer: Answer) -> None:
        if len(self._buffer) < reading.length:
            return
        answer.body, self._buffer = self._buffer[: reading.length], self._buffer[reading.length :]
        self._finish(answer)

    def _read_chunks(self, reading: _Reading, answer: Answer) -> None:
        while (end := self._buffer.find(b"\r\n")) >= 0:
            size = int(self._buffer[:end].partition(b";")[0], 16)
            if not 0 <= size <= LARGEST_BODY:
                raise ValueError("a chunk's length is odd")
            if size == 0:
                self._read_trailer(end, reading, answer)
                return
            after = end + 2 + size
            if len(self._buffer) < after + 2:
                return
            if self._buffer[after : after + 2] != b"\r\n":
                raise ValueError("a chunk has no end")
            reading.parts.append(self._buffer[end + 2 : after])
            self._buffer = self._buffer[after + 2 :]

    def _read_trailer(self, end: int, reading: _Reading, answer: Answer) -> None:
        """Drop trailing headers; they end with an empty line."""
        if self._buffer.startswith(b"\r\n", end + 2):
            close = end + 4
        else:
            close = self._buffer.find(b"\r\n\r\n", end) + 4
            if close < 4:
                return
        self._buffer = self._buffer[close:]
        answer.body = b"".join(reading.parts)
        self._finish(answer)


class Wire:
    """Kept connections to one server, at most `limit` of them; more requests wait for their turn."""

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
        self._making = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    async def request(self, method: str, path: str, headers: str, body: bytes | None, within: float) -> Answer:
        """Send one request and return its answer; raises WireError. `headers` are whole lines."""
        deadline = time.monotonic() + within
        connection = await self._acquire(within)
        length = "" if body is None else f"Content-Length: {len(body)}\r\n"
        head = f"{method} {self._prefix}{path} HTTP/1.1\r\nHost: {self._authority}\r\n{headers}{length}\r\n".encode()
        try:
            return await connection.exchange(head + (body or b""), max(0.001, deadline - time.monotonic()))
        finally:
            self._release(connection)

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._all):
            connection.close()

    def lost(self, connection: _Connection) -> None:
        """Forget a connection that is closed."""
        self._all.discard(connection)
        if connection in self._free:
            self._free.remove(connection)
        self._wake()

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _acquire(self, within: float) -> _Connection:
        deadline = time.monotonic() + within
        while True:
            while self._free:
                connection = self._free.pop()
                if connection.is_open and time.monotonic() - connection.idle_since < IDLE_SECONDS:
                    return connection
                connection.close()
            if len(self._all) + self._making < self._limit:
                return await self._connect(min(CONNECT_SECONDS, max(0.001, deadline - time.monotonic())))
            await self._wait_for_turn(deadline)

    async def _wait_for_turn(self, deadline: float) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(max(0.001, deadline - time.monotonic())):
                await turn
        except TimeoutError as error:
            raise WireError("all connections were busy", sent=False, late=True) from error
        finally:
            if turn in self._queue:
                self._queue.remove(turn)

    async def _connect(self, within: float) -> _Connection:
        self._making += 1
        try:
            async with asyncio.timeout(within):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(self),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._server_name,
                )
        except (OSError, TimeoutError, ssl.SSLError, asyncio.IncompleteReadError) as error:
            said = str(error) or type(error).__name__
            raise WireError(f"cannot connect to {self._authority}: {said}", sent=False) from error
        finally:
            self._making -= 1
            self._wake()
        self._all.add(connection)
        return connection

    def _release(self, connection: _Connection) -> None:
        if connection.is_open:
            self._free.append(connection)
        self._wake()

    def _wake(self) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return


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
