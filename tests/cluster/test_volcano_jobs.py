"""Volcano Jobs run by `volsched controllers` on a real control plane where Volcano's own controllers do not run."""

from __future__ import annotations

import time

from tests.cluster.control_plane import MakeNodes
from tests.cluster.controlling import AT_WORK, GROUP_NAME, JOBS, Controlled, phase_of
from tests.cluster.scheduling import GROUPS, SYSTEM, Json, eventually
from tests.cluster.signals import after_round, after_session
from tools.controlplane.faults import FaultProxy
from tools.controlplane.stages import FAIL_AFTER, RUN_FOR, START_AFTER
from volsched.operator.engine import JOB_LOOKS

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

SHORT = {RUN_FOR: "300ms"}
LONG_ENOUGH = {RUN_FOR: "10s"}
"""For all pods of a Job to be seen running."""
BROKEN = {FAIL_AFTER: "300ms"}


def job_path(namespace: str, name: str = "train") -> str:
    return f"{JOBS}/namespaces/{namespace}/jobs/{name}"


def seen_phases(job: Json) -> list[str]:
    """The phases that a Job went through; Running is left out, since a pod may end before anybody looks."""
    return [found["status"] for found in job["status"]["conditions"] if found["status"] != "Running"]


def test_a_job_waits_as_a_gang_runs_and_completes(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="2")
    controlled.both()
    tasks = [controlled.task("ps", 1, LONG_ENOUGH), controlled.task("worker", 2, LONG_ENOUGH)]
    made = controlled.job(namespace, "train", tasks, queue="default", plugins={"env": [], "svc": []})
    name = f"train-{made['metadata']['uid']}"

    group = controlled.api.wait_for(f"{GROUPS}/namespaces/{namespace}/podgroups/{name}", lambda _: True)
    assert group["spec"]["minMember"] == 3
    assert group["spec"]["minTaskMember"] == {"ps": 1, "worker": 2}
    assert group["spec"]["minResources"] == {"cpu": "3"}
    eventually(lambda: len(controlled.pods(namespace)) == 3)
    after_session(controlled)
    assert not any("nodeName" in pod["spec"] for pod in controlled.pods(namespace).values())
    assert controlled.wait_job(namespace, "train", "Pending")["status"]["minAvailable"] == 3

    make_nodes(1, cpu="2")

    job = controlled.wait_job(namespace, "train", "Completed")
    assert [c["status"] for c in job["status"]["conditions"]] == ["Pending", "Running", "Completed"]
    assert (job["status"]["succeeded"], job["status"]["failed"]) == (3, 0)
    pods = controlled.pods(namespace)
    assert sorted(pods) == ["train-ps-0", "train-worker-0", "train-worker-1"]
    assert {pod["metadata"]["annotations"][GROUP_NAME] for pod in pods.values()} == {name}
    assert pods["train-worker-1"]["spec"]["hostname"] == "train-worker-1"
    for collection, expected in (
        (f"/api/v1/namespaces/{namespace}/services", "train"),
        (f"/api/v1/namespaces/{namespace}/configmaps", "train-svc"),
        (f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies", "train"),
    ):
        assert controlled.api.find(f"{collection}/{expected}") is not None, expected
    eventually(lambda: controlled.groups(namespace) == {}, what="a finished Job holds no PodGroup")
    shown = controlled.control_plane.kubectl("get", "vcjob", "-n", namespace, "train")
    assert "Completed" in shown
    controlled.api.delete(f"{job_path(namespace)}?propagationPolicy=Background")
    eventually(lambda: controlled.pods(namespace) == {})


def test_a_job_costs_a_write_for_each_pod_and_few_besides(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes, fault_proxy: FaultProxy
) -> None:
    make_nodes(2, cpu="32")
    controlled.both(proxy=fault_proxy)
    began = time.monotonic()
    controlled.job(namespace, "train", [controlled.task("worker", 40, SHORT)])

    controlled.wait_job(namespace, "train", "Completed")

    counts = fault_proxy.counts
    at_once, per_second = JOB_LOOKS
    assert counts.count("create", "/pods") == 40, counts.table()
    assert counts.count("patch", "/pods/*") == 0, counts.table()
    assert counts.count("create", "/podgroups") == 1, counts.table()
    assert counts.count("patch", "/jobs/*/status") <= at_once + per_second * (time.monotonic() - began), counts.table()


def test_a_failed_pod_fails_the_job_without_a_policy(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="4")
    controlled.both()
    controlled.job(namespace, "train", [controlled.task("good", 1, SHORT), controlled.task("bad", 1, BROKEN)])

    job = controlled.wait_job(namespace, "train", "Failed")

    assert (job["status"]["succeeded"], job["status"]["failed"], job["status"]["retryCount"]) == (1, 1, 0)
    assert controlled.wait_event(namespace, "train", "JobFinished")["type"] == "Warning"


def test_restart_job_starts_everything_anew_until_the_retries_are_used_up(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="4")
    controlled.both()
    tasks = [controlled.task("steady", 1), controlled.task("bad", 1, BROKEN)]
    controlled.job(namespace, "train", tasks, policies=[{"event": "PodFailed", "action": "RestartJob"}], maxRetry=2)

    job = controlled.wait_job(namespace, "train", "Failed")

    assert seen_phases(job) == ["Pending", "Restarting", "Pending", "Restarting", "Failed"]
    assert (job["status"]["retryCount"], job["status"]["version"]) == (2, 2)
    assert "RestartJob because of PodFailed" in controlled.wait_event(namespace, "train", "ExecuteAction")["message"]
    eventually(
        lambda: all(pod["status"]["phase"] in ("Succeeded", "Failed") for pod in controlled.pods(namespace).values())
    )


def test_complete_job_stops_what_still_runs(controlled: Controlled, namespace: str, make_nodes: MakeNodes) -> None:
    make_nodes(1, cpu="4")
    controlled.both()
    worker = controlled.task("worker", 2, SHORT, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}])
    controlled.job(namespace, "train", [controlled.task("ps", 1), worker])

    job = controlled.wait_job(namespace, "train", "Completed")

    assert seen_phases(job) == ["Pending", "Completing", "Completed"]
    assert sorted(controlled.pods(namespace)) == ["train-worker-0", "train-worker-1"]


def test_a_pod_that_somebody_deletes_is_made_again_or_what_the_policy_says(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="4")
    controlled.both()
    controlled.job(namespace, "plain", [controlled.task("worker", 1)])
    controlled.job(
        namespace, "careful", [controlled.task("worker", 1)], policies=[{"event": "PodEvicted", "action": "AbortJob"}]
    )
    for name in ("plain", "careful"):
        controlled.wait_job(namespace, name, "Running")
    before = controlled.pods(namespace)["plain-worker-0"]["metadata"]["uid"]

    for name in ("plain", "careful"):
        controlled.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}-worker-0", grace_seconds=0)

    controlled.wait_job(namespace, "careful", "Aborted")
    eventually(
        lambda: (
            controlled.pods(namespace).get("plain-worker-0", {}).get("metadata", {}).get("uid") not in (None, before)
        )
    )
    assert phase_of(controlled.api.get(job_path(namespace, "plain"))) in ("Running", "Pending")


def test_a_finished_job_goes_when_its_time_is_over(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="4")
    controlled.both()
    controlled.job(namespace, "train", [controlled.task("worker", 1, SHORT)], ttlSecondsAfterFinished=1)

    eventually(lambda: controlled.api.find(job_path(namespace)) is None)


def test_tasks_come_in_their_order_and_scale(controlled: Controlled, namespace: str, make_nodes: MakeNodes) -> None:
    make_nodes(1, cpu="8")
    controlled.both()
    ps = controlled.task("ps", 1, {START_AFTER: "1000h"})
    worker = controlled.task("worker", 1, dependsOn={"name": ["ps"]})
    controlled.job(namespace, "train", [ps, worker], minAvailable=1)

    controlled.wait_bound(namespace, 1)
    after_round(controlled)
    assert set(controlled.pods(namespace)) == {"train-ps-0"}
    ready = {"type": "Ready", "status": "True"}
    controlled.api.patch(
        f"/api/v1/namespaces/{namespace}/pods/train-ps-0/status",
        {"status": {"phase": "Running", "conditions": [ready]}},
    )
    eventually(lambda: set(controlled.pods(namespace)) == {"train-ps-0", "train-worker-0"})

    scale(controlled, namespace, task=1, replicas=3)
    eventually(lambda: len(controlled.pods(namespace)) == 4)
    scale(controlled, namespace, task=1, replicas=1)
    eventually(lambda: len(controlled.pods(namespace)) == 2)


def scale(controlled: Controlled, namespace: str, task: int, replicas: int) -> None:
    patch = [{"op": "replace", "path": f"/spec/tasks/{task}/replicas", "value": replicas}]
    controlled.api.patch(job_path(namespace), patch, "application/json-patch+json")


def test_jobs_that_cannot_be_run_say_why(controlled: Controlled, namespace: str) -> None:
    controlled.control().wait_for(AT_WORK)
    task = controlled.task("worker", 1)

    controlled.job(namespace, "ray", [task], plugins={"ray": []})
    controlled.job(namespace, "foreign", [task], queue="default")
    controlled.api.patch(job_path(namespace, "foreign"), {"spec": {"schedulerName": "somebody-else"}})
    controlled.job(namespace, "odd", [task], minAvailable=7)
    broken = controlled.task("worker", 1)
    broken["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "-1"
    controlled.job(namespace, "refused", [broken])

    assert "ray" in controlled.wait_event(namespace, "ray", "UnsupportedPlugin")["message"]
    assert "somebody-else" in controlled.wait_event(namespace, "foreign", "ForeignScheduler")["message"]
    assert "spec.minAvailable" in controlled.wait_event(namespace, "odd", "InvalidJob")["message"]
    assert controlled.wait_event(namespace, "refused", "InvalidJob")["type"] == "Warning"


def test_a_pod_that_is_refused_is_told_about_and_made_when_it_may(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="4")
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    controlled.api.create(path, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}})
    controlled.api.wait_for(f"{path}/few", lambda quota: "hard" in quota.get("status", {}))
    controlled.both()
    controlled.job(namespace, "train", [controlled.task("worker", 1)])

    assert "exceeded quota" in controlled.wait_event(namespace, "train", "FailedCreate")["message"]

    controlled.api.delete(f"{path}/few")
    controlled.wait_job(namespace, "train", "Running")


def test_a_large_job_is_made_in_slices_and_stops_nobody_and_one_that_is_too_large_says_so(
    controlled: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="4")
    process = controlled.control("--job-pods-at-once", "20", "--job-bytes", "20000")
    process.wait_for(AT_WORK)
    controlled.start().wait_leading()
    hosts = [controlled.task("ps", 1), controlled.task("worker", 149)]
    controlled.job(namespace, "large", hosts, minAvailable=1, plugins={"tensorflow": []})
    controlled.job(namespace, "small", [controlled.task("worker", 1)])
    controlled.job(namespace, "hosts", [controlled.task("worker", 100_000)], minAvailable=0, plugins={"svc": []})
    wordy = controlled.task("worker", 1)
    wordy["template"]["metadata"]["annotations"]["words"] = "x" * 20_000
    controlled.job(namespace, "wordy", [wordy])

    assert "plugin svc would make" in controlled.wait_event(namespace, "hosts", "JobTooLarge")["message"]
    assert "--job-bytes=" in controlled.wait_event(namespace, "wordy", "JobTooLarge")["message"]
    eventually(lambda: len(controlled.pods(namespace)) == 151)
    config = controlled.pods(namespace)["large-worker-148"]["spec"]["containers"][0]["env"]
    assert [found["name"] for found in config if found["name"] == "TF_CONFIG"] == ["TF_CONFIG"]
    controlled.api.delete(job_path(namespace, "large"))
    eventually(lambda: len(controlled.pods(namespace)) == 1)
    assert process.process.poll() is None


def test_commands_work_where_their_kind_exists(
    controlled: Controlled, namespace: str, other_namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, cpu="4")
    controlled.control_plane.kubectl("apply", "-f", "-", stdin=COMMANDS)
    controlled.both()
    made = controlled.job(namespace, "train", [controlled.task("worker", 1)])
    queue = controlled.queue(f"q-{namespace}")
    controlled.wait_job(namespace, "train", "Running")
    controlled.wait_queue(queue, state="Open")

    def command(name: str, action: str, kind: str, target: str, uid: str = "", where: str = namespace) -> None:
        body = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": name},
            "action": action,
            "target": {"kind": kind, "name": target, "uid": uid},
        }
        controlled.api.create(f"/apis/bus.volcano.sh/v1alpha1/namespaces/{where}/commands", body)

    command("stop", "AbortJob", "Job", "train", made["metadata"]["uid"])
    controlled.wait_job(namespace, "train", "Aborted")
    command("go", "ResumeJob", "Job", "train")
    controlled.wait_job(namespace, "train", "Running")
    command("close", "CloseQueue", "Queue", queue, where=SYSTEM)
    controlled.wait_queue(queue, state="Closed")
    command("open", "OpenQueue", "Queue", queue, where=SYSTEM)
    controlled.wait_queue(queue, state="Open")

    command("rob", "CloseQueue", "Queue", queue)  # whoever may edit a namespace may make Commands there
    refused = controlled.wait_event(namespace, "rob", "CommandRefused")["message"]
    assert "taken from the namespace volsched-system only" in refused
    command("reach", "AbortJob", "Job", "train", made["metadata"]["uid"], where=other_namespace)
    assert "there is no Job 'train'" in controlled.wait_event(other_namespace, "reach", "CommandRefused")["message"]
    command("stale", "AbortJob", "Job", "train", "another")
    assert "of uid another" in controlled.wait_event(namespace, "stale", "CommandRefused")["message"]
    after_round(controlled)
    assert controlled.api.get(f"{GROUPS}/queues/{queue}")["status"]["state"] == "Open"
    assert phase_of(controlled.api.get(job_path(namespace))) == "Running"
    assert controlled.api.items(f"/apis/bus.volcano.sh/v1alpha1/namespaces/{namespace}/commands") == []
    controlled.api.delete(f"{GROUPS}/queues/{queue}")
    controlled.api.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/commands.bus.volcano.sh")


COMMANDS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: commands.bus.volcano.sh}
spec:
  group: bus.volcano.sh
  scope: Namespaced
  names: {kind: Command, plural: commands, singular: command, listKind: CommandList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
