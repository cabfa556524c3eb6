"""Runs: equal tasks of one job that are placed in one go, and everything that has them placed one by one instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from tests.framework.stage import Plug, Register, Stage, standing
from tests.framework.typed import by_amounts, by_facts, by_node
from volsched.framework import rules
from volsched.framework.callbacks import Headroom
from volsched.framework.engine.fast import FastEngine
from volsched.framework.registration import Registrar
from volsched.framework.rules import (
    Allocatable,
    BatchNodeOrder,
    BestNode,
    EventHandler,
    JobReady,
    NodeOrder,
    Predicate,
    PrePredicate,
    Rule,
    never,
)
from volsched.model.nodes.node import NodeAmounts, NodeInfo
from volsched.model.observers import Observer
from volsched.model.plan import Bind
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.status import TaskStatus
from volsched.model.verdict import Scope, Step, Verdict
from volsched.testing.builders import ClusterBuilder, a_cluster
from volsched.testing.checked import CheckedEngine, Misdeclared, Stale

GANG = 6


def a_world(tasks: int = GANG) -> ClusterBuilder:
    """Three nodes of eight cores, one of which is half full, and a gang of six that asks for three each."""
    world = a_cluster().node("a", cpu="8").node("b", cpu="8").node("c", cpu="8").queue("q")
    world.group("old", "q", phase="Running").pod("old-0", "old", on="b", cpu="4")
    return world.job("gang", tasks=tasks, queue="q", cpu="3")


def passes(_: PodTemplate, _node: Any) -> None:
    """Refuse no node."""


def used(_: PodTemplate, node: NodeAmounts) -> float:
    """Fuller nodes are better."""
    return float(node.used_of("cpu"))


def register(registrar: Registrar) -> None:
    """Pack nodes, and let the gang start with all of its members."""
    registrar.register(NodeOrder(used))
    register_ready(registrar)


def register_ready(registrar: Registrar) -> None:
    """Let the gang start with all of its members."""
    registrar.register(JobReady(lambda job: job.is_ready, for_each_pod=never))


def room_for(count: int, at_once: int | None = None) -> Register:
    """A quota that has room for so many tasks."""
    refusal = None if count > 0 else Verdict(Step.ALLOCATABLE, "quota", Scope.QUEUE, "Unschedulable", "none left")
    return lambda r: r.register(Allocatable(headroom=lambda queue, template: Headroom(count, refusal, at_once)))


def of_small(template: PodTemplate) -> bool:
    """Templates of which the gang's is none."""
    return template.request["cpu"] < 1_000


class Handler:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def allocate(self, task: TaskInfo) -> Verdict | None:
        self.heard.append(f"+{task.name}")
        return None

    def deallocate(self, task: TaskInfo) -> None:
        self.heard.append(f"-{task.name}")


def members(stage: Stage, count: int = GANG) -> list[TaskInfo]:
    return [stage.task(f"gang-{number}") for number in range(count)]


def run_of(stage: Stage, tasks: list[TaskInfo]) -> list[str]:
    """The nodes of a run, each taken before the next is asked for; all of it is undone."""
    statement, nodes = stage.session.statement(), []
    for task, node in zip(tasks, stage.engine.places(tasks), strict=False):
        nodes.append(node.name)
        assert statement.allocate(task, node) is None
    statement.discard()
    return nodes


def one_by_one(stage: Stage, tasks: list[TaskInfo]) -> list[str]:
    statement, nodes = stage.session.statement(), []
    for task in tasks:
        node = stage.engine.best(task)
        if node is None:
            break
        nodes.append(node.name)
        assert statement.allocate(task, node) is None
    statement.discard()
    return nodes


def in_one_step(stage: Stage, name: str = "gang-0") -> int:
    """Of how many tasks like this one it is tried to place them in one step."""
    task = stage.task(name)
    quota = stage.session.quota(stage.queue("q"), task)
    return 0 if quota.refusal is not None else max(1, min(quota.batch, stage.session.together(task)))


# -- nodes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [FastEngine, CheckedEngine])
def test_a_run_goes_where_its_tasks_would_go_alone_and_ends_when_nodes_are_full(engine: Any) -> None:
    stage = Stage(a_world(), register, engine=engine)

    assert run_of(stage, members(stage)) == one_by_one(stage, members(stage)) == ["b", "a", "a", "c", "c"]


@pytest.mark.parametrize("engine", [FastEngine, CheckedEngine])
def test_a_run_leaves_a_node_whose_score_falls_below_anothers(engine: Any) -> None:
    def spread(registrar: Registrar) -> None:
        registrar.register(NodeOrder(by_amounts(lambda template, node: -used(template, node))))

    stage = Stage(a_world(), register_ready, spread, engine=engine)

    assert run_of(stage, members(stage)) == ["a", "c", "a", "c", "b"]


def test_nodes_that_are_alike_fill_up_in_order_of_names_whatever_block_they_are_in() -> None:
    world = a_cluster().queue("q")
    for number in range(600):
        world.node(f"n{number:03}", cpu="3")
    stage = Stage(world.job("gang", tasks=600, queue="q", cpu="3"), register)

    assert run_of(stage, members(stage, 600)) == [f"n{number:03}" for number in range(600)]


@pytest.mark.parametrize(
    "more",
    [
        lambda r: r.register(Predicate(by_node(lambda template, node: None))),
        lambda r: r.register(NodeOrder(by_node(lambda template, node: 0.0))),
        lambda r: r.register(Predicate(lambda task, node: None)),
        lambda r: r.register(NodeOrder(lambda task, node: 0.0)),
        lambda r: r.register(BatchNodeOrder(lambda task, nodes: [0.0] * len(nodes))),
        lambda r: r.register(BestNode(lambda task, totals: None)),
    ],
    ids=["tasks of a node", "score of tasks", "pod", "score of pod", "batch", "best node"],
)
def test_a_run_is_of_one_task_where_more_than_amounts_decides(more: Register) -> None:
    stage = Stage(a_world(), register, more)

    assert len(run_of(stage, members(stage))) == 1
    assert len(one_by_one(stage, members(stage))) == 5


def test_a_batch_that_says_the_same_of_every_node_does_not_break_a_run() -> None:
    stage = Stage(
        a_world(),
        register,
        lambda r: r.register(BatchNodeOrder(lambda task, nodes: [1.0] * len(nodes), uniform=lambda task: 1.0)),
    )

    assert len(run_of(stage, members(stage))) == 5


def test_a_run_ends_before_a_task_whose_labels_make_a_difference() -> None:
    stage = Stage(
        a_world(),
        register,
        lambda r: r.register(Predicate(by_facts(lambda template, node: None), key=lambda t: t.spec.labels.get("part"))),
    )
    tasks = members(stage)
    for number, task in enumerate(tasks):
        task.spec = msgspec.structs.replace(task.spec, labels={"index": str(number)})
    assert len(run_of(stage, tasks)) == 5, "labels that nobody asks for make none"
    tasks[3].spec = msgspec.structs.replace(tasks[3].spec, labels={"part": "other"})

    assert len(run_of(stage, tasks)) == 3


def test_a_run_ends_when_something_else_changes_meanwhile() -> None:
    stage = Stage(a_world(), register)
    tasks = members(stage)
    nodes = stage.engine.places(tasks)
    next(nodes)
    stage.cluster.node_cache.touch(stage.node("a"))
    stage.cluster.node_cache.touch(stage.node("c"))

    assert next(nodes, None) is None


def test_a_checked_run_notices_a_plugin_that_decides_by_more_than_amounts() -> None:
    """The score reads what is no part of the amounts that it is shown: how many nodes were taken already."""
    far: set[str] = set()

    def fickle(_: PodTemplate, node: NodeAmounts) -> float:
        return 0.0 if far else 1.0

    def play(engine: Callable[..., Any]) -> None:
        far.clear()
        stage = Stage(a_world(), lambda r: r.register(NodeOrder(fickle)), engine=engine)
        for node in stage.engine.places(members(stage)):
            far.add(node.name)
            stage.cluster.node_cache.touch(node)

    with pytest.raises((Stale, Misdeclared)):
        play(CheckedEngine)


# -- how long ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "size"),
    [
        (lambda r: None, GANG),
        (room_for(4), 4),
        (room_for(9, at_once=2), 2),
        (room_for(-3), 0),
        (lambda r: r.register(JobReady(lambda job: True, for_each_pod=never)), GANG),
        (lambda r: r.register(PrePredicate(lambda task: None, applies_to=of_small)), GANG),
        (lambda r: r.register(Allocatable(lambda queue, task: None, applies_to=of_small)), GANG),
        (lambda r: r.register(EventHandler(Handler(), for_each_pod=of_small)), GANG),
        (lambda r: r.register(EventHandler(Handler(), for_each_pod=never)), GANG),
        (lambda r: r.register(BatchNodeOrder(lambda task, nodes: [])), GANG),
        (lambda r: r.register(Predicate(by_node(passes), key=lambda task: None)), GANG),
        (lambda r: r.register(Predicate(by_node(passes), key=lambda task: "all", applies_to=of_small)), GANG),
        (lambda r: r.register(Predicate(by_node(passes), key=lambda task: "all", for_each_pod=never)), GANG),
        (lambda r: r.register(Predicate(by_facts(passes))), GANG),
        (lambda r: r.register(NodeOrder(used)), GANG),
    ],
    ids=[
        "nobody else", "quota", "quota at once", "none left", "another minimum", "pre-predicate of others",
        "allocatable of others", "handler of others", "handler that need not hear", "batch",
        "key of others", "key of other templates", "key that need not be asked", "properties", "amounts",
    ],
)  # fmt: skip
def test_so_many_are_placed_in_one_go_as_nobody_could_refuse(more: Register, size: int) -> None:
    stage = Stage(a_world(), register, more)

    assert in_one_step(stage) == size


@pytest.mark.parametrize(
    "more",
    [
        lambda r: r.register(PrePredicate(lambda task: None)),
        lambda r: r.register(Allocatable(lambda queue, task: None)),
        lambda r: r.register(JobReady(lambda job: True)),
        lambda r: r.register(EventHandler(Handler())),
        lambda r: r.register(EventHandler(Handler(), for_each_pod=lambda template: True)),
        lambda r: r.register(Predicate(by_node(passes), key=lambda task: "all")),
        lambda r: r.register(NodeOrder(by_node(lambda template, node: 0.0), key=lambda task: "all")),
    ],
    ids=["pre-predicate", "allocatable", "ready", "handler", "handler of these", "key", "key of a score"],
)
def test_who_may_refuse_any_of_them_has_them_placed_one_by_one(more: Register) -> None:
    stage = Stage(a_world(), register, more)

    assert in_one_step(stage) == 1


def test_pods_that_mind_others_are_placed_one_by_one_where_nodes_are_scored_together() -> None:
    world = a_world()
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world.job("apart", tasks=3, queue="q", cpu="1", spec={"affinity": apart})
    stage = Stage(world, register, lambda r: r.register(BatchNodeOrder(lambda task, nodes: [0.0] * len(nodes))))

    assert in_one_step(stage, "apart-0") == 1
    assert in_one_step(stage) == GANG


@pytest.mark.parametrize("switch", ["enabledAllocatable", "enablePredicate"])
@pytest.mark.parametrize(
    "more",
    [
        EventHandler(Handler(), for_each_pod=never),
        Predicate(by_facts(lambda template, node: None), key=lambda task: "all", for_each_pod=never),
    ],
    ids=["handler", "key"],
)
def test_what_holds_within_the_headroom_does_not_when_a_switch_leaves_a_rule_of_the_plugin_out(
    switch: str, more: Rule
) -> None:
    def quota(registrar: Registrar) -> None:
        registrar.register(Allocatable(headroom=lambda queue, template: Headroom(4)), Predicate(by_facts(passes)), more)

    for on, size in ((True, 4), (False, 1)):
        stage = Stage(a_world(), register, Plug(quota, "quota", {switch: on}))
        found = in_one_step(stage)
        left_out = not on and switch == "enablePredicate" and isinstance(more, Predicate)
        assert found == (4 if left_out else size)


def test_without_a_word_on_readiness_there_is_no_run() -> None:
    """Every task makes its job ready then, and the next one waits for its turn."""
    stage = Stage(a_world(), lambda r: r.register(NodeOrder(used)))

    assert in_one_step(stage) == 1


def test_while_room_is_promised_to_anybody_and_when_scores_are_asked_for_there_is_no_run() -> None:
    stage = Stage(a_world(), register)
    statement = stage.session.statement()
    statement.pipeline(stage.task("gang-5"), stage.node("a"))
    statement.hold()
    assert in_one_step(stage) == 1

    stage = Stage(a_world(), register)
    stage.session.on_placed = lambda session, task: None
    assert in_one_step(stage) == 1


# -- placing ----------------------------------------------------------------------------------------------------------


class Moves(Observer):
    """Notes what it is told, move by move."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, TaskStatus, TaskStatus, str]] = []

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        self.heard.append((task.name, before, task.status, task.node.name if task.node else ""))


def test_a_run_leaves_everything_as_the_same_moves_one_by_one_would() -> None:
    run, single = Stage(a_world(), register), Stage(a_world(), register)
    told = {id(stage): Moves() for stage in (run, single)}
    for stage in (run, single):
        stage.cluster.observe(told[id(stage)])
    statement = run.session.statement()
    tasks = members(run)

    placed = statement.place(tasks, run.engine.places(tasks)).number
    alone = single.session.statement()
    for task in members(single)[:placed]:
        node = single.engine.best(task)
        assert node is not None
        assert alone.allocate(task, node) is None

    assert placed == 5
    assert standing(run.cluster) == standing(single.cluster)
    assert told[id(run)].heard == told[id(single)].heard
    assert [o.task.name for o in statement.operations] == [o.task.name for o in alone.operations]
    run.check()
    statement.discard()
    alone.discard()
    assert standing(run.cluster) == standing(single.cluster)
    run.check()


@pytest.mark.parametrize("full", [0, 3_000])
def test_a_score_that_fails_in_the_middle_of_a_run_leaves_no_trace(full: int) -> None:
    def fails(pod: PodTemplate, node: NodeAmounts) -> float:
        if node.used_of("cpu") == full and failing:
            raise ZeroDivisionError
        return used(pod, node)

    failing: list[bool] = []
    stage = Stage(a_world(), register_ready, lambda r: r.register(NodeOrder(fails)))
    before = standing(stage.cluster)
    statement = stage.session.statement()
    failing.append(True)
    with pytest.raises(ZeroDivisionError):
        statement.place(members(stage), stage.engine.places(members(stage)))
    assert statement.operations == []
    failing.clear()

    assert standing(stage.cluster) == before
    stage.check()


def test_a_run_is_bound_like_any_other_tasks() -> None:
    stage = Stage(a_world(tasks=4), register)
    tasks, statement = members(stage, 4), stage.session.statement()
    assert statement.place(tasks, stage.engine.places(tasks)).number == 4

    statement.commit(tasks[0].job)

    bound = [(step.name, step.node) for step in stage.steps if isinstance(step, Bind)]
    assert bound == [("gang-0", "b"), ("gang-1", "a"), ("gang-2", "a"), ("gang-3", "c")]
    assert {task.status for task in tasks} == {TaskStatus.BINDING}
    stage.check()


def test_an_event_handler_hears_of_a_run_only_when_it_leaves_again() -> None:
    handler = Handler()
    stage = Stage(a_world(tasks=2), register, lambda r: r.register(EventHandler(handler, for_each_pod=never)))
    tasks, statement = members(stage, 2), stage.session.statement()
    statement.place(tasks, stage.engine.places(tasks))
    statement.discard()

    assert handler.heard == ["-gang-1", "-gang-0"]


class Refusing(Handler):
    """Refuses one task, and notes what stood when it was told of each."""

    def __init__(self, refused: str = "", fails: str = "") -> None:
        super().__init__()
        self.refused, self.fails = refused, fails

    def allocate(self, task: TaskInfo) -> Verdict | None:
        super().allocate(task)
        assert task.status is TaskStatus.ALLOCATED
        assert task.node is not None
        if task.name == self.fails:
            raise ZeroDivisionError
        if task.name == self.refused:
            return Verdict(Step.PREDICATE, "devices", Scope.POD, "Unschedulable", "none left")
        return None


def in_steps(*handlers: Handler) -> list[Register]:
    return [lambda r, h=h: r.register(EventHandler(h, in_steps=True)) for h in handlers]  # type: ignore[misc]


def test_a_handler_may_hear_of_each_task_of_a_run() -> None:
    first, second = Refusing(), Refusing()
    stage = Stage(a_world(), register, *in_steps(first, second))
    tasks, statement = members(stage), stage.session.statement()

    assert stage.session.together(tasks[0]) == GANG
    assert statement.place(tasks, stage.engine.places(tasks)).number == 5
    statement.discard()

    expected = [f"+gang-{n}" for n in range(5)] + [f"-gang-{n}" for n in reversed(range(5))]
    assert first.heard == second.heard == expected


@pytest.mark.parametrize("refused", range(4))
def test_a_run_ends_before_a_task_that_a_handler_refuses(refused: int) -> None:
    name = f"gang-{refused}"
    first, second = Refusing(), Refusing(refused=name)
    stage, same = Stage(a_world(4), register, *in_steps(first, second)), Stage(a_world(4), register)
    tasks, statement = members(stage, 4), stage.session.statement()

    found = statement.place(tasks, stage.engine.places(tasks))

    assert found.number == refused
    assert (found.refusal is not None) is (refused == 0)
    assert first.heard == [*(f"+gang-{n}" for n in range(refused + 1)), f"-{name}"]
    alone = same.session.statement()
    if refused:
        alone.place(members(same, refused), same.engine.places(members(same, refused)))
    assert standing(stage.cluster) == standing(same.cluster)
    stage.check()


@pytest.mark.parametrize("failing", [0, 2, 3])
def test_a_handler_that_fails_in_the_middle_of_a_run_leaves_no_trace(failing: int) -> None:
    first, second = Refusing(), Refusing(fails=f"gang-{failing}")
    stage = Stage(a_world(4), register, *in_steps(first, second))
    before, tasks, statement = standing(stage.cluster), members(stage, 4), stage.session.statement()

    with pytest.raises(ZeroDivisionError):
        statement.place(tasks, stage.engine.places(tasks))

    assert statement.operations == []
    assert standing(stage.cluster) == before
    told = [name.removeprefix("+") for name in first.heard if name.startswith("+")]
    assert sorted(name.removeprefix("-") for name in first.heard if name.startswith("-")) == told
    stage.check()


def test_a_task_that_is_placed_alone_is_told_whatever_the_handler_states() -> None:
    handler = Handler()
    stage = Stage(a_world(), register, lambda r: r.register(EventHandler(handler, for_each_pod=never)))
    statement = stage.session.statement()
    statement.allocate(stage.task("gang-0"), stage.node("a"))
    statement.pipeline(stage.task("gang-1"), stage.node("a"))
    statement.discard()

    assert handler.heard == ["+gang-0", "+gang-1", "-gang-1", "-gang-0"]


def test_tasks_beyond_what_makes_their_job_ready_are_placed_one_at_a_time() -> None:
    stage = Stage(a_world(), register)
    statement = stage.session.statement()
    for name in ("a", "a", "b", "c", "c"):
        number = len(statement.operations)
        assert statement.allocate(stage.task(f"gang-{number}"), stage.node(name)) is None
        assert in_one_step(stage, "gang-5") == GANG - 1 - number


# -- flags of one minor version ago -----------------------------------------------------------------------------------


ALL: dict[str, Any] = {"key": lambda task: "all"}


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda kinds: kinds.EventHandler(Handler(), within_headroom=True), GANG),
        (lambda kinds: kinds.EventHandler(Handler(), promises=True), GANG),
        (lambda kinds: kinds.EventHandler(events=Handler(), promises=True), GANG),
        (lambda kinds: kinds.EventHandler(Handler(), applies_to=of_small), GANG),
        (lambda kinds: kinds.EventHandler(Handler(), applies_to=lambda template: True), 1),
        (lambda kinds: kinds.EventHandler(Handler(), within_headroom=False), 1),
        (lambda kinds: kinds.Predicate(by_node(passes), within_headroom=True, **ALL), GANG),
        (lambda kinds: kinds.NodeOrder(by_node(lambda pod, node: 0.0), within_session=True, **ALL), GANG),
        (lambda kinds: kinds.JobReady(lambda job: True, lacking=lambda job: 3), 1),
    ],
)
def test_flags_of_one_minor_version_ago_work_with_a_warning(make: Callable[[Any], Rule], size: int) -> None:
    with pytest.warns(DeprecationWarning, match=r"ends with the next minor version; use for_each_pod="):
        rule = make(rules)

    assert in_one_step(Stage(a_world(), register, lambda r: r.register(rule))) == size


def test_a_handler_of_promises_still_hears_of_promises_alone() -> None:
    handler, kinds = Handler(), cast("Any", rules)
    with pytest.warns(DeprecationWarning, match=r"EventHandler\(promises=\)"):
        rule = kinds.EventHandler(handler, promises=True)
    stage = Stage(a_world(), register, lambda r: r.register(rule))
    statement = stage.session.statement()
    statement.allocate(stage.task("gang-0"), stage.node("a"))
    statement.pipeline(stage.task("gang-1"), stage.node("a"))
    statement.discard()

    assert handler.heard == ["+gang-1", "-gang-1"]


# -- keys -------------------------------------------------------------------------------------------------------------


def test_a_run_asks_the_keys_of_its_first_task_alone() -> None:
    """What a run costs beside its nodes does not grow with its length."""
    asked: list[str] = []

    def key(task: TaskInfo) -> None:
        asked.append(task.name)

    stage = Stage(
        a_world(),
        register,
        lambda r: r.register(
            Predicate(
                by_node(lambda template, node: None),
                key=key,
                vector=lambda template, nodes: np.ones(len(nodes.rows), bool),
            )
        ),
    )
    tasks = members(stage)
    list(zip(tasks, stage.engine.places(tasks), strict=False))

    assert set(asked) <= {"gang-0"}
