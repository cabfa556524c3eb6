"""What a plugin registers wrongly is an error when it is registered, and what it answers wrongly one that names it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.framework.stage import Plug, Stage
from volsched.framework import registration
from volsched.framework.answers import AnswerError
from volsched.framework.boundary import culprit
from volsched.framework.callbacks import UNLIMITED, Headroom
from volsched.framework.columns.views import NodePropertiesView
from volsched.framework.config.configuration import PluginOption
from volsched.framework.registration import Registrar
from volsched.framework.rules import (
    Allocatable,
    EventHandler,
    JobOrder,
    NodeOrder,
    Predicate,
    PrePredicate,
    never,
)
from volsched.framework.signature import SignatureError
from volsched.model.nodes.node import NodeAmounts, NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import Scope, Step, Verdict
from volsched.testing.builders import ClusterBuilder, a_cluster
from volsched.testing.contract import ENGINES


def two_nodes() -> ClusterBuilder:
    return a_cluster().node("a").node("b").pod("p", cpu="1").pod("q", cpu="2")


class Moves(Observer):
    """An account of the whole cluster."""

    def score(self, template: PodTemplate, node: NodePropertiesView) -> float:
        return 0.0

    def score_of_node(self, template: PodTemplate, node: NodeInfo) -> float:
        return 0.0


def score(task: Any, node: Any) -> float:
    return 1.0


def weighted(moves: Moves, template: PodTemplate, node: NodePropertiesView) -> float:
    return moves.score(template, node)


def closed_over(moves: Moves) -> Callable[..., float]:
    def of_account(template: PodTemplate, node: NodePropertiesView) -> float:
        return moves.score(template, node)

    return of_account


async def later(task: Any, node: Any) -> float:
    return 1.0


READS = "reads an account that changes when pods move; give it a key= and a version=, or annotate the pod as TaskInfo"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: score, "register() takes rules, as register(NodeOrder(fn), ...); this is of type function"),
        (lambda: NodeOrder, "register() takes rules, as register(NodeOrder(fn), ...); this is NodeOrder"),
        (lambda: NodeOrder(score, version=lambda task: 0), "score has version= without key="),
        (lambda: NodeOrder(score, for_each_pod=never), "score has for_each_pod= without key="),
        (lambda: Predicate(score, for_each_pod=never), "score has for_each_pod= without key="),
        (lambda: Predicate(score, wordings=lambda pod, table: table.rows), "score has wordings= without vector="),
        (lambda: NodeOrder(Moves().score), f"Moves.score {READS}"),
        (lambda: NodeOrder(partial(weighted, Moves())), READS),
        (lambda: NodeOrder(closed_over(Moves())), READS),
        (lambda: NodeOrder(later), "later is async"),
        (lambda: NodeOrder(lambda task: 1.0), "is called with 2 arguments, as fn of NodeOrder"),
        (lambda: NodeOrder(score, vector=lambda pod, columns, rows: rows), "as vector of NodeOrder"),
        (lambda: PrePredicate(lambda task, node: None), "is called with 1 argument, as fn of PrePredicate"),
        (lambda: Allocatable(headroom=lambda queue: UNLIMITED), "is called with 2 arguments, as headroom of Allocatab"),
        (lambda: JobOrder("priority"), "key of JobOrder is 'priority', and no function"),
        (lambda: EventHandler(score), "an object with allocate(task) and deallocate(task); score has no allocate"),
    ],
)
def test_a_rule_that_cannot_be_asked_is_refused_when_it_is_registered(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(SignatureError) as found:
        Stage(two_nodes(), Plug(lambda registrar: registrar.register(make()), "mine"))

    assert str(found.value).startswith("plugin mine: ")
    assert message in str(found.value)


@pytest.mark.parametrize(
    "rule",
    [
        NodeOrder(Moves().score_of_node),
        NodeOrder(Moves().score, key=lambda task: "all", version=lambda task: 0),
        NodeOrder(lambda task, node, weight=1.0: weight),
        JobOrder(str),
    ],
)
def test_a_rule_that_can_be_asked_is_taken_in(rule: Any) -> None:
    assert Stage(two_nodes(), lambda registrar: registrar.register(rule)).place("p") == "a"


def test_a_method_of_another_time_names_the_way_out() -> None:
    with pytest.raises(AttributeError, match=r"no add_node_order_fn: .* as register\(NodeOrder\(score\)\)"):
        Stage(two_nodes(), lambda session: session.add_node_order_fn("mine", score))  # type: ignore[attr-defined]


def test_a_headroom_that_reads_the_pod_itself_names_the_way_out() -> None:
    def of_team(queue: QueueInfo, template: PodTemplate) -> Headroom:
        return Headroom(len(template.labels))  # type: ignore[attr-defined]

    stage = Stage(two_nodes(), lambda registrar: registrar.register(Allocatable(headroom=of_team)))

    with pytest.raises(AttributeError, match=r"no labels: .* is an Allocatable\(refusal\)"):
        stage.session.allocatable_refusal(stage.queue(), stage.task("p"))


NO_ROOM = Verdict(Step.ALLOCATABLE, "mine", Scope.QUEUE, "Unschedulable", "no room")


@pytest.mark.parametrize(("count", "refusal"), [(2, NO_ROOM), (0, None), (-1, None)])
def test_a_headroom_that_lets_in_and_refuses_at_once_or_neither_is_an_error(
    count: int, refusal: Verdict | None
) -> None:
    with pytest.raises(ValueError, match=rf"Headroom\({count}, .*: it has a refusal, .* 0 or below, and only there"):
        Headroom(count, refusal)


@pytest.mark.parametrize(
    ("shown", "name", "meant"),
    [
        (PodTemplate, "requests", "request"),
        (NodePropertiesView, "label", "labels"),
        (NodeAmounts, "used_off", "used_of"),
    ],
)
def test_a_misspelt_attribute_names_the_one_that_was_meant(shown: type, name: str, meant: str) -> None:
    with pytest.raises(AttributeError) as found:
        getattr(shown.__new__(shown), name)

    assert str(found.value) == f"{shown.__name__} has no {name}; did you mean {meant}?"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("answer", [None, "much", float("nan")])
@pytest.mark.parametrize("nodes", [2, 40])
def test_a_score_that_is_no_number_is_an_error_of_its_plugin(answer: Any, nodes: int, engine: Any) -> None:
    def nothing(template: PodTemplate, node: NodeInfo) -> Any:
        return answer

    world = a_cluster().pod("p", cpu="1")
    for number in range(nodes):
        world.node(f"n{number}")
    stage = Stage(world, Plug(lambda registrar: registrar.register(NodeOrder(nothing)), "mine"), engine=engine)

    with pytest.raises((AnswerError, ValueError, TypeError), match=r"nothing returned|float") as found:
        stage.best("p")

    if isinstance(found.value, AnswerError):
        assert culprit(found.value, {}) == "mine"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("answer", [True, False, "no room"])
def test_a_predicate_that_answers_otherwise_than_by_a_verdict_is_an_error(answer: Any, engine: Any) -> None:
    stage = Stage(two_nodes(), Plug(lambda r: r.register(Predicate(lambda task, node: answer)), "mine"), engine=engine)

    with pytest.raises(AnswerError, match=rf"plugin mine: .* returned {answer!r}; it returns None where .* a Verdict"):
        stage.engine.refusals(stage.task("p"))


@pytest.mark.parametrize(
    "rule", [NodeOrder(score, vector=lambda pod, table: [1.0]), Predicate(score, vector=lambda pod, table: [True])]
)
def test_a_vector_twin_that_answers_for_other_rows_is_an_error(rule: Any) -> None:
    stage = Stage(two_nodes(), Plug(lambda registrar: registrar.register(rule), "mine"))

    with pytest.raises(AnswerError, match="its vector twin returns an array of 2"):
        stage.best("p")


def test_rules_are_looked_at_when_a_plugin_first_registers_with_a_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[str] = []
    monkeypatch.setattr(registration, "check_rule", lambda plugin, _: looked_at.append(plugin))
    stage = Stage(two_nodes())

    for plugin in ("racks", "racks", "others"):
        Registrar(stage.session, 0, PluginOption(plugin)).register(NodeOrder(score), NodeOrder(score))

    assert looked_at == ["racks", "racks", "others", "others"]
