"""The component `card-results` on a real API server: who may write the annotations that say a pod's cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.manifests.applying import installed, wait_refused
from tests.manifests.conftest import PLAIN_NODES
from tests.manifests.rendering import MANIFESTS, SYSTEM, Json, a_kustomization
from tests.manifests.users import User, create, gives, remove_namespaces
from tools.controlplane import ApiServerError, ControlPlane, a_pod

COMPONENT = MANIFESTS / "components/card-results"
INDEX = "vke.volcengine.com/gpu-index-container-main"
ASSUMED = "vke.volcengine.com/assumed"
GROUP = "scheduling.k8s.io/group-name"
TEAM = "team-a"
ALICE, EVE = User("alice"), User("eve")
SCHEDULER = User(f"system:serviceaccount:{SYSTEM}:volsched-scheduler")
AGENT = User("system:serviceaccount:kube-system:card-agent")
MAY_NOT = "may not write the annotations that say which cards a pod was given"


@pytest.fixture(scope="module")
def guarded(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The component, and a team of whom Alice may edit, and Eve write statuses; a node agent has the role."""
    folder = tmp_path_factory.mktemp("guarded")
    with installed(cluster, a_kustomization(folder, [MANIFESTS / "rbac"], [COMPONENT])):
        cluster.create_namespace(TEAM)
        edit = gives("edit", ALICE.name, AGENT.name, namespace=TEAM)
        write = gives("volsched-card-results-writer", AGENT.name, namespace=TEAM)
        create(cluster, edit, write, *MAY_WRITE_STATUSES, namespace=TEAM)
        try:
            wait_refused(lambda: ALICE.makes(cluster, pod({INDEX: "0"}), TEAM), MAY_NOT)
            yield cluster
        finally:
            remove_namespaces(cluster, TEAM)


def pod(annotations: Mapping[str, str], name: str = "p") -> Json:
    return a_pod(name, scheduler="volsched", annotations=dict(annotations))


def annotate(
    cluster: ControlPlane, who: User, subresource: str = "", name: str = "bound", **annotations: str | None
) -> None:
    keys = {
        "index": INDEX,
        "assumed": ASSUMED,
        "team": "example.com/team",
        "card": "volcano.sh/card.name",
        "group": GROUP,
    }
    body = {"metadata": {"annotations": {keys[name]: text for name, text in annotations.items()}}}
    who.patches(cluster, f"/api/v1/namespaces/{TEAM}/pods/{name}{subresource}", body)


@pytest.fixture(scope="module")
def bound(guarded: ControlPlane) -> ControlPlane:
    """A pod whose Binding carries its cards, as the scheduler writes it."""
    path = f"/api/v1/namespaces/{TEAM}/pods"
    guarded.api.create(path, pod({}, "bound"))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "bound", "annotations": {INDEX: "0", ASSUMED: "true"}},
        "target": {"kind": "Node", "name": PLAIN_NODES[0]},
    }
    SCHEDULER.client(guarded).create(f"{path}/bound/binding", binding)
    assert guarded.api.get(f"{path}/bound")["metadata"]["annotations"][INDEX] == "0"
    return guarded


def test_the_binding_of_the_scheduler_carries_them(bound: ControlPlane) -> None:
    found = bound.api.get(f"/api/v1/namespaces/{TEAM}/pods/bound")
    assert found["spec"]["nodeName"] == PLAIN_NODES[0]


@pytest.mark.parametrize("annotations", [{INDEX: "0"}, {ASSUMED: "true"}, {f"{INDEX}-2": "1", "example.com/a": "b"}])
def test_a_tenant_makes_no_pod_with_them(guarded: ControlPlane, annotations: Mapping[str, str]) -> None:
    with pytest.raises(ApiServerError, match=MAY_NOT):
        ALICE.makes(guarded, pod(annotations), TEAM)


def test_pods_without_them_are_made_and_changed_by_whoever_may(bound: ControlPlane) -> None:
    ALICE.makes(bound, pod({}), TEAM)
    ALICE.makes(bound, pod({"example.com/a": "b", "vke.volcengine.com/gpu-index": "x"}), TEAM)
    annotate(bound, ALICE, team="b")


@pytest.mark.parametrize("change", [{"index": "1"}, {"index": "x"}, {"index": None}, {"assumed": "false"}])
@pytest.mark.parametrize(("who", "subresource"), [(ALICE, ""), (EVE, "/status")])
def test_a_tenant_changes_none_of_a_bound_pod(
    bound: ControlPlane, change: Mapping[str, str | None], who: User, subresource: str
) -> None:
    with pytest.raises(ApiServerError, match=MAY_NOT):
        annotate(bound, who, subresource, **change)


MAY_WRITE_STATUSES = (
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "statuses"},
        "rules": [{"apiGroups": [""], "resources": ["pods/status", "pods"], "verbs": ["get", "patch"]}],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "statuses"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "statuses"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}],
    },
)


def test_what_a_pod_was_placed_by_changes_as_long_as_it_waits(bound: ControlPlane) -> None:
    bound.api.create(f"/api/v1/namespaces/{TEAM}/pods", pod({}, "waits"))
    annotate(bound, ALICE, name="waits", card="NVIDIA-T4")

    with pytest.raises(ApiServerError, match="of a pod that has a node"):
        annotate(bound, ALICE, card="NVIDIA-T4")


@pytest.mark.parametrize("change", ["other", None])
def test_a_pod_stays_in_its_podgroup_once_it_has_a_node(bound: ControlPlane, change: str | None) -> None:
    path = f"/api/v1/namespaces/{TEAM}/pods"
    name = f"member-{change}".lower()
    bound.api.create(path, pod({GROUP: "g"}, name))
    annotate(bound, ALICE, name=name, group=change)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": PLAIN_NODES[0]},
    }
    bound.api.create(f"{path}/{name}/binding", binding)

    with pytest.raises(ApiServerError, match="group-name of a pod that has a node"):
        annotate(bound, ALICE, name=name, group=change)


def test_a_pod_with_a_node_that_is_in_no_podgroup_may_come_into_one(bound: ControlPlane) -> None:
    annotate(bound, ALICE, group="g")


@pytest.mark.parametrize("change", [{"index": "1"}, {"assumed": "false"}])
def test_a_node_agent_that_has_the_role_writes_them(bound: ControlPlane, change: Mapping[str, str]) -> None:
    annotate(bound, AGENT, **change)
    AGENT.makes(bound, pod({INDEX: "0"}), TEAM)
