"""What nodes have of cards is kept as they change, at the cost of those that do."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from plugins.fragmentation.cluster_cards import ClusterCards, _card_labels
from plugins.fragmentation.demand import Demand
from plugins.fragmentation.device_cards import DeviceCards
from plugins.fragmentation.node_cards import NodeCards, Richest
from tests.plugins.fragmentation.device_worlds import gpus
from tests.plugins.fragmentation.worlds import a_plain_rig, cards, demand_of
from volsched.framework.accounts.card_lists import CardLists
from volsched.model.changes import Change, Deleted
from volsched.model.nodes.node import NodeInfo
from volsched.testing.builders import a_cluster, put

ALONE = 'actions: "allocate"\ntiers:\n- plugins: [{name: predicates}, {name: fragmentation}]\n'


def a_node(name: str, count: int, **more: Any) -> dict[str, Any]:
    return a_cluster().node(name, cpu=8 * (1 + count), memory="64Gi", **cards(count), **more).objects[-1]


def labels(random: Random) -> dict[str, str]:
    found = {"example.com/npu.product": "x", "nvidia.com/gpu.replicas": random.choice(("2", "4", "none"))}
    return {name: value for name, value in found.items() if random.random() < 0.3}


def a_change(random: Random) -> Change:
    name, sort = f"n{random.randrange(6)}", random.randrange(5)
    if sort == 0:
        return Deleted("Node", "", name, f"node-{name}")
    if sort == 1:
        return put(gpus(name, random.randrange(1, 5)))
    shut = {"spec": {"unschedulable": True}} if sort == 2 else {}
    more = {name: random.randrange(3) for name in ("example.com/npu", "nvidia.com/gpu.shared")}
    return put({**a_node(name, random.randrange(5), labels=labels(random), **more), **shut})


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_equals_what_is_read_anew(seed: int) -> None:
    random, rig = Random(seed), a_plain_rig(a_cluster(), ALONE)  # noqa: S311 - nothing here is secret
    offers, devices = ClusterCards(rig.cluster, (), CardLists()), DeviceCards(rig.cluster, ("gpu.nvidia.com",))
    kept = NodeCards(rig.cluster, offers, devices)

    for _ in range(30):
        rig.mirror.apply([a_change(random) for _ in range(random.randrange(3))])
        kept.refresh()

        offers_anew = ClusterCards(rig.cluster, (), CardLists())
        anew = NodeCards(rig.cluster, offers_anew, devices)
        anew.refresh()
        assert offers.all == offers_anew.all
        assert kept.usable.tolist() == anew.usable.tolist()
        assert kept.richest == anew.richest


def test_a_node_that_changes_costs_no_look_at_others_or_at_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_cluster()
    for number in range(30):
        world.add(a_node(f"n{number}", 4)).pod(f"p{number}", **cards(1))
    rig = a_plain_rig(world, ALONE)
    for _ in range(2):
        rig.cycle()
        demand_of(rig).refresh()
    demand, looked = demand_of(rig), []

    def watched(of: Any, what: str) -> Any:
        def asked(self: Any, *given: Any) -> Any:
            looked.append((what, given[0].name))
            return of(self, *given)

        return asked

    def watched_labels(node: NodeInfo) -> Any:
        looked.append(("labels", node.name))
        return _card_labels(node)

    monkeypatch.setattr(NodeCards, "_of", watched(NodeCards._of, "node"))
    monkeypatch.setattr(Demand, "_kinds", watched(Demand._kinds, "job"))
    monkeypatch.setattr("plugins.fragmentation.cluster_cards._card_labels", watched_labels)
    rig.cycle(put(a_node("n7", 4, labels={"some": "label"})))
    demand.refresh()
    assert looked == [("labels", "n7"), ("node", "n7")]
    assert demand.richest == Richest(cpu=10_000, memory=16 << 30, cards=4_000)

    rig.cycle(put(a_node("n7", 2)))
    demand.refresh()
    assert demand.richest.cpu == 12_000
    assert len(looked) == 2 + 2 + 30


def test_a_node_without_cards_is_none_of_the_richest() -> None:
    rig = a_plain_rig(a_cluster().add(a_node("n1", 0)), ALONE)
    rig.cycle()

    assert demand_of(rig).richest == Richest()
    assert isinstance(rig.cluster.nodes["n1"], NodeInfo)


def test_a_node_may_state_any_number_of_cards() -> None:
    world = a_cluster().add(a_node("n1", 2)).pod("p", **cards(1))
    world.node("n2", cpu=1, **{"nvidia.com/gpu": 1 << 62, "amd.com/gpu": 1 << 62})
    rig = a_plain_rig(world, ALONE)

    assert rig.cycle().bindings.keys() == {"p"}
    assert demand_of(rig).richest.memory == 32 << 30


def test_a_node_that_takes_no_pods_any_more_makes_its_like_scarcer() -> None:
    world = a_cluster()
    for name, model in (("n1", "a"), ("n2", "a"), ("n3", "b")):
        world.add(a_node(name, 4, labels={"model": model}))
    world.pod("p", spec={"nodeSelector": {"model": "a"}}, **cards(1))
    rig = a_plain_rig(world, ALONE)
    for _ in range(2):
        rig.cycle()
        demand_of(rig).refresh()
    before = demand_of(rig).scarce.tolist()

    rig.cycle(put({**a_node("n2", 4, labels={"model": "a"}), "spec": {"unschedulable": True}}))
    demand_of(rig).refresh()

    assert before == [1.5, 1.5, 0.0]
    assert demand_of(rig).scarce.tolist() == [2.0, 2.0, 0.0]
