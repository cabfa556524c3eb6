"""A page for benches: a cluster in memory that is followed as `volsched ui` does it, and changes that are pushed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from aiohttp import web

from bench import worlds
from bench.page import CONFIGURATION
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.kube.client.rest import Api
from volsched.kube.serve.reviews import Person
from volsched.model.changes import Change
from volsched.ui.access import AccessReviews, Visibility
from volsched.ui.follow import Follower
from volsched.ui.server import Ui

GANG = 8
TEAMS = 10


class PushedCluster(Follower):
    """A followed cluster whose changes are pushed instead of watched."""

    def __init__(self, changes: Sequence[Change]) -> None:
        super().__init__(cast("Api", None), ClusterSnapshot((), CONFIGURATION), "bench")
        self._following.add(changes)
        self._following.complete.set()

    async def run(self) -> None:
        """Make pictures for ever."""
        await self._keep_up()

    def push(self, changes: Sequence[Change]) -> None:
        """Take changes in. Call it in the loop of the page."""
        self._following.add(changes)


class Teams:
    """Readers ``team-N`` who may list nodes and queues, and the pods of their own namespace."""

    async def who(self, authorization: str, address: str = "") -> Person:
        """Return the reader whose name is the token."""
        name = authorization.removeprefix("Bearer ")
        return Person(name, name)

    async def scope(self, person: Person, *_: Any) -> Visibility:
        """Return what the reader may see."""
        return Visibility(frozenset((person.name,)), None, nodes=True)


class ServedPage:
    """A page in a thread: its ``link``, its ``address``, and ``push`` for changes."""

    def __init__(self, changes: Sequence[Change], *, by_team: bool = False) -> None:
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._changes = changes
        self._access = cast("AccessReviews", Teams()) if by_team else None
        self.link = self.address = ""

    @contextmanager
    def running(self) -> Iterator[ServedPage]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        thread.start()
        self._ready.wait()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join(10)

    def push(self, changes: Sequence[Change]) -> None:
        """Take changes in."""
        self._loop.call_soon_threadsafe(self._cluster.push, changes)

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._cluster = PushedCluster(self._changes)
        following = asyncio.create_task(self._cluster.run())
        ui = Ui(self._cluster, self._access)
        runner = web.AppRunner(ui.application(), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        await self._cluster.picture()
        self.address = f"127.0.0.1:{runner.addresses[0][1]}"
        self.link = ui.link(self.address)
        self._ready.set()
        await self._stop.wait()
        following.cancel()
        await runner.cleanup()


def objects(nodes: int, running: int, waiting: int) -> Iterator[worlds.Json]:
    """Return a cluster: gangs of eight in ten namespaces and queues, ``running`` pods with a card each."""
    yield from (worlds.a_queue(index) for index in range(TEAMS))
    for index, node in enumerate(worlds.nodes(nodes)):
        node["metadata"]["labels"][f"{worlds.CARDS}.product"] = worlds.MODELS[index % 4]
        yield node
    for index in range(running):
        gang = index // GANG
        if index % GANG == 0:
            yield a_group(f"run-{gang:05}", gang, "Running")
        yield a_runner(index, index // GANG % nodes)
    for index in range(waiting):
        yield a_group(f"wait-{index:05}", index, "Inqueue")
        for member in range(GANG):
            name = f"wait-{index:05}"
            pod = worlds.a_pod(f"{name}-{member}", name, 2 * worlds.CARDS_PER_NODE, "4", 32, worlds.MODELS[index % 4])
            yield of_team(pod, index)


def a_group(name: str, index: int, phase: str) -> worlds.Json:
    """Return a PodGroup of a team."""
    return of_team(worlds.a_group(name, f"queue-{index % TEAMS}", GANG, phase), index)


def a_runner(index: int, node: int) -> worlds.Json:
    """Return a pod that runs with a card."""
    gang = f"run-{index // GANG:05}"
    name = f"{gang}-{index % GANG}-{node}"
    pod = worlds.a_pod(name, gang, 1, "2", 16, worlds.MODELS[node % 4], on=f"node-{node:05}")
    return of_team(pod, index // GANG)


def of_team(found: worlds.Json, index: int) -> worlds.Json:
    """Return an object in the namespace of a team."""
    found["metadata"]["namespace"] = f"team-{index % TEAMS}"
    return found
