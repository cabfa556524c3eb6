"""Streams of changes: what they may cost, and browsers that do not read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.ui.test_job_page import EVERYTHING, Reader
from tests.ui.worlds import known_of, node
from volsched.ui import streams
from volsched.ui.access import Visibility
from volsched.ui.picture import Picture
from volsched.ui.server import Ui
from volsched.ui.static_cluster import StaticCluster
from volsched.ui.streams import Budget
from volsched.ui.table import Event


def test_what_is_spent_is_paid_off_by_waiting() -> None:
    budget = Budget(0.25)
    assert budget.wait(100.0) == 0.0

    budget.spend(2.0, 100.0)
    budget.spend(1.0, 101.0)

    assert budget.wait(100.0) == 12.0
    assert budget.wait(111.0) == 1.0
    assert budget.wait(112.0) == 0.0


class _Flood:
    """A part of a page that is larger than any buffer."""

    digest = "flood"

    async def show(self, scope: Visibility, picture: Picture) -> Sequence[Event]:
        return ()

    def everything(self) -> Sequence[Event]:
        return [("all", "x" * (32 << 20))]


def test_browser_that_does_not_read_loses_its_stream_and_gets_everything_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PATIENCE_SECONDS", 0.05)

    async def story() -> None:
        ui = Ui(StaticCluster(known_of([node("n1")]), schedules=False), Reader(EVERYTHING))  # type: ignore[arg-type]
        app = ui.application()

        async def flood(request: web.Request) -> web.StreamResponse:
            return await ui.streams.serve(request, _Flood())

        app.router.add_get("/events/flood", flood)
        async with TestServer(app) as server:
            for _ in range(2):
                with socket.create_connection((str(server.host), int(server.port or 0))) as connection:
                    connection.setblocking(False)
                    head = b"GET /events/flood HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n"
                    await asyncio.get_running_loop().sock_sendall(connection, head)
                    await _until(lambda: ui.streams.open_of.total() == 1)
                    await _until(lambda: ui.streams.open_of.total() == 0)

    asyncio.run(story())


async def _until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    for _ in range(3000):
        if holds():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it never held")
