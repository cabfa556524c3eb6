"""Jobs that state a hard rule which volsched cannot keep, in a simulation: they wait, with words, and so do Jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.clusters import Manifest, group, node, pending, placed, pod, result, stock, volcano_job, workload
from volsched.simulation.documents import read_documents

INPUTS = Path(__file__).with_name("inputs")
HARD = {"mode": "hard", "highestTierAllowed": 1}
WITHOUT_ENQUEUE = 'actions: "allocate, backfill"\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n'


def with_tasks(job: Manifest, **fields: object) -> Manifest:
    for task in job["spec"]["tasks"]:
        task.update(fields)
    return job


def a_hard_job() -> Manifest:
    return volcano_job("train", {"worker": 2}, networkTopology=HARD)


def a_job_of_hard_partitions() -> Manifest:
    policy = {"totalPartitions": 1, "partitionSize": 2, "networkTopology": {"highestTierAllowed": 1}}
    return with_tasks(volcano_job("train", {"worker": 2}), partitionPolicy=policy)


def test_halves_of_subgroups_are_not_started() -> None:
    found = result(*(document.raw for document in read_documents([str(INPUTS / "subgroup-halves.yaml")])))

    assert placed(found) == {}
    assert {name: entry["reason"] for name, entry in pending(found).items()} == dict.fromkeys(
        ["a-0", "a-1", "b-0", "b-1"], "SubGroupsUnknown"
    )


@pytest.mark.parametrize("config", [None, WITHOUT_ENQUEUE])
@pytest.mark.parametrize("job", [a_hard_job(), a_job_of_hard_partitions()], ids=["job", "partitions"])
def test_a_volcano_job_has_no_pods_and_is_told_why(job: Manifest, config: str | None) -> None:
    found = result(node("n1"), job, **({"config": config} if config else {}))

    [entry] = found["pending"]
    assert (entry["pod"], entry["step"], entry["reason"]) == (None, "invalid", "NetworkTopologyUnknown")
    assert found["podGroups"][entry["podGroup"]]["phase"] == "Pending"
    told = {event["object"] for event in found["events"] if "knows no HyperNodes" in event["message"]}
    assert told == {f"PodGroup/{entry['podGroup']}", "Job/default/train"}


def test_partitions_without_a_topology_start_as_ever() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 1, "minPartitions": 1}

    found = result(node("n1"), with_tasks(volcano_job("train", {"worker": 2}), partitionPolicy=policy))

    assert placed(found) == {"train-worker-0": "n1", "train-worker-1": "n1"}


def test_pods_that_ask_for_a_hard_topology_by_annotation_wait() -> None:
    web = workload("Deployment", "web")
    web["spec"]["template"].setdefault("metadata", {})["annotations"] = {"volcano.sh/network-topology-mode": "hard"}

    found = result(node("n1"), web)

    assert found["binds"] == []
    assert {entry["reason"] for entry in found["pending"]} == {"NetworkTopologyUnknown"}


def test_it_keeps_nobody_else_out() -> None:
    hard = group("hard", 1)
    hard["spec"] |= {"networkTopology": {}, "minResources": {"cpu": "8"}}

    found = result(node("n1", cpu=8), hard, pod("p", cpu=8))

    assert placed(found) == {"p": "n1"}


def test_what_has_no_effect_is_a_doubt_about_the_input() -> None:
    policy = with_tasks(volcano_job("train", {"worker": 1}), topologyPolicy="single-numa-node")

    [doubt] = stock(node("n1"), policy).doubts

    assert str(doubt).startswith(
        "test: document 2: Job/default/train: spec.tasks[0].topologyPolicy: has no effect: volsched knows no NUMA nodes"
    )
