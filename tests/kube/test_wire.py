"""Reading HTTP answers, however the bytes are cut; and a server that is asked over real sockets."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.patience import PATIENCE
from volsched.kube.client.wire import UNREAD_LIMIT, Answer, Body, Wire, WireError, read_head

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def chunked(parts: list[bytes], trailer: bytes = b"") -> bytes:
    return b"".join(b"%x;x=y\r\n%s\r\n" % (len(p), p) for p in parts if p) + b"0\r\n" + trailer + b"\r\n"


def a_body(**headers: str) -> Body:
    return Body(Answer(200, "OK", {name.replace("_", "-"): value for name, value in headers.items()}, b""))


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


# --- bodies ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(0, 500), max_size=12), st.binary(max_size=5))
def test_a_chunked_body_is_the_same_however_it_is_cut(parts: list[bytes], places: list[int], after: bytes) -> None:
    body = a_body(transfer_encoding="chunked")
    data = chunked(parts) + after

    found = b"".join(part for piece in cut(data, places) for part in body.feed(piece))

    assert found == b"".join(parts)
    assert body.done
    assert body.rest == after


@given(st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=5), st.integers(0, 200))
def test_a_chunked_body_that_breaks_off_is_never_whole(parts: list[bytes], place: int) -> None:
    data = chunked(parts)
    body = a_body(transfer_encoding="chunked")

    body.feed(data[: place % len(data)])

    assert not body.is_whole_at_end()


@given(st.binary(max_size=60), st.lists(st.integers(0, 100), max_size=6), st.binary(max_size=5))
def test_a_counted_body_ends_where_it_said(content: bytes, places: list[int], after: bytes) -> None:
    body = a_body(content_length=str(len(content)))

    found = b"".join(part for piece in cut(content + after, places) for part in body.feed(piece))

    assert found == content
    assert body.done
    assert body.rest == after


def test_a_body_without_length_ends_with_the_connection() -> None:
    body = a_body()
    assert body.feed(b"abc") == [b"abc"]
    assert not body.done
    assert body.is_whole_at_end()


@pytest.mark.parametrize("data", [b"x\r\n", b"-1\r\n", b"3\r\nabcd\r\n", b"ffffffffff\r\n", b"\r\n"])
def test_odd_chunks_are_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any will do
        a_body(transfer_encoding="chunked").feed(data)


@pytest.mark.parametrize("head", [b"HTTP/2 200 OK", b"220 smtp", b"HTTP/1.1 2x0 OK", b"HTTP/1.1 200 OK\r\nno colon"])
def test_odd_heads_are_an_error(head: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any will do
        read_head(head + b"\r\n\r\n")


def test_a_head_is_waited_for_and_an_interim_one_skipped() -> None:
    assert read_head(b"HTTP/1.1 200 OK\r\nA: b\r\n") is None
    found = read_head(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nX-A:  b \r\n\r\nrest")
    assert found is not None
    assert (found[0].status, found[0].phrase, found[0].headers, found[1]) == (404, "Not Found", {"x-a": "b"}, b"rest")


# --- connections ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def serving(handler: Handler, limit: int = 4) -> AsyncIterator[Wire]:
    writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    wire = Wire(f"http://127.0.0.1:{port}/base", None, None, limit)
    try:
        yield wire
    finally:
        wire.close()
        server.close()
        for writer in writers:
            writer.close()


async def request_of(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next((int(line.split(":")[1]) for line in head.splitlines() if line.startswith("Content-Length")), 0)
    return head, await reader.readexactly(length)


def answer(body: bytes, status: str = "200 OK", extra: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode() + body


async def test_connections_are_kept_and_few() -> None:
    connections: list[int] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        while True:
            head, body = await request_of(reader)
            await asyncio.sleep(0.002)
            writer.write(answer(head.split()[1].encode() + b"|" + body))

    async with serving(echo) as wire:
        found = await asyncio.gather(
            *(wire.request("POST", f"/{i}", "A: b\r\n", b"%d" % i, PATIENCE) for i in range(60))
        )

    assert [item.body for item in found] == [b"/base/%d|%d" % (i, i) for i in range(60)]
    assert len(connections) == 4


async def test_silence_is_late_and_the_connection_is_not_used_again() -> None:
    seen: list[str] = []

    async def silent_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await request_of(reader)
        seen.append(head)
        if len(seen) == 1:
            await asyncio.Event().wait()
        writer.write(answer(b"late"))

    async with serving(silent_once) as wire:
        with pytest.raises(WireError) as caught:
            await wire.request("GET", "/", "", None, 1.0)
        assert (caught.value.sent, caught.value.late) == (True, True)
        assert (await wire.request("GET", "/", "", None, PATIENCE)).body == b"late"


@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n"]
)
async def test_an_answer_that_breaks_off_may_have_had_an_effect(sent: bytes) -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(sent)
        await writer.drain()

    async with serving(half) as wire:
        with pytest.raises(WireError) as caught:
            await wire.request("GET", "/", "", None, PATIENCE)
        assert caught.value.sent
        assert not caught.value.late


async def test_a_server_that_closes_after_each_answer_is_no_trouble() -> None:
    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(answer(b"x", extra="Connection: close\r\n"))
        await writer.drain()

    async with serving(closing) as wire:
        for _ in range(5):
            assert (await wire.request("GET", "/", "", None, PATIENCE)).body == b"x"


async def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        await writer.drain()

    async with serving(endless) as wire:
        assert (await wire.request("GET", "/", "", None, PATIENCE)).body == b"all of it"
        _, stream = await wire.stream("/watch", "", PATIENCE)
        assert [await stream.read(PATIENCE), await stream.read(PATIENCE)] == [b"all of it", b""]


async def test_a_connection_on_which_more_came_than_the_answer_is_not_used_again() -> None:
    connections: list[int] = []

    async def chatty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        while True:
            await request_of(reader)
            writer.write(answer(b"%d" % len(connections)) + answer(b"not asked for"))

    async with serving(chatty) as wire:
        found = [(await wire.request("GET", "/", "", None, PATIENCE)).body for _ in range(3)]

    assert found == [b"1", b"2", b"3"]


async def test_nobody_there_is_unreachable() -> None:
    wire = Wire("http://127.0.0.1:1", None, None, 1)
    with pytest.raises(WireError) as caught:
        await wire.request("GET", "/", "", None, PATIENCE)
    assert not caught.value.sent


async def test_a_stream_gives_what_comes_pauses_a_fast_server_and_ends() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(200):
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async with serving(flood) as wire:
        head, stream = await wire.stream("/watch", "", PATIENCE)
        assert head.status == 200
        async with asyncio.timeout(PATIENCE):
            while not stream._paused:  # noqa: ASYNC110 - the stream has no signal for this
                await asyncio.sleep(0.001)
        total = 0
        while part := await stream.read(PATIENCE):
            assert len(part) < 2 * UNREAD_LIMIT, "less than all that the server sends"
            total += len(part)
        assert total == 200 * 0x10000


@pytest.mark.parametrize("last", [b"", b"5\r\nhel", b"5\r\nhello", b"5\r\nhello\r", b"5\r\nhello\r\n", b"5"])
async def test_a_stream_that_breaks_off_says_so_at_once(last: bytes) -> None:
    """At whichever byte: a general client waits for ever at one of them."""

    async def breaking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n" + last)
        await writer.drain()

    async with serving(breaking) as wire:
        _, stream = await wire.stream("/watch", "", PATIENCE)
        found = b""
        with pytest.raises(WireError, match="lost") as caught:  # noqa: PT012 - at whichever read
            while True:
                found += await stream.read(PATIENCE)
        assert found.startswith(b"abc")
        assert not caught.value.late


async def test_a_silent_stream_is_left() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        await asyncio.Event().wait()

    async with serving(silent) as wire:
        _, stream = await wire.stream("/watch", "", PATIENCE)
        assert await stream.read(PATIENCE) == b"a"
        with pytest.raises(WireError) as caught:
            await stream.read(0.1)
        assert caught.value.late


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def gone(thing: weakref.ref[object]) -> bool:
    """Whether an object is gone as soon as its connection is closed."""
    for _ in range(100):
        if thing() is None:
            return True
        await asyncio.sleep(0.01)
    return False


@pytest.mark.parametrize("how", ["ends", "breaks off", "is silent"])
async def test_nothing_is_left_of_a_stream_for_the_garbage_collector(how: str) -> None:
    async def server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        last = b"0\r\n\r\n" if how == "ends" else b""
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n" + last)
        if how == "is silent":
            await asyncio.Event().wait()

    async def watched(wire: Wire) -> weakref.ref[object]:
        _, stream = await wire.stream("/watch", "", PATIENCE)
        try:
            while await stream.read(0.1 if how == "is silent" else PATIENCE):
                pass
        except WireError:
            assert how != "ends"
        wire.end(stream)
        return weakref.ref(stream)

    with without_collector():
        async with serving(server) as wire:
            assert await gone(await watched(wire))


async def test_nothing_is_left_of_a_failed_request_for_the_garbage_collector() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        await asyncio.Event().wait()

    async def asked(wire: Wire) -> weakref.ref[object]:
        with suppress(WireError):
            await wire.request("GET", "/", "", None, 0.1)
        return weakref.ref(next(iter(wire._all)))

    with without_collector():
        async with serving(silent) as wire:
            assert await gone(await asked(wire))


async def test_a_refused_stream_brings_its_reason() -> None:
    async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(answer(b"too old", "410 Gone"))
        await writer.drain()

    async with serving(refusing) as wire:
        head, _ = await wire.stream("/watch", "", PATIENCE)
        assert (head.status, head.phrase, head.body) == (410, "Gone", b"too old")


async def test_an_answer_that_is_too_large_is_not_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volsched.kube.client.wire.LARGEST_ANSWER", 100_000)
    asked: list[str] = []

    async def large_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await request_of(reader)
            asked.append(head)
            writer.write(answer(b"x" * (200_000 if len(asked) == 1 else 90_000)))

    async with serving(large_once) as wire:
        with pytest.raises(WireError) as caught:
            await wire.request("GET", "/", "", None, PATIENCE)
        assert caught.value.too_large
        assert "more than" in str(caught.value)
        for _ in range(2):
            assert len((await wire.request("GET", "/", "", None, PATIENCE)).body) == 90_000
