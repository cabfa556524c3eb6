"""Of nodes that are as good, room is made on the one where no work is lost: pods that do not run yet go first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actions.evictions import PREEMPT, RECLAIM, World, nominations, protected
from tests.actions.rigs import conf, decide
from volsched.testing.builders import decide as decide_with
from volsched.testing.contract import ENGINES

ACTIONS = pytest.mark.parametrize("configuration", [PREEMPT, RECLAIM], ids=["preempt", "reclaim"])
IDLE, BUSY = "Pending", "Running"
FULL = {"cpu": 2}


def nodes(count: int = 2, **amounts: Any) -> World:
    world = World()
    for number in range(1, count + 1):
        world.node(f"n{number}", **(amounts or FULL))
    world.queue("a").queue("b")
    return world


def full(world: World, name: str, on: str, *phases: str, level: str = "low", cpu: Any = 2, **pod: Any) -> World:
    """Add a job with a pod of each phase on a node; each pod takes an equal part of its cores."""
    world.group(name, "a", 0, "Running", priorityClassName=level)
    for index, phase in enumerate(phases):
        world.member(f"{name}-{index}", name, level, on=on, phase=phase, cpu=cpu / len(phases), **pod)
    return world


def wants(world: World, configuration: str, cpu: Any = 2, **pod: Any) -> World:
    """Add the pod that needs room: of the queue of the others, or of another one."""
    world.wants("x", queue="b" if configuration.startswith(RECLAIM) else "a", cpu=cpu, **pod)
    return world


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("idle", range(1, 5))
@ACTIONS
def test_a_pod_that_does_not_run_goes_on_whatever_node_it_is(configuration: str, idle: int, engine: Any) -> None:
    world = nodes(4)
    for number in range(1, 5):
        full(world, f"v{number}", f"n{number}", IDLE if number == idle else BUSY)

    decision = decide_with(wants(world, configuration), configuration, engine)

    assert decision.evictions == [f"v{idle}-0"]
    assert nominations(decision) == {"x-0": f"n{idle}"}


@ACTIONS
def test_of_nodes_on_which_as_many_run_the_first_by_name_is_taken(configuration: str) -> None:
    world = full(nodes(3), "v1", "n1", BUSY, BUSY)
    for number in (2, 3):
        full(world, f"v{number}", f"n{number}", BUSY, IDLE)

    assert sorted(decide(wants(world, configuration), configuration).evictions) == ["v2-0", "v2-1"]


@ACTIONS
def test_several_that_do_not_run_go_before_one_that_does(configuration: str) -> None:
    world = full(full(nodes(), "v", "n1", BUSY), "w", "n2", IDLE, IDLE)

    assert sorted(decide(wants(world, configuration), configuration).evictions) == ["w-0", "w-1"]


@ACTIONS
def test_as_few_as_can_be_run_of_those_that_go(configuration: str) -> None:
    world = nodes(3)
    full(full(full(world, "u", "n1", BUSY, BUSY), "v", "n2", BUSY, IDLE), "w", "n3", BUSY, BUSY)

    assert sorted(decide(wants(world, configuration), configuration).evictions) == ["v-0", "v-1"]


@ACTIONS
def test_of_several_such_nodes_it_is_the_first(configuration: str) -> None:
    world = nodes(4)
    full(full(full(full(world, "u", "n1", BUSY), "w", "n3", IDLE), "v", "n2", IDLE), "x2", "n4", BUSY)

    assert decide(wants(world, configuration), configuration).evictions == ["v-0"]


@ACTIONS
def test_one_that_matters_more_stays_whether_it_runs_or_not(configuration: str) -> None:
    world = full(full(nodes(), "v", "n1", BUSY), "w", "n2", IDLE, level="mid")

    assert decide(wants(world, configuration), configuration).evictions == ["v-0"]


@ACTIONS
def test_none_of_several_may_matter_more_than_its_counterpart(configuration: str) -> None:
    world = full(nodes(), "v", "n1", BUSY, cpu=1)
    full(full(world, "u", "n1", BUSY, level="mid", cpu=1), "w", "n2", IDLE, IDLE, level="mid")

    assert sorted(decide(wants(world, configuration), configuration).evictions) == ["u-0", "v-0"]


@ACTIONS
def test_the_better_node_comes_before_pods_that_do_not_run(configuration: str) -> None:
    preferred = {"matchExpressions": [{"key": "good", "operator": "Exists"}]}
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": preferred}]}
    world = World()
    world.node("n1", cpu=2, labels={"good": "yes"}).node("n2", cpu=2).queue("a").queue("b")
    full(full(world, "v", "n1", BUSY), "w", "n2", IDLE)

    asked = wants(world, configuration, spec={"affinity": {"nodeAffinity": affinity}})

    assert decide(asked, configuration).evictions == ["v-0"]


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("allowed", [0, 1])
@ACTIONS
def test_a_budget_is_kept_before_work(configuration: str, allowed: int, keeps: bool) -> None:
    world = full(full(nodes(), "v", "n1", BUSY), "w", "n2", IDLE, labels={"app": "kept"})
    world.budget("keep", allowed, app="kept")

    told = protected(configuration) if keeps else configuration

    assert decide(wants(world, configuration), told).evictions == ["w-0" if allowed else "v-0"]


@ACTIONS
def test_where_every_victim_breaks_a_budget_those_go_that_do_not_run(configuration: str) -> None:
    world = full(full(nodes(), "v", "n1", BUSY, labels={"app": "v"}), "w", "n2", IDLE, labels={"app": "w"})
    world.budget("v", 0, app="v").budget("w", 0, app="w")

    assert decide(wants(world, configuration), configuration).evictions == ["w-0"]


@ACTIONS
def test_no_more_budgets_are_broken_for_pods_that_run(configuration: str) -> None:
    world = full(nodes(), "v", "n1", BUSY, labels={"app": "kept"}, cpu=1)
    full(full(world, "u", "n1", BUSY, cpu=1), "w", "n2", IDLE, IDLE, labels={"app": "kept"})
    world.budget("keep", 0, app="kept")

    assert sorted(decide(wants(world, configuration), configuration).evictions) == ["u-0", "v-0"]


PORT = [{"name": "main", "image": "none", "ports": [{"containerPort": 80, "hostPort": 80}]}]
TERM = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
AWAY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}


@pytest.mark.parametrize(
    ("amounts", "theirs", "mine"),
    [
        ({"cpu": 4}, {"spec": {"containers": PORT}}, {"spec": {"containers": PORT}}),
        ({"cpu": 4}, {"labels": {"app": "noisy"}, "cpu": 1}, {"cpu": 1, "spec": {"affinity": AWAY}}),
        ({"cpu": 4, "pods": 1}, {"cpu": 1}, {"cpu": 1}),
        ({"cpu": 4, "example.com/gpu": 8}, {"cpu": 1, "example.com/gpu": 8}, {"cpu": 1, "example.com/gpu": 1}),
    ],
    ids=["port", "affinity", "slot", "extended"],
)
def test_whatever_the_room_is(amounts: dict[str, Any], theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    world = World()
    world.node("n1", **amounts).node("n2", **amounts)
    world.runs("v", 1, on="n1", phase=BUSY, **theirs).runs("w", 1, on="n2", phase=IDLE, **theirs)

    assert decide(world.wants("x", **mine), PREEMPT).evictions == ["w-0"]


def test_inside_a_job_too() -> None:
    world = nodes().group("g", minimum=0, phase="Running", priorityClassName="mid")
    assert isinstance(world, World)
    world.member("run", "g", "low", on="n1", phase=BUSY, cpu=2).member("wait", "g", "low", on="n2", phase=IDLE, cpu=2)

    decision = decide(world.member("x", "g", "high", cpu=2), conf("preempt", "priority conformance", "predicates"))

    assert decision.evictions == ["wait"]


def test_pods_of_a_gang_take_each_a_node_of_pods_that_do_not_run() -> None:
    world = nodes(4)
    for number, phase in enumerate((BUSY, IDLE, BUSY, IDLE), start=1):
        full(world, f"v{number}", f"n{number}", phase)

    decision = decide(world.wants("x", 3, queue="a", cpu=2), PREEMPT)

    assert decision.evictions == ["v2-0", "v4-0", "v1-0"]


def test_a_pod_that_plugins_protect_stays_though_it_does_not_run() -> None:
    world = full(nodes(), "v", "n1", BUSY)
    world.group("w", "a", 1, "Running", priorityClassName="low").member("w-0", "w", "low", on="n2", phase=IDLE, cpu=2)

    assert decide(world.wants("x", queue="a", cpu=2), conf("preempt", "priority gang", "predicates")).evictions == [
        "v-0"
    ]
