"""Every overlay on an empty real API server: applied, applied again, running under `restricted`, deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.scheduling import eventually
from tests.manifests.applying import apply, installed
from tests.manifests.conftest import PLAIN_NODES
from tests.manifests.rendering import MANIFESTS, OVERLAYS, SYSTEM, Json, a_kustomization, identity, of_kind, rendered
from tools.controlplane import ControlPlane, KubectlError, a_pod


def versions(cluster: ControlPlane, folder: Path) -> dict[Any, Any]:
    """Which objects there are, and how often what they ask for has changed, where the API server counts that."""
    found = json.loads(cluster.kubectl("get", "-k", str(folder), "-o", "json"))["items"]
    metadata = {identity(item): item["metadata"] for item in found}
    return {name: (known["uid"], known.get("generation")) for name, known in metadata.items()}


def wait_until_available(cluster: ControlPlane) -> list[Json]:
    """Wait for all Deployments; return the pods."""
    names = cluster.kubectl("get", "deployments", "-n", SYSTEM, "-o", "name").split()
    assert names
    for name in names:
        cluster.kubectl("rollout", "status", name, "-n", SYSTEM, "--timeout=300s")
    return cluster.api.items(f"/api/v1/namespaces/{SYSTEM}/pods")


@pytest.mark.parametrize(
    ("name", "flags"), [*((name, ()) for name in OVERLAYS), ("standalone", ("--server-side",))], ids=str
)
def test_overlay_is_applied_twice_runs_and_is_deleted(cluster: ControlPlane, name: str, flags: tuple[str, ...]) -> None:
    folder = MANIFESTS / "overlays" / name

    with installed(cluster, folder, *flags) as first:
        before = versions(cluster, folder)
        again = apply(cluster, folder, *flags)
        pods = wait_until_available(cluster)

        assert first == dict.fromkeys(first, "serverside-applied" if flags else "created")
        said_anew = {name for name in again if name.startswith("poddisruptionbudget")}
        assert {name: done for name, done in again.items() if name not in said_anew} == dict.fromkeys(
            first.keys() - said_anew, "serverside-applied" if flags else "unchanged"
        )  # kubectl sends a budget's selector again whatever it is; that nothing comes of it is seen in the next line
        assert versions(cluster, folder) == before
    assert cluster.kubectl("get", "-k", str(folder), "--ignore-not-found") == ""
    placed: dict[str, list[str]] = {}
    for pod in pods:
        placed.setdefault(pod["spec"]["serviceAccountName"], []).append(pod["spec"]["nodeName"])
    assert set(placed) == {found["metadata"]["name"] for found in of_kind(rendered(folder), "Deployment").values()}
    for nodes in placed.values():
        assert sorted(nodes) == sorted(set(nodes) & set(PLAIN_NODES[:-1]))
        assert len(nodes) == (1 if name == "dev" else 2)
    assert {pod["spec"]["priority"] for pod in pods} == {1_000_000_000}


def test_namespace_refuses_what_is_not_restricted(cluster: ControlPlane) -> None:
    with (
        installed(cluster, MANIFESTS / "base/namespace"),
        pytest.raises(KubectlError, match='violates PodSecurity "restricted'),
    ):
        cluster.kubectl("create", "-n", SYSTEM, "-f", "-", stdin=json.dumps(a_pod("free")))


def test_one_of_two_replicas_may_be_disrupted(cluster: ControlPlane) -> None:
    with installed(cluster, MANIFESTS / "overlays/standalone"):
        for name in ("volsched-scheduler", "volsched-controllers"):
            cluster.api.wait_for(
                f"/apis/policy/v1/namespaces/{SYSTEM}/poddisruptionbudgets/{name}",
                lambda budget: budget.get("status", {}).get("disruptionsAllowed") == 1,
            )


def test_monitoring_is_an_option(cluster: ControlPlane, monitoring_kinds: None, tmp_path: Path) -> None:
    components = [MANIFESTS / "components" / name for name in ("service-monitor", "dashboards", "alerts")]
    folder = a_kustomization(tmp_path, [MANIFESTS / "overlays/standalone"], components)

    with installed(cluster, folder):
        maps = cluster.api.items(f"/api/v1/namespaces/{SYSTEM}/configmaps?labelSelector=grafana_dashboard=1")
        assert {name for found in maps for name in found["data"]} == {
            path.name for path in (MANIFESTS / "grafana").glob("*.json")
        }
        assert cluster.api.items("/apis/monitoring.coreos.com/v1/prometheusrules")
        monitors = cluster.api.items("/apis/monitoring.coreos.com/v1/servicemonitors")
        [spec] = [found["spec"] for found in monitors]
        labels = ",".join(f"{key}={value}" for key, value in spec["selector"]["matchLabels"].items())
        services = cluster.api.items(f"/api/v1/namespaces/{SYSTEM}/services?labelSelector={labels}")
        assert {found["metadata"]["name"] for found in services} == {"volsched-scheduler", "volsched-controllers"}
        for service in services:
            assert {end["port"] for end in spec["endpoints"]} == {port["name"] for port in service["spec"]["ports"]}
            cluster.api.wait_for(
                f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM}/endpointslices"
                f"?labelSelector=kubernetes.io/service-name={service['metadata']['name']}",
                lambda found: sum(len(slice_["endpoints"] or ()) for slice_ in found["items"]) == 2,
            )


def may(cluster: ControlPlane, account: str, verb: str, resource: str, **where: str) -> bool:
    """Whether a ServiceAccount of ours may do something."""
    user, groups = f"system:serviceaccount:{SYSTEM}:{account}", [f"system:serviceaccounts:{SYSTEM}"]
    body = {
        "spec": {"user": user, "groups": groups, "resourceAttributes": {"verb": verb, "resource": resource, **where}}
    }
    answer = cluster.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def test_making_queues_is_an_option(cluster: ControlPlane, tmp_path: Path) -> None:
    folder = a_kustomization(tmp_path, [MANIFESTS / "rbac"], [MANIFESTS / "components/queues"])
    verbs = ("create", "list", "watch", "patch", "update", "delete")

    def allowed() -> list[str]:
        group = "scheduling.volcano.sh"
        return [verb for verb in verbs if may(cluster, "volsched-scheduler", verb, "queues", group=group)]

    with installed(cluster, MANIFESTS / "rbac"):
        eventually(lambda: allowed() == ["list", "watch"])  # the API server hears of rights a moment later
    with installed(cluster, folder):
        eventually(lambda: allowed() == ["create", "list", "watch"])


def test_keys_for_volcano_jobs_are_an_option(cluster: ControlPlane, tmp_path: Path) -> None:
    folder = a_kustomization(tmp_path, [MANIFESTS / "rbac"], [MANIFESTS / "components/ssh"])

    def may_with_secrets(verb: str) -> bool:
        return may(cluster, "volsched-controllers", verb, "secrets", namespace="default")

    with installed(cluster, folder) as made:
        verbs = ("create", "get", "list", "patch", "update", "delete")
        eventually(lambda: [verb for verb in verbs if may_with_secrets(verb)] == ["create"])
        assert "validatingadmissionpolicy.admissionregistration.k8s.io/volsched-ssh" in made
        assert "validatingadmissionpolicybinding.admissionregistration.k8s.io/volsched-ssh" in made
    eventually(lambda: not may_with_secrets("create"))


def test_one_node_that_takes_pods_is_enough_for_both_replicas(cluster: ControlPlane) -> None:
    cluster.kubectl("taint", "node", PLAIN_NODES[1], "full=yes:NoSchedule")
    try:
        with installed(cluster, MANIFESTS / "overlays/beside-volcano"):
            pods = wait_until_available(cluster)
    finally:
        cluster.kubectl("taint", "node", PLAIN_NODES[1], "full-")
    assert [pod["spec"]["nodeName"] for pod in pods] == [PLAIN_NODES[0]] * 2
