"""An admitted PodGroup without its pods gives its queue's room back, on a real API server."""

from __future__ import annotations

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import GROUPS, Installed

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: capacity
"""


@pytest.fixture
def queue(installed: Installed, namespace: str) -> str:
    """A queue of four cores."""
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": f"q-{namespace}"},
        "spec": {"capability": {"cpu": "4"}},
    }
    installed.api.create(f"{GROUPS}/queues", body)
    return f"q-{namespace}"


def test_who_squats_on_a_queue_makes_room_for_who_has_pods(
    installed: Installed, namespace: str, make_nodes: MakeNodes, queue: str
) -> None:
    make_nodes(1, cpu="8")
    installed.configure(CONFIGURATION)
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "squats"},
        "spec": {"minMember": 1, "queue": queue, "minResources": {"cpu": "4"}},
    }
    installed.api.create(f"{GROUPS}/namespaces/{namespace}/podgroups", body)
    installed.start(
        "--scheduler-configmap", "volsched-system/volsched-config", "--admission-timeout", "5s"
    ).wait_leading()
    installed.wait_group(namespace, "squats", "Inqueue")

    installed.make_gang(namespace, "works", 4, queue=queue, cpu="1")

    installed.wait_bound(namespace, 4)
    installed.wait_group(namespace, "squats", "Pending")
    said = installed.wait_event(namespace, "squats", "AdmissionExpired")["message"]
    assert "has 0 of the 1 pods that it starts with after 5s" in said
    installed.api.delete(f"{GROUPS}/queues/{queue}")
