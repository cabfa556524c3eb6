"""The parts of the page that need no browser: cards, rows, differences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.manifests.rendering import MANIFESTS
from tests.ui.worlds import picture_of, read
from volsched.diagnose.cards import NodeCards
from volsched.diagnose.records import QueueState
from volsched.ui.access import WHOLE
from volsched.ui.jobs_page import JobQuery, JobsView
from volsched.ui.pages import VIEWS, Pages, tree
from volsched.ui.picture import Picture
from volsched.ui.redaction import seen_by


@pytest.fixture(scope="module")
def examples() -> Picture:
    return picture_of(read(MANIFESTS / "examples"))


def rows(picture: Picture, view: str, **filters: str) -> dict[str, str]:
    pages = Pages()
    shown = JobsView(pages, JobQuery.of(filters)) if view == "jobs" else pages.view(view, filters)
    shown.show(seen_by(WHOLE, picture), picture.history)
    return dict(shown.table.html)


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

    found = of(picture_of(read(MANIFESTS / "examples/10-nodes.yaml", pod)).cards, "t4-1")

    assert [cell.holder for cell in found.cells] == ["n/p", "n/p", "", ""]


def test_devices_are_cells() -> None:
    [found] = picture_of(read(MANIFESTS / "examples/capacity-dra/devices.yaml")).cards

    assert (found.sort, found.used, found.total, found.model) == ("device", 0, 4, "gpu.example.com")


def test_shared_cards_say_core_and_memory() -> None:
    world = read(MANIFESTS / "examples/mgpu/multi-card.yaml")

    found = [each for each in picture_of(world).cards if each.sort == "shared"]

    assert [[share.resource for share in each.shares] for each in found] == [["core", "memory"]] * len(found) != []


@pytest.mark.parametrize("view", [*VIEWS, "jobs"])
def test_nothing_is_sent_where_nothing_has_changed(view: str, examples: Picture) -> None:
    pages = Pages()
    shown = JobsView(pages, JobQuery()) if view == "jobs" else pages.view(view, {})
    seen = seen_by(WHOLE, examples)

    assert shown.show(seen, examples.history)
    assert shown.show(seen, examples.history) == []


def test_jobs_are_filtered(examples: Picture) -> None:
    every, vision = rows(examples, "jobs"), rows(examples, "jobs", namespace="VISION")

    assert 0 < len(vision) < len(every)


def test_page_beyond_the_last_is_the_last(examples: Picture) -> None:
    assert rows(examples, "jobs", page="999") == rows(examples, "jobs") == rows(examples, "jobs", page="x")


def test_tree_has_every_queue_once_circles_included() -> None:
    parents = {"root": "", "a": "root", "b": "a", "lost": "none", "x": "y", "y": "x", "z": "z"}
    queues = [QueueState(name, parent, "Open", (), 0, 0) for name, parent in parents.items()]

    found = [(queue.name, depth) for queue, depth in tree(queues)]

    assert found[:5] == [("lost", 0), ("root", 0), ("a", 1), ("b", 2), ("z", 0)]
    assert sorted(name for name, _ in found) == sorted(parents)
