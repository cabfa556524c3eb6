from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.binpack.plugin import ARGUMENTS, build
from tests.plugins.clusters import Lab
from volsched.framework.config.arguments import values_of

GPU, FOO = "nvidia.com/gpu", "example.com/foo"
O13 = {
    "binpack.weight": 10,
    "binpack.cpu": 2,
    "binpack.memory": 3,
    "binpack.resources": f"{GPU}, {FOO}",
    f"binpack.resources.{GPU}": 7,
    f"binpack.resources.{FOO}": 8,
}


def lab(**arguments: object) -> Lab:
    return Lab(build(values_of("plugin binpack", ARGUMENTS, arguments)))


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"cpu": "1", "memory": "1Gi"}, [700.0, 137.5, 0.0]),
        ({"cpu": "1.5"}, [0.0, 375.0, 0.0]),
        ({"cpu": "2", "memory": "10Gi", GPU: 2}, [0.0, 531.25, 0.0]),
        ({"cpu": "3", "memory": "4Gi", FOO: 3}, [0.0, 173.07692307692307, 0.0]),
    ],
)
def test_scores_of_scenario_o13(request_: dict[str, object], expected: list[float]) -> None:
    world = lab(**O13)
    world.node("n1", "2", "4Gi")
    world.node("n2", "4", "16Gi", **{GPU: 4})
    world.node("n3", "2", "4Gi", **{FOO: 16})
    world.pod("used-1", on="n1", cpu="1", memory="1Gi")
    world.pod("used-3", on="n3", cpu="1.5")
    task = world.pod("p", **request_)

    order = world.session.rules.nodes.node_orders[0]

    assert [order.ask(task, node) for node in world.cluster.rows] == pytest.approx(expected)
    world.check_twins(task)


def test_weight_zero_registers_nothing() -> None:
    assert not lab(**{"binpack.weight": 0}).session.rules.nodes.node_orders


def test_negative_resource_weights_count_as_one() -> None:
    world = lab(**{"binpack.cpu": -3, "binpack.memory": 0})
    world.node("n1", "4")

    assert world.session.rules.nodes.node_orders[0].ask(world.pod("p", cpu="1"), world.cluster.rows[0]) == 25.0


def test_a_resource_with_a_weight_of_zero_does_not_count() -> None:
    world = lab(**{"binpack.memory": 0})
    world.node("n1", "4", "2Gi")

    asked = world.pod("p", cpu="1", memory="1Gi")

    assert world.session.rules.nodes.node_orders[0].ask(asked, world.cluster.rows[0]) == 25.0


def test_pod_that_asks_for_nothing_weighted_is_not_scored() -> None:
    world = lab()
    world.node("n1")
    (order,) = world.session.rules.nodes.node_orders

    assert order.applies_to is not None
    assert not order.applies(world.pod("p", **{FOO: 1}))
    assert order.applies(world.pod("q", cpu="1"))


@given(
    nodes=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=5),
    used=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(0, 5), st.integers(0, 4)), max_size=8),
    asked=st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 4)),
)
def test_vector_twin_agrees_to_the_bit(
    nodes: list[tuple[int, int, int]], used: list[tuple[int, int, int, int]], asked: tuple[int, int, int]
) -> None:
    world = lab(**O13)
    for number, (cpu, memory, gpu) in enumerate(nodes):
        world.node(f"n{number}", cpu, f"{memory}Gi", **{GPU: gpu})
    for number, (where, cpu, memory, gpu) in enumerate(used):
        world.pod(f"u{number}", on=f"n{where % len(nodes)}", cpu=cpu, memory=f"{memory}Gi", **{GPU: gpu})

    world.check_twins(world.pod("p", cpu=asked[0], memory=f"{asked[1]}Gi", **{GPU: asked[2]}))
