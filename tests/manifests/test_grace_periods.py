"""The component `grace-periods` on a real API server: how long a pod may hold its node when no queue counts it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.manifests.applying import installed, wait_refused
from tests.manifests.conftest import PLAIN_NODES
from tests.manifests.rendering import MANIFESTS, Json, a_kustomization
from tests.manifests.users import User, create, gives, remove_namespaces
from tools.controlplane import ApiServerError, ControlPlane, a_pod

COMPONENT = MANIFESTS / "components/grace-periods"
TEAM, PATIENT_TEAM, CONFUSED_TEAM = "team-a", "team-patient", "team-confused"
ALLOWED = {PATIENT_TEAM: "7200", CONFUSED_TEAM: "for ever"}
ALICE = User("alice")
POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/volsched-grace-periods"


@pytest.fixture(scope="module")
def guarded(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The component, and namespaces in which Alice may edit; each has a pod that runs."""
    folder = tmp_path_factory.mktemp("guarded")
    with installed(cluster, a_kustomization(folder, [MANIFESTS / "rbac"], [COMPONENT])):
        for team in (TEAM, PATIENT_TEAM, CONFUSED_TEAM):
            cluster.create_namespace(team)
            create(cluster, gives("edit", ALICE.name, namespace=team))
            for name, scheduler in {"running": "volsched", "foreign": "default-scheduler"}.items():
                found = pod(name, scheduler=scheduler)
                found["spec"]["nodeName"] = PLAIN_NODES[0]  # a pod without a node goes at once, whatever is asked for
                cluster.api.create(pods(team), found)
        for team, seconds in ALLOWED.items():
            cluster.api.patch(f"/api/v1/namespaces/{team}", allowing(seconds))
        try:
            wait_refused(lambda: make(cluster, 10**6), "may take 600 s")
            wait_refused(lambda: make(cluster, 10**6, PATIENT_TEAM), "may take 7200 s")
            yield cluster
        finally:
            for team in (TEAM, PATIENT_TEAM, CONFUSED_TEAM):
                cluster.api.delete(pods(team), grace_seconds=0)
            remove_namespaces(cluster, TEAM, PATIENT_TEAM, CONFUSED_TEAM)


def pod(name: str, grace: int | None = None, scheduler: str = "volsched") -> Json:
    spec = {"terminationGracePeriodSeconds": grace} if grace is not None else {}
    return a_pod(name, scheduler=scheduler, spec=spec)


def pods(team: str) -> str:
    return f"/api/v1/namespaces/{team}/pods"


def allowing(seconds: str) -> Json:
    return {"metadata": {"annotations": {"volsched.io/longest-grace-seconds": seconds}}}


def make(cluster: ControlPlane, grace: int | None, team: str = TEAM, scheduler: str = "volsched") -> None:
    ALICE.makes(cluster, pod("p", grace, scheduler), team)


def delete(cluster: ControlPlane, grace: int | None, team: str = TEAM, name: str = "running") -> None:
    ALICE.deletes(cluster, f"{pods(team)}/{name}", grace)


def evict(cluster: ControlPlane, grace: int | None, team: str = TEAM) -> None:
    options = {"dryRun": ["All"], **({} if grace is None else {"gracePeriodSeconds": grace})}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "running"}, "deleteOptions": options}
    ALICE.client(cluster).create(f"{pods(team)}/running/eviction", body)


@pytest.mark.parametrize("ask", [make, delete, evict])
@pytest.mark.parametrize("grace", [None, 0, 30, 600])
def test_a_grace_period_of_ten_minutes_is_let_in(guarded: ControlPlane, ask: Any, grace: int | None) -> None:
    ask(guarded, grace)


@pytest.mark.parametrize("ask", [make, delete, evict])
@pytest.mark.parametrize("grace", [601, 10**9])
def test_a_longer_one_is_refused_with_the_way_out(guarded: ControlPlane, ask: Any, grace: int) -> None:
    with pytest.raises(ApiServerError) as refused:
        ask(guarded, grace)
    assert f'a pod in namespace "{TEAM}" may take 600 s to go, and this asks for {grace} s' in str(refused.value)
    assert "the annotation volsched.io/longest-grace-seconds of the namespace allows more" in str(refused.value)


@pytest.mark.parametrize("ask", [make, delete, evict])
def test_a_namespace_may_allow_more(guarded: ControlPlane, ask: Any) -> None:
    ask(guarded, 7200, PATIENT_TEAM)
    with pytest.raises(ApiServerError, match="may take 7200 s to go"):
        ask(guarded, 7201, PATIENT_TEAM)


def test_an_annotation_that_is_no_number_allows_no_more(guarded: ControlPlane) -> None:
    make(guarded, 600, CONFUSED_TEAM)
    with pytest.raises(ApiServerError, match="may take 600 s to go"):
        make(guarded, 601, CONFUSED_TEAM)


def test_a_tenant_does_not_write_the_annotation(guarded: ControlPlane) -> None:
    with pytest.raises(ApiServerError, match="cannot patch resource"):
        ALICE.patches(guarded, f"/api/v1/namespaces/{TEAM}", allowing("1"))


def test_all_pods_of_a_namespace_at_once_are_no_way_around(guarded: ControlPlane) -> None:
    ALICE.deletes(guarded, pods(TEAM))
    with pytest.raises(ApiServerError, match="may take 600 s to go"):
        ALICE.deletes(guarded, pods(TEAM), 100_000)


def test_pods_of_other_schedulers_are_left_alone(guarded: ControlPlane) -> None:
    make(guarded, 10**6, scheduler="default-scheduler")
    delete(guarded, 10**6, name="foreign")


def test_the_policy_itself_has_no_warning(guarded: ControlPlane) -> None:
    """The API server checks expressions against the types of what they are about."""
    status = guarded.api.wait_for(POLICY, lambda found: found.get("status", {}).get("typeChecking") is not None)
    assert not status["status"]["typeChecking"].get("expressionWarnings")
