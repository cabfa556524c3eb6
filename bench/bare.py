"""The ceiling of the race: a program that binds and decides nothing.

It lists what it has to bind, or follows it with a watch, and posts each Binding to the next node in turn, 32 in flight.
Started by the benches as ``python -m bench.bare``; its address, token and CA come from the environment.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import ssl
from collections import deque
from collections.abc import AsyncIterator

import aiohttp
import msgspec

IN_FLIGHT = 32


class Meta(msgspec.Struct):
    """The parts of an object's metadata that a Binding takes."""

    name: str
    uid: str = ""


class ListMeta(msgspec.Struct):
    """How a list goes on."""

    continued: str = msgspec.field(default="", name="continue")


class Item(msgspec.Struct):
    """A pod, or a node."""

    metadata: Meta


class Page(msgspec.Struct):
    """A page of a list."""

    metadata: ListMeta
    items: list[Item]


class Event(msgspec.Struct):
    """A line of a watch."""

    type: str
    object: Item


async def pages(session: aiohttp.ClientSession, path: str) -> AsyncIterator[Item]:
    continued = ""
    while True:
        parameters = {"limit": "500"} | ({"continue": continued} if continued else {})
        async with session.get(path, params=parameters) as answer:
            page = msgspec.json.decode(await answer.read(), type=Page)
        for item in page.items:
            yield item
        continued = page.metadata.continued
        if not continued:
            return


async def follow(session: aiohttp.ClientSession, namespace: str, pods: deque[Meta], arrived: asyncio.Event) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    decoder = msgspec.json.Decoder(Event)
    selector = {"watch": "1", "fieldSelector": "spec.nodeName=", "timeoutSeconds": "3600"}
    async with session.get(path, params=selector, timeout=aiohttp.ClientTimeout(None)) as answer:
        rest = b""
        while chunk := await answer.content.readany():
            *lines, rest = (rest + chunk).split(b"\n")
            pods.extend(event.object.metadata for event in map(decoder.decode, lines) if event.type == "ADDED")
            arrived.set()


async def bind(session: aiohttp.ClientSession, namespace: str, pod: Meta, node: str) -> None:
    meta = {"name": pod.name, "namespace": namespace, "uid": pod.uid}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"kind": "Node", "name": node}}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod.name}/binding"
    async with session.post(path, data=msgspec.json.encode(body)) as answer:
        await answer.read()
        answer.raise_for_status()


async def work(following: bool, namespace: str) -> None:
    context = ssl.create_default_context(cafile=os.environ["BENCH_CA"])
    headers = {"Authorization": f"Bearer {os.environ['BENCH_TOKEN']}", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(ssl=context, limit=IN_FLIGHT + 8)
    async with aiohttp.ClientSession(os.environ["BENCH_URL"], headers=headers, connector=connector) as session:
        nodes = itertools.cycle([node.metadata.name async for node in pages(session, "/api/v1/nodes")])
        pods: deque[Meta] = deque()
        arrived = asyncio.Event()

        async def worker() -> None:
            while True:
                while pods:
                    await bind(session, namespace, pods.popleft(), next(nodes))
                if not following:
                    return
                arrived.clear()
                await arrived.wait()

        if following:
            await asyncio.gather(follow(session, namespace, pods, arrived), *(worker() for _ in range(IN_FLIGHT)))
        else:
            pods.extend([pod.metadata async for pod in pages(session, f"/api/v1/namespaces/{namespace}/pods")])
            await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
            await asyncio.Event().wait()  # whoever started this reads its CPU time, then ends it


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("namespace")
    options.add_argument("--follow", action="store_true", help="bind pods as they come, for ever")
    given = options.parse_args()
    asyncio.run(work(given.follow, given.namespace))


if __name__ == "__main__":
    main()
