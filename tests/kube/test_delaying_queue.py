"""Keys that wait for their time: each once, and nothing is kept of what is out of date."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from volsched.kube.write.delaying_queue import DelayingQueue


def test_keys_come_when_they_are_due_the_first_one_first() -> None:
    due: DelayingQueue[str] = DelayingQueue()
    due.put("b", 2.0)
    due.put("a", 1.0)
    due.put("c", 3.0)

    assert due.next() == 1.0
    assert list(due.take(2.5)) == ["a", "b"]
    assert due.next() == 3.0
    assert len(due) == 1


def test_what_is_put_later_holds() -> None:
    due: DelayingQueue[str] = DelayingQueue()
    due.put("a", 1.0)
    due.put("a", 5.0)
    assert list(due.take(4.0)) == []
    due.put("a", 2.0)
    assert list(due.take(4.0)) == ["a"]
    assert due.next() is None


def test_what_is_dropped_does_not_come() -> None:
    due: DelayingQueue[str] = DelayingQueue()
    due.put("a", 1.0)
    due.drop("a")
    due.drop("never was")
    assert list(due.take(9.0)) == []


def test_a_key_that_is_put_off_a_thousand_times_is_kept_a_few_times_at_most() -> None:
    due: DelayingQueue[str] = DelayingQueue()
    for number in range(1_000):
        due.put("a", float(number))
    for number in range(1_000):
        due.put(f"gone-{number}", 1.0)
        due.drop(f"gone-{number}")

    assert due.weight <= 2 * len(due) + 64


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.floats(0, 10)), max_size=200), st.floats(0, 10))
def test_it_says_the_same_as_a_table(steps: list[tuple[str, float | None]], now: float) -> None:
    due: DelayingQueue[str] = DelayingQueue()
    table: dict[str, float] = {}
    for key, at in steps:
        if at is None:
            due.drop(key)
            table.pop(key, None)
        else:
            due.put(key, at)
            table[key] = at

    assert due.next() == (min(table.values()) if table else None)
    taken = list(due.take(now))
    assert sorted(taken) == sorted(key for key, at in table.items() if at <= now)
    assert [table[key] for key in taken] == sorted(table[key] for key in taken)
    assert len(due) == len(table) - len(taken)
