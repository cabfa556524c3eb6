"""Who is below whom, after queues come, move and go."""

from __future__ import annotations

from volsched.framework.accounts.queue_tree import QueueTree
from volsched.mirror.mirror import Mirror
from volsched.model.changes import Gone
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

    mirror.apply([Gone("Queue", "", "a", ""), Gone("Queue", "", "b", "")])
    assert (tree.is_parent("dept"), tree.below("dept")) == (False, ())


def test_a_queue_below_one_that_does_not_exist_is_below_the_root() -> None:
    mirror = Mirror()
    mirror.apply([put(a_queue("a", parent="nowhere"))])
    tree = QueueTree(mirror.cluster)

    assert "a" in tree.below("root")
    assert tree.is_parent("nowhere")
