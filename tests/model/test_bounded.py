"""What is remembered of many has a bound, and is shown."""

from __future__ import annotations

from volsched.model.bounded import Bounded, Tables


def test_what_was_used_longest_ago_makes_room() -> None:
    known: Bounded[str, int] = Bounded(3)
    for number, key in enumerate("abc"):
        known[key] = number
    assert known.recall("a") == 0
    assert known.recall("never") is None
    known["b"] = 10

    known["d"] = 3

    assert dict(known) == {"a": 0, "b": 10, "d": 3}


def test_a_million_keys_take_no_more_than_the_bound() -> None:
    known: Bounded[int, None] = Bounded(100)
    for number in range(10_000):
        known[number] = None
        known.setdefault(-number, None)

    assert len(known) == 100


def test_tables_say_how_many_entries_they_have_now() -> None:
    tables, kept = Tables(), [1]
    tables.add({"part.list": lambda: len(kept)})
    assert tables.sizes() == {("part.list",): 1}
    kept.append(2)
    assert tables.sizes() == {("part.list",): 2}
