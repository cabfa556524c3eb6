"""PodGroups that volsched makes follow their pods on a real control plane: what is corrected in a template helps."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.controlling import AT_WORK, JOBS, Controlled
from tests.cluster.scheduling import GROUPS, Json, eventually
from tests.cluster.signals import after_round, after_session
from tests.controllers.cases import annotations_of

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

QUEUE_NAME = "scheduling.volcano.sh/queue-name"
GPU = "nvidia.com/gpu"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: proportion
  - name: predicates
"""


class Shop:
    """A queue of four GPUs, one that is closed, one for everybody else, and a workload that asks for too much."""

    def __init__(self, controlled: Controlled, namespace: str) -> None:
        self.controlled, self.api, self.namespace = controlled, controlled.api, namespace
        suffix = uuid.uuid4().hex[:6]
        self.small, self.other, self.high = f"small-{suffix}", f"other-{suffix}", f"high-{suffix}"
        controlled.queue(self.small, weight=1, capability={GPU: "4"})
        controlled.queue(self.other, weight=1)
        self.api.create(CLASSES, {"metadata": {"name": self.high}, "value": 1000})
        self.more: list[str] = []

    def clean(self) -> None:
        for queue in (self.small, self.other, *self.more):
            self.api.delete(f"{GROUPS}/queues/{queue}")
        self.api.delete(f"{CLASSES}/{self.high}")

    def template(self, gpus: int, queue: str = "", **annotations: str) -> Json:
        requests: dict[str, Any] = {GPU: str(gpus)}
        notes = {QUEUE_NAME: queue or self.small, **annotations}
        made = self.controlled.template(notes, cpu="1", **requests)
        made["spec"]["containers"][0]["resources"]["limits"] = requests
        return made

    def waits(self) -> str:
        """Return the PodGroup of the workload once all that there is was decided about, and nothing is placed."""
        [group] = self.controlled.wait_groups(self.namespace, 1)
        eventually(lambda: bool(self.pods()), what="a pod")
        after_round(self.controlled)
        after_session(self.controlled)
        assert not any("nodeName" in pod["spec"] for pod in self.pods().values())
        return str(group["metadata"]["name"])

    def pods(self) -> dict[str, Json]:
        return self.controlled.pods(self.namespace)

    def delete_pods(self) -> None:
        for name in self.pods():
            self.api.delete(f"/api/v1/namespaces/{self.namespace}/pods/{name}", grace_seconds=0)

    def group(self, name: str) -> Json:
        return self.controlled.group(self.namespace, name)

    def correct(self, kind: str, template: Json) -> None:
        """Write another template, and delete the pods of the one before, as these kinds do not by themselves."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/{kind.lower()}s/db"
        template["metadata"]["labels"] = {"app": "db"}
        self.api.patch(
            path, [{"op": "replace", "path": "/spec/template", "value": template}], "application/json-patch+json"
        )
        eventually(lambda: self.is_seen(kind), what="the controller has seen the template")
        self.delete_pods()

    def is_seen(self, kind: str) -> bool:
        found = self.api.get(f"/apis/apps/v1/namespaces/{self.namespace}/{kind.lower()}s/db")
        return bool(found["status"].get("observedGeneration") == found["metadata"]["generation"])


@pytest.fixture
def shop(controlled: Controlled, namespace: str, make_nodes: MakeNodes, tmp_path: Path) -> Iterator[Shop]:
    make_nodes(1, cpu="8", **{GPU: "8"})
    path = tmp_path / "scheduler.conf"
    path.write_text(CONFIGURATION)
    controlled.start("--scheduler-conf", str(path)).wait_leading()
    controlled.control().wait_for(AT_WORK)
    made = Shop(controlled, namespace)
    yield made
    made.clean()


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_a_workload_that_asked_for_more_than_its_queue_has_runs_once_it_is_corrected(shop: Shop, kind: str) -> None:
    spec = {"serviceName": "db"} if kind == "StatefulSet" else {}
    shop.controlled.workload(shop.namespace, kind, "db", 1, template=shop.template(6), **spec)
    name = shop.waits()
    assert shop.group(name)["spec"]["minResources"] == {"cpu": "1", GPU: "6"}

    shop.correct(kind, shop.template(1))

    shop.controlled.wait_bound(shop.namespace, 1)
    assert shop.group(name)["spec"] == {"minMember": 1, "minResources": {"cpu": "1", GPU: "1"}, "queue": shop.small}


def test_queue_priority_and_annotations_follow_and_what_is_taken_away_goes(shop: Shop) -> None:
    first = shop.template(6, **{"volcano.sh/preemptable": "true", "volcano.sh/revocable-zone": "a"})
    shop.controlled.workload(shop.namespace, "StatefulSet", "db", 1, template=first, serviceName="db")
    name = shop.waits()

    corrected = shop.template(6, shop.other, **{"volcano.sh/revocable-zone": "*"})
    corrected["spec"]["priorityClassName"] = shop.high
    shop.correct("StatefulSet", corrected)

    shop.controlled.wait_bound(shop.namespace, 1)
    group = shop.group(name)
    assert (group["spec"]["queue"], group["spec"]["priorityClassName"]) == (shop.other, shop.high)
    assert annotations_of(group) == {"volcano.sh/revocable-zone": "*"}


def test_what_a_user_wrote_into_a_field_stays_and_other_fields_follow(shop: Shop) -> None:
    shop.controlled.workload(shop.namespace, "StatefulSet", "db", 1, template=shop.template(6), serviceName="db")
    name = shop.waits()
    path = f"{GROUPS}/namespaces/{shop.namespace}/podgroups/{name}"
    third = shop.controlled.queue(f"third-{uuid.uuid4().hex[:6]}", weight=1, capability={GPU: "4"})
    shop.more.append(third)
    shop.api.patch(path, {"spec": {"queue": third}})

    shop.correct("StatefulSet", shop.template(1, shop.other))

    shop.controlled.wait_bound(shop.namespace, 1)
    assert shop.group(name)["spec"] == {"minMember": 1, "minResources": {"cpu": "1", GPU: "1"}, "queue": third}


def test_a_priority_class_that_a_user_took_away_stays_away_until_it_is_set_back(shop: Shop) -> None:
    template = shop.template(6)
    template["spec"]["priorityClassName"] = shop.high
    shop.controlled.workload(shop.namespace, "StatefulSet", "db", 1, template=template, serviceName="db")
    name = shop.waits()
    path = f"{GROUPS}/namespaces/{shop.namespace}/podgroups/{name}"
    shop.api.patch(path, {"spec": {"priorityClassName": None}})

    shop.correct(
        "StatefulSet", {**shop.template(5), "spec": {**shop.template(5)["spec"], "priorityClassName": shop.high}}
    )
    shop.api.wait_for(path, lambda group: group["spec"]["minResources"][GPU] == "5")
    assert "priorityClassName" not in shop.group(name)["spec"]

    shop.api.patch(path, {"spec": {"priorityClassName": shop.high}})
    shop.correct("StatefulSet", shop.template(1))
    shop.controlled.wait_bound(shop.namespace, 1)
    assert shop.group(name)["spec"] == {"minMember": 1, "minResources": {"cpu": "1", GPU: "1"}, "queue": shop.small}


def test_controllers_that_start_afterwards_know_what_a_user_wrote(shop: Shop) -> None:
    shop.controlled.workload(shop.namespace, "StatefulSet", "db", 1, template=shop.template(6), serviceName="db")
    name = shop.waits()
    path = f"{GROUPS}/namespaces/{shop.namespace}/podgroups/{name}"
    shop.api.patch(path, {"spec": {"minResources": {GPU: "5"}}})
    assert shop.controlled.controllers[-1].terminate() == 0

    shop.correct("StatefulSet", shop.template(1, shop.other))
    shop.controlled.control().wait_for(AT_WORK)

    shop.controlled.wait_bound(shop.namespace, 1)
    spec = shop.group(name)["spec"]
    assert (spec["queue"], spec["minResources"]) == (shop.other, {"cpu": "1", GPU: "5"})


def test_a_suspended_job_may_be_given_another_queue(shop: Shop) -> None:
    template = shop.template(6)
    template["spec"]["restartPolicy"] = "Never"
    path = f"/apis/batch/v1/namespaces/{shop.namespace}/jobs"
    shop.api.create(path, {"metadata": {"name": "db"}, "spec": {"template": template}})
    name = shop.waits()

    shop.api.patch(f"{path}/db", {"spec": {"suspend": True}})
    shop.api.wait_for(f"{path}/db", lambda job: "startTime" not in job["status"])
    eventually(lambda: not shop.pods(), what="no pods")
    shop.api.patch(f"{path}/db", {"spec": {"template": {"metadata": {"annotations": {QUEUE_NAME: shop.other}}}}})
    shop.api.patch(f"{path}/db", {"spec": {"suspend": False}})

    shop.controlled.wait_bound(shop.namespace, 1)
    assert shop.group(name)["spec"]["queue"] == shop.other


def test_a_volcano_job_that_waits_may_be_given_another_queue(shop: Shop) -> None:
    template = shop.template(6)
    template["spec"]["restartPolicy"] = "Never"
    shop.controlled.job(shop.namespace, "train", [{"name": "w", "replicas": 1, "template": template}], queue=shop.small)
    [group] = shop.controlled.wait_groups(shop.namespace, 1)
    after_round(shop.controlled)
    after_session(shop.controlled)
    assert (group["spec"]["queue"], shop.pods()) == (shop.small, {})

    shop.api.patch(f"{JOBS}/namespaces/{shop.namespace}/jobs/train", {"spec": {"queue": shop.other}})

    shop.controlled.wait_bound(shop.namespace, 1)
    assert shop.group(group["metadata"]["name"])["spec"]["queue"] == shop.other
