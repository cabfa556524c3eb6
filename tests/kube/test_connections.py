"""Limits on connections: who gives way, who is closed in time, and what is left of it all."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import uvloop
from aiohttp import web

from volsched.kube.serve import connections, site
from volsched.kube.serve.connections import (
    FIRST_REQUEST_SECONDS,
    IDLE_SECONDS,
    STALLED_SECONDS,
    Connection,
    ConnectionLimits,
    ConnectionTable,
    Stage,
    networks,
    peer_of,
)
from volsched.kube.serve.listeners import Listeners
from volsched.kube.serve.serving_tls import self_signed_context
from volsched.kube.serve.site import LimitedSites

POD, OTHER, NODE = "127.0.0.2", "127.0.0.3", "127.0.0.1"
ASK: Final = b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n"
LIMITS: Final = ConnectionLimits()
LOOPS: Final = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


class Held:
    """A table of which the test holds the connections."""

    def __init__(self, total: int = 8, per_peer: int = 3, unlimited: str = "") -> None:
        self.table = ConnectionTable(ConnectionLimits(total, per_peer, networks(unlimited)))
        self.closed: list[Connection] = []

    def come(self, peer: str, stage: Stage = Stage.OPENING, at: float = 0.0) -> Connection | None:
        if not self.table.make_room(peer):
            return None
        made = Connection(peer, at, lambda: self.closed.append(made), opened=at, stalled_since=at)
        made.enter(stage, at)
        self.table.add(made)
        return made


def test_a_peer_at_its_limit_loses_its_own_oldest_idle_connection() -> None:
    held = Held()
    mine = [held.come(POD, at=float(n)) for n in range(3)]
    other = held.come(OTHER)

    assert held.come(POD, at=9.0) is not None
    assert held.closed == [mine[0]]
    assert other in held.table
    assert len(held.table) == 4


def test_the_least_advanced_connection_goes_first() -> None:
    held = Held()
    answered = held.come(POD, Stage.ANSWERED, at=1.0)
    silent = held.come(POD, Stage.SILENT, at=3.0)
    opening = held.come(POD, Stage.OPENING, at=2.0)

    held.come(POD, Stage.ASKED, at=4.0)
    held.come(POD, Stage.ASKED, at=5.0)
    held.come(POD, Stage.ASKED, at=6.0)

    assert held.closed == [silent, opening, answered]


def test_a_connection_with_a_request_under_way_is_never_given_up() -> None:
    held = Held(total=4)
    asked = [held.come(POD, Stage.ASKED) for _ in range(3)]
    slow_reader = held.come(OTHER, Stage.ANSWERED)
    assert slow_reader is not None
    slow_reader.left_to_send = lambda: 7

    assert held.come(POD) is None, "the peer is at its limit, and waits for answers on all of them"
    assert held.come("10.0.0.9") is None, "all places are taken, and on each of them somebody waits for an answer"
    assert held.closed == []
    assert all(each in held.table for each in asked)


def test_when_all_places_are_taken_the_peer_that_holds_most_loses_one() -> None:
    held = Held(total=6)
    few = [held.come(OTHER, Stage.SILENT, at=0.0) for _ in range(2)]
    most = [held.come(POD, at=float(5 + n)) for n in range(3)]
    held.come("10.0.0.1", at=1.0)

    assert held.come("10.0.0.2") is not None
    assert held.closed == [most[0]]
    assert all(each in held.table for each in few)


def test_the_node_has_no_limit_of_its_own_and_a_place_beside_full_tables() -> None:
    held = Held(unlimited=f"{NODE},10.1.0.0/16")
    for _ in range(8):
        assert held.come(NODE) is not None
    assert held.closed == []
    held = Held(unlimited=NODE)
    pods = [held.come(f"10.0.0.{n}") for n in range(8)]
    nodes = [held.come(NODE, at=1.0) for _ in range(8)]

    assert held.closed == pods
    assert all(each in held.table for each in nodes)


@pytest.mark.parametrize(
    ("stage", "why", "after"),
    [
        (Stage.SILENT, "slow", FIRST_REQUEST_SECONDS),
        (Stage.OPENING, "slow", FIRST_REQUEST_SECONDS),
        (Stage.ANSWERED, "idle", IDLE_SECONDS),
        (Stage.ASKED, "", 1e9),
    ],
)
def test_each_stage_has_its_time(stage: Stage, why: str, after: float) -> None:
    held = Held()
    held.come(POD, stage)

    held.table.close_overdue(after)
    assert held.closed == []
    held.table.close_overdue(after + 0.1)
    assert dict(held.table.closed) == ({why: 1} if why else {})
    assert len(held.table) == (0 if why else 1)


def test_an_answer_that_is_taken_slowly_goes_on_and_one_that_is_not_taken_ends() -> None:
    held, left = Held(), 100
    reader = held.come(POD, Stage.ASKED)
    assert reader is not None
    reader.left_to_send = lambda: left
    for n in range(4):
        left = 90 - n
        held.table.close_overdue(n * STALLED_SECONDS)

    assert held.closed == []
    held.table.close_overdue(4 * STALLED_SECONDS + 0.1)
    assert dict(held.table.closed) == {"stalled": 1}


def test_half_of_the_descriptors_are_left_to_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def few(_: int) -> tuple[int, int]:
        return 256, 256

    monkeypatch.setattr(connections.resource, "getrlimit", few)
    limits = ConnectionLimits(unlimited=networks(NODE)).within_descriptors()

    assert connections.PORTS * limits.total <= 128
    assert 1 <= limits.per_peer < limits.total
    assert limits.unlimited == (ipaddress.ip_network(NODE),)
    monkeypatch.setattr(connections.resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert ConnectionLimits().within_descriptors() == ConnectionLimits()


@pytest.mark.parametrize(
    ("name", "peer"),
    [
        (("10.0.0.1", 80), "10.0.0.1"),
        (("::ffff:10.0.0.1", 80, 0, 0), "10.0.0.1"),
        (("fe80::1%eth0", 80, 0, 2), "fe80::1"),
        (("fd00::ffff:1", 80, 0, 0), "fd00::ffff:1"),
    ],
)
def test_one_address_has_one_name(name: tuple[Any, ...], peer: str) -> None:
    assert peer_of(name) == peer


# -- on sockets -----------------------------------------------------------------------------------------------------


class Rig:
    """A site on a free port, and peers of several addresses of this machine."""

    def __init__(self, served: LimitedSites, tls: bool) -> None:
        self.site = served
        self.port = int(served.addresses[0].rpartition(":")[2])
        self.context = ssl.create_default_context() if tls else None
        if self.context is not None:
            self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.gate = asyncio.Event()
        self.waiting = asyncio.Event()

    async def open(self, peer: str, *, tls: bool = True) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = self.context if tls else None
        return await asyncio.open_connection("127.0.0.1", self.port, local_addr=(peer, 0), ssl=context)

    async def ask(self, peer: str, request: bytes = ASK) -> bytes:
        reader, writer = await self.open(peer)
        writer.write(request)
        line = await reader.readline()
        writer.close()
        return line.strip()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - the table tells nobody when it changes
                await asyncio.sleep(0.01)


@asynccontextmanager
async def rigged(tls: bool, limits: ConnectionLimits) -> AsyncIterator[Rig]:
    app = web.Application()
    served = LimitedSites(app, "probes", limits)
    rig: Rig

    async def livez(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def wait(_: web.Request) -> web.Response:
        rig.waiting.set()
        await rig.gate.wait()
        return web.Response(text="at last\n")

    app.add_routes([web.get("/livez", livez), web.get("/wait", wait)])
    await served.start(Listeners().take("127.0.0.1:0"), self_signed_context() if tls else None)
    rig = Rig(served, tls)
    try:
        yield rig
    finally:
        await served.stop()


@pytest.fixture(params=[(loop, tls) for loop in LOOPS for tls in (False, True)], ids=str)
def on_loop(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Runs a test on both event loops, with and without TLS; no descriptor is left in the end."""
    loop, tls = request.param

    def run(test: Callable[[Rig], Coroutine[Any, Any, None]], limits: ConnectionLimits = LIMITS) -> None:
        async def whole() -> None:
            async with rigged(tls, limits) as rig:
                await test(rig)
                await rig.until(lambda: not len(rig.site.table))

        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(asyncio.sleep(0))  # libuv keeps two descriptors for all loops that there will be
        before = descriptors()
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(whole())
        assert descriptors() == before

    return run


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def without_time_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine connections would end in time before they give way."""
    monkeypatch.setattr(connections, "FIRST_REQUEST_SECONDS", 3600.0)
    monkeypatch.setattr(site, "HANDSHAKE_SECONDS", 3600.0)


@pytest.mark.usefixtures("without_time_limits")
def test_who_asks_is_answered_beside_any_number_of_idle_connections(on_loop: Callable[..., None]) -> None:
    async def test(rig: Rig) -> None:
        idle = [await rig.open(POD) for _ in range(60)]
        silent = [await rig.open(OTHER, tls=False) for _ in range(200)]

        assert await rig.ask(NODE) == b"HTTP/1.1 200 OK"
        assert await rig.ask(POD) == b"HTTP/1.1 200 OK", "of the flooding pod itself, too"
        assert len(rig.site.table) <= 64
        assert rig.site.table.closed["displaced"] >= 60 + 200 - 64
        for _, writer in (*idle, *silent):
            writer.close()

    on_loop(test)


@pytest.mark.usefixtures("without_time_limits")
def test_what_is_under_way_stays_when_all_places_are_wanted(on_loop: Callable[..., None]) -> None:
    async def test(rig: Rig) -> None:
        waits = asyncio.create_task(rig.ask(POD, ASK.replace(b"livez", b"wait")))
        await rig.waiting.wait()
        idle = [await rig.open(POD, tls=False) for _ in range(20)]
        await rig.until(lambda: rig.site.table.closed["displaced"] >= 15)
        rig.gate.set()

        assert await waits == b"HTTP/1.1 200 OK"
        for _, writer in idle:
            writer.close()

    on_loop(test, ConnectionLimits(8, 4))


@pytest.mark.usefixtures("without_time_limits")
def test_silent_half_and_idle_connections_end_in_time(
    on_loop: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "LOOK_SECONDS", 0.05)

    async def test(rig: Rig) -> None:
        nothing, _ = await rig.open(POD, tls=False)
        half, writer = await rig.open(POD)
        writer.write(b"GET /livez HTTP/1.1\r\nX-")
        answered, asking = await rig.open(POD)
        asking.write(ASK)
        assert await answered.readline() == b"HTTP/1.1 200 OK\r\n"
        await rig.until(lambda: len(rig.site.table) == 3)
        monkeypatch.setattr(connections, "FIRST_REQUEST_SECONDS", 0.2)
        monkeypatch.setattr(connections, "IDLE_SECONDS", 0.2)

        for reader in (nothing, half, answered):
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readuntil(b"never sent")
        closed = rig.site.table.closed
        assert closed["slow"] == 2
        assert closed["idle"] == 1

    on_loop(test)


def test_a_handshake_that_does_not_go_on_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "HANDSHAKE_SECONDS", 0.2)

    async def test() -> None:
        async with rigged(True, ConnectionLimits()) as rig:
            reader, writer = await rig.open(POD, tls=False)
            writer.write(b"\x16\x03\x01")
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            await rig.until(lambda: not len(rig.site.table))
            assert dict(rig.site.table.closed) == {"handshake": 1}

    for factory in LOOPS.values():
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(test())


def test_without_descriptors_an_idle_connection_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should others take what is kept for them and more: the next one that asks is answered all the same."""

    async def test() -> None:
        async with rigged(False, ConnectionLimits()) as rig:
            idle = [await rig.open(POD) for _ in range(5)]
            await rig.until(lambda: len(rig.site.table) == 5)
            one = socket.socket()
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            free = os.open("/dev/null", os.O_RDONLY)
            os.close(free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
            try:
                await asyncio.to_thread(one.connect, ("127.0.0.1", rig.port))
                await asyncio.to_thread(one.sendall, ASK)
                answer = await asyncio.to_thread(one.recv, 12)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, SOFT_AND_HARD)
            assert answer == b"HTTP/1.1 200"
            one.close()
            for _, writer in idle:
                writer.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())


SOFT_AND_HARD: Final = resource.getrlimit(resource.RLIMIT_NOFILE)


def test_every_verb_that_listens_uses_these_limits() -> None:
    """One mechanism for all ports: nothing else of the package accepts connections."""
    package = Path(connections.__file__).parents[2]
    others = ("create_server(", "start_server(", "SockSite", "TCPSite", "UnixSite", "run_app(", "HTTPServer")
    for path in package.rglob("*.py"):
        if path != package / "kube/serve/listeners.py":
            text = path.read_text()
            assert not [word for word in others if word in text], path
