"""`volsched ui`, wired together: a followed or static cluster is served until a signal comes."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any, Final, cast

from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import Api
from volsched.kube.errors import KubeSetupError
from volsched.kube.serve.connections import ConnectionLimits
from volsched.kube.serve.listeners import Listeners
from volsched.kube.serve.serving_tls import self_signed_context
from volsched.kube.serve.site import LimitedSites
from volsched.ui.access import AccessReviews
from volsched.ui.follow import Follower
from volsched.ui.server import Ui
from volsched.ui.static_cluster import StaticCluster

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

CONNECTIONS: Final = ConnectionLimits(total=512, per_peer=256)
"""The most streams: a browser holds one for each open view, and a login proxy has one address for all readers."""


OnServing = Callable[[str], None]
"""Is called with the link, once the page can be asked for."""


async def serve(
    source: Source,
    configured: ClusterSnapshot,
    address: str,
    on_serving: OnServing,
    *,
    with_access: bool = False,
    cluster: str = "",
    grafana_url: str = "",
) -> None:
    """Serve a cluster, with its name for people, until a signal comes. The page links to Grafana if it is given.

    Raises CredentialsError, and KubeSetupError when the address is taken.
    """
    server = await Api.connect(source)
    try:
        follower = Follower(server, configured, cluster)
        access = AccessReviews(server) if with_access else None
        ui = Ui(follower, access, grafana_url)
        async with _served(ui, address, on_serving, self_signed_context() if with_access else None):
            await _until_stopped(follower.run())
    finally:
        await server.close()


async def serve_still(cluster: StaticCluster, address: str, on_serving: OnServing, grafana_url: str = "") -> None:
    """Serve one that stands still until a signal comes. Raises KubeSetupError when the address is taken."""
    async with _served(Ui(cluster, grafana_url=grafana_url), address, on_serving):
        await _until_stopped(asyncio.Event().wait())


@asynccontextmanager
async def _served(ui: Ui, address: str, on_serving: OnServing, tls: SSLContext | None = None) -> AsyncIterator[None]:
    site = LimitedSites(ui.application(), "page", CONNECTIONS)
    try:
        listener = Listeners().take(address)
        if tls is None:
            _check_loopback(listener, address)
        await site.start(listener, tls)
        on_serving(ui.link(_shown(address, site)))
        yield
    finally:
        await site.stop()


def _check_loopback(listener: socket.socket, address: str) -> None:
    """Raise KubeSetupError if other machines reach a socket: a name may stand for any address."""
    if not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
        listener.close()
        raise KubeSetupError(
            f"{address} can be reached from other machines, and without --auth the page is for this one"
        )


def _shown(address: str, site: LimitedSites) -> str:
    """Return the address as it was given, with the port that it came to."""
    host, _, _ = address.rpartition(":")
    return f"{host or 'localhost'}:{site.addresses[0].rpartition(':')[2]}"


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
