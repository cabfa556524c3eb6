"""The component `own-fields` on a real API server: what volsched's accounts change, and what stolen tokens do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.manifests.applying import installed, wait_refused
from tests.manifests.conftest import PLAIN_NODES
from tests.manifests.rendering import MANIFESTS, SYSTEM, Json, a_kustomization
from volsched.testing.controlplane import ControlPlane, KubectlError, a_pod

COMPONENT = MANIFESTS / "components/own-fields"
TEAM = "team-fields"
SCHEDULER, CONTROLLERS = (
    f"--as=system:serviceaccount:{SYSTEM}:volsched-{name}" for name in ("scheduler", "controllers")
)
QUEUE_GATE, OTHER_GATE = "scheduling.volcano.sh/queue-allocation-gate", "example.com/wait"
OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
VOLCANO = "scheduling.volcano.sh"


def volume(name: str, **spec: Any) -> Json:
    body = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": body}


def objects() -> list[Json]:
    gates = {"schedulingGates": [{"name": QUEUE_GATE}, {"name": OTHER_GATE}]}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "x"}
    group = {"apiVersion": f"{VOLCANO}/v1beta1", "kind": "PodGroup", "metadata": {"name": "g", "namespace": TEAM}}
    queue = {"apiVersion": f"{VOLCANO}/v1beta1", "kind": "Queue", "metadata": {"name": "q-fields"}}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "others", "namespace": TEAM}}
    return [
        {**a_pod("gated", scheduler="volsched", spec=gates), "apiVersion": "v1", "kind": "Pod"},
        {**a_pod("waits", scheduler="volsched"), "apiVersion": "v1", "kind": "Pod"},
        volume("v-free"),
        volume("v-taken", claimRef={"namespace": TEAM, "name": "someone", "uid": "1"}),
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": claim},
        {**group, "spec": {"minMember": 1, "queue": "q-fields"}},
        {**queue, "spec": {"weight": 1, "capability": {"cpu": "1"}}},
        {**other, "data": {"a": "b"}},
    ]


def reading() -> Json:
    """kubectl reads what it patches, which volsched does not: the right to read, for both accounts."""
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "reads-what-it-patches"}}
    kinds = ["pods", "pods/status", "configmaps", "persistentvolumes", "persistentvolumeclaims"]
    volcano = ["queues", "queues/status", "podgroups", "podgroups/status"]
    rules = [
        {"apiGroups": [""], "resources": kinds, "verbs": ["get"]},
        {"apiGroups": [VOLCANO], "resources": volcano, "verbs": ["get"]},
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads-what-it-patches"}
    accounts = [who.rpartition(":")[2] for who in (SCHEDULER, CONTROLLERS)]
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": SYSTEM} for name in accounts]
    binding = {**rbac, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": subjects}
    return {"apiVersion": "v1", "kind": "List", "items": [{**rbac, "kind": "ClusterRole", "rules": rules}, binding]}


READING = reading()


@pytest.fixture(scope="module")
def guarded(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The component beside the rights of the processes, and one of each object that they write."""
    parts = [MANIFESTS / "rbac", MANIFESTS / "crds"]
    with installed(cluster, a_kustomization(tmp_path_factory.mktemp("guarded"), parts, [COMPONENT])):
        cluster.create_namespace(TEAM)
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(READING))
        for found in objects():
            cluster.kubectl("create", "-n", TEAM, "-f", "-", stdin=json.dumps(found))
        try:
            wait_refused(lambda: patch(cluster, SCHEDULER, "pod/waits", LABELS), "volsched changes no metadata.labels")
            yield cluster
        finally:
            cluster.kubectl("delete", "-f", "-", stdin=json.dumps(READING))
            cluster.kubectl("delete", "pv", "v-free", "v-taken")
            cluster.kubectl("delete", "queue.scheduling.volcano.sh", "q-fields")
            cluster.kubectl("delete", "namespace", TEAM)


def patch(cluster: ControlPlane, who: str, what: str, body: Json, *flags: str, kind: str = "merge") -> None:
    text = json.dumps(body)
    cluster.kubectl("patch", what, "-n", TEAM, f"--type={kind}", "--dry-run=server", "-p", text, who, *flags)


def status(cluster: ControlPlane, who: str, what: str, body: Json, kind: str = "merge") -> None:
    patch(cluster, who, what, {"status": body}, "--subresource=status", kind=kind)


LABELS = {"metadata": {"labels": {"a": "b"}}}
IMAGE = {"spec": {"containers": [{"name": "main", "image": "evil"}]}}
GATED = {"spec": {"schedulingGates": [{"$patch": "delete", "name": QUEUE_GATE}]}}
UNGATED = {"spec": {"schedulingGates": [{"$patch": "delete", "name": OTHER_GATE}]}}
SELECTED = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": PLAIN_NODES[0]}}}
MINE = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": TEAM, "name": "c", "uid": "2"}
BY_CONTROLLER = {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}
GROUP = f"podgroup.{VOLCANO}/g"
QUEUE = f"queue.{VOLCANO}/q-fields"


def conditions(kind: str) -> Json:
    return {"conditions": [{"type": kind, "status": "False", "reason": "R", "message": "m"}]}


def test_what_volsched_changes_is_let_in(guarded: ControlPlane) -> None:
    patch(guarded, SCHEDULER, "pod/gated", GATED, kind="strategic")
    for kind in ("PodScheduled", "DisruptionTarget", "volsched.io/Evicted", "volsched.io/Ungated"):
        status(guarded, SCHEDULER, "pod/waits", {**conditions(kind), "nominatedNodeName": PLAIN_NODES[0]}, "strategic")
    patch(guarded, SCHEDULER, "pv/v-free", {"metadata": BY_CONTROLLER, "spec": {"claimRef": MINE}})
    patch(guarded, SCHEDULER, "pvc/c", SELECTED)
    status(guarded, SCHEDULER, GROUP, {"phase": "Inqueue", "running": 1, "conditions": []})
    status(guarded, SCHEDULER, QUEUE, {"allocated": {"cpu": "1"}})
    patch(guarded, CONTROLLERS, "pod/waits", {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "g"}}})
    patch(guarded, CONTROLLERS, GROUP, {"metadata": {"labels": {"a": "b"}}, "spec": {"minMember": 2}})
    patch(guarded, CONTROLLERS, QUEUE, {"spec": {"parent": "root"}})
    patch(guarded, CONTROLLERS, QUEUE, {"metadata": {"annotations": {"volcano.sh/closed-by-parent": "true"}}})
    status(guarded, CONTROLLERS, QUEUE, {"state": "Open", "pending": 1, "allocated": {}})
    patch(guarded, CONTROLLERS, "configmap/others", {})  # how it is found out whose one is


def test_an_account_of_another_name_is_not_limited(guarded: ControlPlane) -> None:
    patch(guarded, "--as=admin", "pod/waits", IMAGE, "--as-group=system:masters", kind="strategic")


REFUSED: list[tuple[str, str, Json, str]] = [
    (SCHEDULER, "pod/waits", IMAGE, "volsched changes no spec.containers of pods"),
    (SCHEDULER, "pod/waits", {"spec": {"activeDeadlineSeconds": 1}}, "changes no spec.activeDeadlineSeconds of pods"),
    (SCHEDULER, "pod/waits", {"metadata": {"labels": {"a": "b"}}}, "changes no metadata.labels of pods"),
    (SCHEDULER, "pod/waits", {"metadata": {"annotations": {"a": "b"}}}, "changes no annotations.a of pods"),
    (SCHEDULER, "pod/waits", {"metadata": {"finalizers": ["a/b"]}}, "changes no metadata.finalizers of pods"),
    (SCHEDULER, "pod/gated", UNGATED, "lifts the gate scheduling.volcano.sh/queue-allocation-gate and no other"),
    (SCHEDULER, "pv/v-free", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}, "persistentVolumeReclaimPolicy"),
    (
        SCHEDULER,
        "pv/v-free",
        {"metadata": {"annotations": {"a": "b"}}},
        "changes no annotations.a of persistentvolumes",
    ),
    (SCHEDULER, "pv/v-taken", {"spec": {"claimRef": MINE}}, "takes no volume away from the claim that has it"),
    (SCHEDULER, "pv/v-taken", {"spec": {"claimRef": {"uid": "2"}}}, "takes no volume away from the claim that has it"),
    (SCHEDULER, "pvc/c", {"metadata": {"labels": {"a": "b"}}}, "changes no metadata.labels of persistentvolumeclaims"),
    (SCHEDULER, "pvc/c", {"spec": {"volumeName": "v-free"}}, "changes no spec.volumeName of persistentvolumeclaims"),
    (SCHEDULER, GROUP, {"spec": {"queue": "other"}}, "changes no spec.queue of podgroups"),
    (SCHEDULER, GROUP, {"metadata": {"annotations": {"a": "b"}}}, "changes no annotations.a of podgroups"),
    (CONTROLLERS, "pod/waits", IMAGE, "changes no spec.containers of pods"),
    (CONTROLLERS, "pod/waits", {"metadata": {"annotations": {"a": "b"}}}, "changes no annotations.a of pods"),
    (CONTROLLERS, QUEUE, {"spec": {"weight": 9}}, "changes no spec.weight of queues"),
    (CONTROLLERS, QUEUE, {"spec": {"capability": {"cpu": "1000"}}}, "changes no spec.capability of queues"),
    (CONTROLLERS, QUEUE, {"metadata": {"annotations": {"volsched.io/allowed-namespaces": "x"}}}, "allowed-namespaces"),
    (CONTROLLERS, "configmap/others", {"data": {"a": "c"}}, "changes no data.a of configmaps"),
    (CONTROLLERS, "configmap/others", {"binaryData": {"b": "eA=="}}, "changes no binaryData.b of configmaps"),
    (CONTROLLERS, "configmap/others", {"metadata": {"ownerReferences": [OWNER]}}, "ownerReferences of configmaps"),
]


@pytest.mark.parametrize(("who", "what", "body", "said"), REFUSED, ids=str)
def test_what_volsched_never_changes_is_refused(
    guarded: ControlPlane, who: str, what: str, body: Json, said: str
) -> None:
    kind = "strategic" if body in (UNGATED, IMAGE) else "merge"
    with pytest.raises(KubectlError) as refused:
        patch(guarded, who, what, body, kind=kind)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("who", "what", "body"),
    [
        (SCHEDULER, "pod/waits", {"phase": "Succeeded"}),
        (SCHEDULER, "pod/waits", conditions("Ready")),
        (SCHEDULER, QUEUE, {"state": "Closed"}),
        (SCHEDULER, QUEUE, {"running": 3}),
    ],
    ids=str,
)
def test_statuses_of_others_are_refused(guarded: ControlPlane, who: str, what: str, body: Json) -> None:
    with pytest.raises(KubectlError, match=r"volsched (changes no status|writes the conditions)"):
        status(guarded, who, what, body, "strategic" if what.startswith("pod/") else "merge")


def test_what_the_scheduler_says_that_a_queue_holds_is_not_the_controllers_to_say(guarded: ControlPlane) -> None:
    said = json.dumps({"status": {"allocated": {"cpu": "1"}}})
    guarded.kubectl("patch", QUEUE, "--type=merge", "--subresource=status", "-p", said, SCHEDULER)

    with pytest.raises(KubectlError, match=r"changes no status\.allocated of queues"):
        status(guarded, CONTROLLERS, QUEUE, {"allocated": {"cpu": "9"}})


@pytest.mark.parametrize("owned", [True, False])
def test_what_is_made_is_made_for_jobs(guarded: ControlPlane, owned: bool) -> None:
    meta = {"name": "made", "namespace": TEAM, "ownerReferences": [OWNER] if owned else []}
    made = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta},
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"clusterIP": "None"}},
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta, "spec": {"podSelector": {}}},
    ]
    for found in made:
        create = ("create", "--dry-run=server", "-f", "-", CONTROLLERS)
        if owned:
            guarded.kubectl(*create, stdin=json.dumps(found))
            continue
        with pytest.raises(KubectlError, match="for Volcano Jobs that own it alone"):
            guarded.kubectl(*create, stdin=json.dumps(found))


@pytest.mark.parametrize(("name", "is_let_in"), [("default", True), ("root", True), ("mine", False)])
def test_queues_that_are_made(guarded: ControlPlane, name: str, is_let_in: bool) -> None:
    queue = {"apiVersion": f"{VOLCANO}/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}}
    create = ("create", "--dry-run=server", "-f", "-", CONTROLLERS)
    if is_let_in:
        guarded.kubectl(*create, stdin=json.dumps(queue))
        return
    with pytest.raises(KubectlError, match="volsched makes the queues default and root alone"):
        guarded.kubectl(*create, stdin=json.dumps(queue))
