"""The component `priority-class` on a real API server: who gives its pods the class of volsched's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.scheduling import wait_allowed
from tests.manifests.applying import installed, wait_refused
from tests.manifests.rendering import MANIFESTS, SYSTEM, Json, a_kustomization
from tests.manifests.users import RBAC, User, collection_of, create, gives, remove, remove_namespaces
from tools.controlplane import ApiServerError, ControlPlane, a_pod

COMPONENT = MANIFESTS / "components/priority-class"
TEAM, CLASS, OTHER = "team-class", "volsched-critical", "team-class-urgent"
ALICE, BOB = User("alice"), User("bob")
RESTRICTED = {"securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}}
"""What volsched's own namespace wants of pods."""

KUBERNETES = "system:serviceaccounts:kube-system"
MANAGER = "system:kube-controller-manager"
MAKERS = (User("system:serviceaccount:kube-system:replicaset-controller", KUBERNETES), User(MANAGER))
"""Who makes the pods of Deployments and Jobs."""


@pytest.fixture(scope="module")
def guarded(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The component, a namespace in which Alice may edit, and another class."""
    parts = [MANIFESTS / name for name in ("rbac", "crds", "base/priority-class")]
    own = tmp_path_factory.mktemp("guarded")
    with installed(cluster, a_kustomization(own, parts, [COMPONENT])):
        cluster.create_namespace(TEAM)
        given = [gives("edit", ALICE.name, MANAGER, namespace=name, groups=[KUBERNETES]) for name in (TEAM, SYSTEM)]
        other = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": OTHER}, "value": 7}
        create(cluster, *given, other)
        try:
            wait_refused(lambda: make(cluster, a_pod_of(CLASS)), "may not use PriorityClass")
            wait_refused(lambda: make(cluster, podgroup(CLASS)), "may not use PriorityClass")
            yield cluster
        finally:
            remove(cluster, *given, other)
            remove_namespaces(cluster, TEAM)


def a_pod_of(name: str) -> Json:
    found = a_pod("p", scheduler="volsched", spec={"priorityClassName": name, **RESTRICTED} if name else RESTRICTED)
    found["spec"]["containers"][0]["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    return found


def podgroup(name: str) -> Json:
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
    return {**kind, "spec": {"minMember": 1, **({"priorityClassName": name} if name else {})}}


def job(of_job: str, of_task: str) -> Json:
    template = {
        "spec": {"containers": [{"name": "c", "image": "c"}], **({"priorityClassName": of_task} if of_task else {})}
    }
    kind = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}}
    spec = {"minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": template}]}
    return {**kind, "spec": {**spec, **({"priorityClassName": of_job} if of_job else {})}}


def make(cluster: ControlPlane, found: Json, namespace: str = TEAM, who: User = ALICE) -> None:
    who.makes(cluster, found, namespace)


def refused(cluster: ControlPlane, found: Json, namespace: str = TEAM, who: User = ALICE) -> str:
    with pytest.raises(ApiServerError) as error:
        make(cluster, found, namespace, who)
    return str(error.value)


@pytest.mark.parametrize(
    "found", [a_pod_of(CLASS), podgroup(CLASS), job(CLASS, ""), job("", CLASS), job(OTHER, CLASS)], ids=str
)
def test_a_tenant_does_not_get_the_class(guarded: ControlPlane, found: Json) -> None:
    said = refused(guarded, found)

    assert f'user "alice" may not use PriorityClass {CLASS} in namespace "{TEAM}"' in said
    assert "that takes the verb use on priorityclasses.scheduling.k8s.io" in said


@pytest.mark.parametrize("name", ["", OTHER])
def test_other_classes_are_anybodys(guarded: ControlPlane, name: str) -> None:
    for found in (a_pod_of(name), podgroup(name), job(name, ""), job("", name)):
        make(guarded, found)


def test_a_group_does_not_come_to_it_by_an_update(guarded: ControlPlane) -> None:
    group = podgroup("")
    create(guarded, group, namespace=TEAM)
    path = f"{collection_of(group, TEAM)}/g"

    with pytest.raises(ApiServerError, match="may not use PriorityClass"):
        ALICE.patches(guarded, path, {"spec": {"priorityClassName": CLASS}})
    ALICE.patches(guarded, path, {"spec": {"minMember": 2}})


@pytest.mark.parametrize("who", MAKERS, ids=str)
def test_controllers_of_kubernetes_make_volscheds_own_pods_and_no_others(guarded: ControlPlane, who: User) -> None:
    make(guarded, a_pod_of(CLASS), SYSTEM, who)

    assert "may not use PriorityClass" in refused(guarded, a_pod_of(CLASS), TEAM, who)
    assert "may not use PriorityClass" in refused(guarded, a_pod_of(CLASS), SYSTEM)


def test_an_administrator_may_let_somebody_have_it(guarded: ControlPlane) -> None:
    group = "scheduling.k8s.io"
    rule = {"apiGroups": [group], "resources": ["priorityclasses"], "resourceNames": [CLASS], "verbs": ["use"]}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "critical"}, "rules": [rule]}
    critical = gives("critical", BOB.name, namespace=TEAM, kind="Role")
    create(guarded, role, critical, gives("edit", BOB.name, namespace=TEAM), namespace=TEAM)
    wait_allowed(guarded, BOB.name, verb="use", group=group, resource="priorityclasses", name=CLASS, namespace=TEAM)
    wait_allowed(guarded, BOB.name, verb="create", resource="pods", namespace=TEAM)

    make(guarded, a_pod_of(CLASS), who=BOB)
