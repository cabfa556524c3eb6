"""What is kept for admitted PodGroups, on a real API server: no more than their pods request, and that not for ever."""

from __future__ import annotations

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import GROUPS, Installed, Json

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


def conditions_of(group: Json) -> list[str]:
    return [condition["type"] for condition in group["status"].get("conditions", ())]


@pytest.mark.parametrize(
    "spec", [{"nodeSelector": {"nowhere": "true"}}, {"schedulingGates": [{"name": "example.com/never"}]}]
)
def test_what_a_podgroup_states_keeps_nobody_out_once_it_has_a_small_pod_that_stays(
    installed: Installed, namespace: str, make_nodes: MakeNodes, queue: str, spec: dict[str, object]
) -> None:
    make_nodes(1, cpu="8")
    installed.configure(CONFIGURATION)
    installed.make_group(namespace, "hog", minMember=1, queue=queue, minResources={"cpu": "4"})
    small = installed.pod("hog-0", group="hog", cpu="100m")
    installed.make_pods(namespace, [small | {"spec": {**small["spec"], **spec}}])
    installed.start("--scheduler-configmap", "volsched-system/volsched-config").wait_leading()
    installed.wait_group(namespace, "hog", "Inqueue")

    installed.make_group(namespace, "works", minMember=4, queue=queue, minResources={"cpu": "4"})
    installed.make_pods(namespace, [installed.pod(f"works-{n}", group="works", cpu="1") for n in range(4)])

    installed.wait_bound(namespace, 4)
    if "nodeSelector" in spec:
        said = installed.wait_event(namespace, "hog", "ReservationReleased")["message"]
        assert said == "no room is kept for it: no node could take 1 of its pods if all others left"
    installed.wait_group(namespace, "hog", "Inqueue")
    if "nodeSelector" in spec:
        make_nodes(1, labels={"nowhere": "true"})
        path = f"{GROUPS}/namespaces/{namespace}/podgroups/hog"
        installed.api.wait_for(path, lambda group: "ReservationReleased" not in conditions_of(group))
    installed.api.delete(f"{GROUPS}/queues/{queue}")


def test_who_lacks_room_for_long_keeps_nobody_out_and_states_since_when(
    installed: Installed, namespace: str, make_nodes: MakeNodes, queue: str
) -> None:
    """The time is on the PodGroup, so that another scheduler goes on counting."""
    make_nodes(1, cpu="3")
    installed.configure(f"{CONFIGURATION}configurations:\n- name: enqueue\n  arguments: {{reservationTimeout: 5s}}\n")
    installed.make_group(namespace, "runs", minMember=1, queue=queue)
    installed.make_group(namespace, "large", minMember=1, queue=queue, minResources={"cpu": "2"})
    installed.make_pods(namespace, [installed.pod("runs-0", group="runs", cpu="2")])
    installed.start("--scheduler-configmap", "volsched-system/volsched-config").wait_leading()
    installed.wait_bound(namespace, 1)
    installed.make_pods(namespace, [installed.pod("large-0", group="large", cpu="2")])
    installed.wait_group(namespace, "large", "Inqueue")
    installed.make_group(namespace, "small", minMember=1, queue=queue, minResources={"cpu": "1"})
    installed.make_pods(namespace, [installed.pod("small-0", group="small", cpu="1")])

    installed.wait_bound(namespace, 2)

    said = installed.wait_event(namespace, "large", "ReservationReleased")["message"]
    assert said == "no room is kept for it: it was admitted more than 5s ago and has not started"
    conditions = {
        found["type"]: found for found in installed.wait_group(namespace, "large", "Inqueue")["status"]["conditions"]
    }
    assert conditions["Admitted"]["lastTransitionTime"] <= conditions["ReservationReleased"]["lastTransitionTime"]
    installed.api.delete(f"/api/v1/namespaces/{namespace}/pods/runs-0")
    path = f"{GROUPS}/namespaces/{namespace}/podgroups/large"
    installed.api.wait_for(path, lambda group: not {"Admitted", "ReservationReleased"} & {*conditions_of(group)})
    installed.api.delete(f"{GROUPS}/queues/{queue}")
