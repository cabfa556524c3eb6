"""The metrics page of `volsched run`, put together as the program does it, without a cluster."""

from __future__ import annotations

from pathlib import Path

from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import Api
from volsched.kube.fence import Fence
from volsched.kube.serve.loop_lag import LoopLagMonitor
from volsched.kube.serve.scheduler_metrics import SchedulerMetrics
from volsched.kube.watch.inbox import Inbox
from volsched.kube.write.executor import ClusterExecutor
from volsched.kube.write.views import Views
from volsched.mirror.apply import Mirror
from volsched.model.values.bounded import Tables
from volsched.ports import CycleReport
from volsched.run.gauges import add_connections, add_gauges, add_loop
from volsched.run.plugin_errors import PluginErrors

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
contexts: [{name: one, context: {cluster: one, user: one}}]
clusters: [{name: one, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: one, user: {}}]
"""


async def scheduler_page(folder: Path, mirror: Mirror, report: CycleReport) -> str:
    """The page after a cycle on a cluster; no request is made."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    api, fence, metrics = await Api.connect(Source(str(kubeconfig))), Fence(), SchedulerMetrics()
    executor = ClusterExecutor(api, fence, Views(), lambda _: None)
    add_gauges(
        metrics,
        mirror=mirror,
        apis=lambda: [api],
        executor=executor,
        informers=[],
        inbox=Inbox(),
        fence=fence,
        silence=lambda: 0.0,
    )
    metrics.add_plugin_errors(PluginErrors(print).numbers)
    add_loop(metrics, LoopLagMonitor(), Tables())
    add_connections(metrics, list)
    metrics.cycle(report)
    page = metrics.render().decode()
    await executor.stop()
    await api.close()
    return page
