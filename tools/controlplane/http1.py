"""Just enough HTTP/1.1 for a proxy that must see requests, and pass on answers byte by byte as they come.

Heads are kept as bytes and only looked into; bodies are passed on in the pieces in which they arrive, so
that an event of a watch is never held back until the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import parse_qs

HEAD_LIMIT_BYTES = 256 * 1024
_PIECE_BYTES = 64 * 1024

LAST_CHUNK = b"0\r\n\r\n"


class Head:
    """The head of a request or an answer."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._lowered = raw.lower()

    def value(self, name: bytes) -> bytes | None:
        """Return a header's value, None when it is absent; the name is given in small letters."""
        start = self._lowered.find(b"\r\n" + name + b":")
        if start < 0:
            return None
        start += len(name) + 3
        return self.raw[start : self.raw.index(b"\r\n", start)].strip()

    def with_value(self, name: bytes, value: bytes) -> bytes:
        """Return the head's bytes with one header set."""
        lines = [line for line in self.raw[:-4].split(b"\r\n") if not line.lower().startswith(name + b":")]
        return b"\r\n".join([*lines, name + b": " + value, b"", b""])

    @property
    def is_chunked(self) -> bool:
        """True if the body comes in chunks."""
        return b"chunked" in (self.value(b"transfer-encoding") or b"").lower()

    @property
    def length(self) -> int | None:
        """Return the body's length in bytes, None when the head does not tell."""
        value = self.value(b"content-length")
        return None if value is None else int(value)


@dataclass(frozen=True)
class HttpRequest:
    """One request, with its whole body as it came over the wire."""

    head: Head
    body: bytes

    @cached_property
    def method(self) -> str:
        """Return the method, in capitals."""
        return self._target[0]

    @cached_property
    def path(self) -> str:
        """Return the path without the query."""
        return self._target[1].partition("?")[0]

    @cached_property
    def is_watch(self) -> bool:
        """True if it asks the API server for a watch."""
        query = self._target[1].partition("?")[2]
        asked = "watch" in query and parse_qs(query).get("watch", ["false"])[0] in {"1", "true"}
        return self.method == "GET" and asked

    @cached_property
    def _target(self) -> tuple[str, str]:
        method, target, _ = self.head.raw.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        return method, target


@dataclass(frozen=True)
class Piece:
    """A part of a body: as it is sent, and what it states once the chunk's frame is taken off."""

    wire: bytes
    payload: bytes


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Return the next head, or None when the connection ended before it."""
    try:
        return Head(await reader.readuntil(b"\r\n\r\n"))
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None


async def read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    """Return the next request with its body, or None when the client has gone."""
    head = await read_head(reader)
    if head is None:
        return None
    pieces = [piece.wire async for piece in body_pieces(reader, head)] if head.is_chunked else []
    body = b"".join(pieces) if head.is_chunked else await reader.readexactly(head.length or 0)
    return HttpRequest(head, body)


async def body_pieces(reader: asyncio.StreamReader, head: Head) -> AsyncIterator[Piece]:
    """Yield a body's pieces as they come; the pieces' wire forms are the body as it was sent."""
    if head.is_chunked:
        while True:
            frame = await reader.readline()
            size = int(frame.split(b";", 1)[0], 16)
            data = await reader.readexactly(size + 2)
            yield Piece(frame + data, data[:-2])
            if size == 0:
                return
    left = head.length
    while left is None or left > 0:
        data = await reader.read(_PIECE_BYTES if left is None else min(left, _PIECE_BYTES))
        if not data:
            if left is not None:
                raise asyncio.IncompleteReadError(b"", left)
            return
        left = None if left is None else left - len(data)
        yield Piece(data, data)


def has_body(method: str, status: int) -> bool:
    """Tell whether an answer to this method with this status has a body at all."""
    return method != "HEAD" and status not in {204, 304} and status >= 200


def status_of(head: Head) -> int:
    """Return the status in an answer's head."""
    return int(head.raw[9:12])


def chunk(payload: bytes) -> bytes:
    """Return a payload in a chunk's frame."""
    return b"%x\r\n%b\r\n" % (len(payload), payload)
