"""Runs: equal tasks of one job that are placed in one go, and everything that has them placed one by one instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.framework.stage import Register, Stage, no, standing
from tests.framework.typed import by_amounts, by_facts, by_node
from volsched.framework.callbacks import ANY_RUN
from volsched.framework.engine.engine import FastEngine
from volsched.framework.session import Session
from volsched.model.node import NodeAmounts, NodeInfo
from volsched.model.observers import Observer
from volsched.model.plan import Bind
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.status import TaskStatus
from volsched.model.verdict import Verdict
from volsched.testing.builders import ClusterBuilder, a_cluster
from volsched.testing.checked import CheckedEngine, Misdeclared, Stale

GANG = 6


def a_world(tasks: int = GANG) -> ClusterBuilder:
    """Three nodes of eight cores, one of which is half full, and a gang of six that asks for three each."""
    world = a_cluster().node("a", cpu="8").node("b", cpu="8").node("c", cpu="8").queue("q")
    world.group("old", "q", phase="Running").pod("old-0", "old", on="b", cpu="4")
    return world.job("gang", tasks=tasks, queue="q", cpu="3")


def used(_: PodTemplate, node: NodeAmounts) -> float:
    """Fuller nodes are better."""
    return float(node.used_of("cpu"))


def register(session: Session) -> None:
    """Pack nodes, and let the gang start with all of its members."""
    session.add_node_order_fn("pack", used)
    register_ready(session)


def register_ready(session: Session) -> None:
    """Let the gang start with all of its members."""
    session.add_job_ready_fn("gang", lambda job: job.is_ready)
    session.add_run_fn("gang", lambda queue, task: task.job.min_available - task.job.ready_count if task.job else 0)


def members(stage: Stage, count: int = GANG) -> list[TaskInfo]:
    return [stage.task(f"gang-{number}") for number in range(count)]


def run_of(stage: Stage, tasks: list[TaskInfo]) -> list[str]:
    """The nodes of a run, each taken before the next is asked for; all of it is undone."""
    statement, nodes = stage.session.statement(), []
    for task, node in zip(tasks, stage.engine.run(tasks), strict=False):
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


# -- nodes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [FastEngine, CheckedEngine])
def test_a_run_goes_where_its_tasks_would_go_alone_and_ends_when_nodes_are_full(engine: Any) -> None:
    stage = Stage(a_world(), register, engine=engine)

    assert run_of(stage, members(stage)) == one_by_one(stage, members(stage)) == ["b", "a", "a", "c", "c"]


@pytest.mark.parametrize("engine", [FastEngine, CheckedEngine])
def test_a_run_leaves_a_node_whose_score_falls_below_anothers(engine: Any) -> None:
    def spread(session: Session) -> None:
        session.add_node_order_fn("spread", by_amounts(lambda template, node: -used(template, node)))

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
        lambda s: s.add_predicate_fn("x", by_node(lambda template, node: None)),
        lambda s: s.add_node_order_fn("x", by_node(lambda template, node: 0.0)),
        lambda s: s.add_predicate_fn("x", lambda task, node: None),
        lambda s: s.add_node_order_fn("x", lambda task, node: 0.0),
        lambda s: s.add_batch_node_order_fn("x", lambda task, nodes: [0.0] * len(nodes)),
        lambda s: s.add_best_node_fn("x", lambda task, totals: None),
    ],
    ids=["tasks of a node", "score of tasks", "pod", "score of pod", "batch", "best node"],
)
def test_there_are_no_runs_where_more_than_amounts_decides(more: Register) -> None:
    stage = Stage(a_world(), register, more)

    assert run_of(stage, members(stage)) == []
    assert len(one_by_one(stage, members(stage))) == 5


def test_a_batch_that_says_the_same_of_every_node_does_not_break_a_run() -> None:
    stage = Stage(
        a_world(),
        register,
        lambda s: s.add_batch_node_order_fn("x", lambda task, nodes: [1.0] * len(nodes), uniform=lambda task: 1.0),
    )

    assert len(run_of(stage, members(stage))) == 5


def test_a_run_ends_before_a_task_whose_labels_make_a_difference() -> None:
    stage = Stage(
        a_world(),
        register,
        lambda s: s.add_predicate_fn("x", by_facts(lambda template, node: None), key=lambda t: t.labels.get("part")),
    )
    tasks = members(stage)
    for number, task in enumerate(tasks):
        task.labels = {"index": str(number)}
    assert len(run_of(stage, tasks)) == 5, "labels that nobody asks for make none"
    tasks[3].labels = {"part": "other"}

    assert len(run_of(stage, tasks)) == 3


def test_a_run_ends_when_something_else_changes_meanwhile() -> None:
    stage = Stage(a_world(), register)
    tasks = members(stage)
    nodes = stage.engine.run(tasks)
    next(nodes)
    stage.cluster.node_ledger.touch(stage.node("a"))
    stage.cluster.node_ledger.touch(stage.node("c"))

    assert next(nodes, None) is None


def test_a_checked_run_notices_a_plugin_that_decides_by_more_than_amounts() -> None:
    """The score reads what is no part of the amounts that it is shown: how many nodes were taken already."""
    far: set[str] = set()

    def fickle(_: PodTemplate, node: NodeAmounts) -> float:
        return 0.0 if far else 1.0

    def play(engine: Callable[..., Any]) -> None:
        far.clear()
        stage = Stage(a_world(), lambda s: s.add_node_order_fn("x", fickle), engine=engine)
        for node in stage.engine.run(members(stage)):
            far.add(node.name)
            stage.cluster.node_ledger.touch(node)

    with pytest.raises((Stale, Misdeclared)):
        play(CheckedEngine)


# -- how long ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "longest"),
    [
        (lambda s: None, GANG),
        (lambda s: s.add_run_fn("x", lambda queue, task: 4), 4),
        (lambda s: s.add_run_fn("x", lambda queue, task: -3), -3),
        (lambda s: s.add_pre_predicate_fn("x", lambda task: None), 0),
        (lambda s: s.add_allocatable_fn("x", lambda queue, task: None), 0),
        (lambda s: s.add_job_ready_fn("x", lambda job: True), 0),
        (lambda s: s.add_event_handler("x", Handler()), 0),
        (lambda s: s.add_batch_node_order_fn("x", lambda task, nodes: []), 0),
        (lambda s: s.add_predicate_fn("x", by_node(lambda template, node: None), key=lambda task: "all"), 0),
        (lambda s: s.add_node_order_fn("x", by_node(lambda template, node: 0.0), key=lambda task: "all"), 0),
        (lambda s: s.add_predicate_fn("x", by_facts(lambda template, node: None)), GANG),
        (lambda s: s.add_node_order_fn("x", used), GANG),
    ],
    ids=[
        "nobody else", "fewer", "none left", "pre-predicate", "allocatable", "ready", "handler", "batch", "key",
        "key of a score", "facts", "amounts",
    ],
)  # fmt: skip
def test_every_plugin_that_may_refuse_has_a_say(more: Register, longest: int) -> None:
    stage = Stage(a_world(), register, more)
    task = stage.task("gang-0")

    assert stage.session.longest_run(stage.queue("q"), task) == longest
    if longest == 0:
        stage = Stage(a_world(), register, more, lambda s: s.add_run_fn("x", lambda queue, task: ANY_RUN))
        assert stage.session.longest_run(stage.queue("q"), stage.task("gang-0")) == GANG


def test_without_a_word_on_readiness_there_is_no_run() -> None:
    """Every task makes its job ready then, and the next one waits for its turn."""
    stage = Stage(a_world(), lambda s: s.add_node_order_fn("pack", used))

    assert stage.session.longest_run(stage.queue("q"), stage.task("gang-0")) == 0


def test_while_room_is_promised_to_anybody_and_when_scores_are_asked_for_there_is_no_run() -> None:
    stage = Stage(a_world(), register)
    statement = stage.session.statement()
    statement.pipeline(stage.task("gang-5"), stage.node("a"))
    statement.hold()
    assert stage.session.longest_run(stage.queue("q"), stage.task("gang-0")) == 0

    stage = Stage(a_world(), register)
    stage.session.on_placed = lambda session, task: None
    assert stage.session.longest_run(stage.queue("q"), stage.task("gang-0")) == 0


# -- placing ----------------------------------------------------------------------------------------------------------


class Handler:
    """Notes what it is told."""

    def __init__(self, refuses: bool = False) -> None:
        self.refuses = refuses
        self.heard: list[str] = []

    def placed(self, tasks: Any) -> Verdict | None:
        self.heard += [f"{task.name}@{task.node.name}" for task in tasks]
        return no("not these") if self.refuses else None

    def allocate(self, task: TaskInfo) -> Verdict | None:
        self.heard.append(f"+{task.name}")
        return None

    def deallocate(self, task: TaskInfo) -> None:
        self.heard.append(f"-{task.name}")


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

    placed = statement.allocate_run(tasks, run.engine.run(tasks))
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


def test_a_run_is_bound_like_any_other_tasks() -> None:
    stage = Stage(a_world(tasks=4), register)
    tasks, statement = members(stage, 4), stage.session.statement()
    assert statement.allocate_run(tasks, stage.engine.run(tasks)) == 4

    statement.commit(tasks[0].job)

    bound = [(step.name, step.node) for step in stage.steps if isinstance(step, Bind)]
    assert bound == [("gang-0", "b"), ("gang-1", "a"), ("gang-2", "a"), ("gang-3", "c")]
    assert {task.status for task in tasks} == {TaskStatus.BINDING}
    stage.check()


def test_who_objects_to_a_run_sends_all_of_it_back_and_leaves_no_trace() -> None:
    handler = Handler(refuses=True)
    stage = Stage(a_world(), register, lambda s: s.add_run_fn("x", lambda queue, task: ANY_RUN, handler.placed))
    before, tasks = standing(stage.cluster), members(stage)
    statement = stage.session.statement()

    assert statement.allocate_run(tasks, stage.engine.run(tasks)) == 0

    assert standing(stage.cluster) == before
    assert statement.operations == []
    assert handler.heard == ["gang-0@b", "gang-1@a", "gang-2@a", "gang-3@c", "gang-4@c"]
    assert one_by_one(stage, tasks) == ["b", "a", "a", "c", "c"]
    stage.check()


def test_who_had_accepted_a_run_that_another_objects_to_hears_that_it_leaves() -> None:
    accepting, refusing, later = Handler(), Handler(refuses=True), Handler()

    def follow(name: str, handler: Handler) -> Register:
        def add(session: Session) -> None:
            session.add_event_handler(name, handler)
            session.add_run_fn(name, lambda queue, task: ANY_RUN, handler.placed)

        return add

    stage = Stage(a_world(tasks=2), register, follow("x", accepting), follow("y", refusing), follow("z", later))
    tasks = members(stage, 2)

    assert stage.session.statement().allocate_run(tasks, stage.engine.run(tasks)) == 0

    assert accepting.heard == ["gang-0@b", "gang-1@a", "-gang-1", "-gang-0"]
    assert refusing.heard == ["gang-0@b", "gang-1@a"]
    assert later.heard == []


def test_an_event_handler_hears_of_a_run_only_when_it_leaves_again() -> None:
    handler = Handler()

    def follow(session: Session) -> None:
        session.add_event_handler("x", handler)
        session.add_run_fn("x", lambda queue, task: ANY_RUN, handler.placed)

    stage = Stage(a_world(tasks=2), register, follow)
    tasks, statement = members(stage, 2), stage.session.statement()
    statement.allocate_run(tasks, stage.engine.run(tasks))
    statement.discard()

    assert handler.heard == ["gang-0@b", "gang-1@a", "-gang-1", "-gang-0"]


def test_a_run_asks_the_keys_of_its_first_task_alone() -> None:
    """What a run costs beside its nodes does not grow with its length."""
    asked: list[str] = []

    def key(task: TaskInfo) -> None:
        asked.append(task.name)

    stage = Stage(
        a_world(),
        register,
        lambda s: s.add_predicate_fn(
            "x",
            by_node(lambda template, node: None),
            key=key,
            vector=lambda template, nodes: np.ones(len(nodes.rows), bool),
        ),
    )
    tasks = members(stage)
    list(zip(tasks, stage.engine.run(tasks), strict=False))

    assert set(asked) <= {"gang-0"}
