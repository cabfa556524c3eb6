"""What counts as a retry of a Volcano Job on a real control plane, while its pods take as long as they like to go."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.controlling import AT_WORK, JOBS, Controlled, phase_of
from tests.cluster.scheduling import QUICK_LEASE, Json, eventually
from tests.cluster.signals import after_looks, after_round, ready, touch
from tools.controlplane.stages import START_AFTER, STOP_AFTER

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
UNTIL_LET_GO = {STOP_AFTER: "1000h"}
TARGETED = ["RestartPod", "RestartTask", "RestartPartition"]
PREEMPTING = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: predicates
  - name: nodeorder
"""


class Trial:
    """A Job in a namespace, and what becomes of it."""

    def __init__(self, controlled: Controlled, namespace: str) -> None:
        self.controlled, self.api, self.namespace = controlled, controlled.api, namespace

    def job(self, *tasks: Json, **spec: Any) -> None:
        """Create the Job and wait until all its pods run."""
        self.controlled.job(self.namespace, "train", list(tasks), minAvailable=1, **spec)
        number = sum(task["replicas"] for task in tasks)
        eventually(lambda: len(self.running()) == number, what="all pods run")

    def status(self) -> Json:
        return dict(self.api.get(f"{JOBS}/namespaces/{self.namespace}/jobs/train")["status"])

    def retries(self) -> int:
        return int(self.status()["retryCount"])

    def wait_retries(self, number: int) -> None:
        eventually(lambda: self.retries() == number, what=f"{number} retries")

    def pods(self) -> dict[str, Json]:
        return self.controlled.pods(self.namespace)

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def running(self) -> list[str]:
        return sorted(
            name
            for name, pod in self.pods().items()
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        )

    def going(self) -> list[str]:
        return sorted(name for name, pod in self.pods().items() if "deletionTimestamp" in pod["metadata"])

    def evict(self, name: str) -> None:
        """Begin to delete a pod, which takes until it is let go."""
        self.api.delete(f"/api/v1/namespaces/{self.namespace}/pods/{name}")

    def let_go(self) -> None:
        """Let all pods end that are being deleted."""
        for name in self.going():
            self.api.delete(f"/api/v1/namespaces/{self.namespace}/pods/{name}", grace_seconds=0)

    def note(self, name: str) -> None:
        """Change a pod in a way that means nothing: the Job is looked at."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        self.api.patch(path, {"metadata": {"annotations": {"example.com/note": uuid.uuid4().hex}}})


@pytest.fixture
def trial(controlled: Controlled, namespace: str) -> Trial:
    return Trial(controlled, namespace)


def test_one_deleted_pod_is_one_retry_and_the_others_go_on(trial: Trial, make_nodes: MakeNodes) -> None:
    make_nodes(1, cpu="4")
    process = trial.controlled.both()
    policies = [{"event": "PodEvicted", "action": "RestartPod"}]
    trial.job(trial.controlled.task("w", 2, UNTIL_LET_GO, policies=policies))
    before = trial.uids()

    trial.evict("train-w-0")
    trial.wait_retries(1)
    for _ in range(3):
        after_looks(process, "Job", lambda: trial.note("train-w-0"))
    assert trial.retries() == 1
    trial.let_go()

    eventually(lambda: trial.running() == ["train-w-0", "train-w-1"], what="the pod runs again")
    after_round(trial.controlled)
    assert (trial.retries(), trial.status()["state"]["phase"]) == (1, "Running")
    after = trial.uids()
    assert after["train-w-1"] == before["train-w-1"]
    assert after["train-w-0"] != before["train-w-0"]


@pytest.mark.parametrize("action", TARGETED)
def test_controllers_that_take_over_while_pods_terminate_count_nothing_again(
    trial: Trial, make_nodes: MakeNodes, action: str
) -> None:
    make_nodes(1, cpu="8")
    first = trial.controlled.both(*QUICK_LEASE)
    parts = {"totalPartitions": 2, "partitionSize": 2}
    policies = [{"event": "PodEvicted", "action": action}]
    trial.job(
        trial.controlled.task("ps", 1, UNTIL_LET_GO),
        trial.controlled.task("w", 4, UNTIL_LET_GO, partitionPolicy=parts, policies=policies),
    )
    before = trial.uids()
    going = {"RestartPod": 1, "RestartPartition": 2, "RestartTask": 4}[action]
    trial.evict("train-w-3")
    trial.wait_retries(1)
    eventually(lambda: len(trial.going()) == going)

    follower = trial.controlled.control()
    ready(follower)
    first.kill()
    follower.wait_for(AT_WORK)
    after_round(trial.controlled)
    assert follower.terminate() == 0
    last = trial.controlled.control()
    last.wait_for(AT_WORK)
    after_round(trial.controlled)
    assert (trial.retries(), len(trial.going())) == (1, going)

    trial.let_go()
    eventually(lambda: len(trial.running()) == 5, what="all pods run again")
    after_round(trial.controlled)
    assert (trial.retries(), trial.status()["state"]["phase"]) == (1, "Running")
    assert sum(before[name] != uid for name, uid in trial.uids().items()) == going


def test_a_replica_that_follows_counts_nothing_of_what_it_saw_go(trial: Trial, make_nodes: MakeNodes) -> None:
    make_nodes(1, cpu="8")
    first = trial.controlled.both(*QUICK_LEASE)
    follower = trial.controlled.control()
    ready(follower)
    policies = [{"event": "PodEvicted", "action": "RestartTask"}]
    trial.job(trial.controlled.task("w", 3, policies=policies))
    pending = {START_AFTER: "1000h"}  # what runs again is forgotten as lost
    path = f"{JOBS}/namespaces/{trial.namespace}/jobs/train"
    patch = [{"op": "add", "path": "/spec/tasks/0/template/metadata/annotations", "value": pending}]
    trial.api.patch(path, patch, "application/json-patch+json")
    before = trial.uids()

    trial.api.delete(f"/api/v1/namespaces/{trial.namespace}/pods/train-w-1", grace_seconds=0)
    trial.wait_retries(1)
    eventually(lambda: not set(before.values()) & set(trial.uids().values()) and len(trial.uids()) == 3)
    first.kill()
    follower.wait_for(AT_WORK)
    after_round(trial.controlled)

    assert trial.retries() == 1
    assert trial.going() == []


def test_two_evictions_one_after_the_other_are_two_retries_and_the_last_one_fails_the_job(
    trial: Trial, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="4")
    trial.controlled.both()
    policies = [{"event": "PodEvicted", "action": "RestartPod"}]
    trial.job(trial.controlled.task("w", 2, UNTIL_LET_GO, policies=policies), maxRetry=3)

    for number in (1, 2):
        trial.evict("train-w-0")
        trial.wait_retries(number)
        trial.let_go()
        eventually(lambda: len(trial.running()) == 2)
    after_round(trial.controlled)
    assert (trial.retries(), trial.status()["state"]["phase"]) == (2, "Running")

    trial.evict("train-w-1")
    trial.controlled.wait_job(trial.namespace, "train", "Failed")
    assert trial.retries() == 3


def test_a_task_that_failed_or_is_completed_is_restarted_once(trial: Trial, make_nodes: MakeNodes) -> None:
    make_nodes(1, cpu="8")
    process = trial.controlled.both()
    policies = [{"events": ["TaskFailed", "TaskCompleted"], "action": "RestartTask"}]
    tasks = [trial.controlled.task(name, 2, UNTIL_LET_GO, policies=policies) for name in ("bad", "done")]
    trial.job(*tasks, trial.controlled.task("ps", 1, UNTIL_LET_GO), maxRetry=10)

    path = f"/api/v1/namespaces/{trial.namespace}/pods"
    restarted = [{"name": "main", "restartCount": 4, "image": "x", "imageID": "", "ready": True, "state": {}}]
    trial.api.patch(f"{path}/train-bad-0/status", {"status": {"containerStatuses": restarted}})
    trial.wait_retries(1)
    for _ in range(2):
        after_looks(process, "Job", lambda: trial.note("train-bad-0"))
    assert trial.retries() == 1

    for number in range(2):
        trial.api.patch(f"{path}/train-done-{number}/status", {"status": {"phase": "Succeeded"}})
    trial.wait_retries(2)
    trial.let_go()
    eventually(lambda: len(trial.running()) == 5)
    after_round(trial.controlled)
    assert trial.retries() == 2


@pytest.fixture
def high(controlled: Controlled) -> Iterator[str]:
    name = f"high-{uuid.uuid4().hex[:6]}"
    controlled.api.create(CLASSES, {"metadata": {"name": name}, "value": 1000})
    yield name
    controlled.api.delete(f"{CLASSES}/{name}")


@pytest.mark.parametrize(("action", "gone"), [("RestartPod", 5), ("RestartTask", 8), ("RestartJob", 8)])
def test_pods_that_one_session_evicts_are_one_retry(
    trial: Trial, make_nodes: MakeNodes, tmp_path: Path, high: str, action: str, gone: int
) -> None:
    [node] = make_nodes(1, cpu="8")
    (tmp_path / "scheduler.conf").write_text(PREEMPTING)
    trial.controlled.start("--scheduler-conf", str(tmp_path / "scheduler.conf")).wait_leading()
    trial.controlled.control().wait_for(AT_WORK)
    policies = [{"event": "PodEvicted", "action": action}]
    trial.job(trial.controlled.task("w", 8, UNTIL_LET_GO), policies=policies)

    gang = [
        trial.controlled.pod(f"more-{number}", group="more", cpu="1", spec={"priorityClassName": high})
        for number in range(5)
    ]
    trial.controlled.make_group(trial.namespace, "more", minMember=5, priorityClassName=high)
    trial.controlled.make_pods(trial.namespace, gang)
    trial.wait_retries(1)
    eventually(lambda: len(trial.going()) == gone, what="all are evicted")
    after_round(trial.controlled)
    touch(trial.controlled, node)
    trial.let_go()

    trial.controlled.wait_bound(trial.namespace, 8)
    after_round(trial.controlled)
    job = trial.api.get(f"{JOBS}/namespaces/{trial.namespace}/jobs/train")
    assert (job["status"]["retryCount"], phase_of(job) in ("Running", "Pending")) == (1, True)
