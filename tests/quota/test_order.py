"""Queues in order: by priority, then level by level from the top."""

from __future__ import annotations

import pytest

from volsched.model.queues.queue import QueueInfo, QueueProperties
from volsched.quota.order import age, nearest_first, order_in_tree, path_key

WAYS = {"a": ("a",), "a1": ("a", "a1"), "a2": ("a", "a2"), "b": ("b",), "b1": ("b", "b1")}


def queues(**created: float) -> dict[str, QueueInfo]:
    """Queues by name, created at some time."""
    return {name: QueueInfo(QueueProperties(name, created=created.get(name, 0.0))) for name in WAYS}


@pytest.mark.parametrize(
    ("places", "created", "first"),
    [
        ({"a": 1, "b": 2}, {}, "a1"),
        ({"a": 2, "b": 1}, {}, "b1"),
        ({"a1": 9, "a": 1, "b": 2}, {}, "a1"),  # where two ways part decides
        ({}, {"a": 5.0, "b": 4.0}, "b1"),  # equal levels by age
        ({}, {}, "a1"),  # and by name
    ],
)
def test_two_queues_are_compared_where_their_ways_part(
    places: dict[str, int], created: dict[str, float], first: str
) -> None:
    found = queues(**created)
    in_tree = order_in_tree(found, WAYS.__getitem__, lambda level: places.get(level, 0))
    by_path = {
        name: path_key(found, found[name], WAYS[name], lambda level: (places.get(level, 0),)) for name in ("a1", "b1")
    }

    assert min(("a1", "b1"), key=lambda name: in_tree.key(found[name])) == first
    assert min(by_path, key=by_path.__getitem__) == first


def test_a_higher_priority_goes_before_any_place() -> None:
    found = queues()
    found["b1"] = QueueInfo(QueueProperties("b1", priority=1))
    order = order_in_tree(found, WAYS.__getitem__, lambda level: level == "b")
    by_path = [path_key(found, found[name], WAYS[name], lambda level: (level == "b",)) for name in ("b1", "a1")]

    assert order.key(found["b1"]) < order.key(found["a1"])
    assert by_path == sorted(by_path)


def test_a_queue_without_an_object_is_older_than_others() -> None:
    found = queues(a=1.0)

    assert age(found, "nowhere") < age(found, "a")


def test_the_nearest_queue_gives_first() -> None:
    levels = {"a1": ("a1", "a", "root"), "a2": ("a2", "a", "root"), "b1": ("b1", "b", "root")}
    found, order = queues(), nearest_first(levels.__getitem__)

    assert order.key(found["a2"], found["a1"]) < order.key(found["b1"], found["a1"])
