"""Who may use a queue, on a real API server: the scheduler minds it, whatever its configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import GROUPS, Installed, Json, SchedulerProcess, eventually
from tests.cluster.signals import after_session
from volsched.model.queues.allowed_namespaces import ALLOWED_NAMESPACES

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

REASON = "QueueNotAllowed"


@pytest.fixture
def queue(installed: Installed, namespace: str) -> Iterator[str]:
    """A queue that lets another namespace in."""
    name = f"q-{namespace}"
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    meta = {"name": name, "annotations": {ALLOWED_NAMESPACES: "somewhere-else"}}
    installed.api.create(f"{GROUPS}/queues", {**kind, "metadata": meta, "spec": {"parent": "root"}})
    yield name
    installed.api.delete(f"{GROUPS}/queues/{name}")


def let_in(installed: Installed, queue: str, rule: str | None) -> None:
    installed.api.patch(f"{GROUPS}/queues/{queue}", {"metadata": {"annotations": {ALLOWED_NAMESPACES: rule}}})


def label(installed: Installed, namespace: str, team: str | None) -> None:
    installed.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"team": team}}})


def told(installed: Installed, namespace: str, kind: str, name: str) -> list[str]:
    """Messages of the Events of that reason on an object."""
    path = f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.name={name},reason={REASON}"
    return [event["message"] for event in installed.api.items(path) if event["involvedObject"]["kind"] == kind]


def group(installed: Installed, namespace: str, name: str) -> Json:
    return installed.api.get(f"{GROUPS}/namespaces/{namespace}/podgroups/{name}")


def conditions(installed: Installed, namespace: str, name: str) -> dict[str, str]:
    found = group(installed, namespace, name).get("status", {}).get("conditions", ())
    return {condition["type"]: condition["reason"] for condition in found if condition["status"] == "True"}


def bound(installed: Installed, namespace: str) -> set[str]:
    pods = installed.api.items(f"/api/v1/namespaces/{namespace}/pods")
    return {pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")}


def wait_refused(installed: Installed, namespace: str, name: str, pod: str) -> None:
    eventually(lambda: conditions(installed, namespace, name).get("Unschedulable") == REASON)
    eventually(lambda: installed.condition(namespace, pod).get("reason") == REASON)
    eventually(lambda: bool(told(installed, namespace, "PodGroup", name) and told(installed, namespace, "Pod", pod)))


def test_a_podgroup_is_refused_and_looked_at_again_when_queue_or_namespace_change(
    installed: Installed, namespace: str, queue: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="8")
    process = installed.start().wait_leading()
    installed.make_gang(namespace, "first", 1, queue=queue, cpu="1")

    wait_refused(installed, namespace, "first", "first-0")
    said = (
        f'namespace "{namespace}" may not use queue "{queue}": its annotation volsched.io/allowed-namespaces lets in '
        "namespace somewhere-else only; name another queue, or have whoever runs the cluster let the namespace in"
    )
    assert told(installed, namespace, "PodGroup", "first") == [said]
    assert told(installed, namespace, "Pod", "first-0") == [said]
    assert group(installed, namespace, "first")["status"]["phase"] == "Pending"
    assert installed.condition(namespace, "first-0")["message"] == said

    let_in(installed, queue, f"somewhere-else, {namespace}")
    installed.wait_bound(namespace, 1)
    eventually(lambda: list(conditions(installed, namespace, "first")) == ["Scheduled"])

    let_in(installed, queue, "team=ml")
    installed.make_gang(namespace, "second", 1, queue=queue, cpu="1")
    wait_refused(installed, namespace, "second", "second-0")
    assert bound(installed, namespace) == {"first-0"}, "what runs goes on"
    eventually(lambda: held(installed, queue) == "1", what="and counts")

    label(installed, namespace, "ml")
    installed.wait_bound(namespace, 2)
    assert process.process.poll() is None


def held(installed: Installed, queue: str) -> str:
    status = installed.api.get(f"{GROUPS}/queues/{queue}").get("status", {})
    return str(status.get("allocated", {}).get("cpu"))


def test_who_was_admitted_and_loses_the_right_is_pending_again_whatever_its_status_is_made_to_say(
    installed: Installed, namespace: str, queue: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="8")
    let_in(installed, queue, None)
    installed.start().wait_leading()
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "early"}}
    path = f"{GROUPS}/namespaces/{namespace}/podgroups"
    installed.api.create(path, {**body, "spec": {"minMember": 1, "queue": queue, "minResources": {"cpu": "8"}}})
    eventually(lambda: phase(installed, namespace) == "Inqueue")

    let_in(installed, queue, "somewhere-else")
    eventually(lambda: phase(installed, namespace) == "Pending")
    eventually(lambda: conditions(installed, namespace, "early") == {"Unschedulable": REASON})

    forged = {"status": {"phase": "Inqueue"}}
    installed.api.patch(f"{path}/early/status", forged)
    eventually(lambda: phase(installed, namespace) == "Pending")
    let_in(installed, queue, None)
    eventually(lambda: phase(installed, namespace) == "Inqueue")


def phase(installed: Installed, namespace: str) -> str:
    return str(group(installed, namespace, "early").get("status", {}).get("phase"))


def test_a_rule_that_cannot_be_read_lets_in_nobody_and_the_queue_says_so(
    installed: Installed, namespace: str, queue: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="8")
    let_in(installed, queue, json.dumps({"matchLabel": {"team": "ml"}}))
    process: SchedulerProcess = installed.start().wait_leading()
    installed.make_gang(namespace, "first", 1, queue=queue, cpu="1")

    wait_refused(installed, namespace, "first", "first-0")
    path = f"/api/v1/events?fieldSelector=involvedObject.name={queue},reason=InvalidField"
    eventually(lambda: bool(installed.api.items(path)))
    [event] = installed.api.items(path)
    assert event["message"] == (
        "metadata.annotations[volsched.io/allowed-namespaces]: is no JSON of a label selector: Object contains unknown "
        "field `matchLabel`; nobody new may use the queue"
    )
    after_session(installed)
    assert bound(installed, namespace) == set()
    assert process.process.poll() is None

    let_in(installed, queue, None)
    installed.wait_bound(namespace, 1)


def test_a_pod_that_comes_with_a_node_counts_in_no_queue_that_keeps_its_namespace_out(
    installed: Installed, namespace: str, make_nodes: MakeNodes, queue: str
) -> None:
    [node] = make_nodes(1, cpu="8")
    own = f"own-{namespace}"
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": own}}
    installed.api.create(f"{GROUPS}/queues", {**kind, "spec": {"parent": "root"}})
    installed.make_group(namespace, "g", minMember=1, queue=queue)
    installed.start().wait_leading()

    for name, of, notes in (("by-group", "g", {}), ("by-annotation", None, {"scheduling.volcano.sh/queue-name": own})):
        made = installed.pod(name, group=of, cpu="2")
        made["metadata"]["annotations"] = {**made["metadata"].get("annotations", {}), **notes}
        installed.make_pods(namespace, [made | {"spec": {**made["spec"], "nodeName": node}}])

    def held(name: str) -> Json:
        found: Json = installed.api.get(f"{GROUPS}/queues/{name}").get("status", {}).get("allocated", {})
        return found

    eventually(lambda: conditions(installed, namespace, "g").get("QueueKept") == "QueueKept")
    eventually(lambda: held(own).get("cpu") == "2")
    assert held(queue).get("cpu", "0") == "0"
    installed.api.delete(f"{GROUPS}/queues/{own}")
