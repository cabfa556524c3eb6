"""How many searches for devices, and evaluations of selectors, a backlog of equal claims costs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.framework.dra.worlds import claim, device, exactly, held, part
from tests.plugins.predicates.test_devices import CONFIGURATION, a_world, using
from volsched.framework.dra import outcomes
from volsched.framework.dra.selectors import Selector
from volsched.framework.engine.fast import FastEngine
from volsched.model.changes import Deleted
from volsched.testing.builders import ClusterBuilder, Rig, a_rig, put
from volsched.testing.contract import ENGINES, engine_contract, outcome

NODES = tuple(f"n{number:02}" for number in range(20))
QUARTER = 'device.attributes["gpu.example.com"].size == "quarter"'


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes, by the name of their first pool, for which devices were searched for."""
    found: list[str] = []
    choose = outcomes.choose

    def noted(claims: Any, pools: Any, *rest: Any, **more: Any) -> Any:
        found.append(pools[0].id.pool if pools else "")
        return choose(claims, pools, *rest, **more)

    monkeypatch.setattr(outcomes, "choose", noted)
    return found


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each expression was evaluated."""
    found: Counter[str] = Counter()
    select = Selector.select

    def noted(selector: Selector, of: Any) -> bool | str:
        found[selector.expression] += 1
        return select(selector, of)

    monkeypatch.setattr(Selector, "select", noted)
    return found


def cards(node: str, count: int = 4, **attributes: Any) -> dict[str, Any]:
    """A slice of a node whose devices have serial numbers of their own."""
    devices = [device(f"{node}-{n}", serial=f"{node}/{n}", **attributes) for n in range(count)]
    return part(f"s-{node}", devices, node=node, pool=node)


def with_pods(cluster: ClusterBuilder, pods: int, gang: int, *expressions: str, count: int = 1) -> ClusterBuilder:
    """Add pods with a claim of their own each, in gangs of a size."""
    for number in range(pods):
        group = f"g{number // gang:03}"
        if number % gang == 0:
            cluster.group(group, minimum=gang)
        cluster.add(claim(f"c{number:03}", exactly("r0", *expressions, count=count)))
        cluster.pod(f"p{number:03}", group, cpu="1", spec=using(f"c{number:03}"))
    return cluster


@pytest.mark.parametrize("gang", [1, 16])
def test_nodes_with_equal_devices_are_searched_once_for_each_state(
    searched: list[str], evaluated: Counter[str], gang: int
) -> None:
    cluster = a_world(*(cards(node) for node in NODES), nodes=NODES)

    decision = a_rig(with_pods(cluster, 80, gang), CONFIGURATION).cycle()

    assert len(decision.bindings) == 80
    assert len(searched) <= 5  # none to all four of them taken
    assert evaluated == {'device.driver == "gpu.example.com"': 1}


def test_selectors_are_evaluated_once_for_each_kind_of_device(evaluated: Counter[str]) -> None:
    sizes = ("whole", "half", "quarter")
    devices = [[device(f"{node}-{n}", serial=f"{node}/{n}", size=sizes[n]) for n in range(3)] for node in NODES]
    slices = [part(f"s-{node}", found, node=node, pool=node) for node, found in zip(NODES, devices, strict=True)]

    decision = a_rig(with_pods(a_world(*slices, nodes=NODES), 20, 1, QUARTER), CONFIGURATION).cycle()

    assert len(decision.bindings) == 20
    assert evaluated[QUARTER] == len(sizes)


def test_a_selector_that_reads_serial_numbers_is_asked_about_each_device(evaluated: Counter[str]) -> None:
    cluster = a_world(*(cards(node) for node in NODES), nodes=NODES)
    wanted = 'device.attributes["gpu.example.com"].serial == "n07/2"'

    decision = a_rig(with_pods(cluster, 2, 1, wanted), CONFIGURATION).cycle()

    assert decision.bindings == {"p000": "n07"}
    assert evaluated[wanted] == 4 * len(NODES)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_known_of_one_node_names_the_devices_of_the_other(engine: Any) -> None:
    cluster = a_world(*(cards(node, 2) for node in NODES[:3]), nodes=NODES[:3])
    decision = a_rig(with_pods(cluster, 3, 1, count=2), CONFIGURATION, engine).cycle()

    given = {}
    for step in decision.steps:
        for write in getattr(step, "claims", ()):
            given[step.name] = [result.device for result in write.allocation.devices.results]  # type: ignore[union-attr]
    assert given == {name: [f"{node}-0", f"{node}-1"] for name, node in decision.bindings.items()}
    assert len(given) == 3


def counting(node: str) -> list[dict[str, Any]]:
    """A card of a node in parts: a whole one or two halves, by a counter that has a slice of its own."""
    sets = [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]

    def taking(amount: str) -> dict[str, Any]:
        return {"consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": amount}}}]}

    parts = [("whole", "80Gi"), ("half-0", "40Gi"), ("half-1", "40Gi")]
    devices = [device(name, more=taking(amount)) for name, amount in parts]
    return [
        part(f"s-{node}-0", node=node, pool=node, count=2, sharedCounters=sets),
        part(f"s-{node}-1", devices, node=node, pool=node, count=2),
    ]


def test_counters_of_a_node_concern_that_node_alone() -> None:
    slices = [found for node in NODES for found in counting(node)]
    cluster = with_pods(a_world(*slices, nodes=NODES), 20, 1)
    rig = a_rig(cluster, CONFIGURATION)

    assert len(rig.cycle().bindings) == 20
    engine = rig.scheduler.engine
    assert isinstance(engine, FastEngine)
    assert engine.nodes.rows_scored <= len(NODES) + 20


@pytest.mark.parametrize("engine", ENGINES)
def test_counters_of_an_unfinished_pool_keep_requests_for_all_devices_waiting_on_all_nodes(engine: Any) -> None:
    unfinished, _ = counting("n01")
    cluster = a_world(cards("n00"), unfinished, claim("c", exactly(allocationMode="All")), nodes=NODES[:2])
    cluster.job("a", cpu="1", spec=using("c"))
    rig = a_rig(cluster, CONFIGURATION, engine)

    assert "resource pool gpu.example.com/n01 is being updated" in rig.cycle().waiting["a-0"]
    assert rig.cycle(put(counting("n01")[1])).bindings == {"a-0": "n00"}


def full(searched: list[str]) -> Rig:
    """Two nodes whose devices are all taken, and a pod that waits for one."""
    cluster = a_world(
        *(cards(node, 1) for node in NODES[:2]), *(held(f"t-{n}", f"{n}-0", pool=n) for n in NODES[:2]), nodes=NODES[:2]
    )
    rig = a_rig(with_pods(cluster, 1, 1), CONFIGURATION)
    assert "cannot allocate all claims" in rig.cycle().waiting["p000"]
    searched.clear()
    return rig


def test_a_claim_that_cannot_be_served_is_not_tried_again_while_nothing_changes_that_could_help(
    searched: list[str],
) -> None:
    rig = full(searched)

    other = claim("other", exactly(count=2))
    quiet = [rig.cycle(), rig.cycle(put(other)), rig.cycle(put(held("more", "nowhere", pool="elsewhere")))]

    assert all(not decision.bindings for decision in quiet)
    assert searched == []


def test_a_claim_that_cannot_be_served_is_tried_again_once_a_device_is_free(searched: list[str]) -> None:
    rig = full(searched)

    assert rig.cycle(Deleted("ResourceClaim", "default", f"t-{NODES[1]}", "")).bindings == {"p000": NODES[1]}


@pytest.mark.parametrize("gang", [1, 4, 7])
@pytest.mark.parametrize("kind", ["cards", "counters", "two of each"])
def test_engines_agree_on_gangs_that_are_placed_in_steps(gang: int, kind: str) -> None:
    names = NODES[:6]

    def play(engine: Any) -> Any:
        slices = [f for node in names for f in (counting(node) if kind == "counters" else [cards(node, 4)])]
        cluster = a_world(*slices, nodes=names)
        with_pods(cluster, 28, gang, count=2 if kind == "two of each" else 1)
        rig = a_rig(cluster, CONFIGURATION, engine)
        return [outcome(rig.cycle()), outcome(rig.cycle())]

    engine_contract(play)
