"""``volsched cards`` on manifests: the public form for programs, tables for people, and what it says of wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.calls import call, text_of
from tests.plugins.capacity_card.nodes import GPU, MIG, card_labels, card_node
from tests.simulation.clusters import node, pod, queue

UNLABELLED = Path(__file__).with_name("cards_without_labels.yaml")
"""Nodes of many vendors, none with a product label."""
MAPPED = """
actions: allocate
tiers:
- plugins:
  - name: capacity-card
    arguments:
      cards:
      - {resource: amd.com/gpu, model: amd.com/gpu.product-name}
      - {resource: huawei.com/Ascend910, name: Ascend910}
      - {resource: nvidia.com/gpu, model: cloud.google.com/gke-accelerator}
"""
TRAINING = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team, annotations: {volcano.sh/card.quota: '{"Ascend910": 2}'}}
spec: {capability: {cpu: 64, memory: 64Gi}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: training}
spec:
  replicas: 3
  selector: {matchLabels: {app: training}}
  template:
    metadata:
      labels: {app: training}
      annotations: {volcano.sh/card.name: Ascend910, scheduling.volcano.sh/queue-name: team}
    spec:
      schedulerName: volsched
      containers: [{name: c, image: c, resources: {requests: {cpu: 1}, limits: {huawei.com/Ascend910: 1}}}]
"""
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


# --- cards without labels -------------------------------------------------------------------------------------------


def test_resources_that_look_like_cards_are_named_with_the_label_that_is_missing() -> None:
    found = json.loads(call("cards", "-f", UNLABELLED, "-o", "json").stdout)

    said = [(each["node"], each["message"].partition(" with ")[0]) for each in found["warnings"]]
    assert found["total"] == {}
    assert said == [
        ("amd", "offers amd.com/gpu and has no label amd.com/gpu.product"),
        ("ascend", "offers huawei.com/Ascend910 and has no label huawei.com/Ascend910.product"),
        ("gaudi", "offers habana.ai/gaudi and has no label habana.ai/gaudi.product"),
        ("gke", "offers nvidia.com/gpu and has no label nvidia.com/gpu.product"),
        ("intel", "offers gpu.intel.com/i915 and has no label gpu.intel.com/i915.product"),
        ("karpenter", "offers nvidia.com/gpu and has no label nvidia.com/gpu.product"),
        ("mgpu", "offers vke.volcengine.com/mgpu-core and has no label vke.volcengine.com/mgpu.product"),
        ("mgpu", "offers vke.volcengine.com/mgpu-memory and has no label vke.volcengine.com/mgpu.product"),
        ("trn", "offers aws.amazon.com/neuron and has no label aws.amazon.com/neuron.product"),
    ]


def test_labels_that_a_warning_asks_for_make_the_card() -> None:
    labels = {"amd.com/gpu.product": "MI300X", "amd.com/gpu.count": "8", "amd.com/gpu.memory": "196608"}
    given = text_of(node("n", labels=labels, extended={"amd.com/gpu": 8}))

    found = json.loads(call("cards", "-f", "-", "-o", "json", given=given).stdout)

    assert (found["total"], found["warnings"]) == ({"MI300X": 8}, [])


def test_the_mapping_of_the_configuration_names_cards(tmp_path: Path) -> None:
    configuration = tmp_path / "scheduler.conf"
    configuration.write_text(MAPPED)

    found = json.loads(call("cards", "-f", UNLABELLED, "--config", configuration, "-o", "json").stdout)

    assert found["total"] == {"AMD_Instinct_MI300X_OAM": 8, "Ascend910": 8, "nvidia-l4": 1}
    assert found["nodes"]["ascend"] == {"Ascend910": 8}
    assert found["resourceNames"]["nvidia-l4"] == "nvidia.com/gpu"
    assert {each["node"] for each in found["warnings"]} == {"gaudi", "intel", "karpenter", "mgpu", "trn"}


def test_time_slices_are_not_called_mps() -> None:
    labels = card_labels("Quadro-P2000", "5120", "1", replicas="4", **{"sharing-strategy": "time-slicing"})

    given = text_of(node("n1", labels=labels, extended={GPU: "0", f"{GPU}.shared": "4"}))
    found = json.loads(call("cards", "-f", "-", "-o", "json", given=given).stdout)

    assert found["nodes"] == {"n1": {"Quadro-P2000/time-slicing*1/4": 4}}
    [warning] = found["warnings"]
    assert "nvidia.com/gpu.sharing-strategy" in warning["message"]


def test_everything_that_shows_cards_knows_the_mapping(tmp_path: Path) -> None:
    """Quotas, explanations, validation and stranded cards of one world with one configuration."""
    configuration, world = tmp_path / "scheduler.conf", tmp_path / "world.yaml"
    more = "- plugins:\n  - name: gang\n  - name: predicates\n  - name: fragmentation"
    configuration.write_text(MAPPED.replace("- plugins:", more))
    world.write_text(f"{UNLABELLED.read_text()}---{TRAINING}")
    source = ("-f", world, "--config", configuration)

    run = json.loads(call("simulate", *source, "-o", "json").stdout)
    assert [bind["node"] for bind in run["binds"]] == ["ascend", "ascend"]
    assert "Ascend910: requested 1, held 2, quota 2" in run["pending"][0]["message"]
    shown = json.loads(call("queue", "list", *source, "-o", "json").stdout)
    assert shown["cards"]["Ascend910"]["total"] == 8
    assert "Ascend910: requested 1, held 2, quota 2" in " ".join(
        call("explain", "queue", "team", *source).stdout.split()
    )
    stranded = json.loads(call("cards", "--stranded", *source, "-o", "json").stdout)
    assert {"Ascend910", "AMD_Instinct_MI300X_OAM", "nvidia-l4"} <= {row["card"] for row in stranded["strandedCards"]}
    assert "no node offers" not in call("validate", "-f", world, "-f", configuration).stdout
    assert 'no node offers the card "Ascend910"' in call("validate", "-f", world).stdout


def test_what_a_pod_holds_on_a_node_that_is_gone_is_told_by_the_resource_of_its_card(tmp_path: Path) -> None:
    """No node has the card any more, and the pod asks for more of something else."""
    configuration = tmp_path / "scheduler.conf"
    configuration.write_text(MAPPED)
    asked = {"huawei.com/Ascend910": 2, "rdma/hca": 8}
    lost = pod("lost", on="gone", annotations={"volcano.sh/card.name": "Ascend910"}, status={"phase": "Running"})
    lost["spec"]["containers"][0]["resources"] = {"limits": asked, "requests": asked}
    given = text_of(node("cpu"), node("gone"), queue("default"), lost)

    shown = json.loads(call("queue", "list", "-f", "-", "--config", configuration, "-o", "json", given=given).stdout)

    assert shown["queues"]["default"]["cards"]["Ascend910"]["used"] == 2
