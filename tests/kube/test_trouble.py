"""An informer tells why its kind cannot be followed, for as long as that is so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NoReturn, cast

from volsched.kube.client.rest import Api
from volsched.kube.errors import ApiError
from volsched.kube.watch.informer import Informer
from volsched.kube.watch.resources import Resource
from volsched.model import api

MAPS = Resource("ConfigMap", "v1", "configmaps", api.ConfigMap)


class Server:
    """An API server that refuses connections until ``is_up``; its watches stay open and are silent."""

    def __init__(self) -> None:
        self.is_up = asyncio.Event()
        self.opened = asyncio.Event()

    async def request(self, *_: object, **__: object) -> NoReturn:
        raise ApiError(0, "Unreachable", "connection refused")

    @contextlib.asynccontextmanager
    async def stream(self, *_: object) -> AsyncIterator[Callable[[], Awaitable[bytes]]]:
        if not self.is_up.is_set():
            raise ApiError(0, "Unreachable", "connection refused")

        async def read() -> bytes:
            self.opened.set()
            await asyncio.Event().wait()
            return b""

        yield read


async def test_trouble_lasts_from_the_first_failure_until_a_watch_is_open() -> None:
    server = Server()
    informer = Informer(cast("Api", server), MAPS, lambda _: None)
    assert informer.trouble is None
    task = asyncio.ensure_future(informer.run())
    while informer.restarts.total() < 2:  # noqa: ASYNC110 - the informer has no event for it
        await asyncio.sleep(0)
    first = informer.trouble
    assert first is not None
    assert "connection refused" in first.message

    server.is_up.set()
    await server.opened.wait()

    assert informer.trouble is None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
