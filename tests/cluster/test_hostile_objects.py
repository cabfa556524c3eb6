"""Objects that anybody with the right `edit` in one namespace may create, and that harm nobody else."""

from __future__ import annotations

import json
from typing import Any

from tests.cluster.control_plane import MakeNodes
from tests.cluster.controlling import JOBS, Controlled
from tests.cluster.scheduling import GROUPS, eventually

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

DEVICES = "/apis/resource.k8s.io/v1"
LEVELS = 4_000
"""Python's own decoders give up at 1,000; the API server takes 10,000."""


def as_text(body: dict[str, Any], levels: int = LEVELS) -> bytes:
    """Write an object as JSON; "DEEP" in it stands for a value that is nested very deep."""
    return json.dumps(body).replace('"DEEP"', '{"a":' * levels + "{}" + "}" * levels).encode()


def deep_group(controlled: Controlled, namespace: str) -> None:
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "deep"},
        "spec": {"minMember": 1, "subGroupPolicy": [{"name": "a", "deep": "DEEP"}]},
    }
    controlled.api.request("POST", f"{GROUPS}/namespaces/{namespace}/podgroups", as_text(body))


def deep_claim(controlled: Controlled, namespace: str) -> None:
    opaque = {"driver": "gpu.example.com", "parameters": "DEEP"}
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "deep"},
        "spec": {"devices": {"requests": requests, "config": [{"opaque": opaque}]}},
    }
    controlled.api.request("POST", f"{DEVICES}/namespaces/{namespace}/resourceclaims", as_text(body, 1_500))


def deep_job(controlled: Controlled, namespace: str) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i", "odd": "DEEP"}]}}
    body = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "deep"},
        "spec": {
            "schedulerName": controlled.name,
            "minAvailable": 1,
            "tasks": [{"name": "w", "replicas": 1, "template": template}],
        },
    }
    controlled.api.request("POST", f"{JOBS}/namespaces/{namespace}/jobs", as_text(body))


def odd_job(controlled: Controlled, namespace: str, name: str, **container: Any) -> None:
    task = controlled.task("w", 1)
    task["template"]["spec"]["containers"][0].update(container)
    controlled.job(namespace, name, [task], minAvailable=1, plugins={"env": [], "svc": []})


def test_what_one_tenant_writes_ends_with_what_he_wrote(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(2, cpu="8")
    for make in (deep_group, deep_claim, deep_job):  # before anybody runs: they are in the first lists
        make(controlled, namespace)
    odd_job(controlled, namespace, "env", env=5)
    odd_job(controlled, namespace, "mounts", volumeMounts=5)
    process = controlled.both()
    scheduler = controlled.processes[-1]

    controlled.job(namespace, "good", [controlled.task("w", 2)], minAvailable=2)
    controlled.make_gang(namespace, "gang", 2, cpu="1")
    controlled.make_pods(namespace, [{**controlled.pod("wants-deep"), "spec": wants_claim(controlled, "deep")}])
    controlled.wait_bound(namespace, 4)

    for job, said in (
        ("deep", "is nested deeper"),
        ("env", "containers[0].env"),
        ("mounts", "containers[0].volumeMounts"),
    ):
        assert said in controlled.wait_event(namespace, job, "InvalidJob")["message"]
    eventually(lambda: "nested deeper" in controlled.condition(namespace, "wants-deep").get("message", ""))
    for again in (deep_group, deep_job):  # and in the watch
        controlled.api.delete(f"{GROUPS}/namespaces/{namespace}/podgroups/deep")
        controlled.api.delete(f"{JOBS}/namespaces/{namespace}/jobs/deep")
        again(controlled, namespace)
    controlled.make_gang(namespace, "later", 2, cpu="1")
    controlled.wait_bound(namespace, 6)
    assert scheduler.process.poll() is None
    assert process.process.poll() is None


def wants_claim(controlled: Controlled, claim: str) -> dict[str, Any]:
    spec: dict[str, Any] = controlled.pod("x", cpu="1")["spec"]
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    return spec
