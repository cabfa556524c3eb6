"""docs/metrics.md has every metric that is exposed, with its type, and no other.

Labels are compared in tests/cluster, where the series have samples.
"""

from __future__ import annotations

from pathlib import Path

from tests.docs.metrics import documented, series_of, series_of_actions
from tests.kube.scheduler_page import scheduler_page
from volsched.kube.client.credentials import Source
from volsched.kube.fence import Fence
from volsched.kube.serve.metrics import Metrics
from volsched.mirror.apply import Mirror
from volsched.operator.engine import ControllerEngine
from volsched.operator.gauges import add_gauges as add_gauges_of_controllers
from volsched.operator.options import ControllerOptions
from volsched.operator.webhooks.admission import Admission, Neighbourhood
from volsched.operator.webhooks.listening import Listening
from volsched.operator.writer import Writer
from volsched.ports import CycleReport
from volsched.registry import PLUGINS


async def test_every_metric_is_documented_with_its_type(tmp_path: Path) -> None:
    report = CycleReport(
        series=[series for name in PLUGINS.names() for series in series_of(name)] + series_of_actions()
    )
    page = await scheduler_page(tmp_path, Mirror(), report) + page_of_the_controllers()
    exposed = dict(line.split()[2:4] for line in page.splitlines() if line.startswith("# TYPE "))

    assert {name: row.type for name, row in documented().items()} == exposed


def page_of_the_controllers() -> str:
    """What `volsched controllers` has beside the parts that every process has."""
    metrics = Metrics()
    admission = Admission(Source(), Listening("", "", ""), Neighbourhood({}), lambda _: 0, lambda _: None)
    admission.add_gauges(metrics)
    add_gauges_of_controllers(
        metrics, ControllerEngine(ControllerOptions(), Writer(None, Fence()), lambda _: None), lambda: False
    )  # type: ignore[arg-type]
    return metrics.render().decode()
