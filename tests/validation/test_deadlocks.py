"""Gangs that can never start are told in advance, by validate and by explain; a Job without a minimum has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calls import call, written
from tests.simulation.clusters import Manifest, group, node, pending, placed, pod, result, volcano_job, workload
from tests.validation.test_objects import problems

ROLLING = Path(__file__).with_name("inputs") / "rolling-gang.yaml"
LEAST = "scheduling.volcano.sh/group-min-member"
FIELD = f"metadata.annotations[{LEAST}]"


def gang(kind: str, least: int, replicas: int | None = 4, **spec: Any) -> Manifest:
    return workload(kind, "w", replicas, spec=spec, metadata={"annotations": {LEAST: str(least)}})


def rolling(surge: int | str, unavailable: int | str) -> Manifest:
    return {"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}


def depending(least: int | None = None, *, a: Manifest | None = None, b: Manifest | None = None) -> Manifest:
    """Return a Job of two pods and of three that depend on them."""
    job = volcano_job("train", {"a": 2, "b": 3}, **({} if least is None else {"minAvailable": least}))
    first, second = job["spec"]["tasks"]
    first.update(a or {})
    second.update({"dependsOn": {"name": ["a"]}, **(b or {})})
    return job


# --- workloads ------------------------------------------------------------------------------------------------------

STUCK: list[tuple[Manifest, str]] = [
    (gang("Deployment", 4), "makes 2 of the 4 new pods before it waits for them"),
    (gang("Deployment", 2, 2), "makes 1 of the 2 new pods"),
    (gang("Deployment", 4, **rolling(3, 0)), "raise spec.strategy.rollingUpdate.maxSurge to 4"),
    (gang("Deployment", 4, **rolling("50%", "25%")), "makes 3 of the 4"),
    (gang("Deployment", 2, **rolling(0, 0)), "makes 1 of the 4"),
    (gang("Deployment", 5), "5 pods have to start together, and it has 4 replicas"),
    (gang("ReplicaSet", 5), "it has 4 replicas: none ever starts"),
    (gang("StatefulSet", 2), "set spec.podManagementPolicy to Parallel"),
    (gang("StatefulSet", 5, podManagementPolicy="Parallel"), "it has 4 replicas"),
    (gang("Job", 3, None, parallelism=2, completions=9), "it has 2 pods at a time"),
    (gang("Job", 3, None, parallelism=5, completions=2), "it has 2 pods at a time"),
]


@pytest.mark.parametrize(("manifest", "said"), STUCK)
def test_a_workload_whose_pods_wait_for_each_other_is_warned_of(manifest: Manifest, said: str) -> None:
    [found] = problems(manifest)

    assert (found.field, found.severity) == (FIELD, "warning")
    assert said in found.message


@pytest.mark.parametrize(
    "manifest",
    [
        gang("Deployment", 1),
        gang("Deployment", 2),
        gang("Deployment", 4, **rolling("100%", 0)),
        gang("Deployment", 4, **rolling(0, "100%")),
        gang("Deployment", 4, strategy={"type": "Recreate"}),
        gang("Deployment", 4, 0),
        gang("ReplicaSet", 4),
        gang("StatefulSet", 1),
        gang("StatefulSet", 4, podManagementPolicy="Parallel"),
        gang("Job", 2, None, parallelism=2, completions=9),
        gang("DaemonSet", 9, None),
    ],
)
def test_a_workload_whose_pods_come_together_is_not(manifest: Manifest) -> None:
    assert problems(manifest) == []


@pytest.mark.parametrize("scheduler", ["", "default-scheduler", "stork"])
@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job"])
def test_a_workload_of_another_scheduler_is_no_gang(tmp_path: Path, kind: str, scheduler: str) -> None:
    spec = {"parallelism": 4} if kind == "Job" else {}
    stuck = workload(
        kind,
        "w",
        None if kind == "Job" else 4,
        scheduler=scheduler,
        spec=spec,
        metadata={"annotations": {LEAST: "5"}},
        template_annotations={"volcano.sh/network-topology-mode": "hard"},
    )
    file = written(tmp_path, stuck)

    def warned(*flags: str) -> list[str]:
        found = call("validate", "-f", file, "-o", "json", *flags).stdout
        return [problem["field"] for problem in json.loads(found)["problems"]]

    topology = "spec.template.metadata.annotations[volcano.sh/network-topology-mode]"
    assert warned() == []
    assert warned("--scheduler-name", scheduler or "default-scheduler") == [topology, FIELD]


def test_a_volcano_job_of_another_scheduler_is_left_to_it(tmp_path: Path) -> None:
    job = depending(5)
    job["spec"]["schedulerName"] = "stork"

    assert "spec.minAvailable" not in call("validate", "-f", written(tmp_path, job)).stdout
    assert "spec.minAvailable" in call("validate", "-f", written(tmp_path, job), "--scheduler-name", "stork").stdout


def test_a_roll_out_that_cannot_go_on_is_told_on_both_objects_and_the_old_one_is_left_alone() -> None:
    answer = call("validate", "-f", ROLLING, "-o", "json")

    found = json.loads(answer.stdout)["problems"]
    assert answer.exit_code == 0
    assert [(one["object"], one["field"]) for one in found] == [
        ("Deployment/default/web", FIELD),
        ("ReplicaSet/default/web-new", FIELD),
    ]


def test_a_replica_set_that_is_scaled_down_while_its_pods_run_is_not_stuck() -> None:
    old = gang("ReplicaSet", 2, 1)
    owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "controller": True, "uid": "u"}]

    assert problems(old, pod("w-0", on="n1", metadata={"ownerReferences": owner})) == []
    assert len(problems(old, pod("x", on="n1"))) == 1


def test_explain_says_why_the_new_pods_never_start_and_what_waits_for_the_old_ones() -> None:
    new = call("explain", "pod", "web-new-0", "-f", ROLLING, "--help-seconds", "0", "-o", "json")
    old = call("explain", "pod", "web-old-0", "-f", ROLLING, "--help-seconds", "0", "-o", "json")

    [stuck] = json.loads(new.stdout)["warnings"]
    [later] = json.loads(old.stdout)["warnings"]
    assert stuck.startswith(f"ReplicaSet/default/web-new: {FIELD}: the rolling update of Deployment 'web' lets it have")
    assert later.startswith(f"Deployment/default/web: {FIELD}: a rolling update makes 1 of the 2 new pods")
    page = call("explain", "pod", "web-new-0", "-f", ROLLING, "--help-seconds", "0").stdout
    assert "Deadlock: ReplicaSet/default/web-new: " in page


# --- Volcano Jobs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "most"),
    [
        (depending(5), 2),
        (depending(3), 2),
        (depending(3, a={"replicas": 5, "minAvailable": 1}, b={"replicas": 1}), 1),
    ],
)
def test_a_minimum_that_counts_pods_which_come_later_is_warned_of_and_left_as_it_is(job: Manifest, most: int) -> None:
    [found] = problems(job)

    assert (found.field, found.severity) == ("spec.minAvailable", "warning")
    assert "counts pods of 'b', which are made only once the tasks run on which they depend" in found.message
    assert found.message.endswith(f"leave it out, or make it {most} at most")
    simulated = result(node("n1", cpu=8), job)
    assert placed(simulated) == {}
    [group] = simulated["podGroups"]
    assert {entry["podGroup"] for entry in pending(simulated).values()} == {group}


@pytest.mark.parametrize("job", [depending(), depending(2), depending(1), depending(2, b={"minAvailable": 0})])
def test_a_minimum_of_the_first_tasks_is_not_and_the_job_runs(job: Manifest) -> None:
    assert problems(job) == []
    assert len(placed(result(node("n1", cpu=8), job))) == 5


def test_the_tasks_that_depend_on_none_are_the_first_gang_where_the_job_states_no_minimum() -> None:
    job = depending(a={"replicas": 2, "minAvailable": 2})

    found = result(node("n1", cpu=1), job)

    assert placed(found) == {}
    assert sorted(pending(found)) == ["train-a-0", "train-a-1"]


def test_explain_says_that_a_job_waits_for_pods_that_wait_for_it(tmp_path: Path) -> None:
    file = written(tmp_path, node("n1", cpu=8), depending(5))

    answer = call("explain", "job", "train", "-f", file, "--help-seconds", "0", "-o", "json")

    [stuck] = json.loads(answer.stdout)["warnings"]
    assert stuck.startswith("Job/default/train: spec.minAvailable: 5 counts pods of 'b', ")


# --- Volcano Jobs that are not run ------------------------------------------------------------------------------------


def chained(**depends: list[str]) -> Manifest:
    """Return a Job with a task for each name, which depends on these."""
    job = volcano_job("train", dict.fromkeys(depends, 1))
    for task in job["spec"]["tasks"]:
        task["dependsOn"] = {"name": depends[task["name"]]}
    return job


NOT_RUN: list[tuple[Manifest, str, str]] = [
    (chained(a=["b"], b=["a"]), "spec.tasks[0].dependsOn", "task 'a' waits for itself, over 'b': its pods are never"),
    (chained(free=[], a=["a"]), "spec.tasks[1].dependsOn", "task 'a' waits for itself: its pods are never made"),
    (chained(a=["b"], b=["c"], c=["d"], d=["a"]), "spec.tasks[0].dependsOn", "waits for itself, over 'b', 'c', 'd':"),
    (
        chained(a=["b"], b=["c"], c=["d"], d=["e"], e=["a"]),
        "spec.tasks[0].dependsOn",
        "waits for itself, over 'b', 'c', 'd' and 1 more: its",
    ),
    (chained(a=[], b=["gone"]), "spec.tasks[1].dependsOn.name[0]", "there is no task 'gone'"),
    (volcano_job("train", {"a": 2}, minAvailable=3), "spec.minAvailable", "3 is more than the 2 replicas"),
    (volcano_job("train", {"a": 1}, plugins={"svc": ["--x"]}), "spec.plugins[svc]", "there is no argument --x"),
    (volcano_job("train", {"a": 1}, policies=[{"action": "X", "event": "*"}]), "spec.policies[0].action", "'X'"),
]


@pytest.mark.parametrize(("job", "field", "said"), NOT_RUN)
def test_a_job_that_its_controller_refuses_waits_and_every_verb_says_why(
    tmp_path: Path, job: Manifest, field: str, said: str
) -> None:
    file = written(tmp_path, node("n1"), job)

    validated = call("validate", "-f", file)
    simulated = result(node("n1"), job)
    explained = call("explain", "job", "train", "-f", file, "-o", "json")

    assert validated.exit_code == 1
    assert f"error: Job/default/train: {field}: " in validated.stdout
    assert said in validated.stdout
    assert (simulated["podGroups"], simulated["pods"]) == ({}, {})
    [waiting] = simulated["pending"]
    [told] = simulated["events"]
    answer = json.loads(explained.stdout)
    assert (waiting["job"], told["object"]) == ("default/train", "Job/default/train")
    assert (explained.exit_code, answer["state"], answer["queue"]) == (3, "waits", "default")
    assert answer["sentence"] == "job default/train is not run, and has no PodGroup."
    assert (waiting["step"], answer["step"]) == ("invalid", "invalid")
    assert {waiting["reason"], told["reason"], answer["reason"]} == {"InvalidJob"}
    assert {waiting["message"], told["message"], answer["message"]} == {waiting["message"]}
    assert waiting["message"].startswith(f"{field}: ")
    assert said in waiting["message"]


def test_a_circle_over_a_task_without_a_name_is_found_before_admission_gives_it_one() -> None:
    job = chained(a=["default1"], b=["a"])
    del job["spec"]["tasks"][1]["name"]

    [found] = problems(job)

    assert "task 'a' waits for itself, over 'default1'" in found.message


def test_of_a_circle_that_others_controllers_run_explain_says_that_it_never_ends(tmp_path: Path) -> None:
    job = chained(a=["b"], b=["a"])
    job["metadata"]["uid"] = "u"
    owner = [{"apiVersion": job["apiVersion"], "kind": "Job", "name": "train", "controller": True, "uid": "u"}]
    theirs = group("train-u", 2, phase="Inqueue")
    theirs["metadata"]["ownerReferences"] = owner

    answer = call("explain", "job", "train", "-f", written(tmp_path, theirs, job), "--help-seconds", "0", "-o", "json")

    [stuck] = json.loads(answer.stdout)["warnings"]
    assert stuck.startswith("Job/default/train: spec.tasks[0].dependsOn: task 'a' waits for itself, over 'b'")


def test_what_is_wrong_with_its_pods_alone_is_said_of_each_of_them() -> None:
    job = volcano_job("train", {"a": 2})
    job["spec"]["tasks"][0]["template"]["spec"]["nodeSelector"] = {"a b": "c"}

    assert sorted(pending(result(node("n1"), job))) == ["train-a-0", "train-a-1"]
