"""The examples of manifests/examples/capacity-card, from the design documents, become what their heads say."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calls import call, without_progress

EXAMPLES = Path(__file__).resolve().parents[3] / "manifests" / "examples" / "capacity-card"

PLACED: dict[str, dict[tuple[str, str], int]] = {
    "1-basic-quota": {("training", "a100-1"): 4},
    "2-several-cards": {("flexible-training", "a100-1"): 2, ("flexible-training", "h100-1"): 2},
    "3-mps-shares": {("inference", "mps-1"): 16},
    "4-order-of-cards": {
        ("multi-card-training", "a100-1"): 2,
        ("multi-card-training", "h100-1"): 1,
        ("multi-card-training", "t4-1"): 1,
    },
    "5-training-and-serving": {
        ("training-job", "a100-1"): 6,
        ("training-job", "a100-2"): 2,
        ("inference-deployment", "a100-1"): 2,
    },
    "6-online-and-offline": {("cr-job", "h200-1"): 2, ("cr-deployment", "h200-1"): 1, ("prepare", "h200-1"): 2},
    "7-either-model": {("cr-deployment", "rtx-1"): 2, ("cr-job", "rtx-2"): 2},
}
WAITING = {
    "1-basic-quota": {"another-training": "Queue <team-a> has insufficient <NVIDIA-A100> quota: requested <4000>, "},
    "6-online-and-offline": {"prepare": "Queue <cr-queue1> has insufficient CPU quota: requested <2000>, "},
}


def workload(name: str, known: set[str]) -> str:
    return max((one for one in known if name.startswith(one)), key=len)


def simulated(example: str) -> Any:
    answer = call("simulate", "-f", EXAMPLES / f"{example}.yaml", "-o", "json", "--scores", "--strict")
    assert (answer.exit_code, without_progress(answer.stderr)) == (0, [])
    return json.loads(answer.stdout)


@pytest.mark.parametrize("example", PLACED)
def test_an_example_becomes_what_its_head_says(example: str) -> None:
    result, waiting = simulated(example), WAITING.get(example, {})
    known = {name for name, _ in PLACED[example]} | waiting.keys()
    placed = Counter(
        (workload(name.removeprefix("default/"), known), pod["node"])
        for name, pod in result["pods"].items()
        if pod["node"] is not None
    )
    why = {
        workload((entry["pod"] or entry["podGroup"]).removeprefix("default/"), known): entry["message"]
        for entry in result["pending"]
    }

    assert placed == PLACED[example]
    assert why.keys() == waiting.keys()
    assert all(why[name].startswith(said) for name, said in waiting.items())
    assert result["settled"]


def test_a_model_that_stands_further_left_is_worth_twice_as_much() -> None:
    scores = simulated("4-order-of-cards")["scores"]["default/multi-card-training-worker-0"]
    assert {node: given["plugins"]["capacity-card"] for node, given in scores.items()} == {
        "a100-1": 200.0,
        "h100-1": 100.0,
        "t4-1": 50.0,
    }


@pytest.mark.parametrize("example", PLACED)
def test_nothing_is_to_be_said_against_an_example(example: str) -> None:
    answer = call("validate", "-f", EXAMPLES / f"{example}.yaml", "--strict")
    assert (answer.exit_code, answer.stdout) == (0, "")


def test_every_example_is_tried_and_says_how() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.yaml")) == list(PLACED)
    for path in EXAMPLES.glob("*.yaml"):
        assert f"#   volsched simulate -f manifests/examples/capacity-card/{path.name}\n" in path.read_text()
