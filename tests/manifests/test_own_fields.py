"""The component `own-fields` on a real API server: what volsched's accounts change, and what stolen tokens do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.manifests.applying import installed, wait_refused
from tests.manifests.conftest import PLAIN_NODES
from tests.manifests.rendering import MANIFESTS, SYSTEM, Json, a_kustomization
from tests.manifests.users import ADMINISTRATOR, WITHOUT_NAMESPACE, User, create, remove, remove_namespaces
from tools.controlplane import ApiServerError, ControlPlane, a_pod

COMPONENT = MANIFESTS / "components/own-fields"
TEAM = "team-fields"
SCHEDULER, CONTROLLERS = (
    User(f"system:serviceaccount:{SYSTEM}:volsched-{name}") for name in ("scheduler", "controllers")
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


@pytest.fixture(scope="module")
def guarded(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The component beside the rights of the processes, and one of each object that they write."""
    parts = [MANIFESTS / "rbac", MANIFESTS / "crds"]
    with installed(cluster, a_kustomization(tmp_path_factory.mktemp("guarded"), parts, [COMPONENT])):
        cluster.create_namespace(TEAM)
        create(cluster, *objects(), namespace=TEAM)
        try:
            wait_refused(lambda: patch(cluster, SCHEDULER, "pod/waits", LABELS), "volsched changes no metadata.labels")
            yield cluster
        finally:
            remove(cluster, *(found for found in objects() if found["kind"] in WITHOUT_NAMESPACE))
            remove_namespaces(cluster, TEAM)


PATHS = {
    "pod": f"/api/v1/namespaces/{TEAM}/pods",
    "pv": "/api/v1/persistentvolumes",
    "pvc": f"/api/v1/namespaces/{TEAM}/persistentvolumeclaims",
    "configmap": f"/api/v1/namespaces/{TEAM}/configmaps",
    "podgroup": f"/apis/{VOLCANO}/v1beta1/namespaces/{TEAM}/podgroups",
    "queue": f"/apis/{VOLCANO}/v1beta1/queues",
}


def patch(cluster: ControlPlane, who: User, what: str, body: Json, kind: str = "merge") -> None:
    named, _, name = what.partition("/")
    who.patches(cluster, f"{PATHS[named]}/{name}", body, kind)


def status(cluster: ControlPlane, who: User, what: str, body: Json, kind: str = "merge") -> None:
    patch(cluster, who, f"{what}/status", {"status": body}, kind)


LABELS = {"metadata": {"labels": {"a": "b"}}}
IMAGE = {"spec": {"containers": [{"name": "main", "image": "evil"}]}}
GATED = {"spec": {"schedulingGates": [{"$patch": "delete", "name": QUEUE_GATE}]}}
UNGATED = {"spec": {"schedulingGates": [{"$patch": "delete", "name": OTHER_GATE}]}}
SELECTED = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": PLAIN_NODES[0]}}}
MINE = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": TEAM, "name": "c", "uid": "2"}
BY_CONTROLLER = {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}
GROUP = "podgroup/g"
QUEUE = "queue/q-fields"


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
    patch(guarded, ADMINISTRATOR, "pod/waits", IMAGE, kind="strategic")


REFUSED: list[tuple[User, str, Json, str]] = [
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
    guarded: ControlPlane, who: User, what: str, body: Json, said: str
) -> None:
    kind = "strategic" if body in (UNGATED, IMAGE) else "merge"
    with pytest.raises(ApiServerError) as refused:
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
def test_statuses_of_others_are_refused(guarded: ControlPlane, who: User, what: str, body: Json) -> None:
    with pytest.raises(ApiServerError, match=r"volsched (changes no status|writes the conditions)"):
        status(guarded, who, what, body, "strategic" if what.startswith("pod/") else "merge")


def test_what_the_scheduler_says_that_a_queue_holds_is_not_the_controllers_to_say(guarded: ControlPlane) -> None:
    said = {"status": {"allocated": {"cpu": "1"}}}
    SCHEDULER.patches(guarded, f"{PATHS['queue']}/q-fields/status", said, is_tried=False)

    with pytest.raises(ApiServerError, match=r"changes no status\.allocated of queues"):
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
        if owned:
            CONTROLLERS.makes(guarded, found, TEAM)
            continue
        with pytest.raises(ApiServerError, match="for Volcano Jobs that own it alone"):
            CONTROLLERS.makes(guarded, found, TEAM)


@pytest.mark.parametrize(("name", "is_let_in"), [("default", True), ("root", True), ("mine", False)])
def test_queues_that_are_made(guarded: ControlPlane, name: str, is_let_in: bool) -> None:
    queue = {"apiVersion": f"{VOLCANO}/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}}
    if is_let_in:
        CONTROLLERS.makes(guarded, queue, "")
        return
    with pytest.raises(ApiServerError, match="volsched makes the queues default and root alone"):
        CONTROLLERS.makes(guarded, queue, "")
