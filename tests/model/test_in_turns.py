"""Owners take turns in a queue: what one puts in is never between another and its first turn."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.model.values.in_turns import InTurns


def test_what_one_owner_puts_in_does_not_keep_another_waiting() -> None:
    queue: InTurns[int] = InTurns()
    for number in range(20_000):
        queue.put("evil", number)
    queue.put("honest", -1)

    assert [queue.take() for _ in range(4)] == [0, -1, 1, 2]
    assert queue.first_of_most() == 3
    with pytest.raises(KeyError):
        InTurns[int]().take()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=60), st.sets(st.integers(0, 30)))
def test_everything_comes_once_in_its_owners_order_and_owners_differ_by_one_turn(
    given_items: list[tuple[str, int]], left_out: set[int]
) -> None:
    queue: InTurns[int] = InTurns()
    kept: dict[int, str] = {}
    for owner, item in given_items:
        queue.put(owner, item)
        kept.setdefault(item, owner)
    for item in left_out:
        queue.drop(item)
        kept.pop(item, None)
    assert len(queue) == len(kept)

    waiting, taken, listed = Counter(kept.values()), [], list(queue)
    had: Counter[str] = Counter()
    while queue:
        item = queue.take()
        taken.append(item)
        owner = kept[item]
        had[owner] += 1
        others = [each for each in waiting if had[each] < waiting[each] and each != owner]
        assert all(had[owner] <= had[each] + 1 for each in others)
    assert taken == listed
    for owner in set(kept.values()):
        assert [item for item in taken if kept[item] == owner] == [item for item in kept if kept[item] == owner]
