"""Native groups with a topology key: which domain they go to (cases of Kubernetes' own tests, 1.36).

Nodes have 2 cpu, pods ask for 1 unless said.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.framework.test_native_groups import CONFIGURATIONS, conditions, gone, members, rig_of
from volsched.model.changes import Change
from volsched.testing.builders import ClusterBuilder, CycleDecision, Rig, a_cluster, a_native_group, a_pod, put
from volsched.testing.checked import CheckedEngine
from volsched.testing.naive import NaiveEngine
from volsched.testing.recount import faults

RACK = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}


def racks(*sizes: int) -> ClusterBuilder:
    """Racks r1, r2 and so on of so many nodes, named r1-0 and so on."""
    cluster = a_cluster().queue("default")
    for rack, size in enumerate(sizes, start=1):
        for number in range(size):
            cluster.node(f"r{rack}-{number}", cpu=2, labels={"rack": f"r{rack}"})
    return cluster


def used(node: str, cpu: Any = 2, priority: int = 0, name: str = "") -> Change:
    return put(a_pod(name or f"on-{node}", on=node, cpu=cpu, spec={"priority": priority}))


def gang(name: str, minimum: int | None, count: int, cpu: Any = 1, **spec: Any) -> list[Change]:
    return [put(a_native_group(name, minimum, **{**RACK, **spec})), *members(name, count, cpu=cpu)]


def placed(decision: CycleDecision, prefix: str = "") -> tuple[set[str], int]:
    """The racks of those that are bound, and how many these are."""
    found = [node for pod, node in decision.bindings.items() if pod.startswith(prefix)]
    return {node.partition("-")[0] for node in found}, len(found)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_all_in_one_domain_whatever_is_configured(configuration: str) -> None:
    rig = rig_of(racks(1, 2, 1), configuration)

    assert placed(rig.cycle(*gang("g", 4, 4))) == ({"r2"}, 4)
    assert faults(rig.cluster) == []


@pytest.mark.parametrize("engine", [NaiveEngine, CheckedEngine])
def test_engines_agree(engine: Any) -> None:
    cluster, changes = racks(2, 3, 1), gang("g", 3, 3)
    fast = rig_of(cluster).cycle(*changes).bindings

    assert rig_of(cluster, engine=engine).cycle(*changes).bindings == fast != {}


def test_one_that_fits_nowhere_waits_and_says_so() -> None:
    rig = rig_of(racks(2, 1, 1))

    decision = rig.cycle(*gang("g", 3, 3, cpu=2))

    assert decision.bindings == {}
    [(_, status, reason, message)] = conditions(decision)
    assert (status, reason) == ("False", "Unschedulable")
    assert message.startswith("0/3 placements are available, first placement status: pod group is unschedulable")


def test_it_starts_once_its_domain_has_room() -> None:
    rig = rig_of(racks(3))
    assert rig.cycle(used("r1-0"), used("r1-1"), *gang("g", 3, 3)).bindings == {}

    assert placed(rig.cycle(gone("on-r1-0"))) == ({"r1"}, 3)


def test_the_fuller_of_two_that_take_all() -> None:
    assert placed(rig_of(racks(2, 3, 1)).cycle(*gang("g", 3, 3))) == ({"r1"}, 3)
    taken = [used("r2-0"), used("r3-0", 1)]
    assert placed(rig_of(racks(2, 3, 3, 1)).cycle(*taken, *gang("g", 3, 3))) == ({"r2"}, 3)


def test_two_gangs() -> None:
    rig = rig_of(racks(3, 2))
    assert placed(rig.cycle(*gang("a", 3, 3, cpu=2))) == ({"r1"}, 3)
    assert placed(rig.cycle(*gang("b", 2, 2, cpu=2))) == ({"r2"}, 2)


def test_members_that_come_later_go_where_the_first_are_or_wait() -> None:
    rig: Rig = rig_of(racks(3, 2, 1))
    assert placed(rig.cycle(*gang("g", 3, 3))) == ({"r2"}, 3)
    assert placed(rig.cycle(*members("g", 1, start=3))) == ({"r2"}, 1)
    assert rig.cycle(*members("g", 1, start=4)).bindings == {}


def test_more_members_than_the_minimum_stay_together() -> None:
    assert placed(rig_of(racks(2, 2)).cycle(*gang("g", 2, 3))) == ({"r1"}, 3)


def test_a_basic_group_starts_with_those_that_fit() -> None:
    assert placed(rig_of(racks(1, 1)).cycle(*gang("g", None, 3)))[1] == 2
    assert rig_of(racks(1, 1)).cycle(*gang("g", None, 3, cpu=3)).bindings == {}


def test_nodes_without_the_label_are_none() -> None:
    cluster = racks(1).node("bare", cpu=9)

    assert rig_of(cluster).cycle(*gang("g", 3, 3)).bindings == {}


def test_a_group_takes_room_in_one_domain_from_the_fewest() -> None:
    rig = rig_of(racks(1, 1))
    taken = [used("r1-0", 1, name="a"), used("r1-0", 1, name="b"), used("r2-0", 2, name="c")]

    decision = rig.cycle(*taken, put(a_native_group("g", 2, priority=9, **RACK)), *members("g", 2))

    assert decision.evictions == ["c"]
    assert placed(rig.cycle(gone("c"))) == ({"r2"}, 2)


@pytest.mark.parametrize("idle", ["r1-0", "r2-0"])
def test_of_domains_in_which_as_many_would_go_it_takes_the_one_with_pods_that_do_not_run(idle: str) -> None:
    pods = [a_pod(f"on-{n}", on=n, cpu=2, phase="Pending" if n == idle else "Running") for n in ("r1-0", "r2-0")]

    decision = rig_of(racks(1, 1)).cycle(
        *map(put, pods), put(a_native_group("g", 2, priority=9, **RACK)), *members("g", 2)
    )

    assert decision.evictions == [f"on-{idle}"]


def test_nobody_joins_members_that_are_scattered() -> None:
    rig = rig_of(racks(1, 1))
    there = [*members("g", 1, on="r1-0"), *members("g", 1, start=1, on="r2-0"), *members("g", 1, start=2)]

    decision = rig.cycle(put(a_native_group("g", 1, **RACK)), *there)

    assert decision.bindings == {}
    assert "cannot determine domain for already scheduled pods: g-0, g-1" in decision.waiting["g-2"]
