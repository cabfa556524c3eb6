"""The control plane that the cluster tests stand on is a real one, and its parts do what tests take for granted."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cluster.control_plane import ALWAYS_THERE, MakeNodes, clear
from tools.controlplane import (
    FAIL_AFTER,
    RUN_FOR,
    START_AFTER,
    STOP_AFTER,
    ApiClient,
    ApiServerError,
    ControlPlane,
    KubectlError,
    Manifests,
    StartError,
    a_binding,
    a_node,
    a_pod,
)
from tools.controlplane.beginnings import beginning_of
from tools.patience import PATIENCE, looks

CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
PLAIN_CONTAINER = {"name": "main", "image": "registry.invalid/none:1"}


def pods_path(namespace: str, name: str = "", subresource: str = "") -> str:
    parts = [
        "/api/v1/namespaces",
        namespace,
        "pods",
        *([name] if name else []),
        *([subresource] if subresource else []),
    ]
    return "/".join(parts)


def create_running(cluster: ControlPlane, namespace: str, node: str, name: str, **annotations: str) -> None:
    """Create a pod that has its node from the start, as a static pod would."""
    cluster.api.create(
        pods_path(namespace), a_pod(name, annotations=annotations or None, spec={"nodeName": node}, cpu="100m")
    )


def phase(pod: dict[str, Any]) -> str:
    return str(pod["status"]["phase"])


def test_what_tests_make_in_a_namespace_is_gone_after_them(control_plane: ControlPlane, namespace: str) -> None:
    api, leases = control_plane.api, f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    api.create(pods_path(namespace), a_pod("waits"))
    api.create(leases, {"metadata": {"name": "held"}})
    assert control_plane.kinds_stored_in(namespace) - ALWAYS_THERE == {"pods", "leases"}
    clear(control_plane, namespace)
    assert control_plane.kinds_stored_in(namespace) <= ALWAYS_THERE
    assert api.get(f"/api/v1/namespaces/{namespace}")["status"]["phase"] == "Active"

    api.create(pods_path(namespace), a_pod("waits"))
    api.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "rare"}})
    clear(control_plane, namespace)
    assert api.items(pods_path(namespace)) == []
    for _ in looks(PATIENCE):
        if not control_plane.kinds_stored_in(namespace):
            return
    raise AssertionError(f"there are still {control_plane.kinds_stored_in(namespace)}")


def test_pods_of_a_deployment_run_once_each_is_bound_by_hand(
    control_plane: ControlPlane, namespace: str, make_nodes: MakeNodes
) -> None:
    nodes = make_nodes(2)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"schedulerName": "nobody", "containers": [PLAIN_CONTAINER]},
            },
        },
    }
    control_plane.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(deployment))
    pods = control_plane.api.wait_for(pods_path(namespace), lambda found: len(found["items"]) == 2)["items"]

    for pod, node in zip(pods, nodes, strict=True):
        control_plane.api.create(pods_path(namespace, pod["metadata"]["name"], "binding"), a_binding(pod, node))

    control_plane.kubectl("rollout", "status", "-n", namespace, "deployment/web", "--timeout=300s")
    running = control_plane.api.items(pods_path(namespace))
    assert sorted(pod["spec"]["nodeName"] for pod in running) == sorted(nodes)
    assert {phase(pod) for pod in running} == {"Running"}


def test_pods_of_a_job_finish_and_so_does_the_job(
    control_plane: ControlPlane, namespace: str, make_nodes: MakeNodes
) -> None:
    [node] = make_nodes(1)
    spec = {"nodeName": node, "restartPolicy": "Never", "containers": [PLAIN_CONTAINER]}
    job = {"metadata": {"name": "etl"}, "spec": {"completions": 3, "parallelism": 3, "template": {"spec": spec}}}
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"

    control_plane.api.create(path, {"apiVersion": "batch/v1", "kind": "Job", **job})

    done = control_plane.api.wait_for(f"{path}/etl", lambda found: "completionTime" in found["status"])
    assert done["status"]["succeeded"] == 3


def test_annotations_decide_how_a_pod_lives(control_plane: ControlPlane, namespace: str, make_nodes: MakeNodes) -> None:
    [node] = make_nodes(1)
    api = control_plane.api
    create_running(control_plane, namespace, node, "plain")
    create_running(control_plane, namespace, node, "never", **{START_AFTER: "1000h"})
    create_running(control_plane, namespace, node, "short", **{RUN_FOR: "300ms"})
    create_running(control_plane, namespace, node, "broken", **{FAIL_AFTER: "300ms"})
    create_running(control_plane, namespace, node, "clinging", **{STOP_AFTER: "1000h"})

    api.wait_for(pods_path(namespace, "short"), lambda pod: phase(pod) == "Succeeded")
    api.wait_for(pods_path(namespace, "broken"), lambda pod: phase(pod) == "Failed")
    api.wait_for(pods_path(namespace, "clinging"), lambda pod: phase(pod) == "Running")
    api.wait_for(pods_path(namespace, "plain"), lambda pod: phase(pod) == "Running")
    assert phase(api.get(pods_path(namespace, "never"))) == "Pending"

    api.delete(pods_path(namespace, "plain"))
    api.delete(pods_path(namespace, "clinging"))
    api.wait_for(
        pods_path(namespace), lambda found: "plain" not in str([pod["metadata"]["name"] for pod in found["items"]])
    )
    assert "deletionTimestamp" in api.get(pods_path(namespace, "clinging"))["metadata"]
    api.delete(pods_path(namespace, "clinging"), grace_seconds=0)


def test_a_service_account_may_do_what_its_role_says_and_nothing_else(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "reader"}})
    kubeconfig = control_plane.kubeconfig_for("reader", namespace)
    as_reader = ("--kubeconfig", str(kubeconfig))

    with pytest.raises(KubectlError, match="cannot list resource"):
        control_plane.kubectl(*as_reader, "get", "pods")

    control_plane.kubectl("create", "role", "reads", "-n", namespace, "--verb=list,get", "--resource=pods")
    account = f"{namespace}:reader"
    control_plane.kubectl("create", "rolebinding", "r", "-n", namespace, "--role=reads", f"--serviceaccount={account}")
    assert has_come(lambda: not is_denied(control_plane, *as_reader, "get", "pods"))
    with pytest.raises(KubectlError, match="cannot create resource"):
        control_plane.kubectl(*as_reader, "run", "p", "--image=none")


def has_come(condition: Callable[[], bool]) -> bool:
    """Wait for something that comes soon; tell whether it has."""
    deadline = time.monotonic() + PATIENCE
    while not (come := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return come


def is_denied(cluster: ControlPlane, *arguments: str) -> bool:
    try:
        cluster.kubectl(*arguments)
    except KubectlError:
        return True
    return False


def test_a_hundred_nodes_are_there_in_seconds_with_their_extended_resources_and_without_taints(
    control_plane: ControlPlane, make_nodes: MakeNodes
) -> None:
    names = make_nodes(100, prefix="gpu", cpu="64", **{"nvidia.com/gpu": 8})

    found = {node["metadata"]["name"]: node for node in control_plane.api.items("/api/v1/nodes")}
    assert set(names) <= set(found)
    assert found[names[0]]["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert "taints" not in found[names[0]]["spec"]


def test_taints_that_were_asked_for_stay(control_plane: ControlPlane, make_nodes: MakeNodes) -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}

    [name] = make_nodes(1, taints=[taint])

    assert control_plane.api.get(f"/api/v1/nodes/{name}")["spec"]["taints"] == [taint]


def test_kube_scheduler_can_be_started_beside_it(
    control_plane: ControlPlane, namespace: str, make_nodes: MakeNodes
) -> None:
    [node] = make_nodes(1)
    control_plane.start_kube_scheduler()
    try:
        control_plane.api.create(pods_path(namespace), a_pod("plain", cpu="1"))
        pod = control_plane.api.wait_for(pods_path(namespace, "plain"), lambda found: phase(found) == "Running")
    finally:
        control_plane.stop_kube_scheduler()
    assert pod["spec"]["nodeName"] == node


def test_objects_survive_a_crash_of_the_api_server(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.api.create(pods_path(namespace), a_pod("kept"))

    with control_plane.api_server_down(), pytest.raises(OSError, match="refused"):
        control_plane.api.get(pods_path(namespace, "kept"))

    assert control_plane.api.get(pods_path(namespace, "kept"))["metadata"]["name"] == "kept"


def test_a_store_that_was_compacted_has_expired_versions_once_the_api_server_has_begun_anew(
    control_plane: ControlPlane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    early = control_plane.api.create(path, {"metadata": {"name": "early"}})["metadata"]["resourceVersion"]
    for number in range(10):
        control_plane.api.create(path, {"metadata": {"name": f"later-{number}"}})

    with control_plane.api_server_down():
        assert control_plane.compact_store() > int(early)

    [told] = control_plane.api.watch(path, resource_version=early, timeout_seconds=2)
    assert (told["type"], told["object"]["code"]) == ("ERROR", 410)
    assert len(control_plane.api.items(path)) >= 11


def test_a_watch_sees_what_happens(control_plane: ControlPlane, namespace: str) -> None:
    version = control_plane.api.get(pods_path(namespace))["metadata"]["resourceVersion"]
    control_plane.api.create(pods_path(namespace), a_pod("seen"))

    event = next(control_plane.api.watch(pods_path(namespace), resource_version=version))

    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "seen")


def test_users_can_be_taken_out_of_the_queues_of_priority_and_fairness(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "bench"}})
    control_plane.exempt_from_fairness(f"system:serviceaccount:{namespace}:bench")
    exempt = control_plane.api.get("/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/exempt")
    token = control_plane.token_for("bench", namespace)

    assert has_come(lambda: priority_level(control_plane, token) == exempt["metadata"]["uid"])


def priority_level(cluster: ControlPlane, token: str) -> str | None:
    address = urlsplit(cluster.url)
    connection = http.client.HTTPSConnection(
        address.hostname or "", address.port, context=cluster.credentials.client_context()
    )
    connection.request("GET", "/version", headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    connection.close()
    return answer.getheader("X-Kubernetes-Pf-Prioritylevel-Uid")


def test_strangers_are_turned_away(control_plane: ControlPlane) -> None:
    stranger = ApiClient(control_plane.url, control_plane.credentials.client_context(), "no-such-token")

    with pytest.raises(ApiServerError) as refusal:
        stranger.get("/api/v1/nodes")

    assert refusal.value.status == 401


def test_a_program_that_does_not_start_shows_its_log(control_plane: ControlPlane, tmp_path: Path) -> None:
    broken = ControlPlane(folder=tmp_path, binaries=control_plane.binaries, api_flags=["--no-such-flag"])

    with pytest.raises(StartError, match=r"kube-apiserver ended with status 1(?s:.*)unknown flag: --no-such-flag"):
        broken.start()


STARTER = """
import sys, time
from tools.controlplane import ControlPlane
cluster = ControlPlane().start()
print(*[cluster.process(name).pid for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kwok")])
print(next(a.partition("=")[2] for a in cluster.process("etcd").command if a.startswith("--data-dir=")))
print(cluster.folder, flush=True)
time.sleep(1000)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes through /proc")
def test_nothing_outlives_a_test_run_that_is_killed(control_plane: ControlPlane) -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True)
    assert starter.stdout
    pids = starter.stdout.readline().split()
    folders = [Path(starter.stdout.readline().strip()) for _ in range(2)]
    assert all(folder.is_dir() for folder in folders)
    assert all(is_alive(int(pid)) for pid in pids)

    starter.send_signal(signal.SIGKILL)
    starter.wait()

    assert has_come(lambda: not any(is_alive(int(pid)) for pid in pids))
    assert has_come(lambda: not any(folder.exists() for folder in folders))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_commands_leave_a_control_plane_running_and_stop_it(control_plane: ControlPlane, tmp_path: Path) -> None:
    def run(*words: str) -> str:
        command = [sys.executable, "-m", "tools.controlplane", *words, "--folder", str(tmp_path)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout

    kubeconfig = run("up", "--nodes", "2").strip()
    try:
        assert run("up").strip() == kubeconfig
        script = f"{run('env')}\nkubectl get nodes -o name"
        listed = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True, env=dict(os.environ))
        assert listed.stdout.split() == ["node/node-1", "node/node-2"]
        pid = json.loads((tmp_path / "state.json").read_text())["pid"]
    finally:
        run("down")
    assert has_come(lambda: not is_alive(pid))
    assert not (tmp_path / "state.json").exists()


def test_a_control_plane_can_be_used_asynchronously_and_leaves_no_folder(control_plane: ControlPlane) -> None:
    async def use() -> Path:
        async with ControlPlane(binaries=control_plane.binaries, kwok=False, controller_manager=False) as cluster:
            cluster.api.create("/api/v1/nodes", a_node("n1"))
            return cluster.folder

    assert not asyncio.run(use()).exists()


def test_a_control_plane_begins_with_what_the_first_one_of_its_kind_had_written(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VOLSCHED_CACHE", str(tmp_path / "cache"))
    binaries = control_plane.binaries

    def roles_of_one_that_makes(node: str) -> dict[str, str]:
        with ControlPlane(binaries=binaries, kwok=False, controller_manager=False) as cluster:
            assert cluster.api.items("/api/v1/nodes") == []
            cluster.create_nodes([a_node(node)])
            found = cluster.api.items(CLUSTER_ROLES)
            return {role["metadata"]["name"]: role["metadata"]["uid"] for role in found}

    first, second = roles_of_one_that_makes("n1"), roles_of_one_that_makes("n2")

    assert first == second
    assert first.keys() <= {role["metadata"]["name"] for role in control_plane.api.items(CLUSTER_ROLES)}
    assert beginning_of(binaries, []) != beginning_of(binaries, ["--feature-gates=GenericWorkload=true"])
    assert beginning_of(binaries, [f"--audit-policy-file={tmp_path}/policy.yaml"]) is None


def test_manifests_are_applied_once_and_kept_with_the_beginning(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VOLSCHED_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "manifests"
    (folder / "roles").mkdir(parents=True)
    (folder / "roles/kustomization.yaml").write_text("resources: [role.yaml]")
    (folder / "roles/role.yaml").write_text(json.dumps(a_role("in-a-folder")))
    (folder / "alone.yaml").write_text(json.dumps(a_role("in-a-file")))
    manifests = Manifests(folder, ("roles", "alone.yaml"))
    binaries = control_plane.binaries

    def roles() -> dict[str, str]:
        with ControlPlane(binaries=binaries, kwok=False, controller_manager=False, manifests=manifests) as cluster:
            found = cluster.api.items(CLUSTER_ROLES)
            return {role["metadata"]["name"]: role["metadata"]["uid"] for role in found}

    first, kept = roles(), beginning_of(binaries, [], manifests)
    assert {"in-a-folder", "in-a-file"} <= first.keys()
    assert roles() == first
    assert kept != beginning_of(binaries, [])
    assert kept is not None
    os.utime(kept, (0, 0))  # it was not used for long

    (folder / "roles/role.yaml").write_text(json.dumps(a_role("another")))
    assert {"another", "in-a-file"} <= (roles().keys() - {"in-a-folder"})
    assert not kept.exists()


def a_role(name: str) -> dict[str, Any]:
    version = "rbac.authorization.k8s.io/v1"
    return {"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": []}


def test_a_client_asks_as_another_user(control_plane: ControlPlane, namespace: str) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

    def whoami(api: ApiClient) -> dict[str, Any]:
        return dict(api.create(path, {})["status"]["userInfo"])

    alice = control_plane.api.as_user("alice", "team")

    assert whoami(alice)["username"] == "alice"
    assert "team" in whoami(alice)["groups"]
    assert whoami(control_plane.api)["username"] != "alice"
    with pytest.raises(ApiServerError, match='User "alice" cannot list resource "pods"') as refusal:
        alice.items(pods_path(namespace))
    assert refusal.value.status == 403
