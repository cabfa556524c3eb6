"""Pods behind Volcano's gate are let in as far as their queue, and those above it, have room."""

from __future__ import annotations

import pytest

from tests.actions.test_gates import NOWHERE, World, a_queue, gated
from volsched.model.changes import Deleted
from volsched.testing.builders import ClusterBuilder, a_cluster


def a_tree() -> ClusterBuilder:
    given = a_cluster().node("n1", cpu="8").queue("above", capability={"cpu": "1"})
    return given.queue("q", parent="above").queue("r", parent="above")


@pytest.mark.parametrize("hierarchy", [False, True])
def test_of_two_pods_one_is_let_in_where_one_fits(hierarchy: bool) -> None:
    given = gated(a_tree(), "b", queue="r") if hierarchy else gated(a_queue(1), "b")
    world = World(gated(given, "a"), "capacity", hierarchy=hierarchy)

    world.cycle()
    first = world.lifted
    world.cycle()

    assert len(first) == 1
    assert world.lifted == []


def test_a_pod_that_was_let_in_and_finds_no_node_keeps_the_room_until_it_goes() -> None:
    world = World(gated(gated(a_queue(1), "a", spec=NOWHERE), "b"), "capacity")
    world.cycle()
    assert world.lifted == ["a"]
    world.cycle()
    assert world.lifted == []

    world.cycle(Deleted("Pod", "default", "a", "pod-default-a"))

    assert world.lifted == ["b"]
