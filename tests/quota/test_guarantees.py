"""What is kept for queues, and what that leaves of what there is."""

from __future__ import annotations

from volsched.quota.amounts import Guarantees, left_by

BELOW = {"root": ["a", "b"], "a": ["a1", "a2"], "loop": ["loop"]}


def guarantees(**own: int) -> Guarantees:
    """Guarantees of cpu by queue."""
    return Guarantees(lambda queue: {"cpu": own[queue]} if queue in own else {}, lambda queue: BELOW.get(queue, ()))


def test_a_queue_is_guaranteed_at_least_what_those_below_it_are_together() -> None:
    assert guarantees(a1=2, a2=3).of("a") == {"cpu": 5}
    assert guarantees(a=9, a1=2, a2=3).of("a") == {"cpu": 9}
    assert guarantees(a1=2, b=4).of("root") == {"cpu": 6}
    assert guarantees().of("a") == {}


def test_a_queue_that_is_below_itself_is_guaranteed_what_it_states() -> None:
    assert guarantees(loop=3).of("loop") == {"cpu": 3}


def test_queues_together_are_guaranteed_the_sum() -> None:
    assert guarantees(a1=2, a=1, b=4).together(("a", "b")) == {"cpu": 6}


def test_what_is_left_is_of_the_least_that_is_available_and_never_below_zero() -> None:
    available = {"cpu": [10, 7], "memory": [2], "card": []}

    assert left_by({"cpu": 3, "memory": 5, "card": 1}, available.__getitem__) == {"cpu": 4, "memory": 0}
