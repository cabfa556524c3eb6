"""Pods of other schedulers: whose they are, what of them holds room, and what is told of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calls import call, without_progress, written
from tests.simulation.clusters import Manifest, node, pending, placed, pod, queue, result, volcano_job, workload
from volsched.simulation.documents import read_documents

INPUT = Path(__file__).with_name("inputs") / "no-scheduler-name.yaml"
DEFAULT = {"scheduler_names": ("default-scheduler",)}


def of_nobody(kind: str, name: str, **more: object) -> Manifest:
    return workload(kind, name, scheduler="", **more)  # type: ignore[arg-type]


def test_a_pod_that_names_no_scheduler_is_default_schedulers() -> None:
    manifests = [document.raw for document in read_documents([str(INPUT)])]

    found = result(*manifests, **DEFAULT)

    assert placed(found) == {"p": "n1"}
    assert len(pending(found)) == 2
    assert "notes" not in found


def test_and_nobody_elses_which_is_told_in_one_note() -> None:
    manifests = [document.raw for document in read_documents([str(INPUT)])]

    found = result(*manifests)

    assert (placed(found), found["pending"]) == ({}, [])
    assert found["notes"] == [
        "of other schedulers, and not placed: Pod/default/p (default-scheduler), Deployment/default/web "
        "(default-scheduler); --scheduler-name says whose are placed, here volsched, volcano"
    ]


@pytest.mark.parametrize("output", ["table", "json"])
def test_the_note_is_on_standard_error_with_every_output(output: str) -> None:
    answer = call("simulate", "-f", INPUT, "-o", output)

    [note] = without_progress(answer.stderr)
    assert note.startswith("note: of other schedulers, and not placed: Pod/default/p (default-scheduler), ")


def test_explain_takes_it_for_default_schedulers_and_says_so_where_it_is_anothers() -> None:
    flags = ("explain", "pod", "p", "-f", INPUT)

    assert "default/p is scheduled" in call(*flags, "--scheduler-name", "default-scheduler").stdout
    assert without_progress(call(*flags).stderr) == [
        "error: pod default/p is placed by the scheduler 'default-scheduler', which is not explained here; "
        "--scheduler-name default-scheduler explains it"
    ]


def test_pods_with_a_node_and_finished_ones_are_not_named() -> None:
    done = pod("done", scheduler="other")
    done["status"] = {"phase": "Succeeded"}

    assert "notes" not in result(node("n1"), pod("runs", scheduler="other", on="n1"), done)


def test_a_workload_is_named_once_with_its_scheduler_and_many_are_counted() -> None:
    found = result(node("n1"), *(of_nobody("Deployment", f"web-{number:02}", replicas=3) for number in range(25)))

    [note] = found["notes"]
    assert note.count("Deployment/default/web-") == 20
    assert "web-19 (default-scheduler) and 5 more; --scheduler-name" in note


def test_a_volcano_job_of_another_scheduler_is_left_alone() -> None:
    found = result(node("n1"), volcano_job("train", {"worker": 2}, schedulerName="other"))

    assert (found["podGroups"], found["pods"], found["pending"]) == ({}, {}, [])
    assert found["notes"][0].startswith("of other schedulers, and not placed: Job/default/train (other); ")


# --- DaemonSets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["", "other", "volsched"])
def test_a_daemon_set_has_its_pods_on_the_nodes_before_anybody_is_placed(scheduler: str) -> None:
    agent = workload("DaemonSet", "agent", scheduler=scheduler, cpu=2)
    tainted = [{"key": "x", "effect": "NoSchedule"}]

    found = result(node("a", cpu=4), node("b", cpu=4, taints=tainted), pod("big", cpu=3), pod("fits", cpu=2), agent)

    assert {name: shown["node"] for name, shown in found["pods"].items() if "agent" in name} == {"default/agent-a": "a"}
    assert placed(found) == {"fits": "a"}
    assert list(pending(found)) == ["big"]
    assert "notes" not in found


def test_a_pod_of_a_daemon_set_that_has_no_room_holds_none() -> None:
    agent = of_nobody("DaemonSet", "agent", cpu=2)
    full, free = node("full", cpu=2), node("free", cpu=2)

    found = result(full, free, pod("runs", on="full", cpu=1), agent, pod("p", cpu=1))

    assert found["pods"]["default/agent-full"]["node"] is None
    assert found["pods"]["default/agent-free"]["node"] == "free"
    assert placed(found) == {"p": "full"}
    assert found["notes"][0].startswith("of other schedulers, and not placed: DaemonSet/default/agent (default-")


def test_several_daemon_sets_share_what_a_node_has() -> None:
    found = result(node("n", cpu=3), of_nobody("DaemonSet", "one", cpu=2), of_nobody("DaemonSet", "two", cpu=2))

    assert [found["pods"][f"default/{name}-n"]["node"] for name in ("one", "two")] == ["n", None]


def test_a_pod_of_the_input_counts_for_the_node_to_which_its_affinity_pins_it() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "controller": True, "uid": ""}
    fields = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    near = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": fields}}}
    waits = pod("agent-x1", scheduler="other", affinity=near, metadata={"ownerReferences": [owner]})

    found = result(node("n"), waits, workload("DaemonSet", "agent", scheduler="other"))

    assert list(found["pods"]) == ["default/agent-x1"]


def test_what_a_daemon_set_of_ours_holds_counts_in_its_queue() -> None:
    agent = workload("DaemonSet", "agent", template_annotations={"scheduling.volcano.sh/queue-name": "team"}, cpu=2)

    found = result(node("n"), queue("team"), agent)

    assert found["queues"]["team"]["allocated"] == {"cpu": "2"}


def test_the_same_file_by_the_command_line(tmp_path: Path) -> None:
    file = written(tmp_path, node("n1"), of_nobody("Deployment", "web", replicas=1))

    assert call("simulate", "-f", file, "--fail-on-pending").exit_code == 0
    assert call("simulate", "-f", file, "--fail-on-pending", "--scheduler-name", "default-scheduler").exit_code == 0
    assert "web" in call("simulate", "-f", file, "--scheduler-name", "default-scheduler").stdout
