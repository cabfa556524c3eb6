"""The component `queue-permissions` on a real API server: the verb `use` on Queues, for users and on their behalf."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import running_control_plane
from tests.cluster.native.stage import API_FLAGS, GATES
from tests.cluster.scheduling import wait_allowed
from tests.docs.pages import DOCS, blocks
from tests.manifests.applying import installed, wait_refused
from tests.manifests.rendering import MANIFESTS, SYSTEM, Json, a_kustomization, kustomize
from tests.manifests.users import (
    ADMINISTRATOR,
    RBAC,
    User,
    collection_of,
    create,
    gives,
    gives_everywhere,
    remove,
    remove_namespaces,
)
from tools.controlplane import ApiServerError, ControlPlane, a_pod
from tools.documents import yaml_documents

COMPONENT = MANIFESTS / "components/queue-permissions"
PAGE = DOCS / "queue-permissions.md"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
GROUP_NAME = "scheduling.k8s.io/group-name"
VOLCANO = "scheduling.volcano.sh/v1beta1"
NATIVE = "scheduling.k8s.io/v1alpha2"
TEAMS = ("team-a", "team-b")

ALICE, BOB = User("alice"), User("bob")
"""Alice may use queue `vision` in her namespace team-a, by the page's own example; Bob may use none. Both may edit."""

CONTROLLERS = User(f"system:serviceaccount:{SYSTEM}:volsched-controllers")
KUBERNETES = User("system:serviceaccount:kube-system:replicaset-controller", "system:serviceaccounts:kube-system")


def a_group(queue: str | None, name: str = "g") -> Json:
    spec = {"minMember": 1, **({"queue": queue} if queue is not None else {})}
    return {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def a_native(kind: str, queue: str) -> Json:
    policy = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    spec = policy if kind == "PodGroup" else {"podGroupTemplates": [{"name": "t", **policy}]}
    return {
        "apiVersion": NATIVE,
        "kind": kind,
        "metadata": {"name": "n", "annotations": {QUEUE_NAME: queue}},
        "spec": spec,
    }


def a_volcano_job(queue: str) -> Json:
    tasks = [{"name": "t", "replicas": 1, "template": template(None)}]
    spec = {"queue": queue, "minAvailable": 1, "tasks": tasks}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}


def template(queue: str | None, **spec: str) -> Json:
    notes = {"annotations": {QUEUE_NAME: queue}} if queue is not None else {}
    containers = [{"name": "c", "image": "none"}]
    return {"metadata": {"labels": {"app": "x"}, **notes}, "spec": {"containers": containers, **spec}}


def pod(queue: str | None) -> Json:
    notes = {QUEUE_NAME: queue} if queue is not None else {}
    return a_pod("p", scheduler="volsched", annotations=notes)


def workload(kind: str, queue: str) -> Json:
    selector = {"matchLabels": {"app": "x"}}
    found = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}}
    match kind:
        case "Job":
            return found | {"apiVersion": "batch/v1", "spec": {"template": template(queue, restartPolicy="Never")}}
        case "CronJob":
            of_job = {"spec": {"template": template(queue, restartPolicy="Never")}}
            return found | {"apiVersion": "batch/v1", "spec": {"schedule": "0 0 1 1 *", "jobTemplate": of_job}}
        case "ReplicationController":
            return found | {"apiVersion": "v1", "spec": {"selector": {"app": "x"}, "template": template(queue)}}
        case "StatefulSet":
            return found | {"spec": {"selector": selector, "serviceName": "w", "template": template(queue)}}
        case _:
            return found | {"spec": {"selector": selector, "template": template(queue)}}


WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController")
NAMING = [
    pytest.param(a_group, id="PodGroup"),
    pytest.param(a_volcano_job, id="Volcano Job"),
    pytest.param(pod, id="Pod"),
    pytest.param(lambda queue: a_native("PodGroup", queue), id="PodGroup of Kubernetes"),
    pytest.param(lambda queue: a_native("Workload", queue), id="Workload of Kubernetes"),
    *(pytest.param(lambda queue, kind=kind: workload(kind, queue), id=kind) for kind in WORKLOADS),
]


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster that serves Kubernetes' own gangs, too."""
    folder = tmp_path_factory.mktemp("native")
    options = {"feature_gates": GATES, "api_flags": API_FLAGS, "checks_policies": True}
    with running_control_plane(request, folder, **options) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The component on a cluster with two teams, and the rights that the page gives away."""
    folder = tmp_path_factory.mktemp("guarded")
    mine = a_kustomization(folder, [MANIFESTS / "crds", MANIFESTS / "rbac"], [COMPONENT])
    [text] = [block.text for block in blocks(PAGE) if "file=rights.yaml" in block.words]
    example = list(yaml_documents(text))
    with installed(cluster, mine):
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=300s")
        for team in TEAMS:
            cluster.create_namespace(team)
        try:
            for team in TEAMS:
                robot = f"system:serviceaccount:{team}:robot"
                create(cluster, gives("admin", "alice", "bob", robot, namespace=team))
            create(cluster, *example)
            wait_refused(lambda: BOB.makes(cluster, a_group("nobodys"), "team-a"), "may not use queue")
            yield cluster
        finally:
            remove(cluster, *example)
            remove_namespaces(cluster, *TEAMS)


def assert_refused(cluster: ControlPlane, found: Json, user: User, *, queue: str, namespace: str = "team-a") -> None:
    said = (
        f'user "{user.name}" may not use queue "{queue}" in namespace "{namespace}": that takes the verb use on queues'
    )
    with pytest.raises(ApiServerError, match=said):
        user.makes(cluster, found, namespace)


@pytest.mark.parametrize("naming", NAMING)
def test_of_two_users_the_one_with_the_verb_names_the_queue(guarded: ControlPlane, naming: object) -> None:
    assert callable(naming)

    ALICE.makes(guarded, naming("vision"), "team-a")
    assert_refused(guarded, naming("vision"), BOB, queue="vision")
    assert_refused(guarded, naming("language"), ALICE, queue="language")
    assert_refused(guarded, naming("vision"), ALICE, queue="vision", namespace="team-b")


def test_what_names_no_queue_or_the_default_one_is_let_in(guarded: ControlPlane) -> None:
    for found in (a_group(None), a_group(""), a_group("default"), pod(None), pod("default")):
        BOB.makes(guarded, found, "team-a")


@pytest.mark.parametrize("naming", NAMING[:5])
def test_an_object_is_asked_about_when_it_is_put_into_another_queue(guarded: ControlPlane, naming: object) -> None:
    assert callable(naming)
    raw = naming("vision")
    path = collection_of(raw, "team-a")
    target = f"{path}/{raw['metadata']['name']}"
    ALICE.client(guarded).create(path, raw)
    try:
        BOB.patches(guarded, target, {"metadata": {"labels": {"seen": "yes"}}}, is_tried=False)
        to = (
            {"metadata": {"annotations": {QUEUE_NAME: "language"}}}
            if QUEUE_NAME in raw["metadata"].get("annotations", {})
            else {"spec": {"queue": "language"}}
        )
        with pytest.raises(ApiServerError, match='user "bob" may not use queue "language"'):
            BOB.patches(guarded, target, to, is_tried=False)
    finally:
        guarded.api.delete(target, grace_seconds=0)


ON_A_NODE = [
    pytest.param({}, {}, id="ours"),
    pytest.param({GROUP_NAME: "g"}, {"schedulerName": "default-scheduler"}, id="of another, annotated"),
    pytest.param({GROUP_NAME: "g"}, {}, id="annotated"),
    pytest.param({}, {"schedulingGroup": {"podGroupName": "n"}}, id="of Kubernetes"),
]


@pytest.mark.parametrize(("notes", "spec"), ON_A_NODE)
def test_a_pod_is_made_on_a_node_by_those_alone_who_bind_pods(
    guarded: ControlPlane, notes: dict[str, str], spec: Json
) -> None:
    found = a_pod("p", scheduler="volsched", annotations=notes)
    placed = found | {"spec": {**found["spec"], **spec, "nodeName": "n1"}}

    with pytest.raises(
        ApiServerError, match='user "bob" may not make a pod of volsched on a node in namespace "team-a"'
    ):
        BOB.makes(guarded, placed, "team-a")
    BOB.makes(guarded, found | {"spec": {**found["spec"], **spec}}, "team-a")
    ADMINISTRATOR.makes(guarded, placed, "team-a")


def test_a_pod_of_another_scheduler_is_made_on_a_node_by_anybody(guarded: ControlPlane) -> None:
    found = a_pod("p", scheduler="default-scheduler")

    BOB.makes(guarded, found | {"spec": {**found["spec"], "nodeName": "n1"}}, "team-a")


def test_a_node_makes_mirror_pods_of_its_own_alone(guarded: ControlPlane) -> None:
    found = a_pod("p", scheduler="volsched", annotations={"kubernetes.io/config.mirror": "x"})
    own, other = User("system:node:n1"), User("system:node:n2")
    edit = gives_everywhere("edit", own.name, other.name)
    create(guarded, edit)
    try:
        placed = found | {"spec": {**found["spec"], "nodeName": "n1"}}
        own.makes(guarded, placed, "team-a")
        with pytest.raises(ApiServerError, match="may not make a pod of volsched on a node"):
            other.makes(guarded, placed, "team-a")
        plain = placed | {"metadata": {"name": "p"}}
        with pytest.raises(ApiServerError, match="may not make a pod of volsched on a node"):
            own.makes(guarded, plain, "team-a")
    finally:
        remove(guarded, edit)


def test_a_namespace_that_names_a_queue_is_asked_about(guarded: ControlPlane) -> None:
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "labeller"},
        "rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["patch"]}],
    }
    given = gives_everywhere("labeller", ALICE.name, BOB.name)
    create(guarded, role, given)
    try:
        for user in (ALICE, BOB):
            wait_allowed(guarded, user.name, verb="patch", resource="namespaces", name="team-a", namespace="team-a")
        path, vision = "/api/v1/namespaces/team-a", {"metadata": {"annotations": {QUEUE_NAME: "vision"}}}
        ALICE.patches(guarded, path, vision)
        with pytest.raises(ApiServerError, match='user "bob" may not use queue "vision" in namespace "team-a"'):
            BOB.patches(guarded, path, vision)
    finally:
        remove(guarded, given, role)


def test_what_is_made_on_behalf_of_others_is_let_in(guarded: ControlPlane) -> None:
    CONTROLLERS.makes(guarded, a_group("vision"), "team-b")
    CONTROLLERS.makes(guarded, pod("vision"), "team-b")
    KUBERNETES.makes(guarded, pod("vision"), "kube-system")
    robot = User("system:serviceaccount:team-b:robot")
    assert_refused(guarded, pod("vision"), robot, queue="vision", namespace="team-b")


def test_workloads_of_those_who_may_have_their_pods(guarded: ControlPlane) -> None:
    """The controllers of Kubernetes make them, as themselves."""
    found = workload("Deployment", "vision")
    ALICE.client(guarded).create(collection_of(found, "team-a"), found)
    try:
        guarded.api.wait_for("/api/v1/namespaces/team-a/pods", lambda pods: len(pods["items"]) == 1)
    finally:
        remove(guarded, found, namespace="team-a")


def test_nobody_gives_the_verb_away_who_does_not_have_it(guarded: ControlPlane) -> None:
    """Bob administers his namespace, which lets him make RoleBindings there."""
    with pytest.raises(ApiServerError, match="attempting to grant RBAC permissions not currently held"):
        BOB.makes(guarded, gives("use-queue-vision", BOB.name, namespace="team-a"), "team-a")


def test_the_policy_is_understood_by_the_api_server(guarded: ControlPlane) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/volsched-queue-permissions"

    policy = guarded.api.wait_for(path, lambda found: "typeChecking" in found.get("status", {}))

    assert policy["status"]["typeChecking"] in ({}, None)


def test_in_a_namespace_of_ones_own_the_same_are_exempt(tmp_path: Path) -> None:
    mine = a_kustomization(tmp_path, [MANIFESTS / "overlays/standalone"], [COMPONENT], namespace="batch-system")

    text = kustomize(mine)

    assert SYSTEM not in text
    bindings = [found for found in yaml_documents(text) if found["kind"] == "ClusterRoleBinding"]
    [exempt] = [found for found in bindings if found["metadata"]["name"] == "volsched-use-any-queue"]
    assert [(s["kind"], s["name"]) for s in exempt["subjects"]] == [
        ("ServiceAccount", "volsched-scheduler"),
        ("ServiceAccount", "volsched-controllers"),
        ("Group", "system:serviceaccounts:kube-system"),
        ("User", "system:kube-controller-manager"),
    ]
