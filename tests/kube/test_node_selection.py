"""Of the nodes of a cluster a scheduler may see some only."""

from __future__ import annotations

from volsched.kube.watch.node_selection import NodeSelection
from volsched.model import api
from volsched.model.changes import Change, Deleted, Put


def a_node(name: str, **labels: str) -> Put:
    return Put(api.decode_as(api.Node, {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels}}))


POD = Put(api.decode_as(api.Pod, {"metadata": {"name": "p", "uid": "p"}}))


def test_without_labels_everything_is_seen() -> None:
    changes: list[Change] = [a_node("a"), POD, Deleted("Node", "", "a", "uid-a")]

    assert NodeSelection(()).of(changes) is changes


def test_a_node_needs_one_of_the_labels_and_nothing_else_any() -> None:
    train, serve, other = a_node("a", role="train"), a_node("b", role="serve"), a_node("c", role="batch")
    gone = Deleted("Pod", "", "p", "p")

    selection = NodeSelection([("role", "train"), ("role", "serve"), ("zone", "x")])

    assert selection.of([train, POD, other, serve, gone]) == [train, POD, serve, gone]


def test_a_node_that_loses_its_label_is_gone_once_and_comes_back_with_it() -> None:
    selection = NodeSelection([("role", "train")])
    labelled, plain = a_node("a", role="train"), a_node("a")

    assert selection.of([plain, plain]) == []
    assert selection.of([labelled]) == [labelled]
    assert selection.of([plain, plain]) == [Deleted("Node", "", "a", "uid-a")]
    assert selection.of([labelled]) == [labelled]
