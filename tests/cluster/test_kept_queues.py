"""What was placed counts where it was placed, on a real API server, and for the scheduler that starts next, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.native.ours import QUOTAS
from tests.cluster.scheduling import GROUPS, Installed, Json, eventually
from tests.cluster.signals import after_session

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

QUEUE_KEPT = "QueueKept"


@pytest.fixture
def queues(installed: Installed, namespace: str) -> Iterator[tuple[str, str]]:
    """Two queues of one core each."""
    names = (f"a-{namespace}", f"b-{namespace}")
    for name in names:
        found = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        installed.api.create(f"{GROUPS}/queues", {**found, "spec": {"parent": "root", "capability": {"cpu": "1"}}})
    yield names
    for name in names:
        installed.api.delete(f"{GROUPS}/queues/{name}")


def kept(installed: Installed, namespace: str, name: str) -> list[Json]:
    conditions = installed.group(namespace, name).get("status", {}).get("conditions", ())
    return [condition for condition in conditions if condition["type"] == QUEUE_KEPT]


def bound(installed: Installed, namespace: str) -> list[str]:
    return [name for name, pod in installed.pods(namespace).items() if pod["spec"].get("nodeName")]


def test_a_queue_is_not_emptied_by_moving_what_runs_out_of_it_not_even_over_a_restart(
    installed: Installed, namespace: str, queues: tuple[str, str], make_nodes: MakeNodes
) -> None:
    first_queue, other_queue = queues
    make_nodes(1, cpu="8")
    quotas = installed.folder / "quotas.conf"
    quotas.write_text(QUOTAS)
    scheduler = installed.start("--scheduler-conf", str(quotas)).wait_leading()
    installed.make_gang(namespace, "runs", 1, queue=first_queue, cpu="1")
    installed.wait_bound(namespace, 1)
    eventually(lambda: installed.group(namespace, "runs").get("status", {}).get("phase") == "Running")

    path = f"{GROUPS}/namespaces/{namespace}/podgroups/runs"
    installed.api.patch(path, {"spec": {"queue": other_queue}})
    installed.make_gang(namespace, "comes", 1, queue=first_queue, cpu="1")

    installed.wait_event(namespace, "runs", QUEUE_KEPT)
    eventually(lambda: bool(kept(installed, namespace, "runs")))
    eventually(lambda: installed.condition(namespace, "comes-0").get("reason") == "QuotaExceeded")
    assert scheduler.terminate() == 0

    installed.start("--scheduler-conf", str(quotas)).wait_leading()
    after_session(installed)
    assert bound(installed, namespace) == ["runs-0"]
    assert kept(installed, namespace, "runs")

    installed.api.delete(f"/api/v1/namespaces/{namespace}/pods/runs-0?gracePeriodSeconds=0")
    eventually(lambda: bound(installed, namespace) == ["comes-0"])
    eventually(lambda: kept(installed, namespace, "runs") == [])
