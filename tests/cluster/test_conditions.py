"""What waiting pods and Jobs say of themselves on a real API server, and what autoscalers would make of it."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.controlling import AT_WORK, JOBS, Controlled
from tests.cluster.scheduling import GROUPS, Installed, Json, SchedulerProcess, eventually
from tests.cluster.signals import STATUSES, after_looks, after_sessions, touch
from tools.controlplane import ControlPlane
from tools.controlplane.faults import FaultProxy
from volsched.framework.reporter import EVENTS_FOR_EACH_ROLE

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

SAYS_WHY = ("PodScheduled", "False")
GPU = "nvidia.com/gpu"
CARD = "NVIDIA-H200"
CARDS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: capacity-card
    arguments:
      cardUnlimitedCpuMemory: true
"""
SEED = (
    "Queue <cr-queue1> has insufficient <NVIDIA-H200> quota: requested <5000>, total would be <5000>, "
    "but capability is <3000>"
)
"""The example of seed 001, 2.2.4.6."""

QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "spec": {"weight": 1}}
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobs.batch.volcano.sh"
STATUS = "/spec/versions/0/schema/openAPIV3Schema/properties/status"
JSON_PATCH = "application/json-patch+json"


def conditions(installed: Installed, namespace: str) -> Counter[str]:
    """How many pods have which reason in their condition PodScheduled."""
    found: Counter[str] = Counter()
    for pod in installed.pods(namespace).values():
        waits = (c for c in pod["status"].get("conditions") or () if (c["type"], c["status"]) == SAYS_WHY)
        found.update(condition["reason"] for condition in waits)
    return found


def wanted_by_autoscalers(installed: Installed, namespace: str) -> set[str]:
    """The pods for which cluster-autoscaler and Karpenter would make nodes, by what both look at."""
    return {
        name
        for name, pod in installed.pods(namespace).items()
        if "nodeName" not in pod["spec"]
        and "nominatedNodeName" not in pod["status"]
        and any(
            (c["type"], c["status"], c.get("reason")) == ("PodScheduled", "False", "Unschedulable")
            for c in pod["status"].get("conditions") or ()
        )
    }


@pytest.fixture
def quota(controlled: Controlled, namespace: str) -> Iterator[Controlled]:
    """The queue of the seed's example, with a quota of three cards, and its plugin."""
    meta = {"name": "cr-queue1", "annotations": {"volcano.sh/card.quota": json.dumps({CARD: 3})}}
    controlled.api.create(f"{GROUPS}/queues", {**QUEUE, "metadata": meta})
    (controlled.folder / "cards.conf").write_text(CARDS)
    yield controlled
    controlled.api.delete(f"{JOBS}/namespaces/{namespace}/jobs/train")
    for name in controlled.pods(namespace):
        controlled.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", grace_seconds=0)
    eventually(lambda: not controlled.pods(namespace))
    controlled.api.delete(f"{GROUPS}/queues/cr-queue1")


def start(quota: Controlled, *flags: str, proxy: FaultProxy | None = None) -> SchedulerProcess:
    return quota.start("--scheduler-conf", str(quota.folder / "cards.conf"), *flags, proxy=proxy).wait_leading()


def make_gang_of_cards(quota: Controlled, namespace: str, size: int, minimum: int) -> None:
    """A gang that says in advance how many cards it starts with; its pods are there."""
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "annotations": {"volcano.sh/card.request": json.dumps({CARD: minimum})}},
        "spec": {"minMember": minimum, "queue": "cr-queue1", "minResources": {GPU: minimum}},
    }
    quota.api.create(f"{GROUPS}/namespaces/{namespace}/podgroups", body)
    pods = [quota.pod(f"train-{number}", group="train", **{GPU: 1}) for number in range(size)]
    for pod in pods:
        pod["metadata"]["annotations"]["volcano.sh/card.name"] = CARD
    quota.make_pods(namespace, pods)


def make_card_node(make_nodes: MakeNodes) -> str:
    labels = {f"{GPU}.product": CARD, f"{GPU}.count": "8", f"{GPU}.memory": "143771"}
    [node] = make_nodes(1, labels=labels, cpu="64", **{GPU: 8})
    return node


def test_pods_that_are_refused_at_admission_say_why_themselves_and_call_for_no_nodes(
    quota: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_card_node(make_nodes)
    start(quota)
    make_gang_of_cards(quota, namespace, 5, 5)

    for number in range(5):
        event = quota.wait_event(namespace, f"train-{number}", "InsufficientScalarQuota")
        assert (event["type"], event["involvedObject"]["kind"]) == ("Warning", "Pod")
        assert event["message"].startswith(SEED)
    eventually(lambda: conditions(quota, namespace) == {"NotAdmitted": 5})
    assert quota.condition(namespace, "train-0")["message"].startswith(SEED)
    assert wanted_by_autoscalers(quota, namespace) == set()
    described = quota.control_plane.kubectl("describe", "pod", "-n", namespace, "train-0")
    assert "InsufficientScalarQuota" in described
    assert "NotAdmitted" in quota.control_plane.kubectl("get", "pod", "-n", namespace, "train-0", "-o", "yaml")


def test_the_old_reason_is_brought_back_by_a_flag(quota: Controlled, namespace: str, make_nodes: MakeNodes) -> None:
    make_card_node(make_nodes)
    start(quota, "--pod-condition-reason", "unschedulable")
    make_gang_of_cards(quota, namespace, 5, 5)

    eventually(lambda: conditions(quota, namespace) == {"Unschedulable": 5})
    assert quota.condition(namespace, "train-0")["message"].startswith(SEED)


def test_of_a_large_gang_all_pods_have_the_condition_few_have_events_and_then_nothing_is_written(
    quota: Controlled, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    node = make_card_node(make_nodes)
    make_gang_of_cards(quota, namespace, 300, 300)
    scheduler = start(quota, proxy=fault_proxy)

    eventually(lambda: conditions(quota, namespace) == {"NotAdmitted": 300})
    quota.wait_event(namespace, "train-0", "InsufficientScalarQuota")
    told = lambda: {e["involvedObject"]["name"] for e in quota.events(namespace)} - {"train"}  # noqa: E731
    eventually(lambda: told() == {f"train-{number}" for number in range(EVENTS_FOR_EACH_ROLE)})
    counts = fault_proxy.counts
    before = counts.count("patch", "/pods/*/status"), counts.count("create", "/events")
    assert before[0] == 300, counts.table()
    after_sessions(scheduler, 2, lambda: touch(quota, node), lanes=(*STATUSES, "events"))
    assert (counts.count("patch", "/pods/*/status"), counts.count("create", "/events")) == before, counts.table()


def test_a_gang_that_lacks_room_calls_for_nodes_one_that_lacks_quota_does_not(
    quota: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_card_node(make_nodes)
    start(quota)
    queue = quota.queue(f"q-{namespace}", capability={"cpu": "1000", "memory": "1Ti"})
    quota.make_gang(namespace, "roomy", 3, queue=queue, cpu="40")
    make_gang_of_cards(quota, namespace, 5, 1)

    quota.wait_bound(namespace, 3)
    eventually(lambda: conditions(quota, namespace)["QuotaExceeded"] == 2)
    eventually(lambda: wanted_by_autoscalers(quota, namespace) == {f"roomy-{number}" for number in range(3)})


def test_a_deployment_in_a_queue_that_is_closed_then_missing_tells_it_on_each_pod(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="8")
    controlled.both()
    queue = controlled.queue(f"q-{namespace}", state="Closed")
    controlled.wait_queue(queue, state="Closed")
    template = controlled.template({"scheduling.volcano.sh/queue-name": queue}, cpu="1")
    controlled.workload(namespace, "Deployment", "web", 3, template=template)

    eventually(lambda: conditions(controlled, namespace) == {"QueueClosed": 3})
    for name in controlled.pods(namespace):
        assert "it takes nothing on" in controlled.wait_event(namespace, name, "QueueClosed")["message"]

    controlled.api.delete(f"{GROUPS}/queues/{queue}")
    eventually(lambda: conditions(controlled, namespace) == {"QueueNotFound": 3})
    [group] = controlled.wait_groups(namespace, 1)
    said = f'queue "{queue}" of PodGroup "{namespace}/{group["metadata"]["name"]}" does not exist'
    for name in (*controlled.pods(namespace), group["metadata"]["name"]):
        assert controlled.wait_event(namespace, name, "Unschedulable")["message"] == said
    assert wanted_by_autoscalers(controlled, namespace) == set()

    controlled.queue(queue)
    controlled.wait_bound(namespace, 3)


def test_a_podgroup_whose_queue_is_gone_has_one_event(
    installed: Installed, namespace: str, make_nodes: MakeNodes
) -> None:
    """Sessions that look at the PodGroup again, as a pod of it has changed, find the same and tell nothing."""
    make_nodes(1)
    scheduler = installed.start().wait_leading()
    installed.make_gang(namespace, "lost", 3, queue="nowhere", cpu="1")

    def change() -> None:
        role = {"metadata": {"annotations": {"volcano.sh/task-spec": f"r-{uuid.uuid4().hex}"}}}
        installed.api.patch(f"/api/v1/namespaces/{namespace}/pods/lost-0", role)

    installed.wait_event(namespace, "lost-2", "Unschedulable")
    installed.wait_event(namespace, "lost", "Unschedulable")
    after_sessions(scheduler, 2, change, lanes=("events",))
    [event] = installed.events(namespace, "lost")
    assert (event["message"], event["count"]) == (f'queue "nowhere" of PodGroup "{namespace}/lost" does not exist', 1)


# --- the Volcano Job ------------------------------------------------------------------------------------------------


def status_of(quota: Controlled, namespace: str) -> Json:
    return dict(quota.api.get(f"{JOBS}/namespaces/{namespace}/jobs/train").get("status") or {})


def make_job_of_cards(quota: Controlled, namespace: str) -> Json:
    template = quota.template({"volcano.sh/card.name": CARD}, spec={"restartPolicy": "Never"}, **{GPU: 1})
    meta = {"name": "train", "annotations": {"volcano.sh/card.request": json.dumps({CARD: 5})}}
    spec = {
        "schedulerName": quota.name,
        "queue": "cr-queue1",
        "tasks": [{"name": "worker", "replicas": 5, "template": template}],
    }
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}
    return quota.api.create(f"{JOBS}/namespaces/{namespace}/jobs", body)


@pytest.fixture
def as_in_volcano(manifests_applied: ControlPlane) -> Iterator[None]:
    """Jobs whose status has the fields of Volcano's CRD and no others."""
    server = manifests_applied.api
    declared = server.get(CRD)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    entry = {
        "type": "object",
        "required": ["status"],
        "properties": {"status": {"type": "string"}, "lastTransitionTime": {"type": "string", "format": "date-time"}},
    }
    tasks = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    more = {"conditions": {"type": "array", "items": entry}, "taskStatusCount": tasks}
    status = {"type": "object", "properties": {**declared["properties"], **more}}
    server.patch(CRD, [{"op": "replace", "path": STATUS, "value": status}], JSON_PATCH)
    yield
    server.patch(CRD, [{"op": "replace", "path": STATUS, "value": declared}], JSON_PATCH)


def shows_why_it_waits_and_no_longer_once_it_does_not(quota: Controlled, namespace: str, node: str) -> None:
    scheduler, controllers = start(quota), quota.control()
    controllers.wait_for(AT_WORK)
    made = make_job_of_cards(quota, namespace)

    event = quota.wait_event(namespace, "train", "PodGroupPending")
    assert (event["type"], event["involvedObject"]["kind"]) == ("Warning", "Job")
    assert event["message"].startswith(f'PodGroup "{namespace}/train-{made["metadata"]["uid"]}" waits: {SEED}')
    eventually(lambda: status_of(quota, namespace).get("state", {}).get("message") == event["message"])
    status = status_of(quota, namespace)
    assert (status["state"]["phase"], status["state"]["reason"]) == ("Pending", "NotAdmitted")
    assert [c["status"] for c in status["conditions"]] == ["Pending", "PodGroupPending"]
    assert "NotAdmitted" in quota.control_plane.kubectl("get", "vcjob", "-n", namespace, "train")
    group = quota.group(namespace, f"train-{made['metadata']['uid']}")
    [waits] = group["status"]["conditions"]
    assert (waits["type"], waits["reason"]) == ("Unschedulable", "NotAdmitted")
    version = quota.api.get(f"{JOBS}/namespaces/{namespace}/jobs/train")["metadata"]["resourceVersion"]
    after_sessions(scheduler, 2, lambda: touch(quota, node), lanes=STATUSES)
    note = {"metadata": {"annotations": {"example.com/touched": "yes"}}}
    path = f"{GROUPS}/namespaces/{namespace}/podgroups/train-{made['metadata']['uid']}"
    after_looks(controllers, "Job", lambda: quota.api.patch(path, note))
    assert quota.api.get(f"{JOBS}/namespaces/{namespace}/jobs/train")["metadata"]["resourceVersion"] == version
    assert [e["count"] for e in quota.events(namespace, "train") if e["reason"] == "PodGroupPending"] == [1]

    enough = {"metadata": {"annotations": {"volcano.sh/card.quota": json.dumps({CARD: 8})}}}
    quota.api.patch(f"{GROUPS}/queues/cr-queue1", enough)

    quota.wait_bound(namespace, 5)
    eventually(lambda: "message" not in status_of(quota, namespace)["state"])
    assert "PodGroupPending" not in [c["status"] for c in status_of(quota, namespace)["conditions"]]


def test_a_volcano_job_says_itself_why_its_podgroup_waits(
    quota: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    shows_why_it_waits_and_no_longer_once_it_does_not(quota, namespace, make_card_node(make_nodes))


def test_it_is_the_same_with_the_fields_that_volcanos_schema_keeps(
    quota: Controlled, namespace: str, make_nodes: MakeNodes, as_in_volcano: None
) -> None:
    shows_why_it_waits_and_no_longer_once_it_does_not(quota, namespace, make_card_node(make_nodes))
