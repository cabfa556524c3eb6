from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.model.errors import QuantityError
from volsched.model.values.resources import MAX_AMOUNT, UNLIMITED, Resources, minus, saturating_add, saturating_sub
from volsched.model.verdict import Shortfall

AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "gpu"]),
    st.one_of(st.integers(min_value=0, max_value=10**6), st.just(MAX_AMOUNT), st.just(UNLIMITED)),
)
FINITE = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "gpu"]), st.integers(min_value=0, max_value=MAX_AMOUNT // 4)
)


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        (1, 2, 3),
        (MAX_AMOUNT, 1, MAX_AMOUNT),
        (-MAX_AMOUNT, -1, -MAX_AMOUNT),
        (UNLIMITED, 1, UNLIMITED),
        (1, UNLIMITED, UNLIMITED),
        (UNLIMITED, -MAX_AMOUNT, UNLIMITED),
    ],
)
def test_addition_stays_within_bounds_and_unlimited_absorbs(left: int, right: int, total: int) -> None:
    assert saturating_add(left, right) == total


@pytest.mark.parametrize(
    ("left", "right", "rest", "rest_above_zero"),
    [
        (3, 2, 1, 1),
        (2, 3, -1, 0),
        (-MAX_AMOUNT, MAX_AMOUNT, -MAX_AMOUNT, 0),
        (UNLIMITED, 5, UNLIMITED, UNLIMITED),
        (UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED),
        (5, UNLIMITED, -MAX_AMOUNT, 0),
    ],
)
def test_subtraction_stays_within_bounds(left: int, right: int, rest: int, rest_above_zero: int) -> None:
    assert saturating_sub(left, right) == rest
    assert minus(left, right) == rest_above_zero


def test_quantities_become_amounts_and_zeros_are_dropped() -> None:
    assert Resources.of({"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": 0}) == {"cpu": 500, "memory": 2**30}


def test_negative_quantities_are_refused() -> None:
    with pytest.raises(QuantityError, match="must not be negative"):
        Resources.of({"cpu": "-1"})


def test_equal_amounts_are_equal_and_hash_alike_whatever_their_order() -> None:
    left, right = Resources({"cpu": 1, "gpu": 2, "memory": 0}), Resources([("gpu", 2), ("cpu", 1)])

    assert left == right
    assert hash(left) == hash(right)
    assert left == {"gpu": 2, "cpu": 1}
    assert left != Resources({"cpu": 1})
    assert left != 3


def test_it_is_a_mapping() -> None:
    found = Resources({"cpu": 1, "gpu": 2})

    assert dict(found) == {"cpu": 1, "gpu": 2}
    assert len(found) == 2
    assert ("cpu" in found, "memory" in found, found.get("memory"), found["gpu"]) == (True, False, None, 2)
    assert (found.amount("gpu"), found.amount("memory")) == (2, 0)
    assert not Resources.EMPTY
    assert list(found.items()) == list(zip(found.keys(), found.values(), strict=True)) == [("cpu", 1), ("gpu", 2)]
    assert repr(Resources({"cpu": 1500})) == "Resources({'cpu': '1500m'})"


def test_amounts_above_the_largest_are_cut() -> None:
    assert Resources({"cpu": MAX_AMOUNT + 1, "gpu": UNLIMITED}) == {"cpu": MAX_AMOUNT, "gpu": UNLIMITED}


def test_arithmetic_goes_resource_by_resource() -> None:
    left, right = Resources({"cpu": 5, "gpu": 1}), Resources({"cpu": 2, "memory": 3})

    assert left.plus(right) == {"cpu": 7, "gpu": 1, "memory": 3}
    assert left.minus(right) == {"cpu": 3, "gpu": 1}
    assert right.minus(left) == {"memory": 3}
    assert left.maximum(right) == {"cpu": 5, "gpu": 1, "memory": 3}
    assert left.minimum(right) == {"cpu": 2}
    assert left.minimum(right, missing=UNLIMITED) == {"cpu": 2, "gpu": 1, "memory": 3}
    assert left.scaled(Fraction(1, 2)) == {"cpu": 2}
    assert Resources({"cpu": UNLIMITED}).scaled(Fraction(1, 2)) == {"cpu": UNLIMITED}
    assert left.without("gpu") == {"cpu": 5}


@pytest.mark.parametrize(
    ("limits", "missing", "fits"),
    [
        ({"cpu": 5, "gpu": 1}, 0, True),
        ({"cpu": 4, "gpu": 1}, 0, False),
        ({"cpu": 5}, 0, False),
        ({"cpu": 5}, UNLIMITED, True),
        ({"cpu": UNLIMITED}, UNLIMITED, True),
    ],
)
def test_limits_that_are_missing_are_nothing_or_everything(limits: dict[str, int], missing: int, fits: bool) -> None:
    assert (Resources({"cpu": 5, "gpu": 1}).shortfalls(limits, missing=missing) == ()) is fits


def test_shortfalls_name_each_resource_above_its_limit() -> None:
    wanted = Resources({"gpu": 5, "cpu": 2, "memory": 1})

    assert wanted.shortfalls({"gpu": 6, "cpu": 2}, used={"gpu": 2}) == (
        Shortfall("gpu", requested=5, used=2, limit=6),
        Shortfall("memory", requested=1, used=0, limit=0),
    )
    assert wanted.shortfalls({"gpu": 6}, missing=UNLIMITED) == ()


def test_amounts_for_people_are_canonical_and_sorted() -> None:
    assert list(Resources({"memory": 2**30, "cpu": 1500, "gpu": 2000}).human().items()) == [
        ("cpu", "1500m"),
        ("gpu", "2"),
        ("memory", "1Gi"),
    ]


@given(FINITE, FINITE)
def test_what_is_added_can_be_taken_away(left: dict[str, int], right: dict[str, int]) -> None:
    assert Resources(left).plus(right).minus(right) == Resources(left)


def fit_in(amounts: Resources, limits: Mapping[str, int], missing: int = 0) -> bool:
    return all(amount <= limits.get(name, missing) for name, amount in amounts.items())


@given(AMOUNTS, AMOUNTS)
def test_maximum_holds_both_and_minimum_fits_in_both(left: dict[str, int], right: dict[str, int]) -> None:
    one, other = Resources(left), Resources(right)

    assert fit_in(one, one.maximum(other))
    assert fit_in(other, one.maximum(other))
    assert fit_in(one.minimum(other), one)
    assert fit_in(one.minimum(other), other)


@given(AMOUNTS, AMOUNTS, AMOUNTS, st.sampled_from([0, UNLIMITED]))
def test_shortfalls_are_empty_just_when_the_sum_fits(
    wanted: dict[str, int], used: dict[str, int], limits: dict[str, int], missing: int
) -> None:
    request = Resources(wanted)
    total = Resources({name: saturating_add(amount, used.get(name, 0)) for name, amount in request.items()})

    assert (request.shortfalls(limits, used, missing) == ()) is fit_in(total, limits, missing)
