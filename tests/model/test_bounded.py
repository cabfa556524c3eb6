"""What is remembered of many has a bound, and is shown."""

from __future__ import annotations

from collections import deque

from volsched.model.values.bounded import Bounded, Tables, Weighed, entries_of


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


def test_tables_that_come_and_go_are_asked_for_each_time() -> None:
    tables, found = Tables(), {"accounts.one": 1}
    tables.add_source(lambda: found)
    assert tables.sizes() == {("accounts.one",): 1}
    found.clear()
    assert tables.sizes() == {}


def test_what_differs_in_size_is_bounded_by_its_weight() -> None:
    known: Weighed[str, int] = Weighed(10, len)
    for number, key in enumerate(("aaaa", "bbbb", "cc")):
        assert known.keep(key, number) == number
    assert (len(known), known.weight) == (3, 10)
    assert known.recall("aaaa") == 0

    known.keep("d", 3)

    assert known.recall("bbbb") is None
    assert known.recall("aaaa") == 0
    assert known.weight == 7


def test_what_alone_weighs_more_than_half_is_not_kept() -> None:
    known: Weighed[str, int] = Weighed(10, len)
    known.keep("a", 1)
    assert known.keep("bbbbbb", 2) == 2
    assert known.recall("bbbbbb") is None
    assert known.recall("a") == 1


class Part:
    __slots__ = ("answers",)

    def __init__(self) -> None:
        self.answers = Bounded[int, int](10)


class Account:
    def __init__(self, other: object) -> None:
        self.by_pod = {"p": [1, 2]}
        self.changed = {1, 2}
        self.turns = deque([1, 2, 3])
        self.name = "a text is no table"
        self.part = Part()
        self.other = other


def test_entries_of_an_object_are_those_of_its_containers_and_of_its_parts() -> None:
    other = Account(None)
    account = Account(other)
    account.part.answers[1] = 1
    assert entries_of(account, {id(other)}) == 1 + 2 + 3 + 1
    assert entries_of(account) == 7 + 6
