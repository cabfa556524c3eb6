"""Who is below whom, after queues come, move and go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from volsched.mirror.apply import Mirror
from volsched.model.changes import Deleted
from volsched.model.queues.queue import QueueInfo, QueueProperties, levels
from volsched.quota.tree import QueueTree, Tree
from volsched.testing.builders import a_queue, put


def test_queues_that_come_move_and_go_are_followed() -> None:
    mirror = Mirror()
    tree = QueueTree(mirror.cluster)
    mirror.apply([put(a_queue("dept")), put(a_queue("a", parent="dept"))])
    assert (tree.is_parent("dept"), tree.is_parent("a")) == (True, False)
    assert (tree.below("dept"), sorted(tree.below("root"))) == (("a",), ["default", "dept"])

    mirror.apply([put(a_queue("b", parent="a"))])
    assert (tree.is_parent("a"), tree.below("a")) == (True, ("b",))

    mirror.apply([put(a_queue("b", parent="dept"))])
    assert (tree.is_parent("a"), tree.below("dept")) == (False, ("a", "b"))

    mirror.apply([Deleted("Queue", "", "a", ""), Deleted("Queue", "", "b", "")])
    assert (tree.is_parent("dept"), tree.below("dept")) == (False, ())


def test_a_queue_below_one_that_does_not_exist_is_below_the_root() -> None:
    mirror = Mirror()
    mirror.apply([put(a_queue("a", parent="nowhere"))])
    tree = QueueTree(mirror.cluster)

    assert "a" in tree.below("root")
    assert tree.is_parent("nowhere")


stated_parents = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["", "root", *"abcdefg"]))


@given(stated_parents)
def test_every_queue_has_one_place_in_the_tree(stated: dict[str, str]) -> None:
    tree = Tree(stated)
    queues = {name: QueueInfo(QueueProperties(name, parent=above)) for name, above in stated.items()}

    found = tree.top_down()

    assert sorted(found) == sorted([*stated, "root"])
    for name in found:
        assert tree.levels(name) == levels(queues, name)
        assert sorted(tree.subtree(name)) == sorted(other for other in found if name in tree.levels(other))


def test_a_queue_that_is_below_itself_is_right_below_the_root_and_one_below_that_stays_there() -> None:
    tree = Tree({"x": "y", "y": "x", "z": "x", "self": "self", "root": "z"})

    assert {name: tree.levels(name) for name in ("x", "y", "z", "self")} == {
        "x": ("x", "root"),
        "y": ("y", "root"),
        "z": ("z", "x", "root"),
        "self": ("self", "root"),
    }
    assert tree.faults() == dict.fromkeys(
        ("self", "x", "y"), ("it is below itself; it counts as right below the root",)
    )


def test_where_the_ways_up_from_two_queues_part() -> None:
    tree = Tree({"a": "", "a1": "a", "a2": "a", "b": ""})

    assert (tree.apart("a1", "a2"), tree.apart("a1", "b"), tree.apart("a", "a1")) == (("a1",), ("a1", "a"), ())
    assert tree.distance("a1", "a2") < tree.distance("a1", "b")
