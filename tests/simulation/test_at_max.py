"""`simulate --at-max`: one run of each CronJob, and workloads as large as their autoscalers may make them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.simulation.clusters import LEAN, Manifest, node, placed, pod, pod_spec, workload
from volsched import registry
from volsched.simulation.documents import Document, InputError
from volsched.simulation.manifests import Inventory, read_inventory
from volsched.simulation.result import result_of
from volsched.simulation.runner import SimulationSettings, simulate


def at_max(*manifests: Manifest) -> Inventory:
    documents = [Document("test", f"document {n}", raw) for n, raw in enumerate(manifests, start=1)]
    return read_inventory(documents, at_max=True)


def pods(*manifests: Manifest) -> Counter[str]:
    """How many pods of each workload are placed on a node with room for all."""
    inventory = at_max(node("big", cpu=1000, pods=1000), *manifests)
    profile, _ = registry.load_profile(LEAN)
    found = placed(result_of(simulate(inventory, profile, SimulationSettings())))
    return Counter(name.split("-")[0] for name in found)


def autoscaler(target: str, name: str, most: Any, own: str = "hpa") -> Manifest:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": own},
        "spec": {
            "minReplicas": 1,
            "maxReplicas": most,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": target, "name": name},
        },
    }


def cron_job(name: str, policy: str = "", *, suspend: bool = False, **spec: Any) -> Manifest:
    template = {"spec": pod_spec(**spec.pop("pod", {}))}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {
            "schedule": "@daily",
            "suspend": suspend,
            **({"concurrencyPolicy": policy} if policy else {}),
            "jobTemplate": {"spec": {**spec, "template": template}},
        },
    }


def run_of(name: str, *, done: bool = False) -> Manifest:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": name, "uid": "u", "controller": True}
    made = workload("Job", f"{name}-1", spec={"parallelism": 1}, metadata={"ownerReferences": [owner]})
    return {**made, "status": {"conditions": [{"type": "Complete", "status": "True"}] if done else []}}


# --- autoscalers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
def test_a_workload_has_as_many_replicas_as_its_autoscaler_may_set(kind: str) -> None:
    assert pods(workload(kind, "web", 2), autoscaler(kind, "web", 5)) == {"web": 5}
    assert pods(workload(kind, "web"), autoscaler(kind, "web", 3)) == {"web": 3}
    assert pods(workload(kind, "web", 7), autoscaler(kind, "web", 3)) == {"web": 3}


def test_the_newest_replica_set_of_a_deployment_has_what_the_others_leave() -> None:
    def replica_set(name: str, replicas: int, revision: int) -> Manifest:
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
        annotations = {"deployment.kubernetes.io/revision": str(revision)}
        return workload("ReplicaSet", name, replicas, metadata={"ownerReferences": [owner], "annotations": annotations})

    deployment = workload("Deployment", "web", 3, metadata={"uid": "d"})
    sets = [replica_set("new", 1, 10), replica_set("old", 2, 9), replica_set("oldest", 0, 1)]
    assert pods(deployment, *sets, autoscaler("Deployment", "web", 6)) == {"new": 4, "old": 2}


def test_the_larger_of_two_autoscalers_counts() -> None:
    both = [autoscaler("Deployment", "web", 6, "a"), autoscaler("Deployment", "web", 4, "b")]
    assert pods(workload("Deployment", "web", 1), *both) == {"web": 6}


@pytest.mark.parametrize(
    ("manifests", "said"),
    [
        ([autoscaler("Deployment", "web", 3)], "name: there is no Deployment 'web' in the input"),
        ([autoscaler("Rollout", "web", 3)], "kind: Rollout is not scaled here"),
        (
            [workload("Deployment", "web", 0), autoscaler("Deployment", "web", 3)],
            "Deployment 'web' has 0 replicas, which switches its autoscaler off",
        ),
    ],
)
def test_what_cannot_be_scaled_is_a_doubt(manifests: list[Manifest], said: str) -> None:
    (doubt,) = at_max(*manifests).doubts
    assert "HorizontalPodAutoscaler/default/hpa: spec.scaleTargetRef" in str(doubt)
    assert str(doubt).endswith(said)
    assert pods(*manifests) == {}


@pytest.mark.parametrize("most", [-1, 0, 10**9, "many"])
def test_a_number_of_replicas_that_makes_no_sense_is_a_fault(most: Any) -> None:
    with pytest.raises(InputError, match=r"HorizontalPodAutoscaler/default/hpa: spec.maxReplicas: "):
        at_max(autoscaler("Deployment", "web", most))


# --- CronJobs -------------------------------------------------------------------------------------------------------


def test_a_cron_job_stands_for_one_run_with_the_pods_of_its_job() -> None:
    assert pods(cron_job("report")) == {"report": 1}
    assert pods(cron_job("report", parallelism=4, completions=9)) == {"report": 4}
    assert pods(cron_job("report", parallelism=4, completions=3)) == {"report": 3}


def test_what_is_suspended_runs_nothing() -> None:
    assert pods(cron_job("report", suspend=True)) == {}
    assert pods(cron_job("report", suspend=False, parallelism=2)) == {"report": 2}


@pytest.mark.parametrize(("policy", "runs"), [("", 2), ("Allow", 2), ("Forbid", 1), ("Replace", 1)])
def test_a_run_that_goes_on_counts_as_the_policy_says(policy: str, runs: int) -> None:
    assert pods(cron_job("report", policy), run_of("report")) == {"report": runs}
    assert pods(cron_job("report", policy), run_of("report", done=True)) == {"report": 1}


def test_a_run_takes_no_name_that_is_taken() -> None:
    taken = workload("Job", "report-next", spec={"parallelism": 1})
    assert pods(cron_job("report"), taken) == {"report": 2}


def test_a_cron_job_of_volcano_runs_a_volcano_job() -> None:
    task = {"name": "w", "replicas": 3, "template": {"spec": pod_spec()}}
    manifest = {
        **cron_job("train"),
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"minAvailable": 3, "tasks": [task]}}},
    }
    assert pods(manifest) == {"train": 3}


def test_what_is_wrong_in_the_job_of_a_cron_job_is_said_with_its_path() -> None:
    with pytest.raises(InputError) as caught:
        at_max(cron_job("report", pod={"cpu": "two"}, parallelism=-1))
    assert [str(problem).partition(": document 1: ")[2] for problem in caught.value.problems] == [
        "CronJob/default/report: spec.jobTemplate.spec.template.spec.containers[0].resources.requests[cpu]: "
        "'two' is not a quantity",
        "CronJob/default/report: spec.jobTemplate.spec.parallelism: -1 must be from 0 to 200000",
    ]


def test_without_it_neither_counts() -> None:
    documents = [
        Document("test", f"document {n}", raw)
        for n, raw in enumerate(
            (workload("Deployment", "web", 2), autoscaler("Deployment", "web", 5), cron_job("report"), pod("p"))
        )
    ]
    found = read_inventory(documents)
    assert [type(item).__name__ for item in found.objects] == ["Deployment", "Pod"]
