"""The life of a Volcano Job, case by case after Volcano's pkg/controllers/job."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controllers.cases import NOW, Cluster, Json, a_group, a_job, a_member, a_pod, a_task, reference
from volsched.controllers import job_controller, policies
from volsched.controllers.counted import Counted, Restart, counted_in
from volsched.controllers.job_controller import JobSurroundings, JobView, ReconcileResult, reconcile
from volsched.controllers.lifecycle import JobPod, Loss, Losses, Phase
from volsched.controllers.pod_index import JobPodIndex
from volsched.controllers.writes import Create, Delete, Patch
from volsched.model import api
from volsched.model.changes import Deleted
from volsched.operator.reading import job_view

GROUP = "train-uid-train"


def look(view: JobView, *pods: JobPod, group: str | None = "Inqueue", now: float = NOW) -> ReconcileResult:
    found = a_group(GROUP, phase=group, **_MINIMA(view)) if group is not None else None
    return reconcile(view, JobSurroundings(pods, found, {}, "default"), now)


def _MINIMA(view: JobView) -> Json:  # noqa: N802 - reads as a constant where it is used
    wanted = job_controller.jobs.job_group(view.job, {}, "default").spec
    return {key: value for key, value in msgspec.to_builtins(wanted).items() if key != "queue"}


def status_of(outcome: ReconcileResult) -> Json:
    found = [w.body["status"] for w in outcome.writes if isinstance(w, Patch) and w.subresource == "status"]
    return dict(found[0]) if found else {}


def phase_after(outcome: ReconcileResult, before: str) -> str:
    return str(status_of(outcome).get("state", {}).get("phase", before))


def made(outcome: ReconcileResult, kind: str) -> list[str]:
    return [write.name for write in outcome.writes if isinstance(write, Create) and write.kind.name == kind]


def deleted(outcome: ReconcileResult, kind: str = "Pod") -> list[str]:
    return [write.name for write in outcome.writes if isinstance(write, Delete) and write.kind.name == kind]


# --- making what a Job needs ----------------------------------------------------------------------------------------


def test_a_new_job_is_pending_and_gets_its_podgroup_first() -> None:
    view = a_job(a_task("ps", 1), a_task("worker", 3, minAvailable=2), queue="team")

    outcome = reconcile(view, JobSurroundings((), None, {}, "team"), NOW)

    assert phase_after(outcome, "") == "Pending"
    [create] = [write for write in outcome.writes if isinstance(write, Create)]
    assert create.name == GROUP
    assert create.body["spec"] == {
        "minMember": 3,
        "minTaskMember": {"ps": 1, "worker": 2},
        "queue": "team",
        "minResources": {"cpu": "3"},
    }


def test_the_podgroup_tells_which_claims_pods_will_have_unless_the_job_says_it_itself() -> None:
    worker = a_task("worker", 2)
    worker["template"]["spec"]["resourceClaims"] = [
        {"name": "gpu", "resourceClaimTemplateName": "one"},
        {"name": "nic", "resourceClaimName": "shared"},
    ]
    view = a_job(a_task("ps"), worker)

    [create] = [w for w in reconcile(view, JobSurroundings((), None, {}, "team"), NOW).writes if isinstance(w, Create)]

    told = json.loads(create.body["metadata"]["annotations"]["volsched.io/resource-claims"])
    assert told == {"worker": [{"name": "gpu", "template": "one"}, {"name": "nic", "claim": "shared"}]}
    view.job.metadata.annotations["volsched.io/resource-claims"] = "{}"
    [create] = [w for w in reconcile(view, JobSurroundings((), None, {}, "team"), NOW).writes if isinstance(w, Create)]
    assert create.body["metadata"]["annotations"] == {"volsched.io/resource-claims": "{}"}


@pytest.mark.parametrize(
    ("phase", "pods"), [("", []), ("Pending", []), ("Inqueue", ["train-worker-0", "train-worker-1"])]
)
def test_pods_are_made_once_the_podgroup_is_admitted(phase: str, pods: list[str]) -> None:
    assert made(look(a_job(a_task("worker", 2), phase="Pending"), group=phase), "Pod") == pods


def test_a_pod_has_all_of_its_template_and_says_whose_it_is() -> None:
    task = a_task("worker", 2)
    task["template"] = {
        "metadata": {"labels": {"app": "x"}, "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "main", "command": ["run"], "env": [{"name": "A", "value": "1"}]}]},
    }
    view = a_job(task, phase="Pending", status={"version": 2, "retryCount": 1}, queue="team", priorityClassName="high")
    view.job.metadata.annotations["volcano.sh/preemptable"] = "true"

    bodies = [write.body for write in look(view).writes if isinstance(write, Create)]

    spec = bodies[1]["spec"]
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("volsched", "high")
    assert spec["containers"] == task["template"]["spec"]["containers"]
    assert bodies[1]["metadata"]["labels"] == {
        "app": "x",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": "1",
        "volcano.sh/job-name": "train",
        "volcano.sh/job-namespace": "ns",
        "volcano.sh/queue-name": "team",
    }
    assert bodies[1]["metadata"]["annotations"] == {
        "a": "b",
        "scheduling.k8s.io/group-name": GROUP,
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": "1",
        "volcano.sh/job-name": "train",
        "volcano.sh/job-version": "2",
        "volcano.sh/job-retry-count": "1",
        "volcano.sh/template-uid": "train-worker",
        "volcano.sh/queue-name": "team",
        "volcano.sh/preemptable": "true",
    }


def test_only_what_is_missing_is_made_and_only_what_is_too_much_goes() -> None:
    view = a_job(a_task("worker", 2), phase="Running", status={"minAvailable": 2})

    outcome = look(view, a_member("worker", 1), a_member("worker", 2), a_member("gone", 0))

    assert made(outcome, "Pod") == ["train-worker-0"]
    assert deleted(outcome) == ["train-worker-2", "train-gone-0"]


def test_a_terminating_pod_is_waited_for_before_its_successor_is_made() -> None:
    view = a_job(a_task("worker", 1), phase="Running")

    assert made(look(view, a_member("worker", 0, terminating=True)), "Pod") == []


def test_scaling_a_job_changes_its_podgroup() -> None:
    view = a_job(a_task("worker", 3), phase="Running")
    group = a_group(GROUP, phase="Running", minMember=2, minTaskMember={"worker": 2}, minResources={"cpu": "2"})

    outcome = reconcile(view, JobSurroundings((), group, {}, "default"), NOW)

    [patch] = [w for w in outcome.writes if isinstance(w, Patch) and w.kind.name == "PodGroup"]
    assert patch.body["spec"] == {"minMember": 3, "minTaskMember": {"worker": 3}, "minResources": {"cpu": "3"}}


@pytest.mark.parametrize(
    ("iteration", "running", "expected"),
    [("", 1, False), ("", 2, True), ("any", 2, True), ("all", 2, True)],
)
def test_a_task_waits_for_those_that_it_depends_on(iteration: str, running: int, expected: bool) -> None:
    worker = a_task("worker", 1, dependsOn={"name": ["ps"], "iteration": iteration})
    view = a_job(a_task("ps", 2), worker, phase="Pending")
    pods = [a_member("ps", n, "Running" if n < running else "Pending") for n in range(2)]

    assert ("train-worker-0" in made(look(view, *pods), "Pod")) is expected


def test_one_of_several_is_enough_where_the_job_says_any() -> None:
    worker = a_task("worker", 1, dependsOn={"name": ["ps", "chief"], "iteration": "any"})
    view = a_job(a_task("ps", 1), a_task("chief", 1), worker, phase="Pending")

    assert "train-worker-0" in made(look(view, a_member("ps", 0), a_member("chief", 0, "Pending")), "Pod")


def test_volumes_of_the_job_are_claimed_once_and_mounted_in_every_pod() -> None:
    volumes = [
        {"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteMany"], "storageClassName": "fast"}},
        {"mountPath": "/in", "volumeClaimName": "inputs"},
    ]
    view = a_job(a_task("worker", 1), phase="Pending", volumes=volumes)

    outcome = look(view)

    [claim] = [write for write in outcome.writes if isinstance(write, Create) and write.kind.name != "Pod"]
    assert (claim.name, claim.body["spec"]) == ("train-volume-0", volumes[0]["volumeClaim"])
    pod = outcome.writes[-1]
    assert isinstance(pod, Create)
    assert pod.body["spec"]["volumes"] == [
        {"name": "volume-0", "persistentVolumeClaim": {"claimName": "train-volume-0"}},
        {"name": "volume-1", "persistentVolumeClaim": {"claimName": "inputs"}},
    ]
    mounts = pod.body["spec"]["containers"][0]["volumeMounts"]
    assert mounts == [{"name": "volume-0", "mountPath": "/data"}, {"name": "volume-1", "mountPath": "/in"}]
    view.prepared = outcome.prepared or b""
    assert made(look(view), "PersistentVolumeClaim") == []


# --- waiting -------------------------------------------------------------------------------------------------------

SEED = (
    "Queue <cr-queue1> has insufficient <NVIDIA-H200> quota: requested <5000>, total would be <5000>, "
    "but capability is <3000>"
)
"""What the PodGroup says in the example of seed 001, 2.2.4.6."""

SAYS = f'PodGroup "ns/{GROUP}" waits: {SEED}'


def a_waiting_group(
    view: JobView, message: str = SEED, phase: str = "Pending", status: str = "True"
) -> JobSurroundings:
    found = a_group(GROUP, phase=phase, **_MINIMA(view))
    condition = api.Condition("Unschedulable", status, "NotAdmitted", message)
    shown = msgspec.structs.replace(found.status, conditions=(condition,) if message else ())
    return JobSurroundings((), msgspec.structs.replace(found, status=shown), {}, "default")


def after(view: JobView, outcome: ReconcileResult) -> JobView:
    """The Job once the API server has what was written."""
    status = dict(view.status)
    for field, value in status_of(outcome).items():
        known = status.get(field)
        merged = {**known, **value} if field == "state" and isinstance(known, dict) else value
        status[field] = {k: v for k, v in merged.items() if v is not None} if isinstance(merged, dict) else merged
    job = msgspec.structs.replace(view.job, status=api.convert(status, api.JobStatus))
    return dataclasses.replace(view, job=job, status=status)


def told_of(outcome: ReconcileResult) -> list[tuple[str, str, str]]:
    return [(tell.type, tell.reason, tell.message) for tell in outcome.events]


def test_a_job_says_why_its_podgroup_waits_once_for_each_change_and_no_longer_when_it_is_over() -> None:
    new = a_job(a_task("worker", 5))
    view = after(new, reconcile(new, a_waiting_group(new, ""), NOW))
    assert [c["status"] for c in view.status["conditions"]] == ["Pending"]

    first = reconcile(view, a_waiting_group(view), NOW)
    assert told_of(first) == [("Warning", "PodGroupPending", SAYS)]
    view = after(view, first)
    state = view.status["state"]
    assert (state["phase"], state["reason"], state["message"]) == ("Pending", "NotAdmitted", SAYS)
    assert [c["status"] for c in view.status["conditions"]] == ["Pending", "PodGroupPending"]

    again = reconcile(view, a_waiting_group(view), NOW + 60)
    assert (again.events, status_of(again)) == ([], {})

    other = reconcile(view, a_waiting_group(view, "queue is closed"), NOW + 90)
    assert told_of(other) == [("Warning", "PodGroupPending", f'PodGroup "ns/{GROUP}" waits: queue is closed')]
    before, view = view, after(view, other)
    assert view.status["conditions"] == before.status["conditions"]

    over = reconcile(view, a_waiting_group(view, "", phase="Inqueue"), NOW + 120)
    assert told_of(over) == []
    view = after(view, over)
    assert view.status["state"].keys() == {"phase", "lastTransitionTime"}
    assert [c["status"] for c in view.status["conditions"]] == ["Pending"]


def test_a_job_whose_status_lost_all_but_the_fields_of_volcanos_schema_is_not_told_again() -> None:
    new = a_job(a_task("worker", 5))
    view = after(new, reconcile(new, a_waiting_group(new), NOW))
    kept = [{key: c[key] for key in ("status", "lastTransitionTime")} for c in view.status["conditions"]]

    assert kept == view.status["conditions"]
    assert reconcile(view, a_waiting_group(view), NOW + 1).events == []


def test_a_condition_that_is_false_or_of_a_finished_job_is_no_wait() -> None:
    view = a_job(a_task("worker", 5), phase="Pending")
    assert told_of(reconcile(view, a_waiting_group(view, status="False"), NOW)) == []

    done = a_job(a_task("worker", 5), phase="Completed")
    assert told_of(reconcile(done, a_waiting_group(done), NOW)) == []


def test_of_a_podgroup_that_belongs_to_a_job_is_kept_why_it_waits_and_of_others_nothing() -> None:
    cluster = Cluster()
    of_job, other = a_group(GROUP), a_group("podgroup-uid-web")
    reason = api.Condition("Unschedulable", "True", "NotAdmitted", SEED)
    owner = msgspec.convert(reference("Job", "train", "batch.volcano.sh/v1alpha1"), api.OwnerReference)
    mine = msgspec.structs.replace(of_job.metadata, owner_references=(owner,))
    for group, meta in ((of_job, mine), (other, other.metadata)):
        conditions = (reason, api.Condition("Scheduled", "False", "", ""))
        status = msgspec.structs.replace(group.status, conditions=conditions)
        cluster.put(msgspec.structs.replace(group, metadata=meta, status=status))

    assert cluster.store.groups[f"ns/{GROUP}"].status.conditions == (reason,)
    assert cluster.store.groups["ns/podgroup-uid-web"].status.conditions == ()
    assert "ns/train" in {key.name for key in cluster.keys if key.kind == "Job"}


# --- plugins --------------------------------------------------------------------------------------------------------


def test_env_tells_each_pod_its_number() -> None:
    view = a_job(a_task("worker", 2), phase="Pending", plugins={"env": []})

    pods = [write.body for write in look(view).writes if isinstance(write, Create)]

    assert pods[1]["spec"]["containers"][0]["env"] == [
        {"name": "VC_TASK_INDEX", "value": "1"},
        {"name": "VK_TASK_INDEX", "value": "1"},
    ]


def test_svc_makes_the_pods_of_a_job_find_each_other() -> None:
    view = a_job(
        a_task("ps", 1), a_task("data-worker", 2), phase="Pending", plugins={"svc": ["--publish-not-ready-addresses"]}
    )

    outcome = look(view)

    bodies = {write.kind.name: write.body for write in outcome.writes if isinstance(write, Create)}
    labels = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "ns"}
    assert bodies["Service"]["spec"]["clusterIP"] == "None"
    assert bodies["Service"]["spec"]["selector"] == labels
    assert bodies["Service"]["spec"]["publishNotReadyAddresses"] is True
    assert bodies["NetworkPolicy"]["spec"]["podSelector"] == {"matchLabels": labels}
    assert bodies["ConfigMap"]["metadata"]["name"] == "train-svc"
    assert bodies["ConfigMap"]["data"] == {
        "ps.host": "train-ps-0.train",
        "VC_PS_HOSTS": "train-ps-0.train",
        "VC_PS_NUM": "1",
        "data_worker.host": "train-data-worker-0.train\ntrain-data-worker-1.train",
        "VC_DATA_WORKER_HOSTS": "train-data-worker-0.train,train-data-worker-1.train",
        "VC_DATA_WORKER_NUM": "2",
    }
    spec = bodies["Pod"]["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("train-data-worker-1", "train")
    assert spec["volumes"] == [{"name": "train-svc", "configMap": {"name": "train-svc"}}]
    container = spec["containers"][0]
    assert container["volumeMounts"] == [{"name": "train-svc", "mountPath": "/etc/volcano"}]
    names = [variable["name"] for variable in container["env"]]
    assert names == ["VC_PS_HOSTS", "VC_PS_NUM", "VC_DATA_WORKER_HOSTS", "VC_DATA_WORKER_NUM"]


# --- tasks that depend on others --------------------------------------------------------------------------------------

AFTER = {"dependsOn": {"name": ["a"]}}


def test_without_a_minimum_of_its_own_a_job_starts_with_the_tasks_that_depend_on_none() -> None:
    spec = group_spec(a_task("a", 2), a_task("c", 3, minAvailable=1), a_task("b", 4, **AFTER))

    assert (spec["minMember"], spec["minTaskMember"]) == (3, {"a": 2, "c": 1})
    assert spec["minResources"] == group_spec(a_task("a", 2), a_task("c", 3, minAvailable=1))["minResources"]


def test_a_minimum_that_the_job_states_is_left_as_it_is() -> None:
    spec = group_spec(a_task("a", 2), a_task("b", 4, **AFTER), minAvailable=6)

    assert (spec["minMember"], spec["minTaskMember"]) == (6, {"a": 2, "b": 4})


@pytest.mark.parametrize(("failed", "phase"), [(0, Phase.COMPLETED), (1, Phase.FAILED)])
def test_such_a_job_succeeds_only_with_the_minima_of_all_its_tasks(failed: int, phase: Phase) -> None:
    view = a_job(a_task("a", 1), a_task("b", 2, **AFTER), phase="Running")
    ends = ["Succeeded", "Failed" if failed else "Succeeded"]
    pods = [a_member("a", 0, "Succeeded"), *(a_member("b", number, end) for number, end in enumerate(ends))]

    assert phase_after(look(view, *pods), "Running") == phase


# --- what pods want to be near --------------------------------------------------------------------------------------

HARD = {"mode": "hard", "highestTierAllowed": 1}


def group_spec(*tasks: Json, **spec: Any) -> Json:
    [create] = [w for w in look(a_job(*tasks, **spec), group=None).writes if isinstance(w, Create)]
    return dict(create.body["spec"])


def test_the_podgroup_has_the_topology_of_the_job_and_of_each_partition() -> None:
    policy = {
        "totalPartitions": 2,
        "partitionSize": 2,
        "minPartitions": 1,
        "networkTopology": {"highestTierAllowed": 1},
    }

    spec = group_spec(a_task("ps", 1), a_task("worker", 4, partitionPolicy=policy), networkTopology=HARD)

    assert spec["networkTopology"] == HARD
    assert json.loads(msgspec.json.encode(spec["subGroupPolicy"])) == [
        {
            "name": "worker",
            "subGroupSize": 2,
            "minSubGroups": 1,
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "worker"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "networkTopology": HARD,
        }
    ]


@pytest.mark.parametrize("topology", [{}, {"networkTopology": {"mode": "soft"}}])
def test_partitions_without_a_hard_topology_ask_for_nothing(topology: Json) -> None:
    policy = {"totalPartitions": 2, "partitionSize": 2, **topology}

    assert "subGroupPolicy" not in group_spec(a_task("worker", 4, partitionPolicy=policy))


@pytest.mark.parametrize(
    ("stated", "known", "patched"),
    [
        ({"mode": "soft"}, HARD, {"mode": "soft", "highestTierAllowed": None}),
        ({}, {"mode": "hard"}, None),
        (HARD, {}, {"mode": "hard", "highestTierAllowed": 1}),
    ],
)
def test_the_podgroup_follows_a_job_that_states_another_topology(stated: Json, known: Json, patched: Json) -> None:
    view = a_job(a_task("worker", 1), phase="Pending", networkTopology=stated)
    group = a_group(GROUP, phase="Pending", **{**_MINIMA(view), "networkTopology": known})

    outcome = reconcile(view, JobSurroundings((), group, {}, "default"), NOW)

    changes = [w.body["spec"] for w in outcome.writes if isinstance(w, Patch) and w.kind.name == "PodGroup"]
    assert changes == ([{"networkTopology": patched}] if patched else [])


def test_the_podgroup_loses_the_topology_that_its_job_no_longer_states() -> None:
    view = a_job(a_task("worker", 1), phase="Pending")
    group = a_group(GROUP, phase="Pending", **_MINIMA(view), networkTopology=HARD)

    outcome = reconcile(view, JobSurroundings((), group, {}, "default"), NOW)

    changes = [w.body["spec"] for w in outcome.writes if isinstance(w, Patch) and w.kind.name == "PodGroup"]
    assert changes == [{"networkTopology": None}]


def test_a_job_is_told_with_its_podgroup_what_of_it_has_no_effect() -> None:
    view = a_job(a_task("worker", 1, topologyPolicy="single-numa-node"), a_task("ps", 1, topologyPolicy="none"))

    told = look(view, group=None).events

    assert [(tell.reason, tell.message.partition(":")[0]) for tell in told] == [
        ("NotSupported", "spec.tasks[0].topologyPolicy has no effect")
    ]


def test_svc_makes_no_network_policy_when_told_not_to() -> None:
    view = a_job(a_task("worker", 1), phase="Pending", plugins={"svc": ["--disable-network-policy=true"]})

    assert made(look(view), "NetworkPolicy") == []


def test_a_job_with_a_plugin_that_is_not_played_is_not_run_and_says_so() -> None:
    outcome = look(a_job(a_task("worker", 1), plugins={"env": [], "ray": [], "hcclrank": []}))

    assert outcome.writes == []
    [tell] = outcome.events
    assert tell.reason == "UnsupportedPlugin"
    assert "hcclrank, ray" in tell.message


# --- phases ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "spec", "pods", "after"),
    [
        ("Pending", {"minAvailable": 2}, "RP", "Pending"),
        ("Pending", {"minAvailable": 2}, "RR", "Running"),
        ("Pending", {"minAvailable": 2}, "SF", "Running"),
        ("Pending", {"minAvailable": 0}, "PP", "Pending"),
        ("Running", {}, "RS", "Running"),
        ("Running", {}, "SS", "Completed"),
        ("Running", {}, "SF", "Failed"),
        ("Running", {"minAvailable": 1}, "SF", "Completed"),
        ("Running", {"minSuccess": 1}, "SR", "Completed"),
        ("Running", {"minSuccess": 2, "minAvailable": 1}, "SF", "Failed"),
        ("Running", {}, "PR", "Pending"),
        ("Running", {"minAvailable": 1}, "PR", "Running"),
        ("Running", {"minAvailable": 1}, "PP", "Pending"),
    ],
)
def test_phase_follows_from_pods(before: str, spec: Json, pods: str, after: str) -> None:
    letters = {"P": "Pending", "R": "Running", "S": "Succeeded", "F": "Failed"}
    view = a_job(a_task("worker", 2), phase=before, **spec)

    outcome = look(view, *(a_member("worker", n, letters[letter]) for n, letter in enumerate(pods)))

    assert phase_after(outcome, before) == after


def test_a_task_with_a_minimum_of_its_own_must_reach_it() -> None:
    view = a_job(a_task("ps", 1), a_task("worker", 2, minAvailable=1), phase="Running")

    lucky = look(
        view, a_member("ps", 0, "Succeeded"), a_member("worker", 0, "Succeeded"), a_member("worker", 1, "Failed")
    )
    unlucky = look(
        view, a_member("ps", 0, "Failed"), a_member("worker", 0, "Succeeded"), a_member("worker", 1, "Succeeded")
    )

    assert (phase_after(lucky, ""), phase_after(unlucky, "")) == ("Completed", "Failed")


def test_status_is_written_when_it_says_something_new_and_only_then() -> None:
    view = a_job(a_task("worker", 2), phase="Pending")
    status = status_of(look(view, a_member("worker", 0), a_member("worker", 1, "Pending")))
    assert (status["running"], status["pending"]) == (1, 1)
    assert status["taskStatusCount"] == {"worker": {"phase": {"Running": 1, "Pending": 1}}}

    again = dataclasses.replace(view, status=view.status | status)
    assert status_of(look(again, a_member("worker", 0), a_member("worker", 1, "Pending"))) == {}
    next_ = status_of(look(again, a_member("worker", 0), a_member("worker", 1)))
    assert next_["taskStatusCount"] == {"worker": {"phase": {"Pending": None, "Running": 2}}}
    assert next_["state"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("before", "after"), [("Completing", "Completed"), ("Terminating", "Terminated"), ("Aborting", "Aborted")]
)
def test_a_phase_that_stops_pods_ends_when_none_is_left(before: str, after: str) -> None:
    view = a_job(a_task("worker", 2), phase=before)

    stopping = look(view, a_member("worker", 0), a_member("worker", 1, "Succeeded"))
    stopped = look(view, a_member("worker", 1, "Succeeded"))

    assert phase_after(stopping, before) == before
    assert deleted(stopping) == ["train-worker-0"]
    assert deleted(stopping, "PodGroup") == [GROUP]
    assert phase_after(stopped, before) == after


@pytest.mark.parametrize(
    ("retries", "pods", "after"),
    [
        (1, [], "Pending"),
        (1, [a_member("worker", 0)], "Restarting"),
        (1, [a_member("worker", 0, "Failed")], "Restarting"),
        (1, [a_member("worker", 0, terminating=True)], "Restarting"),
        (3, [], "Failed"),
    ],
)
def test_a_restarting_job_begins_anew_once_its_pods_are_gone_or_gives_up(
    retries: int, pods: list[JobPod], after: str
) -> None:
    view = a_job(a_task("worker", 1), phase="Restarting", status={"retryCount": retries})

    outcome = look(view, *pods)

    assert phase_after(outcome, "Restarting") == after
    assert deleted(outcome) == [pod.name for pod in pods if not pod.terminating]


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated"])
def test_a_finished_job_keeps_its_finished_pods_and_nothing_else(phase: str) -> None:
    view = a_job(a_task("worker", 2), phase=phase)

    outcome = look(view, a_member("worker", 0, "Succeeded"), a_member("worker", 1))

    assert deleted(outcome) == ["train-worker-1"]
    assert deleted(outcome, "PodGroup") == [GROUP]
    assert made(outcome, "Pod") == []


def test_a_finished_job_is_deleted_when_its_time_is_over() -> None:
    view = a_job(a_task("worker", 1), phase="Completed", ttlSecondsAfterFinished=60)

    early, late = look(view, group=None, now=NOW + 59), look(view, group=None, now=NOW + 60)

    assert (deleted(early, "Job"), early.wake_at) == ([], NOW + 60)
    assert deleted(late, "Job") == ["train"]


# --- policies -------------------------------------------------------------------------------------------------------

FAILED = a_member("worker", 1, "Failed", exit_code=137)


@pytest.mark.parametrize(
    ("policy", "pod", "action"),
    [
        ({"event": "PodFailed", "action": "RestartJob"}, FAILED, "RestartJob"),
        ({"events": ["PodEvicted", "PodFailed"], "action": "AbortJob"}, FAILED, "AbortJob"),
        ({"event": "*", "action": "TerminateJob"}, FAILED, "TerminateJob"),
        ({"exitCode": 137, "action": "CompleteJob"}, FAILED, "CompleteJob"),
        ({"exitCode": 1, "action": "RestartJob"}, FAILED, ""),
        ({"event": "PodEvicted", "action": "RestartJob"}, FAILED, ""),
        ({"event": "PodEvicted", "action": "RestartJob"}, a_member("worker", 1, terminating=True), "RestartJob"),
        ({"event": "PodEvicted", "action": "RestartJob"}, a_member("worker", 1, terminating=True, killed=True), ""),
        ({"event": "PodEvicted", "action": "RestartJob"}, a_member("worker", 1, "Succeeded", terminating=True), ""),
        ({"event": "PodRunning", "action": "CompleteJob"}, a_member("worker", 1), "CompleteJob"),
        ({"event": "*", "action": "RestartJob"}, a_member("worker", 1), ""),
        ({"event": "PodFailed", "action": "RestartJob"}, a_member("worker", 1, "Failed", version=7), ""),
        ({"event": "PodFailed", "action": "RestartJob"}, a_member("worker", 9, "Failed"), ""),
        ({"event": "TaskFailed", "action": "AbortJob"}, a_member("worker", 1, restarts=4), "AbortJob"),
        ({"event": "TaskFailed", "action": "AbortJob"}, a_member("worker", 1, restarts=3), ""),
    ],
)
def test_a_policy_is_about_its_events(policy: Json, pod: JobPod, action: str) -> None:
    view = a_job(a_task("worker", 2), phase="Running", policies=[policy])

    decision = policies.decide(view.job, [a_member("worker", 0, "Succeeded"), pod], [], "Running", NOW)

    assert (decision.action.name if decision.action else "") == action


def test_policies_of_a_task_come_before_those_of_the_job() -> None:
    worker = a_task("worker", 2, policies=[{"event": "PodFailed", "action": "RestartTask"}])
    view = a_job(a_task("ps"), worker, phase="Running", policies=[{"event": "PodFailed", "action": "AbortJob"}])

    decision = policies.decide(view.job, [FAILED], [], "Running", NOW)

    assert decision.action is not None
    assert (decision.action.name, decision.action.task) == ("RestartTask", "worker")


def test_a_completed_task_may_complete_the_job() -> None:
    worker = a_task("worker", 2, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}])
    view = a_job(a_task("ps", 1), worker, phase="Running")
    pods = [a_member("ps", 0), a_member("worker", 0, "Succeeded"), a_member("worker", 1)]
    assert not look(view, *pods).acted

    outcome = look(view, *pods[:2], a_member("worker", 1, "Succeeded"))

    assert phase_after(outcome, "") == "Completing"
    assert deleted(outcome) == ["train-ps-0"]


def test_an_unknown_podgroup_is_an_event_of_the_job() -> None:
    view = a_job(a_task("worker", 1), phase="Running", policies=[{"event": "Unknown", "action": "RestartJob"}])

    assert phase_after(look(view, a_member("worker", 0), group="Unknown"), "") == "Restarting"


def test_a_restart_counts_writes_its_status_first_and_then_does_away_with_everything() -> None:
    view = a_job(a_task("worker", 2), phase="Running", policies=[{"event": "PodFailed", "action": "RestartJob"}])

    outcome = look(view, a_member("worker", 0, "Succeeded"), FAILED)

    status = status_of(outcome)
    assert (status["state"]["phase"], status["version"], status["retryCount"]) == ("Restarting", 1, 1)
    assert isinstance(outcome.writes[0], Patch)
    assert deleted(outcome) == ["train-worker-0", "train-worker-1"]
    assert deleted(outcome, "PodGroup") == [GROUP]


def test_what_is_done_because_of_a_pod_says_why_that_failed_when_its_containers_are_not_to_blame() -> None:
    view = a_job(a_task("worker", 2), phase="Running", policies=[{"event": "PodFailed", "action": "RestartJob"}])

    refused = look(view, a_member("worker", 0, "Failed", reason="OutOfcpu"))
    crashed = look(view, FAILED)

    assert [tell.message for tell in refused.events] == [
        "RestartJob because of PodFailed of pod train-worker-0 (OutOfcpu)"
    ]
    assert [tell.message for tell in crashed.events] == ["RestartJob because of PodFailed of pod train-worker-1"]


def test_restarting_a_pod_deletes_that_one_and_counts_and_gives_up_in_the_end() -> None:
    policies = [{"event": "PodFailed", "action": "RestartPod"}]
    view = a_job(a_task("worker", 2), phase="Running", policies=policies)
    outcome = look(view, a_member("worker", 0), FAILED)
    assert deleted(outcome) == ["train-worker-1"]
    assert (status_of(outcome)["retryCount"], phase_after(outcome, "Running")) == (1, "Running")
    assert [type(write) for write in outcome.writes] == [Patch, Delete]
    assert counted_in(status_of(outcome)["controlledResources"]) == Counted((Restart("worker", 1, 1, 1),))

    tired = a_job(a_task("worker", 2), phase="Running", policies=policies, status={"retryCount": 2})
    assert phase_after(look(tired, a_member("worker", 0), FAILED), "") == "Failed"


def test_restarting_a_partition_deletes_the_pods_of_that_part() -> None:
    worker = a_task("worker", 4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})
    policies = [{"event": "PodFailed", "action": "RestartPartition"}]
    view = a_job(worker, phase="Running", policies=policies)
    pods = [a_member("worker", n, "Failed" if n == 3 else "Running") for n in range(4)]

    assert deleted(look(view, *pods)) == ["train-worker-2", "train-worker-3"]


def test_a_policy_with_a_timeout_waits_for_it() -> None:
    policy = {"event": "PodPending", "action": "AbortJob", "timeout": "10m"}
    view = a_job(a_task("worker", 1), phase="Pending", policies=[policy])
    pod = a_member("worker", 0, "Pending", created=NOW - 599)

    early, late = look(view, pod), look(view, pod, now=NOW + 1)

    assert (early.acted, early.wake_at) == (False, NOW + 1)
    assert phase_after(late, "") == "Aborting"


def test_a_pod_that_vanished_is_an_eviction_once() -> None:
    view = a_job(a_task("worker", 1), phase="Running", policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    view.losses = Losses([Loss("train-worker-0", "worker", 0, 0, NOW)])
    assert phase_after(look(view), "") == "Restarting"

    view.losses = Losses([Loss("train-worker-0", "worker", 0, 7, NOW)])
    assert not look(view).acted
    view.losses = Losses([Loss("train-worker-1", "worker", 1, 0, NOW)])  # no longer wanted: the Job was scaled
    assert not look(view).acted


@pytest.mark.parametrize(
    ("last", "killed", "lost"),
    [
        ({"phase": "Running"}, False, True),
        ({"phase": "Running", "terminating": True}, False, True),
        ({"phase": "Running"}, True, False),
        ({"phase": "Succeeded"}, False, False),
    ],
)
def test_a_pod_that_goes_is_lost_unless_it_had_ended_or_was_done_away_with(
    last: Json, killed: bool, lost: bool
) -> None:
    cluster, view = Cluster(), a_job(a_task("worker", 1), phase="Running")
    cluster.store.put_job("ns/train", view)
    owner = reference("Job", "train", "batch.volcano.sh/v1alpha1")
    terminating = last.pop("terminating", False)
    pod = a_pod("train-worker-0", owner=owner, annotations={"volcano.sh/task-spec": "worker"}, **last)
    if terminating:
        stamp = {"deletion_timestamp": "2026-01-01T00:00:00Z"}
        pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **stamp))
    cluster.put(pod)
    if killed:
        (cluster.store.pod_index_of("uid-train-worker-0") or JobPodIndex("")).kill("uid-train-worker-0")

    cluster.store.gone(Deleted("Pod", "ns", "train-worker-0", "uid-train-worker-0"))

    assert [loss.name for loss in cluster.store.jobs["ns/train"].losses] == (["train-worker-0"] if lost else [])
    assert cluster.store._pod_indexes == {}


def test_a_lost_pod_that_runs_again_is_forgotten() -> None:
    cluster, view = Cluster(), a_job(a_task("worker", 1), phase="Running")
    view.losses = Losses([Loss("train-worker-0", "worker", 0, 0, NOW)])
    cluster.store.put_job("ns/train", view)

    cluster.put(a_pod("train-worker-0", owner=reference("Job", "train", "batch.volcano.sh/v1alpha1"), phase="Running"))

    assert list(cluster.store.jobs["ns/train"].losses) == []


@pytest.mark.parametrize(
    ("phase", "command", "after"),
    [
        ("Running", "AbortJob", "Aborting"),
        ("Pending", "TerminateJob", "Terminating"),
        ("Running", "RestartJob", "Restarting"),
        ("Running", "ResumeJob", "Running"),
        ("Aborted", "ResumeJob", "Restarting"),
        ("Aborting", "ResumeJob", "Restarting"),
        ("Completed", "RestartJob", "Completed"),
        ("Running", "nonsense", "Running"),
    ],
)
def test_commands_mean_something_in_some_phases(phase: str, command: str, after: str) -> None:
    view = a_job(a_task("worker", 1), phase=phase)
    view.command = command

    assert phase_after(look(view, a_member("worker", 0)), phase) == after


def test_an_action_that_runs_against_a_restart_is_not_taken_twice() -> None:
    view = a_job(a_task("worker", 1), phase="Restarting", policies=[{"event": "*", "action": "RestartJob"}])

    assert not look(view, a_member("worker", 0, "Failed")).acted


# --- what users write -----------------------------------------------------------------------------------------------


def test_a_job_that_makes_no_sense_is_not_run_and_says_why() -> None:
    view = a_job(a_task("worker", 1), a_task("worker", 1), minAvailable=5)

    outcome = look(view)

    assert outcome.writes == []
    [tell] = outcome.events
    assert tell.reason == "InvalidJob"
    assert "spec.minAvailable" in tell.message


@pytest.mark.parametrize("on", ["a", "b", "gone"])
def test_a_job_whose_tasks_can_never_start_is_not_run_and_says_why(on: str) -> None:
    view = a_job(a_task("a", 1, dependsOn={"name": [on]}), a_task("b", 1, dependsOn={"name": ["a"]}))

    outcome = look(view)

    assert outcome.writes == []
    [tell] = outcome.events
    assert (tell.kind, tell.name, tell.type, tell.reason) == ("Job", "train", "Warning", "InvalidJob")
    assert tell.message.startswith("spec.tasks[0].dependsOn")


def test_a_job_of_a_scheduler_that_is_not_ours_is_left_alone_and_says_so() -> None:
    outcome = look(a_job(a_task("worker", 1), schedulerName="volcano"))

    assert outcome.writes == []
    assert [tell.reason for tell in outcome.events] == ["ForeignScheduler"]


def test_a_job_without_a_scheduler_is_ours() -> None:
    raw: Json = {"metadata": {"name": "j"}, "spec": {"tasks": [a_task("worker", 1)]}}

    assert job_view(raw, ("volsched", "volcano"), "default").job.spec.scheduler_name == "volcano"
    assert job_view(raw, ("volsched",), "default").job.spec.scheduler_name == "volsched"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["tasks", "policies", "volumes", "plugins", "minAvailable", "minSuccess", "queue", "maxRetry"]
INNER = [
    "name",
    "replicas",
    "template",
    "policies",
    "dependsOn",
    "mountPath",
    "volumeClaim",
    "action",
    "event",
    "timeout",
]
ITEMS = st.lists(st.dictionaries(st.sampled_from(INNER), JSON, max_size=5), max_size=3)
SPECS = st.dictionaries(st.sampled_from(FIELDS), JSON | ITEMS)


@pytest.mark.slow(reason="hundreds of random inputs")
@given(SPECS, JSON, st.sampled_from([*Phase, "", "odd"]))
def test_whatever_a_user_writes_becomes_writes_or_words(spec: Json, status: Any, phase: str) -> None:
    raw = {"metadata": {"name": "j", "namespace": "ns", "uid": "u"}, "spec": spec, "status": status}
    if isinstance(status, dict):
        raw["status"] = status | {"state": {"phase": str(phase)}}

    outcome = reconcile(job_view(raw, ("volsched",), "default"), JobSurroundings((), None, {}, "default"), NOW)

    assert outcome.writes or outcome.events or phase in Phase
    assert all(isinstance(write.name, str) for write in outcome.writes)


def test_raw_objects_that_are_hardly_objects_have_a_problem() -> None:
    view = job_view({"metadata": {"name": "j", "uid": "u"}, "spec": {"tasks": 3}}, ("volsched",), "default")

    assert view.problem.startswith("$.spec.tasks")
    assert view.job == api.Job(metadata=api.ObjectMeta(name="j", uid="u"))
