from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.nodeorder.plugin import ARGUMENTS, build
from tests.plugins.clusters import Lab
from volsched.framework.config.arguments import values_of

GPU = "nvidia.com/gpu"
OFF = {f"{key}.weight": 0 for key in ("nodeaffinity", "podaffinity", "tainttoleration", "imagelocality")} | {
    "leastrequested.weight": 0,
    "balancedresource.weight": 0,
    "podtopologyspread.weight": 0,
}


def lab(**weights: int) -> Lab:
    given_ = {**OFF, **{f"{key}.weight": weight for key, weight in weights.items()}}
    return Lab(build(values_of("plugin nodeorder", ARGUMENTS, given_)))


def test_least_requested_prefers_the_larger_node_as_in_o10() -> None:
    world = lab(leastrequested=1)
    world.node("n1", "2", "4Gi")
    world.node("n2", "4", "8Gi")
    task = world.pod("p", cpu="1", memory="1G")

    assert world.scores(task) == {"n1": 63.0, "n2": 81.0}


def test_balance_prefers_the_node_that_is_used_evenly_as_in_o11() -> None:
    world = lab(balancedresource=10)
    world.node("n1", "2", "2Gi")
    world.node("n2", "4", "2Gi")
    task = world.pod("p", cpu="1", memory="1Gi")

    assert world.scores(task) == {"n1": 750.0, "n2": 680.0}


@pytest.mark.parametrize(
    ("weights", "node", "used", "asked", "expected"),
    [
        pytest.param({"leastrequested": 1}, ("4", "8Gi"), {}, {}, 97.0, id="assumed amounts count"),
        pytest.param(
            {"leastrequested": 1}, ("1", "8Gi"), {"cpu": "1"}, {"cpu": "1"}, 47.0, id="above allocatable is 0"
        ),
        pytest.param({"leastrequested": 1}, ("4", "0"), {}, {"cpu": "1"}, 75.0, id="absent resources are left out"),
        pytest.param({"leastrequested": 1}, ("0", "0"), {}, {}, 0.0, id="nothing at all"),
        pytest.param({"mostrequested": 3}, ("4", "8Gi"), {}, {"cpu": "1", "memory": "4Gi"}, 111.0, id="most"),
        pytest.param({"mostrequested": 1}, ("1", "8Gi"), {"cpu": "1"}, {"cpu": "1"}, 52.0, id="most ends at 100"),
        pytest.param({"balancedresource": 1}, ("4", "8Gi"), {}, {}, 0.0, id="best effort pods are not balanced"),
        pytest.param({"balancedresource": 1}, ("4", "0"), {}, {"cpu": "1"}, 75.0, id="one resource is always even"),
    ],
)
def test_usage_scores(
    weights: dict[str, int],
    node: tuple[str, str],
    used: dict[str, str],
    asked: dict[str, str],
    expected: float,
) -> None:
    world = lab(**weights)
    world.node("n1", *node)
    if used:
        world.pod("u", on="n1", **used)
    task = world.pod("p", **asked)
    (order,) = world.session.rules.nodes.node_orders

    assert order.ask(task, world.cluster.rows[0]) == expected
    world.check_twins(task)


def test_gpus_count_in_the_balance_only_when_asked_for() -> None:
    world = lab(balancedresource=1)
    world.node("n1", "8", "8Gi", **{GPU: 4})
    with_gpu = world.pod("a", cpu="1", memory="1Gi", **{GPU: 4})
    without = world.pod("b", cpu="1", memory="1Gi")

    assert world.scores(with_gpu) == {"n1": 54.0}
    assert world.scores(without) == {"n1": 75.0}


SMALL = st.integers(0, 6)


@given(
    nodes=st.lists(st.tuples(SMALL, SMALL, SMALL), min_size=1, max_size=6),
    used=st.lists(st.tuples(SMALL, SMALL, SMALL, SMALL), max_size=8),
    asked=st.tuples(SMALL, SMALL, SMALL),
)
def test_vector_twin_agrees_to_the_bit(
    nodes: list[tuple[int, int, int]], used: list[tuple[int, int, int, int]], asked: tuple[int, int, int]
) -> None:
    world = lab(leastrequested=1, mostrequested=2, balancedresource=3)
    for number, (cpu, memory, gpu) in enumerate(nodes):
        world.node(f"n{number}", cpu, f"{memory}Gi", **{GPU: gpu})
    for number, (where, cpu, memory, gpu) in enumerate(used):
        world.pod(f"u{number}", on=f"n{where % len(nodes)}", cpu=cpu, memory=f"{memory}Gi", **{GPU: gpu})

    world.check_twins(world.pod("p", cpu=asked[0], memory=f"{asked[1]}Gi", **{GPU: asked[2]}))
