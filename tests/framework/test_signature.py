"""What a callback may read is told by its annotations, and it gets nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import pytest

from tests.framework.stage import Plug, Stage, no
from volsched.framework.columns.views import NodePropertiesView
from volsched.framework.misdeclarations import check_rule
from volsched.framework.registration import Registrar
from volsched.framework.rules import NodeOrder, Predicate
from volsched.framework.signature import Signature, SignatureError, is_of_queue, signature_of
from volsched.model.nodes.node import NodeAmounts, NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodConstraints, PodRequest, PodTemplate
from volsched.model.queues.queue import QueueInfo
from volsched.testing.builders import ClusterBuilder, a_cluster
from volsched.testing.contract import ENGINES


def properties(template: PodTemplate, node: NodePropertiesView) -> None: ...
def constraints(pod: PodConstraints, node: NodePropertiesView) -> None: ...
def requests(pod: PodRequest, node: NodeAmounts) -> None: ...
def amounts(template: PodTemplate, node: NodeAmounts) -> None: ...
def everything(task: TaskInfo, node: NodeInfo) -> None: ...
def said_as_text(template: "template.PodTemplate", node: "NodeAmounts") -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037
def nothing_said(task, node): ...  # type: ignore[no-untyped-def]
def any_of_both(task: Any, node: object) -> None: ...
def of_the_node_alone(task, node: NodePropertiesView): ...  # type: ignore[no-untyped-def]
def with_a_weight(weight: int, template: PodTemplate, node: NodeAmounts, more: int = 0, *, most: int = 1) -> None: ...


class Rules:
    def method(self, template: PodTemplate, node: NodeInfo) -> None: ...

    @staticmethod
    def static(template: PodTemplate, node: NodePropertiesView) -> None: ...

    def __call__(self, task: TaskInfo, node: NodePropertiesView) -> None: ...


def logged(fn: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fn)
    def call(*arguments: Any) -> Any:
        return fn(*arguments)

    return call


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (properties, ("template", "properties", True)),
        (amounts, ("template", "amounts", True)),
        (everything, ("task", "node", True)),
        (said_as_text, ("template", "amounts", True)),
        (nothing_said, ("task", "node", False)),
        (any_of_both, ("task", "node", False)),
        (of_the_node_alone, ("task", "properties", False)),
        (lambda task, node: None, ("task", "node", False)),
        (requests, ("request", "amounts", True)),
        (constraints, ("constraints", "properties", True)),
        (partial(with_a_weight, 3), ("template", "amounts", True)),
        (Rules().method, ("template", "node", True)),
        (Rules.static, ("template", "properties", True)),
        (Rules(), ("task", "properties", True)),
        (logged(amounts), ("template", "amounts", True)),
        (logged(properties), ("template", "properties", True)),
    ],
)
def test_annotations_say_what_is_shown(fn: Callable[..., Any], expected: tuple[str, str, bool]) -> None:
    assert signature_of("mine", fn) == Signature(*expected)  # type: ignore[arg-type]  # words of the views


VIEWS_OF_PODS = "PodRequest, PodConstraints, PodTemplate or TaskInfo"


def swapped(node: NodeInfo, task: TaskInfo) -> None: ...
def of_text(task: str, node: NodeInfo) -> None: ...
def of_three(task: TaskInfo, node: NodeInfo, more: int) -> None: ...


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (
            swapped,
            f"plugin mine: swapped annotates node as NodeInfo; it may be {VIEWS_OF_PODS}",
        ),
        (
            of_text,
            f"plugin mine: of_text annotates task as str; it may be {VIEWS_OF_PODS}",
        ),
        (of_three, "plugin mine: of_three takes 3 arguments; it is called with a pod and a node"),
        (lambda task: None, "takes 1 arguments; it is called with a pod and a node"),
        (min, "is no function or method, so that nobody can tell what it reads"),
    ],
)
def test_what_cannot_be_asked_is_told_when_it_is_registered(fn: Callable[..., Any], said: str) -> None:
    with pytest.raises(SignatureError) as found:
        signature_of("mine", fn)

    assert said in str(found.value)


def test_a_function_is_judged_by_the_one_that_it_wraps() -> None:
    with pytest.raises(SignatureError, match="is called with 2 arguments"):
        check_rule("mine", NodeOrder(logged(of_three)))


def of_queue(template: PodTemplate, queue: QueueInfo) -> str:
    return queue.name


def test_a_key_is_made_of_a_task_or_of_a_template_and_a_queue() -> None:
    assert is_of_queue("mine", of_queue)
    assert not is_of_queue("mine", lambda task: task.name)
    with pytest.raises(SignatureError, match="must take"):
        is_of_queue("mine", lambda template, queue: queue.name)


# -- what used to go wrong without a word --------------------------------------------------------------------------


def two_teams() -> ClusterBuilder:
    """A node for each of two teams, and equal pods of both; the labels of pods are no part of their templates."""
    world = a_cluster().node("a", labels={"team": "a"}).node("b", labels={"team": "b"})
    return world.pod("of-a", labels={"team": "a"}, cpu="1").pod("of-b", labels={"team": "b"}, cpu="1")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_score_that_says_nothing_of_what_it_reads_is_right(engine: Any) -> None:
    def score(task, node):  # type: ignore[no-untyped-def]  # as somebody writes it who has read nothing
        return 1.0 if task.spec.labels["team"] == node.labels["team"] else 0.0

    stage = Stage(two_teams(), lambda r: r.register(NodeOrder(score)), engine=engine)

    assert (stage.best("of-a"), stage.best("of-b")) == ("a", "b")


def test_it_is_told_how_it_gets_faster() -> None:
    stage = Stage(two_teams(), Plug(lambda r: r.register(NodeOrder(nothing_said)), "mine"))

    assert stage.session.stats.hints == [
        "plugin mine: nothing_said is asked for every pod and node, as it may read all of both; annotate its "
        "parameters, for example (template: PodTemplate, node: NodePropertiesView), and equal pods and nodes share its "
        "answers"
    ]


def labels_of_a_template(template: PodTemplate, node: NodePropertiesView) -> float:
    return float(template.labels["team"] == node.labels["team"])  # type: ignore[attr-defined]


def usage_of_facts(template: PodTemplate, node: NodePropertiesView) -> float:
    return float(node.used_of("cpu"))  # type: ignore[attr-defined]


def amounts_of_constraints(pod: PodConstraints, node: NodePropertiesView) -> float:
    return float(pod.request["cpu"])  # type: ignore[attr-defined]


def claims_of_a_request(pod: PodRequest, node: NodeAmounts) -> float:
    return float(len(pod.claims))  # type: ignore[attr-defined]


def labels_of_amounts(template: PodTemplate, node: NodeAmounts) -> float:
    return float(len(node.labels))  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (labels_of_a_template, "PodTemplate has no labels: .* annotates it as TaskInfo"),
        (amounts_of_constraints, "PodConstraints has no request: .* as PodTemplate .* or as TaskInfo"),
        (claims_of_a_request, "PodRequest has no claims: .* as PodTemplate .* or as TaskInfo"),
        (usage_of_facts, "NodePropertiesView has no used_of: .* as NodeAmounts .* or as NodeInfo"),
        (labels_of_amounts, "NodeAmounts has no labels: .* as NodePropertiesView .* or as NodeInfo"),
    ],
)
def test_who_reads_more_than_it_said_is_told_the_way_out(fn: Callable[..., float], said: str, engine: Any) -> None:
    stage = Stage(two_teams(), lambda r: r.register(NodeOrder(fn)), engine=engine)

    with pytest.raises(AttributeError, match=said):
        stage.best("of-a")


@pytest.mark.parametrize("engine", ENGINES)
def test_who_is_shown_the_template_may_read_it_now_and_then(engine: Any) -> None:
    """Two templates of equal requests, one of which wants certain nodes, over nodes that fill up."""

    def score(template: PodTemplate, node: NodeAmounts) -> float:
        if node.used_of("cpu") == 0:
            return 2.0
        return 1.0 if template.required_nodes is None else 3.0

    world = a_cluster().node("n0", cpu="9", labels={"zone": "a"}).node("n1", cpu="9", labels={"zone": "a"})
    world.job("plain", tasks=3, cpu="1").job("picky", tasks=3, cpu="1", spec={"nodeSelector": {"zone": "a"}})
    stage = Stage(world, lambda r: r.register(NodeOrder(score)), engine=engine)

    placed = [stage.place(name) for name in ("plain-0", "picky-0", "picky-1", "plain-1", "picky-2", "plain-2")]

    assert placed == ["n0", "n0", "n0", "n1", "n0", "n0"]


@pytest.mark.parametrize("engine", ENGINES)
def test_who_reads_amounts_of_the_template_shares_nothing_with_other_sizes(engine: Any) -> None:
    def refuse(template: PodTemplate, node: NodePropertiesView) -> Any:
        return no() if node.labels["size"] == "small" and template.request["cpu"] > 1_000 else None

    world = a_cluster().node("n0", labels={"size": "small"}).node("n1", labels={"size": "large"})
    world.job("one", cpu="1").job("two", cpu="2").job("three", cpu="1", memory="1Gi")
    stage = Stage(world, lambda r: r.register(Predicate(refuse)), engine=engine)

    assert [stage.best(f"{name}-0") for name in ("one", "two", "three")] == ["n0", "n1", "n0"]


def test_what_is_remembered_of_a_function_holds_for_as_many_given_arguments_and_for_one_question() -> None:
    assert signature_of("p", partial(with_a_weight, 3)) == ("template", "amounts", True)
    with pytest.raises(SignatureError, match="takes 3 arguments"):
        signature_of("p", with_a_weight)
    with pytest.raises(SignatureError, match="takes 1 arguments"):
        signature_of("p", partial(with_a_weight, 3, None))  # type: ignore[arg-type]
    with pytest.raises(SignatureError, match=r"must take \(task\)"):
        is_of_queue("p", partial(with_a_weight, 3))


def register_by_name(registrar: Registrar) -> None:
    registrar.register(Predicate(lambda task, node: no() if task.name == "of-a" and node.name == "a" else None))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_predicate_without_annotations_may_tell_equal_pods_apart(engine: Any) -> None:
    stage = Stage(two_teams(), register_by_name, engine=engine)

    assert (stage.best("of-a"), stage.best("of-b")) == ("b", "a")
