"""`volsched ui`, wired together: the cluster is followed and the page is served until a signal ends it."""

from __future__ import annotations

from aiohttp import web

from volsched.asking.known import KnownCluster
from volsched.kube.client.client import Api
from volsched.kube.client.credentials import Source
from volsched.kube.serve.listeners import Listeners
from volsched.kube.serve.serving_tls import self_signed_context
from volsched.ui.follow import Follower
from volsched.ui.people import People
from volsched.ui.server import Ui


async def serve(source: Source, configured: KnownCluster, address: str, *, with_access: bool = False) -> None:
    """Serve for ever; raises CredentialsError, and KubeSetupError when the address cannot be had."""
    server = await Api.connect(source)
    follower = Follower(server, configured)
    people = People(server) if with_access else None
    runner = web.AppRunner(Ui(follower, people).application(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        tls = self_signed_context() if with_access else None
        await web.SockSite(runner, Listeners().take(address), ssl_context=tls).start()
        await follower.run()
    finally:
        await runner.cleanup()
        await server.close()
