"""What somebody else made, or says in its references, is neither believed nor touched."""

from __future__ import annotations

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.controlling import AT_WORK, JOBS, Controlled
from tests.cluster.scheduling import GROUPS, Json, eventually
from tests.cluster.signals import after_looks, after_round
from tools.controlplane.stages import FAIL_AFTER

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]


def forged(job: Json, **changes: str) -> Json:
    """A reference by which a pod says that it is of somebody else's Job."""
    meta = job["metadata"]
    reference = {"apiVersion": job["apiVersion"], "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
    return {**reference, "controller": True, **changes}


def test_a_failed_pod_that_names_a_job_of_another_namespace_restarts_nothing_and_is_not_deleted(
    controlled: Controlled, namespace: str, other_namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(2, cpu="8")
    process = controlled.both()
    policies = [{"event": "PodFailed", "action": "RestartJob"}, {"event": "PodEvicted", "action": "RestartJob"}]
    job = controlled.job(namespace, "train", [controlled.task("worker", 1)], policies=policies)
    controlled.wait_job(namespace, "train", "Running")
    before = controlled.pods(namespace)["train-worker-0"]["metadata"]["uid"]

    references = {"other-namespace": (other_namespace, {}), "other-name": (namespace, {"name": "train2"})}
    references["other-uid"] = (namespace, {"uid": "6d5f2a4e-0000-4000-8000-000000000000"})
    references["other-group"] = (namespace, {"apiVersion": "batch/v1"})
    for name, (where, changes) in references.items():
        annotations = {"volcano.sh/task-spec": "worker", "volcano.sh/task-index": "0", "volcano.sh/job-version": "0"}
        pod = controlled.pod(name, cpu="1", spec={"restartPolicy": "Never"}, labels={})
        pod["metadata"]["annotations"] = {**annotations, FAIL_AFTER: "300ms", "scheduling.k8s.io/group-name": "own"}
        pod["metadata"]["ownerReferences"] = [forged(job, **changes)]
        pod["metadata"]["finalizers"] = ["example.com/kept"]  # garbage collection would take some of them away
        controlled.make_pods(where, [pod])
        if controlled.api.find(f"{GROUPS}/namespaces/{where}/podgroups/own") is None:
            controlled.make_gang(where, "own", 0, minimum=1)
    for name, (where, _) in references.items():
        path = f"/api/v1/namespaces/{where}/pods/{name}"
        controlled.api.wait_for(path, has_ended)

    def is_as_before() -> bool:
        found = controlled.api.get(f"{JOBS}/namespaces/{namespace}/jobs/train")["status"]
        uid = controlled.pods(namespace)["train-worker-0"]["metadata"]["uid"]
        return (found.get("version", 0), found.get("retryCount", 0), uid) == (0, 0, before)

    after_round(controlled)
    assert is_as_before()
    assert process.said("RestartJob") == []
    for name, (where, _) in references.items():
        controlled.api.patch(f"/api/v1/namespaces/{where}/pods/{name}", {"metadata": {"finalizers": None}})


def has_ended(pod: Json) -> bool:
    return pod["status"]["phase"] == "Failed" or "deletionTimestamp" in pod["metadata"]


CORE = "/api/v1/namespaces/{}"
PLAIN: dict[str, Json] = {
    f"{CORE}/services": {"metadata": {"name": "train"}, "spec": {"ports": [{"port": 80}]}},
    f"{CORE}/configmaps": {"metadata": {"name": "train-svc"}, "data": {"mine": "yes"}},
    "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies": {
        "metadata": {"name": "train"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"]},
    },
    f"{CORE}/persistentvolumeclaims": {
        "metadata": {"name": "train-volume-0"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
}


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.rpartition("/")[2])
def test_what_a_user_made_under_a_name_of_the_jobs_is_neither_changed_nor_adopted(
    controlled: Controlled, namespace: str, path: str
) -> None:
    process = controlled.control()
    process.wait_for(AT_WORK)
    where = path.format(namespace)
    before = controlled.api.create(where, PLAIN[path])
    name = before["metadata"]["name"]

    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    controlled.job(
        namespace,
        "train",
        [controlled.task("worker", 1)],
        plugins={"svc": []},
        volumes=[{"mountPath": "/data", "volumeClaim": claim}],
    )

    message = controlled.wait_event(namespace, "train", "FailedCreate")["message"]
    assert f'"{name}" is there already, made by somebody else; delete it, or give the Job another name' in message
    after_looks(process, "Job", lambda: None, failed=True)
    assert not controlled.pods(namespace)
    after = controlled.api.get(f"{where}/{name}")
    assert (after["metadata"].get("ownerReferences"), after.get("data")) == (None, before.get("data"))
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert {k: v for k, v in after.get("spec", {}).items() if k != "volumeName"} == before.get("spec", {})


def test_a_podgroup_and_pods_of_the_names_of_a_job_are_not_taken_for_its_own(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="8")
    process = controlled.both()
    controlled.make_pods(namespace, [controlled.pod("train-worker-0", cpu="1", group="somebody")])

    controlled.job(namespace, "train", [controlled.task("worker", 2)], minAvailable=1)

    message = controlled.wait_event(namespace, "train", "FailedCreate")["message"]
    assert 'Pod "train-worker-0" is there already, made by somebody else' in message
    eventually(lambda: "nodeName" in controlled.pods(namespace).get("train-worker-1", {"spec": {}})["spec"])
    assert "ownerReferences" not in controlled.pods(namespace)["train-worker-0"]["metadata"]
    assert process.process.poll() is None
