"""A kubelet refuses what was bound to its node: the PodGroup says so, and its job goes on with another pod."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.realnode import devices
from tests.realnode.cluster import Cluster, Json, KubectlError, a_pod, eventually, phase_of
from tests.realnode.test_devices import offers
from tools.realnode import node

CARD = "example.com/card"
STATIC_PODS = Path("/run/static-pods")

MIRROR = "kubernetes.io/config.mirror"
UNSEEN = [
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-mirror-pods"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                ]
            },
            "validations": [
                {"expression": f'!has(object.metadata.annotations) || !("{MIRROR}" in object.metadata.annotations)'}
            ],
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-mirror-pods"},
        "spec": {"policyName": "no-mirror-pods", "validationActions": ["Deny"]},
    },
]
"""So that nobody but the kubelet knows of a static pod."""


def a_job(pod: Json) -> Json:
    """A batch Job of one such pod, which is made again when it fails."""
    spec = pod["spec"] | {"restartPolicy": "Never"}
    template = {"metadata": {"annotations": pod["metadata"].get("annotations", {})}, "spec": spec}
    whole = {"backoffLimit": 100, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "works"}, "spec": whole}


def a_volcano_job(pod: Json) -> Json:
    """A Volcano Job of one such pod, which is restarted when it fails."""
    task = {"name": "main", "replicas": 1, "template": {"spec": pod["spec"] | {"restartPolicy": "Never"}}}
    again = {"event": "PodFailed", "action": "RestartJob"}
    spec = {"schedulerName": "volsched", "minAvailable": 1, "maxRetry": 100, "tasks": [task], "policies": [again]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "works-too"}, "spec": spec}


@contextmanager
def unseen(cluster: Cluster, cpu: str) -> Iterator[None]:
    """Have a static pod on the node that the API server does not know of, within a ``with`` block."""
    cluster.apply(*UNSEEN)
    eventually(lambda: not can_be_shown(cluster))
    manifest = STATIC_PODS / "unseen.json"
    manifest.write_text(json.dumps(a_pod("unseen", cpu=cpu)))
    try:
        eventually(lambda: any(STATIC_PODS.parent.glob("pod-logs/default_unseen-*/main")))
        yield
    finally:
        manifest.unlink()
        cluster.kubectl("delete", "-f", "-", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": UNSEEN}))


def can_be_shown(cluster: Cluster) -> bool:
    """Whether the API server takes a mirror pod."""
    pod = a_pod("mirror", nodeName=node.NAME)
    pod["metadata"]["annotations"] = {MIRROR: "x"}
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    except KubectlError:
        return False
    return True


def refusals(cluster: Cluster, namespace: str) -> list[str]:
    """What PodGroups say of refused pods."""
    found = [event for event in cluster.list("events", namespace) if event["involvedObject"]["kind"] == "PodGroup"]
    return [event["message"] for event in found if event["reason"] == "RejectedByNode"]


def running(cluster: Cluster, namespace: str) -> int:
    return sum(phase_of(pod) == "Running" for pod in cluster.list("pods", namespace))


def test_a_node_that_has_less_room_than_anybody_knows(installed: Cluster, namespace: str) -> None:
    room = installed.free_cpu()
    with unseen(installed, f"{room - 200}m"):
        installed.apply(a_job(a_pod("", cpu="400m")), namespace=namespace)
        eventually(lambda: any("OutOfcpu" in said for said in refusals(installed, namespace)))
    eventually(lambda: running(installed, namespace) == 1)


def test_a_device_that_cannot_be_given_out(installed: Cluster, namespace: str, tmp_path: Path) -> None:
    refuses = tmp_path / "refuses"
    refuses.touch()
    with devices.plugin(CARD, 2, tmp_path / "plugin.log", "-refuse-while", str(refuses)):
        eventually(lambda: offers(installed, CARD, 2))
        pod = a_pod("")
        pod["spec"]["containers"][0]["resources"]["limits"] = {CARD: "1"}
        installed.apply(a_job(pod), a_volcano_job(pod), namespace=namespace)

        def refused() -> bool:
            """The PodGroup of a Volcano Job ends with each restart: it is told on the Job."""
            restarted = installed.events(namespace, "works-too")
            told = "RestartJob because of PodFailed of pod works-too-main-0 (UnexpectedAdmissionError)"
            on_group = any("UnexpectedAdmissionError" in said for said in refusals(installed, namespace))
            return on_group and any(told in said for said in restarted)

        eventually(refused)
        refuses.unlink()
        eventually(lambda: running(installed, namespace) == 2)
