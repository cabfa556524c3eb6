"""The design documents' examples through ``simulate``: who goes where, what is charged, what is said to the rest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.capacity_card.examples import (
    CR_QUEUE1,
    FULL_CONFIGURATION,
    QUEUE_A,
    SMALL_CONFIGURATION,
    TEAM_A,
    deployment,
    job,
    node,
)
from volsched.registry import load_profile
from volsched.simulation.documents import read_documents
from volsched.simulation.manifests import read_inventory
from volsched.simulation.result import result_of
from volsched.simulation.runner import SimulationSettings, simulate

A, H, T = "NVIDIA-A100", "NVIDIA-H100", "NVIDIA-T4"
GPU = "nvidia.com/gpu"
R4090, R4090D = "NVIDIA-GeForce-RTX-4090", "NVIDIA-GeForce-RTX-4090-D"
MPS = f"{A}/mps-80g*1/8"


@pytest.fixture
def simulated(tmp_path: Path) -> Any:
    def run(*manifests: str, configuration: str = FULL_CONFIGURATION) -> Any:
        path = tmp_path / "manifests.yaml"
        path.write_text("\n---\n".join(manifests))
        inventory = read_inventory(read_documents((str(path),)))
        return result_of(simulate(inventory, load_profile(configuration)[0], SimulationSettings(scores=True)))

    return run


def on_nodes(result: Any) -> dict[str, int]:
    return dict(Counter(pod["node"] for pod in result["pods"].values() if pod["node"]))


def charged(result: Any, queue: str) -> dict[str, str]:
    return {
        name: amount for name, amount in result["queues"][queue]["allocated"].items() if name not in ("cpu", "memory")
    }


def test_a_job_of_eight_cards(simulated: Any) -> None:
    result = simulated(QUEUE_A, node("a1", A, f"{GPU}: 8"), job("training-job", A, total=8, replicas=8, products=A))

    assert on_nodes(result) == {"a1": 8}
    assert charged(result, "queue-a") == {A: "8"}


def test_a_job_that_takes_either_card(simulated: Any) -> None:
    nodes = [node("a1", A, f"{GPU}: 4"), node("h1", H, f"{GPU}: 8")]
    result = simulated(QUEUE_A, *nodes, job("training-job", f"{A}|{H}", total=8, replicas=8, products=f"{A}, {H}"))

    assert on_nodes(result) == {"a1": 4, "h1": 4}
    assert charged(result, "queue-a") == {A: "4", H: "4"}


def test_a_deployment_whose_queue_has_no_quota_of_its_card(simulated: Any) -> None:
    result = simulated(CR_QUEUE1, node("a1", A, f"{GPU}: 8"), deployment("inference-deployment", A, products=A))

    assert on_nodes(result) == {}
    assert {entry["reason"] for entry in result["pending"]} == {"InsufficientScalarQuota"}


def test_example_1_basic_quota(simulated: Any) -> None:
    nodes = [node("a1", A, f"{GPU}: 4"), node("a2", A, f"{GPU}: 4")]
    queue = TEAM_A % {"quota": '{"NVIDIA-A100": 5}'}
    result = simulated(queue, *nodes, job("training", A, total=4, replicas=4, minimum=4, queue="team-a"))

    assert sum(on_nodes(result).values()) == 4
    assert charged(result, "team-a") == {A: "4"}


def test_example_2_a_second_card_once_the_quota_of_the_first_is_used_up(simulated: Any) -> None:
    nodes = [node("a1", A, f"{GPU}: 8"), node("h1", H, f"{GPU}: 8")]
    queue = TEAM_A % {"quota": '{"NVIDIA-A100": 3, "NVIDIA-H100": 2}'}
    result = simulated(queue, *nodes, job("flexible-training", f"{A}|{H}", total=4, replicas=4, queue="team-a"))

    assert on_nodes(result) == {"a1": 3, "h1": 1}
    assert charged(result, "team-a") == {A: "3", H: "1"}


def test_example_3_sixteen_pods_share_four_cards(simulated: Any) -> None:
    queue = TEAM_A % {"quota": f'{{"{MPS}": 32}}'}
    shares = node("m1", A, "nvidia.com/gpu.shared: 32")
    result = simulated(
        queue, shares, job("shared", MPS, total=16, replicas=16, queue="team-a", resource=f"{GPU}.shared")
    )

    assert on_nodes(result) == {"m1": 16}
    assert charged(result, "team-a") == {MPS: "16"}


def test_example_4_the_order_of_the_list_weighs(simulated: Any) -> None:
    nodes = [node("a1", A, f"{GPU}: 1"), node("h1", H, f"{GPU}: 1"), node("t1", T, f"{GPU}: 8")]
    queue = TEAM_A % {"quota": f'{{"{A}": 4, "{H}": 4, "{T}": 4}}'}
    work = job("multi-card-training", f"{A}|{H}|{T}", total=4, replicas=4, queue="team-a", products=f"{A}, {H}, {T}")
    result = simulated(queue, *nodes, work, configuration=SMALL_CONFIGURATION % {"weight": 2.0})

    assert on_nodes(result) == {"a1": 1, "h1": 1, "t1": 2}
    first = result["scores"]["default/multi-card-training-worker-0"]
    assert {name: given["plugins"]["capacity-card"] for name, given in first.items()} == {
        "a1": 200,
        "h1": 100,
        "t1": 50,
    }


def test_the_proposals_training_job(simulated: Any) -> None:
    h200 = node("h200", "NVIDIA-H200", f"{GPU}: 7, nvidia.com/mig-3g.71gb: 1, nvidia.com/mig-1g.18gb: 3", 143771)
    work = job("cr-job", "NVIDIA-H200", total=2, replicas=2, minimum=2, queue="cr-queue1", products="NVIDIA-H200")
    result = simulated(CR_QUEUE1, h200, work)

    assert charged(result, "cr-queue1") == {"NVIDIA-H200": "2"}


def test_the_proposals_refusal_to_the_letter(simulated: Any) -> None:
    h200 = node("h200", "NVIDIA-H200", f"{GPU}: 8", 143771)
    work = job("cr-job", "NVIDIA-H200", total=5, replicas=5, minimum=5, queue="cr-queue1")
    result = simulated(CR_QUEUE1, h200, work)

    said = [event for event in result["events"] if event["reason"] == "InsufficientScalarQuota"]
    assert [event["object"].split("/")[0] for event in said] == ["PodGroup"]
    assert said[0]["message"].startswith(
        "Queue <cr-queue1> has insufficient <NVIDIA-H200> quota: requested <5000>, total would be <5000>, "
        "but capability is <3000>"
    )


@pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", "allocate, backfill"])
def test_the_proposals_inference_service_has_its_pods_weighed_one_by_one(simulated: Any, actions: str) -> None:
    """It starts without queuing: five pods, a quota of three, three run, whether admission is configured or not."""
    h200 = node("h200", "NVIDIA-H200", f"{GPU}: 8", 143771)
    service = deployment("cr-deployment", "NVIDIA-H200", replicas=5, products="NVIDIA-H200")
    configuration = (SMALL_CONFIGURATION % {"weight": 1.0}).replace("enqueue, allocate, backfill", actions)
    assert f'actions: "{actions}"' in configuration

    result = simulated(CR_QUEUE1, h200, service, configuration=configuration)

    assert charged(result, "cr-queue1") == {"NVIDIA-H200": "3"}
    refused = [entry for entry in result["pending"] if entry["reason"] == "InsufficientScalarQuota"]
    assert [entry["step"] for entry in refused] == ["allocatable", "allocatable"]


@pytest.mark.parametrize("kind", ["job", "deployment"])
def test_the_proposals_lists(simulated: Any, kind: str) -> None:
    names = f"{R4090}|{R4090D}"
    nodes = [node("r1", R4090, f"{GPU}: 1", 24564), node("r2", R4090D, f"{GPU}: 8", 24564)]
    work = (
        job("cr-job", names, total=2, replicas=2, minimum=2, queue="cr-queue1")
        if kind == "job"
        else deployment("cr-deployment", names)
    )
    result = simulated(CR_QUEUE1, *nodes, work)

    assert charged(result, "cr-queue1") == {R4090: "1", R4090D: "1"}


def test_slices_of_one_node_are_quotas_of_their_own(simulated: Any) -> None:
    slices = f"{GPU}: 7, nvidia.com/mig-3g.71gb: 1, nvidia.com/mig-1g.18gb: 3"
    h200, mig = node("h200", "NVIDIA-H200", slices, 143771), "NVIDIA-H200/mig-1g.18gb-mixed"
    work = job("slices", mig, total=3, replicas=4, queue="cr-queue1", resource="nvidia.com/mig-1g.18gb")
    result = simulated(CR_QUEUE1, h200, work)

    assert charged(result, "cr-queue1") == {mig: "3"}


def test_the_smallest_configuration_of_the_design_runs(simulated: Any) -> None:
    result = simulated(
        QUEUE_A,
        node("a1", A, f"{GPU}: 8"),
        job("training-job", A, total=8, replicas=8),
        configuration=SMALL_CONFIGURATION % {"weight": 1.0},
    )

    assert on_nodes(result) == {"a1": 8}


def test_queues_are_shown_in_cards(simulated: Any) -> None:
    holds = job("holds", A, total=6, replicas=6, minimum=6)
    waits = job("waits", A, total=3, replicas=3, minimum=3)
    result = simulated(QUEUE_A, node("a1", A, f"{GPU}: 8"), holds, waits)

    queue = result["queues"]["queue-a"]
    assert queue["inqueue"] == {A: "3"}
    assert queue["capability"] == {A: "10", H: "5", MPS: "16", "cpu": "100", "memory": "200Gi"}
