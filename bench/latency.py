"""How long from a pod's creation to its binding, while pods come at a steady rate, on a real control plane.

This process creates plain pods at a rate, and one watch sees them appear and get their nodes; the time between the two
is the latency. The bare binder, which binds a pod to the next node as soon as a watch shows it, says how much of it is
the API server's: what volsched adds is the difference of the two. Everything shares the machine's cores.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from bench import live
from bench.common import Report, parser, quantile
from tools.controlplane import ControlPlane

_NAME = re.compile(rb'"name":"(pod-\d+)"')
CREATORS = 16


class Load:
    """Creates pods at a rate, and keeps when each was seen, and when it was first seen with `done` in it: bound."""

    def __init__(
        self, cluster: ControlPlane, namespace: str, bodies: list[dict[str, Any]], done: bytes = b'"nodeName":"'
    ) -> None:
        self._url = cluster.url
        self._context = cluster.credentials.client_context()
        self._token = cluster.credentials.admin_token
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._bodies = [msgspec.json.encode(body) for body in bodies]
        self._done = done
        self.created: dict[bytes, float] = {}
        self.bound: dict[bytes, float] = {}

    async def run(self, rate: float) -> None:
        """Create all pods at this rate per second, then wait until all are bound, at most half a minute."""
        bodies, count = self._bodies, len(self._bodies)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        connector = aiohttp.TCPConnector(ssl=self._context, limit=CREATORS + 4)
        async with aiohttp.ClientSession(self._url, headers=headers, connector=connector) as session:
            watching = asyncio.create_task(self._watch(session))
            await asyncio.sleep(0.5)
            began = time.perf_counter()
            places = iter(range(count))

            async def create() -> None:
                for place in places:
                    await asyncio.sleep(max(0.0, began + place / rate - time.perf_counter()))
                    async with session.post(self._path, data=bodies[place]) as answer:
                        await answer.read()
                        answer.raise_for_status()

            await asyncio.gather(*(create() for _ in range(CREATORS)))
            self.creating_seconds = time.perf_counter() - began
            deadline = time.perf_counter() + 30
            while len(self.bound) < count and time.perf_counter() < deadline:  # noqa: ASYNC110 - polled once a rate
                await asyncio.sleep(0.05)
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _watch(self, session: aiohttp.ClientSession) -> None:
        parameters = {"watch": "1", "timeoutSeconds": "3600"}
        while True:
            timeout = aiohttp.ClientTimeout(None)
            async with session.get(self._path, params=parameters, timeout=timeout) as answer:
                rest = b""
                while chunk := await answer.content.readany():
                    now = time.perf_counter()
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if match := _NAME.search(line):
                            self.created.setdefault(match[1], now)
                            if self._done in line:
                                self.bound.setdefault(match[1], now)


def run(cluster: ControlPlane, contestant: str, rate: float, seconds: float, turn: int) -> dict[str, Any]:
    """Offer pods to a contestant at a rate."""
    namespace = f"latency-{turn}"
    live.make_namespace(cluster, namespace)
    load = Load(cluster, namespace, live.pods_of(live.SCHEDULER_NAMES[contestant], int(rate * seconds), 0))
    log = Path(tempfile.gettempdir()) / f"volsched-latency-{contestant}.log"
    with live.running(live.command_of(contestant, cluster, namespace, follow=True), cluster, log) as process:
        time.sleep(4.0)
        usage = live.Usage(process, cluster)
        asyncio.run(load.run(rate))
        cpu, server_cpu = usage.cpu(), usage.server_cpu()
    live.clear(cluster, namespace)
    waits = [(load.bound[name] - created) * 1e3 for name, created in load.created.items() if name in load.bound]
    pods = int(rate * seconds)
    if not waits:
        raise SystemExit(f"{contestant} bound nothing; see {log}")
    return {
        "contestant": contestant,
        "offered_per_s": round(rate),
        "created_per_s": pods / load.creating_seconds,
        "pods": pods,
        "bound": len(waits),
        "p50_ms": quantile(waits, 0.5),
        "p90_ms": quantile(waits, 0.9),
        "p99_ms": quantile(waits, 0.99),
        "max_ms": max(waits),
        "cpu_per_1000": cpu / pods * 1000,
        "server_cpu_per_1000": server_cpu / pods * 1000,
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rates", type=float, nargs="+", default=[200, 500, 1_000], help="pods per second")
    options.add_argument("--seconds", type=float, default=10, help="how long each rate is offered")
    options.add_argument("--nodes", type=int, default=1_000)
    options.add_argument("--contestants", nargs="+", choices=live.CONTESTANTS, default=list(live.CONTESTANTS))
    given = options.parse_args()
    report = Report("latency", "milliseconds from a pod's appearance to its binding, both as one watch sees them")
    with live.control_plane() as cluster:
        live.make_nodes(cluster, given.nodes)
        turn = 0
        for rate in given.rates:
            for contestant in given.contestants:
                turn += 1
                report.add(**run(cluster, contestant, rate, given.seconds, turn))
    report.note(
        "cpu: seconds of the contestant per 1,000 pods, without its start; bar: p99 30 ms plus the API server's time"
    )
    report.note("created_per_s below what was offered means that the API server, or this machine, could not keep up")
    report.finish()


if __name__ == "__main__":
    main()
