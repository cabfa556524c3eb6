"""docs/metrics.md has every metric that is exposed, with its type, and no other.

Labels are compared in tests/cluster, where the series have samples.
"""

from __future__ import annotations

from pathlib import Path

from tests.docs.metrics import documented, series_of
from volsched.gauges import add_gauges
from volsched.kube.client import Api
from volsched.kube.credentials import Source
from volsched.kube.executor import ClusterExecutor
from volsched.kube.fence import Fence
from volsched.kube.inbox import Inbox
from volsched.kube.metrics import Metrics
from volsched.kube.scheduler_metrics import SchedulerMetrics
from volsched.kube.views import Views
from volsched.model.cluster import Cluster
from volsched.operator.engine import Engine
from volsched.operator.gauges import add_gauges as add_gauges_of_controllers
from volsched.operator.options import Options
from volsched.operator.writer import Writer
from volsched.ports import CycleReport
from volsched.registry import PLUGINS

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
contexts: [{name: one, context: {cluster: one, user: one}}]
clusters: [{name: one, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: one, user: {}}]
"""


async def test_every_metric_is_documented_with_its_type(tmp_path: Path) -> None:
    page = await page_of_the_scheduler(tmp_path) + page_of_the_controllers()
    exposed = dict(line.split()[2:4] for line in page.splitlines() if line.startswith("# TYPE "))

    assert {name: row.type for name, row in documented().items()} == exposed


async def page_of_the_scheduler(folder: Path) -> str:
    """The page as `volsched run` has it, with the series of all plugins; no request is made."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    api, fence, metrics = await Api.connect(Source(str(kubeconfig))), Fence(), SchedulerMetrics()
    executor = ClusterExecutor(api, fence, Views(), lambda _: None)
    add_gauges(
        metrics,
        cluster=Cluster(),
        api=api,
        executor=executor,
        informers=[],
        inbox=Inbox(),
        fence=fence,
        silence=lambda: 0.0,
    )
    metrics.cycle(CycleReport(series=[series for name in PLUGINS.names() for series in series_of(name)]))
    page = metrics.render().decode()
    await executor.stop()
    await api.close()
    return page


def page_of_the_controllers() -> str:
    """What `volsched controllers` has beside the parts that every process has."""
    metrics = Metrics()
    add_gauges_of_controllers(metrics, Engine(Options(), Writer(None, Fence()), lambda _: None), lambda: False)  # type: ignore[arg-type]
    return metrics.render().decode()
