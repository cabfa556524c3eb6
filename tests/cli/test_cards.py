"""``volsched cards`` on manifests: the public form for programs, tables for people, and what it says of wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.calls import call, text_of
from tests.plugins.capacity_card.nodes import GPU, MIG, card_node
from tests.simulation.clusters import node, pod

WORLD = (
    card_node("n1", "NVIDIA-A100"),
    card_node("n3", "NVIDIA-A100", {GPU: 7, f"{MIG}1g.10gb": 7}),
    card_node("n2", "NVIDIA-T4", memory=""),
    node("cpu"),
    pod("p"),
)
FOUND = {
    "nodes": {"n1": {"NVIDIA-A100": 8}, "n3": {"NVIDIA-A100": 7, "NVIDIA-A100/mig-1g.10gb-mixed": 7}},
    "total": {"NVIDIA-A100": 15, "NVIDIA-A100/mig-1g.10gb-mixed": 7},
    "resourceNames": {"NVIDIA-A100": GPU, "NVIDIA-A100/mig-1g.10gb-mixed": f"{MIG}1g.10gb"},
    "warnings": [
        {"node": "n2", "message": f"label {GPU}.product needs {GPU}.memory beside it, so its cards are not counted"}
    ],
}


def test_json_and_yaml_have_whole_cards_by_node_and_in_all() -> None:
    as_json = call("cards", "-f", "-", "-o", "json", given=text_of(*WORLD))
    as_yaml = call("cards", "-f", "-", "-o", "yaml", given=text_of(*WORLD))

    assert (as_json.exit_code, as_json.stderr) == (0, "")
    assert json.loads(as_json.stdout) == yaml.safe_load(as_yaml.stdout) == FOUND


def test_tables_show_cards_nodes_and_warnings() -> None:
    lines = [line.split() for line in call("cards", "-f", "-", given=text_of(*WORLD)).stdout.splitlines()]

    assert lines[:4] == [
        ["CARDS"],
        ["CARD", "TOTAL", "NODES", "RESOURCE"],
        ["NVIDIA-A100", "15", "2", GPU],
        ["NVIDIA-A100/mig-1g.10gb-mixed", "7", "1", f"{MIG}1g.10gb"],
    ]
    assert ["n3", "NVIDIA-A100", "7", GPU] in lines
    assert lines[-1][:2] == ["n2", "label"]


def test_nodes_without_cards_are_said_to_have_none() -> None:
    answer = call("cards", "-f", "-", given=text_of(node("cpu")))

    assert (answer.exit_code, answer.stdout) == (0, "No node offers cards.\n")
    assert json.loads(call("cards", "-f", "-", "-o", "json", given=text_of(node("cpu"))).stdout)["nodes"] == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{kind: Nod, apiVersion: v1}", "Nod of v1 is not understood; did you mean Node?"),
        (text_of(card_node("n", "A", {GPU: "many"})), f"Node/n: status.capacity[{GPU}]: 'many' is not a quantity"),
        ("- 1", "is no object"),
    ],
)
def test_wrong_input_answers_2_and_says_where(given: str, said: str) -> None:
    answer = call("cards", "-f", "-", "-o", "json", given=given)

    assert (answer.exit_code, answer.stdout) == (2, "")
    assert said in answer.stderr


def test_manifests_and_a_cluster_exclude_each_other(tmp_path: Path) -> None:
    answer = call("cards", "-f", tmp_path, "--context", "prod")

    assert answer.exit_code == 2
    assert "-f reads manifests and --context a cluster; give one of them" in answer.stderr


def test_without_a_cluster_it_says_how_to_name_one(tmp_path: Path) -> None:
    answer = call("cards", "--kubeconfig", tmp_path / "none")

    assert (answer.exit_code, answer.stdout) == (1, "")
    assert "name a cluster with --kubeconfig, or manifests with -f" in answer.stderr
