"""Plugins of Volcano Jobs on a real control plane: what the API server makes of pods, keys and rights."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.controlling import ACCOUNT, AT_WORK, Controlled
from tests.cluster.scheduling import MANIFESTS, SYSTEM, Json, eventually
from tools.controlplane import ControlPlane, KubectlError

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]


def env_of(pod: Json) -> dict[str, str]:
    variables = pod["spec"]["containers"][0]["env"]
    return {variable["name"]: variable["value"] for variable in variables if "value" in variable}


def without_keys(controlled: Controlled, namespace: str, name: str, **changes: object) -> Json:
    """A Secret of the plugin's form for a Job."""
    job = controlled.api.get(f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs/{name}")
    owner = {"apiVersion": job["apiVersion"], "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
    meta = {"name": f"{name}-ssh", "namespace": namespace, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": meta, **changes}


@pytest.fixture
def may_make_keys(manifests_applied: ControlPlane) -> Iterator[None]:
    """The component `ssh`: the right, and the policy that limits it."""
    what = (("-k", MANIFESTS / "rbac/ssh"), ("-f", MANIFESTS / "components/ssh/policy.yaml"))
    for how, path in what:
        manifests_applied.kubectl("apply", how, str(path))
    yield
    for how, path in what:
        manifests_applied.kubectl("delete", how, str(path))


def test_pods_of_frameworks_run_with_what_they_begin_with(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="8")
    controlled.both()
    roles = [controlled.task("master", 1), controlled.task("worker", 2)]
    controlled.job(namespace, "torch", roles, plugins={"pytorch": ["--wait-master-enabled"]})
    controlled.job(
        namespace, "flow", [controlled.task("ps", 1), controlled.task("worker", 1)], plugins={"tensorflow": []}
    )

    controlled.wait_job(namespace, "torch", "Running")
    controlled.wait_job(namespace, "flow", "Running")

    pods = controlled.pods(namespace)
    assert env_of(pods["torch-worker-1"]) == {
        "MASTER_ADDR": "torch-master-0.torch",
        "MASTER_PORT": "23456",
        "WORLD_SIZE": "3",
        "RANK": "2",
    }
    assert [container["name"] for container in pods["torch-worker-1"]["spec"]["initContainers"]] == ["wait-for-master"]
    config = json.loads(env_of(pods["flow-worker-0"])["TF_CONFIG"])
    assert config["cluster"] == {"ps": ["flow-ps-0.flow:2222"], "worker": ["flow-worker-0.flow:2222"]}
    assert controlled.api.find(f"/api/v1/namespaces/{namespace}/services/torch") is not None


def test_mpi_waits_for_the_right_to_make_keys_and_says_so(controlled: Controlled, namespace: str) -> None:
    controlled.control().wait_for(AT_WORK)
    tasks = [controlled.task("master", 1), controlled.task("worker", 1)]

    controlled.job(namespace, "train", tasks, plugins={"mpi": []})

    message = controlled.wait_event(namespace, "train", "FailedCreate")["message"]
    assert "secrets is forbidden" in message
    assert "component ssh" in message
    assert controlled.groups(namespace) == {}


def test_mpi_has_keys_of_its_own_and_hosts_that_follow(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes, may_make_keys: None
) -> None:
    make_nodes(1, cpu="8")
    first = controlled.both()
    controlled.job(
        namespace, "train", [controlled.task("master", 1), controlled.task("worker", 1)], plugins={"mpi": []}
    )
    controlled.wait_job(namespace, "train", "Running")
    path = f"/api/v1/namespaces/{namespace}/secrets/train-ssh"
    secret = controlled.api.get(path)

    pods = controlled.pods(namespace)
    assert env_of(pods["train-master-0"])["MPI_HOST"] == "train-worker-0.train"
    assert base64.b64decode(secret["data"]["id_rsa"]).startswith(b"-----BEGIN RSA PRIVATE KEY-----")
    assert secret["data"]["authorized_keys"] == secret["data"]["id_rsa.pub"]
    log = first.log.read_text()
    assert secret["data"]["id_rsa"][:40] not in log
    assert "PRIVATE KEY" not in log

    first.close()
    controlled.control().wait_for(AT_WORK)
    patch = [{"op": "replace", "path": "/spec/tasks/1/replicas", "value": 2}]
    job = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs/train"
    controlled.api.patch(job, patch, "application/json-patch+json")

    eventually(lambda: "train-worker-1" in controlled.pods(namespace))
    hosts = controlled.api.get(f"/api/v1/namespaces/{namespace}/configmaps/train-ssh")["data"]["config"]
    assert "HostName train-worker-1.train\n" in hosts
    assert controlled.api.get(path)["data"] == secret["data"]


JOBS_OF = "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs"
KEPT = {"metadata": {"finalizers": ["example.com/kept"]}}
LEFT_BEHIND = {
    "svc": ["/api/v1/namespaces/{}/services/train", "/api/v1/namespaces/{}/configmaps/train-svc"],
    "mpi": ["/api/v1/namespaces/{}/secrets/train-ssh"],
}


@pytest.mark.parametrize("plugin", LEFT_BEHIND)
def test_what_an_earlier_job_of_that_name_left_behind_is_waited_for_and_made_anew(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes, may_make_keys: None, plugin: str
) -> None:
    make_nodes(1, cpu="8")
    controlled.both()
    tasks = [controlled.task("master", 1), controlled.task("worker", 1)]
    controlled.job(namespace, "train", tasks, plugins={plugin: []})
    controlled.wait_job(namespace, "train", "Running")
    paths = [path.format(namespace) for path in LEFT_BEHIND[plugin]]
    before = {path: controlled.api.patch(path, KEPT)["metadata"]["uid"] for path in paths}
    controlled.api.delete(f"{JOBS_OF.format(namespace)}/train")
    eventually(lambda: not controlled.pods(namespace), 60)

    made = controlled.job(namespace, "train", tasks, plugins={plugin: []})["metadata"]["uid"]
    message = controlled.wait_event(namespace, "train", "FailedCreate")["message"]
    assert "it is waited for" in message
    assert controlled.pods(namespace) == {}
    assert {path: controlled.api.get(path)["metadata"]["uid"] for path in paths} == before

    for path in paths:
        controlled.api.patch(path, {"metadata": {"finalizers": None}})
    controlled.wait_job(namespace, "train", "Running")
    for path in paths:
        there = controlled.api.get(path)["metadata"]
        assert there["uid"] != before[path]
        assert [owner["uid"] for owner in there["ownerReferences"]] == [made]


def test_what_belongs_to_somebody_else_is_left_alone(controlled: Controlled, namespace: str) -> None:
    controlled.control().wait_for(AT_WORK)
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = controlled.api.create(maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    meta = {"name": "train-svc", "ownerReferences": [{**reference, "controller": True}]}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"mine": "yes"}}
    before = controlled.api.create(maps, body)

    controlled.job(namespace, "train", [controlled.task("worker", 1)], plugins={"svc": []})

    message = controlled.wait_event(namespace, "train", "FailedCreate")["message"]
    assert f'ConfigMap "train-svc" belongs to ConfigMap "owner" of uid {reference["uid"]}' in message
    assert controlled.api.get(f"{maps}/train-svc") == before


def test_the_right_is_worth_no_other_secret(controlled: Controlled, namespace: str, may_make_keys: None) -> None:
    controlled.job(namespace, "train", [controlled.task("worker", 1)])
    token = controlled.control_plane.kubeconfig_for(ACCOUNT, SYSTEM)

    def make(body: Json) -> str:
        where = ("--kubeconfig", str(token), "-n", namespace)
        return controlled.control_plane.kubectl("create", *where, "--dry-run=server", "-f", "-", stdin=json.dumps(body))

    def refused(body: Json) -> bool:
        try:
            make(body)
        except KubectlError as error:
            return "named after it, and no others" in str(error)
        return False

    right = without_keys(controlled, namespace, "train")
    stranger = {**right, "metadata": {**right["metadata"], "ownerReferences": []}}
    eventually(lambda: refused(stranger), what="the policy is in force")
    assert "train-ssh" in make(right)
    assert refused({**right, "type": "bootstrap.kubernetes.io/token"})
    assert refused({**right, "metadata": {**right["metadata"], "name": "other-ssh"}})
    with pytest.raises(KubectlError, match=r"secrets .* is forbidden"):
        controlled.control_plane.kubectl("get", "secrets", "-n", namespace, "train-ssh", "--kubeconfig", str(token))
