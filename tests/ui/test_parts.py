"""The parts of the page that need no browser: cards, rows, differences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.manifests.rendering import MANIFESTS
from volsched.asking.cards import NodeCards
from volsched.asking.known import Known
from volsched.asking.records import QueueState
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.simulation.documents import read_documents
from volsched.simulation.manifests import take_stock
from volsched.ui.pages import VIEWS, Pages, tree
from volsched.ui.picture import Picture, picture_of, what_if
from volsched.ui.server import differences


def known(*files: Path) -> Known:
    inventory = take_stock(read_documents([str(file) for file in files]))
    return Known(tuple(inventory.objects), inventory.chosen_configuration() or DEFAULT_CONFIGURATION)


@pytest.fixture(scope="module")
def examples() -> Picture:
    return picture_of(known(MANIFESTS / "examples"))


def of(cards: tuple[NodeCards, ...], node: str) -> NodeCards:
    [found] = [each for each in cards if each.node == node]
    return found


def test_cards_are_those_of_the_cluster_as_it_is_and_not_of_the_dry_run(examples: Picture) -> None:
    """Nothing runs in the examples, and the sessions would place pods there."""
    assert {(each.node, each.used, each.total) for each in examples.cards} == {
        ("a100-1", 0, 8),
        ("a100-2", 0, 8),
        ("h100-1", 0, 8),
        ("t4-1", 0, 4),
    }
    assert examples.waiting


def test_pods_are_on_their_cards(tmp_path: Path) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: n}, spec: {nodeName: t4-1, containers:"
        " [{name: c, resources: {limits: {nvidia.com/gpu: '2'}}}]}, status: {phase: Running}}"
    )

    found = of(picture_of(known(MANIFESTS / "examples/10-nodes.yaml", pod)).cards, "t4-1")

    assert [cell.holder for cell in found.cells] == ["n/p", "n/p", "", ""]


def test_devices_are_cells() -> None:
    [found] = picture_of(known(MANIFESTS / "examples/capacity-dra/devices.yaml")).cards

    assert (found.sort, found.used, found.total, found.model) == ("device", 0, 4, "gpu.example.com")


def test_shared_cards_say_core_and_memory() -> None:
    world = known(MANIFESTS / "examples/mgpu/multi-card.yaml")

    found = [each for each in picture_of(world).cards if each.sort == "shared"]

    assert [[share.resource for share in each.shares] for each in found] == [["core", "memory"]] * len(found) != []


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_changes_where_nothing_has_changed(view: str, examples: Picture) -> None:
    rows = Pages().rows(view, examples, {})

    assert rows
    assert differences(rows, dict(rows)) == []


def test_only_the_row_that_differs_is_sent() -> None:
    rows = {"a": "1", "b": "2"}

    assert differences(rows, {"a": "1", "b": "3"}) == [("b", "3")]
    assert differences(rows, {"a": "1"}) == [("rows", "1")]
    assert differences({}, rows) == [("rows", "1\n2")]


def test_waiting_is_filtered(examples: Picture) -> None:
    every = Pages().rows("waiting", examples, {})
    vision = Pages().rows("waiting", examples, {"namespace": "VISION"})

    assert 0 < len(vision) < len(every)


def test_tree_has_every_queue_once_circles_included() -> None:
    parents = {"root": "", "a": "root", "b": "a", "lost": "none", "x": "y", "y": "x", "z": "z"}
    queues = [QueueState(name, parent, "Open", (), 0, 0) for name, parent in parents.items()]

    found = [(queue.name, depth) for queue, depth in tree(queues)]

    assert found[:5] == [("lost", 0), ("root", 0), ("a", 1), ("b", 2), ("z", 0)]
    assert sorted(name for name, _ in found) == sorted(parents)


def test_more_nodes_let_more_pods_start() -> None:
    found = what_if(known(MANIFESTS / "examples"), "", "", "", {"a100-1": 2})

    assert found.summary["starts"] >= 3


def test_what_if_of_a_queue_that_is_not_there_is_refused() -> None:
    with pytest.raises(KeyError, match="nobody"):
        what_if(known(MANIFESTS / "examples"), "nobody", "cpu", "1", {})
