"""A node as it will be: those who are leaving are off it while a question is asked, and then nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.actions.rigs import leaving
from tests.amounts import future_idle
from tests.framework.stage import Stage, no, standing
from volsched.framework.rules import Predicate
from volsched.framework.session import Session
from volsched.framework.terminating import all_left, terminating_on
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import Verdict
from volsched.testing.builders import ClusterBuilder, a_cluster
from volsched.testing.contract import ENGINES
from volsched.testing.recount import faults


def a_world() -> ClusterBuilder:
    """One pod that stays, two that leave, and one that wants in."""
    cluster = a_cluster().node("n1", cpu=8).pod("stays", on="n1", cpu=1).job("x", cpu=1)
    return cluster.add(leaving("old", "n1", cpu="2")).add(leaving("older", "n1", cpu="3"))


def alone_with(others: int) -> Callable[[Session], None]:
    """A plugin of which at most so many other pods may be on a node."""

    def refuse(_: TaskInfo, node: NodeInfo) -> Verdict | None:
        return None if len(node.tasks) <= others else no()

    return lambda registrar: registrar.register(Predicate(refuse))


def test_those_who_leave_are_off_the_node_while_it_is_asked_about() -> None:
    stage = Stage(a_world())
    node, cluster = stage.node("n1"), stage.cluster
    before, generation = standing(cluster), cluster.generations.requeue
    assert {task.name for task in terminating_on(node)} == {"old", "older"}

    with all_left(cluster, node):
        assert {task.name for task in node.tasks.values()} == {"stays"}
        assert (node.idle_of("cpu"), future_idle(cluster, node, "cpu")) == (7000, 7000)
        assert faults(cluster) == []

    assert standing(cluster) == before
    assert cluster.generations.requeue == generation


def test_they_are_back_also_when_the_question_fails() -> None:
    stage = Stage(a_world())
    before = standing(stage.cluster)

    with pytest.raises(ZeroDivisionError), all_left(stage.cluster, stage.node("n1")):
        raise ZeroDivisionError

    assert standing(stage.cluster) == before


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("others", "now", "later"), [(3, True, True), (1, False, True), (0, False, False)])
def test_a_node_will_admit_a_task_that_only_those_who_leave_keep_away(
    engine: Any, others: int, now: bool, later: bool
) -> None:
    stage = Stage(a_world(), alone_with(others), engine=engine)
    task, node = stage.task("x-0"), stage.node("n1")

    assert stage.engine.admits(task, node) is now
    assert stage.session.nominations.will_admit(task, node) is later
    assert (stage.engine.best(task) is node) is now
