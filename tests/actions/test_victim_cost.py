"""Where the victims cost least: the node whose victims matter least, when the action is told so."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from actions.victims.cost import NONE, VictimPlan, cost_of, least_cost_first, needed
from tests.actions.evictions import PREEMPT, World, nominations
from tests.actions.rigs import decide, rig
from volsched.model.pods.task import PodProperties, TaskInfo

LEAST_COST = f"{PREEMPT}\nconfigurations:\n- {{name: preempt, arguments: {{leastImportantVictims: true}}}}"


def two_nodes(first: str, second: str, *, spare: int = 0) -> World:
    """One node full of pods of the first level, one with some spare room beside those of the second."""
    world = World()
    world.node("n1", cpu=2).node("n2", cpu=2 + spare)
    return world.runs("a", 2, first, "n1", cpu=1).runs("b", 2, second, "n2", cpu=1)


def test_told_so_it_takes_the_least_important_of_all_nodes() -> None:
    world = two_nodes("mid", "low").wants("x", cpu=1)

    assert decide(world, PREEMPT).evictions == ["a-1"]
    assert decide(world, LEAST_COST).evictions == ["b-1"]


def test_few_important_ones_are_worse_than_many_unimportant_ones() -> None:
    world = World()
    world.node("n1", cpu=2).node("n2", cpu=2)
    world.runs("a", 1, "mid", "n1", cpu=2).runs("b", 2, "low", "n2", cpu=1).wants("x", cpu=2)

    assert decide(world, LEAST_COST).evictions == ["b-1", "b-0"]


def test_of_equal_importance_fewer_go() -> None:
    world = World()
    world.node("n1", cpu=2).node("n2", cpu=2)
    world.runs("a", 2, "low", "n1", cpu=1).runs("b", 1, "low", "n2", cpu=2).wants("x", cpu=2)

    assert decide(world, PREEMPT).evictions == ["a-1", "a-0"]
    assert decide(world, LEAST_COST).evictions == ["b-0"]


def test_a_budget_comes_before_importance() -> None:
    world = two_nodes("mid", "low").budget("keep", 0, app="b")
    for pod in world.objects:
        if pod["kind"] == "Pod" and pod["metadata"]["name"].startswith("b-"):
            pod["metadata"]["labels"] = {"app": "b"}

    assert decide(world.wants("x", cpu=1), LEAST_COST).evictions == ["a-1"]


def test_a_node_that_rules_keep_is_passed_over_for_the_next_best() -> None:
    world = two_nodes("mid", "low").wants("x", cpu=1, spec={"nodeSelector": {"kubernetes.io/hostname": "n1"}})

    decision = decide(world, LEAST_COST)

    assert decision.evictions == ["a-1"]
    assert nominations(decision) == {"x-0": "n1"}


def a_task(name: str, priority: int, created: float = 0.0, cpu: int = 1) -> TaskInfo:
    world = World()
    world.pod(name, cpu=cpu)
    (task,) = rig(world, PREEMPT).cluster.tasks.values()
    task.spec, task.created = PodProperties(pod_priority=priority), created
    return task


def test_nobody_is_less_than_anybody() -> None:
    assert cost_of([]) == NONE
    assert cost_of([a_task("a", -(1 << 31))]) > NONE


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ([(10, 0.0)], [(11, 0.0)]),
        ([(10, 0.0), (10, 0.0)], [(11, 0.0)]),
        ([(10, 0.0)], [(10, 0.0), (-5, 0.0)]),
        ([(10, 0.0), (3, 0.0)], [(10, 0.0), (4, 0.0)]),
        ([(10, 9.0)], [(10, 8.0)]),
        ([(10, 9.0), (3, 1.0)], [(10, 8.0), (3, 7.0)]),
    ],
    ids=["importance", "importance before number", "number", "sum", "age", "age of the most important"],
)
def test_harm_is_compared_as_kube_scheduler_does(less: list[tuple[int, float]], more: list[tuple[int, float]]) -> None:
    tasks = [[a_task("a", priority, created) for priority, created in side] for side in (less, more)]

    assert cost_of(tasks[0]) < cost_of(tasks[1])


def test_as_few_are_needed_as_amounts_tell() -> None:
    cluster = rig(two_nodes("low", "low"), PREEMPT).cluster
    node = cluster.nodes["n1"]
    victims = sorted(node.tasks.values(), key=lambda task: task.name)
    ((cpu, one),) = [(column, amount) for column, amount in victims[0].charge if cluster.columns.names[column] == "cpu"]

    for cores, count in itertools.product((0, 1, 2), (0, 1, 2)):
        found = needed(node, [(cpu, cores * one)], [], victims[:count])
        assert found == (victims[:cores] if cores <= count else None), (cores, count)


def test_one_that_is_not_needed_after_all_is_spared() -> None:
    world = World()
    world.node("n1", cpu=4).runs("small", 1, on="n1", cpu=1).runs("large", 1, on="n1", cpu=3)
    cluster = rig(world, PREEMPT).cluster
    by_name = {task.name: task for task in cluster.tasks.values()}
    request = [
        (column, amount) for column, amount in by_name["large-0"].charge if cluster.columns.names[column] == "cpu"
    ]

    found = needed(cluster.nodes["n1"], request, [], [by_name["small-0"], by_name["large-0"]])

    assert found == [by_name["large-0"]]


def test_so_many_are_compared_and_the_others_come_behind_in_their_order() -> None:
    node = rig(two_nodes("low", "low"), PREEMPT).cluster.nodes["n1"]
    looked_at: list[str] = []

    def plans() -> Iterator[VictimPlan]:
        for name, priority in (("a", 3), ("hopeless", None), ("b", 1), ("c", 0), ("d", 2)):
            looked_at.append(name)
            victims = None if priority is None else [a_task(name, priority)]
            yield VictimPlan(node, victims or [], victims or [], victims or [], victims)

    ordered = least_cost_first(plans(), most=2)
    first = next(ordered)

    assert looked_at == ["a", "hopeless", "b"]
    assert [plan.ordered[0].name if plan.ordered else "hopeless" for plan in (first, *ordered)] == [
        "b",
        "a",
        "hopeless",
        "c",
        "d",
    ]
