"""The component `priority-class` on a real API server: who gives its pods the class of volsched's own."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.manifests.applying import installed, wait_refused
from tests.manifests.rendering import MANIFESTS, SYSTEM, Json, a_kustomization
from volsched.testing.controlplane import ControlPlane, KubectlError, a_pod

COMPONENT = MANIFESTS / "components/priority-class"
TEAM, CLASS, OTHER = "team-class", "volsched-critical", "team-class-urgent"
ALICE = ("--as=alice",)
RESTRICTED = {"securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}}
"""What volsched's own namespace wants of pods."""

KUBERNETES = {"group": "system:serviceaccounts:kube-system", "user": "system:kube-controller-manager"}
MAKERS = (
    ("--as=system:serviceaccount:kube-system:replicaset-controller", "--as-group=system:serviceaccounts:kube-system"),
    ("--as=system:kube-controller-manager",),
)
"""Who makes the pods of Deployments and Jobs."""


@pytest.fixture(scope="module")
def guarded(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The component, a namespace in which Alice may edit, and another class."""
    parts = [MANIFESTS / name for name in ("rbac", "crds", "base/priority-class")]
    own = tmp_path_factory.mktemp("guarded")
    with installed(cluster, a_kustomization(own, parts, [COMPONENT])):
        for namespace in (TEAM, SYSTEM):
            if namespace == TEAM:
                cluster.create_namespace(namespace)
            cluster.kubectl("create", "rolebinding", "makers", "--clusterrole=edit", "--user=alice", "-n", namespace)
            for kind, name in (
                ("group", "system:serviceaccounts:kube-system"),
                ("user", "system:kube-controller-manager"),
            ):
                bind = ("create", "rolebinding", f"kubernetes-{kind}", "--clusterrole=edit", f"--{kind}={name}")
                cluster.kubectl(*bind, "-n", namespace)
        cluster.kubectl("create", "priorityclass", OTHER, "--value=7")
        try:
            wait_refused(lambda: make(cluster, a_pod_of(CLASS)), "may not use PriorityClass")
            wait_refused(lambda: make(cluster, podgroup(CLASS)), "may not use PriorityClass")
            yield cluster
        finally:
            cluster.kubectl("delete", "priorityclass", OTHER)
            cluster.kubectl("delete", "namespace", TEAM)
            for name in ("makers", "kubernetes-group", "kubernetes-user"):
                cluster.kubectl("delete", "rolebinding", "-n", SYSTEM, name, "--ignore-not-found")


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


def make(cluster: ControlPlane, found: Json, namespace: str = TEAM, who: tuple[str, ...] = ALICE) -> None:
    cluster.kubectl("create", "--dry-run=server", "-n", namespace, *who, "-f", "-", stdin=json.dumps(found))


def refused(cluster: ControlPlane, found: Json, namespace: str = TEAM, who: tuple[str, ...] = ALICE) -> str:
    with pytest.raises(KubectlError) as error:
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
    guarded.kubectl("create", "-n", TEAM, "-f", "-", stdin=json.dumps(podgroup("")))
    patch = json.dumps({"spec": {"priorityClassName": CLASS}})
    change = ("patch", "podgroup.scheduling.volcano.sh", "g", "-n", TEAM, "--type=merge", "--dry-run=server", "-p")

    with pytest.raises(KubectlError, match="may not use PriorityClass"):
        guarded.kubectl(*change, patch, *ALICE)
    guarded.kubectl(*change, json.dumps({"spec": {"minMember": 2}}), *ALICE)


@pytest.mark.parametrize("who", MAKERS, ids=str)
def test_controllers_of_kubernetes_make_volscheds_own_pods_and_no_others(
    guarded: ControlPlane, who: tuple[str, ...]
) -> None:
    make(guarded, a_pod_of(CLASS), SYSTEM, who)

    assert "may not use PriorityClass" in refused(guarded, a_pod_of(CLASS), TEAM, who)
    assert "may not use PriorityClass" in refused(guarded, a_pod_of(CLASS), SYSTEM)


def test_an_administrator_may_let_somebody_have_it(guarded: ControlPlane) -> None:
    group = "scheduling.k8s.io"
    rule = {"apiGroups": [group], "resources": ["priorityclasses"], "resourceNames": [CLASS], "verbs": ["use"]}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    role = {**kind, "metadata": {"name": "critical"}, "rules": [rule]}
    guarded.kubectl("create", "-n", TEAM, "-f", "-", stdin=json.dumps(role))
    guarded.kubectl("create", "rolebinding", "critical", "-n", TEAM, "--role=critical", "--user=bob")
    guarded.kubectl("create", "rolebinding", "bob", "-n", TEAM, "--clusterrole=edit", "--user=bob")

    make(guarded, a_pod_of(CLASS), who=("--as=bob",))
