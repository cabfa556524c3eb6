"""All quotas that plugins in force keep, one table each, in ``volsched queue`` and ``volsched cards``: on manifests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calls import call, text_of
from tests.framework.dra.worlds import device, device_class, held, part
from tests.plugins.capacity_card.nodes import GPU, card_node
from tests.plugins.mgpu import clusters as shared
from tests.plugins.predicates.test_devices import using
from tests.simulation.clusters import Manifest, group, node, pod, queue

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"


def configured(*plugins: Any) -> Manifest:
    """The ConfigMap of a scheduler with gang, predicates and these plugins."""
    listed = [{"name": "gang"}, {"name": "predicates"}, *plugins]
    text = json.dumps({"actions": "enqueue, allocate", "tiers": [{"plugins": listed}]})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"volsched.conf": text}}


def answer(*args: str, world: tuple[Manifest, ...]) -> str:
    done = call(*args, "-f", "-", given=text_of(*world))
    assert (done.exit_code, done.stderr) == (0, ""), done.stderr
    return done.stdout


def shown(*args: str, world: tuple[Manifest, ...]) -> Any:
    return json.loads(answer(*args, "-o", "json", world=world))


def rows(*args: str, world: tuple[Manifest, ...]) -> list[list[str]]:
    return [line.split() for line in answer(*args, world=world).splitlines()]


# --- devices --------------------------------------------------------------------------------------------------------


def dra(count: int, memory: str = "") -> Manifest:
    return {"capability": {"gpu": {"count": count, **({"capacity": {"memory": memory}} if memory else {})}}}


DEVICES = (
    configured({"name": "capacity-dra", "enableHierarchy": True}),
    node("n1"),
    device_class(),
    part("s1", [device(f"d{index}", {"memory": "40Gi"}) for index in range(4)]),
    queue("above", dra=dra(3)),
    queue("team", dra=dra(3, "100Gi"), parent="above"),
    queue("free", parent="above"),
    group("runs", q="team", phase="Running"),
    held("one", "d0"),
    pod("runs-0", "runs", on="n1", **using("one")),
)


@pytest.mark.parametrize("verb", [("queue", "list"), ("cards",)], ids=" ".join)
def test_devices_of_queues_have_quota_used_and_headroom_by_dimension(verb: tuple[str, ...]) -> None:
    found = shown(*verb, world=DEVICES)["devices"]

    about = {(row["queue"], row["deviceClass"], row["dimension"]): row for row in found}
    team = about["team", "gpu", "count"]
    assert {name: team[name] for name in ("quota", "used", "reserved", "headroom")} == {
        "quota": 3,
        "used": 1,
        "reserved": 0,
        "headroom": 2,
    }
    assert about["team", "gpu", "memory"]["quota"] == "100Gi"
    assert (about["above", "gpu", "count"]["used"], about["above", "gpu", "count"]["headroom"]) == (1, 2)
    assert ["team", "gpu", "count", "3", "1", "0", "2"] in rows(*verb, world=DEVICES)


def test_describe_shows_the_devices_of_that_queue_alone() -> None:
    found = rows("queue", "describe", "team", world=DEVICES)

    assert ["team", "gpu", "count", "3", "1", "0", "2"] in found
    assert not [row for row in found if row[:1] == ["above"]]


def test_headroom_is_bounded_by_queues_above_and_null_without_limit() -> None:
    tight = tuple(queue("above", dra=dra(1)) if m["metadata"]["name"] == "above" else m for m in DEVICES)

    found = shown("queue", "list", world=tight)["devices"]
    assert [row["headroom"] for row in found if (row["queue"], row["dimension"]) == ("team", "count")] == [0]
    root = [row for row in found if (row["queue"], row["dimension"]) == ("root", "count")]
    assert [(row["quota"], row["used"], row["headroom"]) for row in root] == [(None, 1, None)]


# --- CPU pods -------------------------------------------------------------------------------------------------------


CPU_PODS = (
    configured({"name": "crossquota", "arguments": {"gpu-resource-names": GPU, "quota.cpu": "8"}}),
    card_node("g1", "A"),
    card_node("g2", "A"),
    node("plain"),
    pod("etl", on="g1", scheduler="other", cpu="3"),
    pod("more", on="g1", scheduler="other", cpu="6"),
)


@pytest.mark.parametrize("verb", [("queue", "list"), ("cards",)], ids=" ".join)
def test_cpu_pods_have_quota_and_use_by_gpu_node_and_of_all(verb: tuple[str, ...]) -> None:
    found = shown(*verb, world=CPU_PODS)["cpuPods"]

    assert found == [
        {"node": "g1", "resource": "cpu", "quota": "8", "used": "9", "headroom": "0"},
        {"node": "g2", "resource": "cpu", "quota": "8", "used": "0", "headroom": "8"},
        {"node": None, "resource": "cpu", "quota": "16", "used": "9", "headroom": "8"},
    ]
    listed = rows(*verb, world=CPU_PODS)
    assert ["g1", "cpu", "8", "9", "0"] in listed
    assert ["all", "cpu", "16", "9", "8"] in listed


def test_quotas_of_the_seeds_nodes_are_those_of_their_annotations() -> None:
    """Seed 003: nodes that differ, by annotations and percentages."""
    done = call("queue", "list", "-f", EXAMPLES / "crossquota" / "4-nodes-differ.yaml", "-o", "json")

    quotas = {row["node"]: row["quota"] for row in json.loads(done.stdout)["cpuPods"]}
    assert quotas == {"h100-1": "8", "l4-1": "36", "t4-1": "24", None: "68"}


# --- shared cards ---------------------------------------------------------------------------------------------------


SHARED = (
    configured({"name": "mgpu", "arguments": {"predicate.MGPUEnable": True}}),
    shared.node("n1", cards=2, memory=16384),
    shared.pod("p", "30/4096 20/1024", on="n1", cards="0 ; 0", phase="Running"),
    shared.pod("q", "100/0", on="n1", cards="1", phase="Running"),
)


@pytest.mark.parametrize("verb", [("queue", "list"), ("cards",)], ids=" ".join)
def test_shared_cards_have_used_core_and_memory_by_card(verb: tuple[str, ...]) -> None:
    found = shown(*verb, world=SHARED)["sharedCards"]

    used = [(row["node"], row["card"], row["coreUsed"], row["memoryUsed"], row["containers"]) for row in found]
    assert used == [("n1", 0, 50, "5Gi", 2), ("n1", 1, 100, "16Gi", 1)]
    assert [(row["core"], row["memory"]) for row in found] == [(100, "16Gi")] * 2
    assert ["n1", "0", "100", "50", "16Gi", "5Gi", "2"] in rows(*verb, world=SHARED)


def test_a_node_of_whose_cards_too_little_is_known_says_so() -> None:
    world = (*SHARED, shared.pod("r", "30/1024", on="n1", phase="Running"))

    (first, *_) = shown("cards", world=world)["sharedCards"]

    assert first["remark"] == "of 1 pod on the node it is not known which cards they use"


# --- queues by resource ---------------------------------------------------------------------------------------------


TEAMS = (
    card_node("h1", "NVIDIA-H100"),
    queue("team", capability={"cpu": "8", GPU: "6"}, deserved={GPU: "2"}),
    group("g", q="team", phase="Running"),
    pod("g-0", "g", on="h1", containers=[{"name": "m", "resources": {"requests": {"cpu": "1"}, "limits": {GPU: 4}}}]),
)


def test_without_a_plugin_that_limits_queues_nothing_has_a_quota_and_cards_are_used_all_the_same() -> None:
    """As on `make cluster-up`: not QUOTA 0 and HEADROOM 0, and not eight H100 that no queue uses."""
    found = shown("queue", "list", world=(configured(), *TEAMS))

    none = {"quota": None, "headroom": None, "reserved": "0"}
    assert found["queues"]["team"]["cpu"] == {**none, "used": "1"}
    assert found["queues"]["team"]["resources"][GPU] == {**none, "used": "4"}
    assert found["cards"] == {"NVIDIA-H100": {"total": 8, "idle": 4, "quota": None, "used": 4}}
    listed = rows("queue", "list", world=(configured(), *TEAMS))
    assert ["team", "Open", GPU, "-", "4", "0", "-"] in listed
    assert ["NVIDIA-H100", "8", "4", "4"] in listed
    assert "No plugin in force limits queues" in answer("queue", "list", world=(configured(), *TEAMS))
    assert ["default", "PodGroup/g", "Running", GPU, "4,", "cpu", "1", "-", "-", "1", "on", "h1"] in rows(
        "queue", "describe", "team", world=(configured(), *TEAMS)
    )


@pytest.mark.parametrize("plugin", ["capacity", "proportion"])
def test_plugins_that_limit_queues_by_resource_say_what_they_admit(plugin: str) -> None:
    found = shown("queue", "list", world=(configured({"name": plugin}), *TEAMS))["queues"]["team"]

    assert found["resources"][GPU]["quota"] == "6"
    assert found["resources"][GPU]["used"] == "4"
    assert found["resources"][GPU]["headroom"] == "6", "what it holds beyond its minimum could go"
    assert found["cpu"]["quota"] == "8"
    assert "deserved" in found["resources"][GPU]
    listed = rows("queue", "list", world=(configured({"name": plugin}), *TEAMS))
    assert next(row for row in listed if row[:3] == ["QUEUE", "STATE", "RESOURCE"])[3:5] == ["QUOTA", "DESERVED"]


def test_columns_of_what_is_deserved_are_there_only_where_a_queue_has_them() -> None:
    without = (configured({"name": "capacity"}), node("n"), queue("q", capability={"cpu": "2"}))

    listed = rows("queue", "list", world=without)

    assert ["QUEUE", "STATE", "RESOURCE", "QUOTA", "USED", "RESERVED", "HEADROOM"] in listed
    assert set(shown("queue", "list", world=without)["queues"]["q"]["cpu"]) == {"quota", "used", "reserved", "headroom"}


def test_cards_alone_are_shown_where_no_plugin_keeps_other_quotas() -> None:
    found = shown("cards", world=(configured({"name": "capacity-card"}), card_node("n1", "A")))

    assert set(found) == {"nodes", "total", "resourceNames", "warnings"}


def test_a_configuration_can_be_named_for_cards_as_well(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.conf"
    file.write_text(SHARED[0]["data"]["volsched.conf"])

    done = call("cards", "-f", "-", "--config", file, "-o", "json", given=text_of(*SHARED[1:]))

    assert len(json.loads(done.stdout)["sharedCards"]) == 2
