"""The gate that holds a pod until its queue takes it on, on a real API server; Volcano's webhook puts it there."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import GROUPS, Installed, Json
from tests.cluster.signals import after_session

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

GATE = {"name": "scheduling.volcano.sh/queue-allocation-gate"}
OTHER = {"name": "example.com/wait"}
QUOTAS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: proportion
  - name: predicates
"""


def gates(installed: Installed, namespace: str, name: str) -> list[Json]:
    pod = installed.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    return list(pod["spec"].get("schedulingGates") or ())


def make_gated(
    installed: Installed, namespace: str, queue: str, name: str, *more: Json, spec: Json | None = None, **requests: str
) -> None:
    """A PodGroup of one pod behind the gate."""
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    body = {**kind, "metadata": {"name": name}, "spec": {"minMember": 1, "queue": queue}}
    installed.api.create(f"{GROUPS}/namespaces/{namespace}/podgroups", body)
    pod = installed.pod(name, group=name, spec={"schedulingGates": [GATE, *more], **(spec or {})}, **requests)
    installed.make_pods(namespace, [pod])


def test_the_gate_goes_once_the_queue_takes_the_pod_on_and_not_before(
    installed: Installed, namespace: str, make_nodes: MakeNodes, tmp_path: Path
) -> None:
    make_nodes(1, cpu="8")
    queue = f"q-{namespace}"
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    spec = {"parent": "root", "capability": {"cpu": "1"}}
    installed.api.create(f"{GROUPS}/queues", {**kind, "metadata": {"name": queue}, "spec": spec})
    config = tmp_path / "quotas.conf"
    config.write_text(QUOTAS)
    installed.start("--scheduler-conf", str(config)).wait_leading()

    make_gated(installed, namespace, queue, "first", cpu="1")
    installed.wait_bound(namespace, 1)
    assert gates(installed, namespace, "first") == []
    make_gated(installed, namespace, queue, "second", cpu="1")
    after_session(installed)
    assert gates(installed, namespace, "second") == [GATE]
    assert installed.condition(namespace, "second")["reason"] == "SchedulingGated"

    installed.api.delete(f"/api/v1/namespaces/{namespace}/pods/first", grace_seconds=0)
    path = f"/api/v1/namespaces/{namespace}/pods/second"
    installed.api.wait_for(path, lambda pod: "nodeName" in pod["spec"])
    assert gates(installed, namespace, "second") == []
    installed.api.delete(f"{GROUPS}/queues/{queue}")


def test_of_pods_that_find_no_node_as_many_are_let_in_as_the_queue_has_room_for(
    installed: Installed, namespace: str, make_nodes: MakeNodes, tmp_path: Path
) -> None:
    make_nodes(1, cpu="8")
    queue = f"q-{namespace}"
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    installed.api.create(
        f"{GROUPS}/queues",
        {**kind, "metadata": {"name": queue}, "spec": {"parent": "root", "capability": {"cpu": "1"}}},
    )
    config = tmp_path / "quotas.conf"
    config.write_text(QUOTAS)
    first = installed.start("--scheduler-conf", str(config)).wait_leading()
    make_gated(installed, namespace, queue, "lost", cpu="1", spec={"nodeSelector": {"zone": "nowhere"}})
    path = f"/api/v1/namespaces/{namespace}/pods/lost"
    installed.api.wait_for(path, lambda pod: not pod["spec"].get("schedulingGates"))
    conditions = installed.api.get(path)["status"]["conditions"]
    assert [c["reason"] for c in conditions if c["type"] == "volsched.io/Ungated"] == ["QueueAllocated"]
    make_gated(installed, namespace, queue, "next", cpu="1")
    after_session(installed)
    assert gates(installed, namespace, "next") == [GATE]

    first.terminate()
    installed.start("--scheduler-conf", str(config)).wait_leading()
    after_session(installed)
    assert gates(installed, namespace, "next") == [GATE]

    installed.api.delete(path, grace_seconds=0)
    installed.wait_bound(namespace, 1)
    assert gates(installed, namespace, "next") == []
    installed.api.delete(f"{GROUPS}/queues/{queue}")


def test_a_pod_that_others_hold_back_too_keeps_both_gates_until_they_let_it_go(
    installed: Installed, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="8")
    installed.start().wait_leading()
    make_gated(installed, namespace, "default", "held", OTHER, cpu="1")
    make_gated(installed, namespace, "default", "best-effort")

    installed.wait_bound(namespace, 1)
    assert gates(installed, namespace, "best-effort") == []
    after_session(installed)
    assert gates(installed, namespace, "held") == [GATE, OTHER]
    installed.api.patch(f"/api/v1/namespaces/{namespace}/pods/held", {"spec": {"schedulingGates": [GATE]}})

    installed.wait_bound(namespace, 2)
    assert gates(installed, namespace, "held") == []
