"""The scores: the design's examples to the digit, a table by hand, guards, and the vector twin."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.crossquota.plugin import ARGUMENTS, CrossQuotaPlugin, build
from tests.plugins.clusters import Lab
from tests.plugins.crossquota.worlds import GPU, NAMES, RESOURCES, STRATEGY
from volsched.framework.config.arguments import values_of
from volsched.model import api
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import TemplateTable
from volsched.model.status import TaskStatus

LEAST = {STRATEGY: "least-allocated"}


def lab(**arguments: Any) -> Lab:
    values = values_of("plugin crossquota", ARGUMENTS, {NAMES: GPU, RESOURCES: "cpu,memory", **arguments})
    world = Lab(build(values))
    world.templates = TemplateTable(lambda key: key in CrossQuotaPlugin.POD_ANNOTATIONS)
    return world


def pod(
    world: Lab, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **ask: Any
) -> TaskInfo:
    container = {"name": "main", "resources": {"requests": ask}}
    meta = {"name": "p", "namespace": "default", "uid": "p", "annotations": annotations or {}, "labels": labels or {}}
    return world.put(api.decode_as(api.Pod, {"metadata": meta, "spec": {"containers": [container]}}))


def scored(
    quota: dict[str, Any],
    used: dict[str, Any],
    ask: dict[str, Any],
    strategy: dict[str, str] | None = None,
    **more: Any,
) -> float:
    world = lab(**{RESOURCES: ",".join(quota), **{f"quota.{name}": text for name, text in quota.items()}, **more})
    extended = {"ephemeral-storage": "500Gi", "hugepages-1Gi": "64Gi"}
    world.node("g1", 128, "512Gi", **{GPU: 8}, **extended)
    world.node("plain", 128, "512Gi", **extended)
    if used:
        world.pod("before", on="g1", **used)
    task = pod(world, strategy, **ask)
    world.check_twins(task)
    (order,) = world.session.rules.nodes.node_orders
    assert order.ask(task, world.cluster.nodes["plain"]) == 0
    return order.ask(task, world.cluster.nodes["g1"])


def amounts(cpu: Any, memory: Any) -> dict[str, Any]:
    return {"cpu": cpu, "memory": f"{memory}Gi"}


@pytest.mark.parametrize(
    ("quota", "used", "ask", "strategy", "arguments", "expected"),
    [
        (amounts(32, 64), amounts(24, 40), amounts(4, 8), {}, {}, 9.5 / 11 * 10),  # S01: 8.64
        (amounts(32, 64), amounts(8, 16), amounts(4, 8), LEAST, {}, 6.25),  # S02
        (amounts(32, 64), amounts(16, 32), amounts(4, 8), {}, {}, 6.25),  # S03
        (amounts(32, 64), amounts(16, 32), amounts(4, 8), LEAST, {}, 3.75),
        (amounts(32, 64), amounts(16, 32), amounts(8, 16), {}, {"weight.cpu": 5, "weight.memory": 5}, 7.5),  # S05
        ({"cpu": 10}, {"cpu": 8}, {"cpu": 3}, {}, {}, 0),  # S10
        ({"cpu": 10}, {"cpu": 8}, {"cpu": 3}, LEAST, {}, 0),
        ({"cpu": 10}, {"cpu": 8}, {"cpu": 2}, {}, {}, 10),  # S11
        ({"cpu": 10}, {"cpu": 8}, {"cpu": 2}, LEAST, {}, 0),
        ({"cpu": 0}, {}, {"cpu": 1}, {}, {}, 0),  # S12
        (amounts(0, 64), {}, amounts(1, 32), {}, {}, 0),
        (amounts(0, 64), {}, {"memory": "32Gi"}, {}, {}, 5),  # what is not asked for does not count
        ({"cpu": 10}, {"cpu": 5}, {}, {}, {}, 0),
        ({"cpu": 10}, {"cpu": 5}, {"cpu": 1}, {}, {"weight.cpu": 0}, 0),  # D12
        (amounts(10, 10), amounts(5, 5), amounts(1, 1), {}, {"weight.cpu": 0}, 6),
        ({"cpu": 10}, {"cpu": 4}, {"cpu": 1}, {}, {"crossQuotaWeight": 2.5}, 1.25),
        ({"pods": 4}, {"cpu": 1}, {"cpu": 1}, {}, {}, 5),
        ({"hugepages-1Gi": "8Gi"}, {}, {"hugepages-1Gi": "2Gi"}, LEAST, {}, 7.5),
    ],
)
def test_scores(quota: Any, used: Any, ask: Any, strategy: Any, arguments: Any, expected: float) -> None:
    assert scored(quota, used, ask, strategy, **arguments) == pytest.approx(expected, rel=1e-12)


def test_s01_as_the_seed_prints_it() -> None:
    assert f"{scored(amounts(32, 64), amounts(24, 40), amounts(4, 8)):.2f}" == "8.64"


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("", 5), ("invalid-strategy", 5), ("Most-Allocated", 5), ("least-allocated", 5)],
)
def test_s16_whatever_is_no_strategy_is_most_allocated(strategy: str, expected: float) -> None:
    assert scored({"cpu": 10}, {"cpu": 4}, {"cpu": 1}, {STRATEGY: strategy}) == expected


def test_s16_strategies_differ_where_half_is_not_used() -> None:
    assert scored({"cpu": 10}, {"cpu": 1}, {"cpu": 1}, {STRATEGY: "Least-Allocated"}) == 2
    assert scored({"cpu": 10}, {"cpu": 1}, {"cpu": 1}, LEAST) == 8


def test_s15_gpu_pods_are_not_scored_and_weight_zero_scores_nobody() -> None:
    world = lab()
    world.node("g1", **{GPU: 8})
    (order,) = world.session.rules.nodes.node_orders
    task = pod(world, cpu=1, **{GPU: 1})

    assert order.applies_to is not None
    assert not order.applies(task)
    assert order.applies(pod(world, cpu=1))
    assert order.ask(task, world.cluster.nodes["g1"]) == 0
    for weight in (0, -3):
        session = lab(crossQuotaWeight=weight).session
        assert (len(session.rules.nodes.predicates), session.rules.nodes.node_orders) == (1, [])  # P22


@pytest.mark.parametrize(("labels", "expected"), [({"a": "b"}, [1.0, 7.0]), ({}, [0.0, 0.0])])
def test_s21_pods_outside_the_selector_are_not_scored_anywhere(labels: dict[str, str], expected: list[float]) -> None:
    world = lab(**{"label-selector": {"matchLabels": {"a": "b"}}, "quota.cpu": 10, "non-gpu-node-score": 7})
    world.node("g1", **{GPU: 8})
    world.node("plain")
    task = pod(world, labels=labels, cpu=1)
    world.check_twins(task)
    (order,) = world.session.rules.nodes.node_orders

    assert [order.ask(task, node) for node in world.cluster.rows] == expected
    assert (order.key is not None and order.key(task) is not None) == bool(labels)


def test_cpu_pods_are_drawn_onto_gpu_nodes_unless_others_score_more() -> None:
    for elsewhere, chosen in ((0, "g1"), (10, "plain")):
        world = lab(**{"quota.cpu": 4, "non-gpu-node-score": elsewhere})
        world.node("g1", **{GPU: 8})
        world.node("plain")

        assert world.best(pod(world, cpu=2)) == chosen


Amount = st.integers(0, 2**62) | st.integers(0, 9)


@given(
    nodes=st.lists(st.tuples(Amount, Amount, st.booleans()), min_size=1, max_size=5),
    before=st.lists(st.tuples(st.integers(0, 4), Amount, Amount), max_size=6),
    ask=st.tuples(Amount, Amount),
    strategy=st.sampled_from([{}, LEAST]),
)
def test_vector_twins_agree_to_the_bit(
    nodes: list[tuple[int, int, bool]],
    before: list[tuple[int, int, int]],
    ask: tuple[int, int],
    strategy: dict[str, str],
) -> None:
    world = lab(**{RESOURCES: "memory,example.com/disk", "non-gpu-node-score": 3})
    for number, (memory, disk, is_gpu) in enumerate(nodes):
        world.node(f"n{number}", 1, memory, **{"example.com/disk": f"{disk}m", GPU: int(is_gpu)})
    for number, (where, memory, disk) in enumerate(before):
        amount = {"memory": memory, "example.com/disk": f"{disk}m"}
        world.pod(f"u{number}", f"n{where % len(nodes)}", TaskStatus.RUNNING, **amount)
    task = pod(world, strategy, memory=ask[0], **{"example.com/disk": f"{ask[1]}m"})

    world.check_twins(task)
