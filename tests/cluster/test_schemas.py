"""A CRD of Queue without `spec.dra`, on a real API server: who is told by the server, and that volsched sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.scheduling import GROUPS, Installed, eventually
from tools.controlplane import ApiServerError, ControlPlane

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.scheduling.volcano.sh"
FIELD = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/dra"
JSON_PATCH = "application/json-patch+json"
QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "loses-it"}}
SPEC: dict[str, Any] = {"weight": 1, "dra": {"capability": {"gpu": {"count": 1}}}}
CONFIGURATION = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: capacity-dra
"""


@pytest.fixture
def without_dra(manifests_applied: ControlPlane) -> Iterator[ControlPlane]:
    """Queues as in Volcano's CRD, which has no place for `spec.dra`."""
    server = manifests_applied.api
    declared = server.get(CRD)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    server.patch(CRD, [{"op": "remove", "path": FIELD}], JSON_PATCH)
    eventually(lambda: not keeps_dra(manifests_applied), what="the field is dropped")
    yield manifests_applied
    server.patch(CRD, [{"op": "add", "path": FIELD, "value": declared["properties"]["dra"]}], JSON_PATCH)
    eventually(lambda: keeps_dra(manifests_applied), what="the field is kept again")
    server.delete(f"{GROUPS}/queues/loses-it")


def keeps_dra(cluster: ControlPlane) -> bool:
    """Whether a Queue that is made keeps the field; also while the API server is about to take in a changed CRD."""
    server = cluster.api
    server.delete(f"{GROUPS}/queues/loses-it")
    made = server.create(f"{GROUPS}/queues", {**QUEUE, "spec": SPEC})
    return "dra" in made["spec"]


def test_a_queue_applied_on_the_servers_side_is_refused_there_and_others_lose_the_field_without_a_word(
    without_dra: ControlPlane,
) -> None:
    server = without_dra.api
    path = f"{GROUPS}/queues/loses-it?fieldManager=test"

    with pytest.raises(ApiServerError, match=r"spec\.dra: field not declared in schema"):
        server.patch(path, {**QUEUE, "spec": SPEC}, "application/apply-patch+yaml")
    assert "dra" not in json.dumps(server.get(f"{GROUPS}/queues/loses-it")), "not even in its managedFields"


def test_the_scheduler_says_on_a_queue_and_in_its_log_that_the_field_is_dropped(
    installed: Installed, without_dra: ControlPlane
) -> None:
    path = installed.folder / "scheduler.conf"
    path.write_text(CONFIGURATION)

    scheduler = installed.start("--scheduler-conf", str(path)).wait_leading()

    scheduler.wait_for("the CRD of Queue drops fields; install the one of volsched")
    told = lambda: [e["message"] for e in installed.events("default") if e["reason"] == "InvalidDRAQuota"]  # noqa: E731
    eventually(lambda: any("spec.dra of every Queue is lost" in message for message in told()))
