"""`volsched ui`, wired together: a cluster is followed, or stands still, and is served until a signal comes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any, Final, cast

from aiohttp import web

from volsched.asking.known import KnownCluster
from volsched.kube.client.client import Api
from volsched.kube.client.credentials import Source
from volsched.kube.serve.listeners import Listeners
from volsched.kube.serve.serving_tls import self_signed_context
from volsched.ui.follow import Follower
from volsched.ui.people import People
from volsched.ui.server import Ui
from volsched.ui.still import StillCluster

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


async def serve(source: Source, configured: KnownCluster, address: str, *, with_access: bool = False) -> None:
    """Serve a cluster until a signal comes; raises CredentialsError, and KubeSetupError when the address is taken."""
    server = await Api.connect(source)
    try:
        follower = Follower(server, configured)
        people = People(server) if with_access else None
        async with _served(Ui(follower, people), address, self_signed_context() if with_access else None):
            await _until_stopped(follower.run())
    finally:
        await server.close()


async def serve_still(cluster: StillCluster, address: str) -> None:
    """Serve one that stands still until a signal comes; raises KubeSetupError when the address is taken."""
    async with _served(Ui(cluster), address):
        await _until_stopped(asyncio.Event().wait())


@asynccontextmanager
async def _served(ui: Ui, address: str, tls: SSLContext | None = None) -> AsyncIterator[None]:
    runner = web.AppRunner(ui.application(), access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
    await runner.setup()
    try:
        await web.SockSite(runner, Listeners().take(address), ssl_context=tls).start()
        yield
    finally:
        await runner.cleanup()


async def _until_stopped(work: Coroutine[Any, Any, Any]) -> None:
    """Do this until it fails, or SIGINT or SIGTERM ends it."""
    task, stopped = cast("asyncio.Task[object]", asyncio.current_task()), asyncio.Event()

    def stop() -> None:
        stopped.set()
        task.cancel()

    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        await work
    except asyncio.CancelledError:
        if not stopped.is_set():
            raise
        task.uncancel()
