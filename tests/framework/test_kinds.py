"""Kinds of nodes: what they offer and what of it is used."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.framework.stage import Stage
from volsched.framework.engine import amount_classes as kinds
from volsched.framework.engine.amount_classes import AmountClasses, ClassScores
from volsched.model.status import TaskStatus
from volsched.testing.builders import a_cluster


def a_stage() -> Stage:
    world = a_cluster().node("a", cpu="4").node("b", cpu="4").node("c", cpu="8")
    return Stage(world.job("j", tasks=3, cpu="1").job("k", cpu="2"))


def test_nodes_of_equal_offer_and_equal_use_are_of_one_kind() -> None:
    stage = a_stage()
    known = AmountClasses(stage.cluster)
    known.refresh()
    assert known.numbers.tolist() == [0, 0, 1]

    assert stage.place("j-0") == "a"
    assert known.of(stage.node("a")) == 2, "known before the whole catches up"
    stage.cluster.move(stage.task("j-1"), stage.task("j-0").status, stage.node("b"))
    known.refresh()
    assert known.numbers.tolist() == [2, 2, 1]

    stage.cluster.move(stage.task("j-1"), stage.task("k-0").status, None)
    known.refresh()
    assert known.numbers.tolist() == [2, 0, 1]
    assert (len(known), known.epoch) == (3, 1)


NODES = st.sampled_from(["a", "b", "c", ""])
MOVES = st.lists(st.tuples(st.integers(0, 3), NODES, NODES, st.booleans()), max_size=12)


@given(MOVES)
def test_whoever_follows_single_nodes_leaves_nothing_out(moves: list[tuple[int, str, str, bool]]) -> None:
    """Tasks come and go; a node that is followed may be the one that changed last, or any other."""
    stage = a_stage()
    known = AmountClasses(stage.cluster)
    known.refresh()
    tasks = sorted(stage.cluster.tasks.values(), key=lambda task: task.name)
    for number, name, followed, refreshes in moves:
        node = stage.node(name) if name else None
        stage.cluster.move(tasks[number], TaskStatus.RUNNING if node else TaskStatus.PENDING, node)
        if followed:
            assert known.follow(stage.node(followed)) == known.of(stage.node(followed))
        if refreshes:
            known.refresh()

    known.refresh()

    assert known.numbers.tolist() == [known.of(node) for node in stage.cluster.rows]


def test_numbers_are_given_anew_when_nodes_or_resources_come_and_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = a_stage()
    known = AmountClasses(stage.cluster)
    known.refresh()

    stage.apply(*a_cluster().node("0", cpu="8").changes())
    known.refresh()
    assert (known.numbers.tolist(), known.epoch) == ([0, 1, 1, 0], 2)

    stage.apply(*a_cluster().node("b", cpu="4", **{"example.com/card": 1}).changes())
    known.refresh()
    assert (known.numbers.tolist(), known.epoch) == ([0, 1, 2, 0], 3)

    monkeypatch.setattr(kinds, "_FEWEST", 3)
    monkeypatch.setattr(kinds, "_PER_NODE", 0)
    stage.place("j-0")
    known.refresh()
    assert (len(known), known.epoch) == (4, 3)
    stage.place("j-1")
    known.refresh()
    assert (len(known), known.epoch) == (4, 4), "what no node is any more is forgotten"


def test_offers_that_no_node_makes_any_more_are_forgotten_as_nodes_come() -> None:
    stage = a_stage()
    for size in range(1, 100):
        stage.apply(*a_cluster().node("d", cpu=str(size)).changes())
    stage.apply(*a_cluster().node("e", cpu="8").changes())

    offers = {node.name: node.offer for node in stage.cluster.rows}

    assert offers["c"] == offers["e"] != offers["a"] == offers["b"]
    assert max(offers.values()) < 5


def test_scores_of_kinds_are_the_same_noted_one_by_one_or_together() -> None:
    stage = a_stage()
    known = AmountClasses(stage.cluster)
    known.refresh()
    single, many = ClassScores(3), ClassScores(3)
    for scores in (single, many):
        scores.make_room(known)
    single.put(0, (0.1, 0.2, 0.3))
    single.put(1, (0.4, 0.0, 0.5))
    single.close(3)
    many.close(np.array([0, 1, 3]))
    many.put_all(np.array([0, 1]), [np.array([0.1, 0.4]), np.array([0.2, 0.0]), np.array([0.3, 0.5])])

    np.testing.assert_array_equal(single.sums[:, :4], many.sums[:, :4])
    np.testing.assert_array_equal(single.lines[:, :4], many.lines[:, :4])
    assert single.sums[:, 0].tolist() == [0.1, 0.1 + 0.2, 0.1 + 0.2 + 0.3]
    assert single.sums[:, 3].tolist() == [-np.inf] * 3
    assert np.isnan(single.sums[:, 2]).all()


def test_what_numbers_meant_before_is_forgotten_when_they_are_given_anew() -> None:
    stage = a_stage()
    known = AmountClasses(stage.cluster)
    known.refresh()
    scores = ClassScores(0)
    scores.make_room(known)
    scores.put(0, ())
    scores.make_room(known)
    assert scores.sums[0, 0] == 0.0

    stage.apply(*a_cluster().node("0", cpu="8").changes())
    known.refresh()
    scores.make_room(known)
    assert np.isnan(scores.sums[0, 0])
