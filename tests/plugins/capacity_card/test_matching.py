"""Demands for one card or another: met exactly when no union of their lists asks for more than there is."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.capacity_card.cards.matching import Demand, Unmet, first_unmet

LISTS = st.lists(st.sampled_from("ABCD"), min_size=1, max_size=3, unique=True).map(tuple)
DEMANDS = st.lists(st.tuples(LISTS, st.integers(0, 6)), max_size=5)
ROOM = st.dictionaries(st.sampled_from("ABCD"), st.integers(0, 6))


def can_be_met(room: dict[str, int], demands: list[Demand]) -> bool:
    """Hall's condition, looked at for every union of the lists."""
    lists = [frozenset(names) for names, amount in demands if amount]
    unions = (frozenset(chain(*some)) for n in range(1, len(lists) + 1) for some in combinations(lists, n))
    return all(
        sum(amount for names, amount in demands if union.issuperset(names)) <= sum(room.get(card, 0) for card in union)
        for union in unions
    )


@given(ROOM, DEMANDS)
def test_demands_are_met_exactly_when_they_can_be(room: dict[str, int], demands: list[Demand]) -> None:
    assert (first_unmet(room, (), demands) is None) == can_be_met(room, demands)


@given(ROOM, DEMANDS, DEMANDS)
def test_beside_what_can_be_met_a_demand_is_met_exactly_when_all_can(
    room: dict[str, int], outstanding: list[Demand], wanted: list[Demand]
) -> None:
    if can_be_met(room, outstanding):
        assert (first_unmet(room, outstanding, wanted) is None) == can_be_met(room, [*outstanding, *wanted])


@given(st.dictionaries(st.sampled_from("ABCD"), st.integers(-3, 6)), DEMANDS, DEMANDS)
def test_the_numbers_that_are_told_say_that_there_is_too_little(
    room: dict[str, int], outstanding: list[Demand], wanted: list[Demand]
) -> None:
    unmet = first_unmet(room, outstanding, wanted)

    if unmet is not None:
        assert set(unmet.names) <= set(unmet.cards)
        assert unmet.asked > sum(room.get(card, 0) for card in unmet.cards)
        assert unmet.asked >= unmet.amount > 0


@pytest.mark.parametrize(
    ("room", "outstanding", "wanted", "unmet"),
    [
        pytest.param({"A": 4, "B": 4}, [], [(("A",), 4), (("A", "B"), 4)], None, id="one list beside one of its cards"),
        pytest.param(
            {"A": 4, "B": 4},
            [],
            [(("A",), 4), (("A", "B"), 5)],
            Unmet(("A", "B"), 5, ("A", "B"), 9),
            id="the sum counts the job's own",
        ),
        pytest.param(
            {"A": 4, "B": 4},
            [(("A", "B"), 6)],
            [(("A", "B"), 6)],
            Unmet(("A", "B"), 6, ("A", "B"), 12),
            id="two of six",
        ),
        pytest.param(
            {"A": 2, "B": 2, "C": 2},
            [(("A", "B"), 4)],
            [(("B", "C"), 4)],
            Unmet(("B", "C"), 4, ("B", "C", "A"), 8),
            id="lists that overlap",
        ),
        pytest.param({"A": 2, "B": 2}, [(("A", "B"), 2)], [(("A",), 2)], None, id="others take what is left"),
        pytest.param({"A": -2, "B": 4}, [], [(("A", "B"), 4)], None, id="a card held beyond its quota costs no other"),
        pytest.param(
            {"A": -2, "B": 4}, [], [(("A", "B"), 5)], Unmet(("A", "B"), 5, ("A", "B"), 5), id="nor is it left"
        ),
        pytest.param({"A": 0, "B": 4}, [(("A",), 3)], [(("B",), 4)], None, id="a lack of others is not one's own"),
    ],
)
def test_cases(room: dict[str, int], outstanding: list[Demand], wanted: list[Demand], unmet: Unmet | None) -> None:
    assert first_unmet(room, outstanding, wanted) == unmet


def test_many_lists_cost_no_enumeration() -> None:
    cards = [f"c{number}" for number in range(40)]
    lists = [(one, other) for one, other in combinations(cards, 2)][:300]

    assert first_unmet(dict.fromkeys(cards, 15), (), [(names, 2) for names in lists]) is None
    assert first_unmet(dict.fromkeys(cards, 14), (), [(names, 2) for names in lists]) is not None
