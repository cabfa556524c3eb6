import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from volsched.model.errors import QuantityError
from volsched.model.values.quantity import (
    MAX_AMOUNT,
    UNLIMITED,
    Unit,
    amount_of,
    as_float,
    format_amount,
    in_base_units,
    parse,
    unit_of,
)

SUFFIXES = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3", "e+2"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", Fraction(0)),
        ("1", Fraction(1)),
        ("+1", Fraction(1)),
        ("-1", Fraction(-1)),
        ("007", Fraction(7)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("1.5", Fraction(3, 2)),
        ("1.G", Fraction(10**9)),
        ("1n", Fraction(1, 10**9)),
        ("1u", Fraction(1, 10**6)),
        ("250m", Fraction(1, 4)),
        ("2k", Fraction(2000)),
        ("1M", Fraction(10**6)),
        ("1G", Fraction(10**9)),
        ("1T", Fraction(10**12)),
        ("1P", Fraction(10**15)),
        ("1E", Fraction(10**18)),
        ("1Ki", Fraction(2**10)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("1Ti", Fraction(2**40)),
        ("1Pi", Fraction(2**50)),
        ("1Ei", Fraction(2**60)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("12e-3", Fraction(12, 1000)),
        ("1e+2", Fraction(100)),
        ("-1.5Ki", Fraction(-1536)),
        # upstream reads these as zero
        ("+", Fraction(0)),
        ("-", Fraction(0)),
        (".", Fraction(0)),
        ("Ki", Fraction(0)),
        ("m", Fraction(0)),
        # finer than nano is rounded away from zero
        ("0.9n", Fraction(1, 10**9)),
        ("1e-30", Fraction(1, 10**9)),
        ("-1e-30", Fraction(-1, 10**9)),
        ("0.0000000001Ki", Fraction(103, 10**9)),
        # a binary suffix ends at 2**63 - 1, a decimal one does not
        ("8Ei", Fraction(2**63 - 1)),
        ("-8Ei", Fraction(-(2**63 - 1))),
        ("100E", Fraction(10**20)),
        ("18446744073709551616", Fraction(2**64)),
        # numbers as YAML gives them
        (2, Fraction(2)),
        (-3, Fraction(-3)),
        (0.5, Fraction(1, 2)),
        (1.1, Fraction(11, 10)),
        (1e21, Fraction(10**21)),
        (1e-5, Fraction(1, 10**5)),
    ],
)
def test_a_quantity_has_its_exact_value(text: str | float, value: Fraction) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", " 1", "1 ", "1 Gi", "abc", "1.1.1", "1..", "--1", "+-1", "1-", "1+", "1e", "1E+", "1e1.5", "1ee3"),
        *("1K", "1ki", "1mi", "1gi", "1KI", "1Mi3", "1_000", "1,5", "0x10", "१", "1²", "Pi", "Ei", "E-11"),
        *("NaN", "1e1001", "1" * 1001, float("nan"), float("inf"), True, None, [], 10**1001),
    ],
)
def test_what_is_no_quantity_is_refused_by_name(text: object) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(text)  # type: ignore[arg-type]

    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 200


def test_the_error_names_the_text() -> None:
    with pytest.raises(QuantityError, match=r"^'12KB' is not a quantity$"):
        parse("12KB")
    with pytest.raises(QuantityError, match=r"^'12mi' is not a quantity: unknown suffix 'mi'$"):
        parse("12mi")


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        ("cpu", "1", 1000),
        ("cpu", "500m", 500),
        ("cpu", "0.0001", 1),
        ("cpu", "1u", 1),
        ("cpu", 1.5, 1500),
        ("memory", "1Gi", 2**30),
        ("memory", "1500m", 2),
        ("memory", "1", 1),
        ("memory", " 1Mi\n", 2**20),
        ("ephemeral-storage", "1k", 1000),
        ("storage", "10Gi", 10 * 2**30),
        ("hugepages-2Mi", "4Mi", 4 * 2**20),
        ("pods", "110", 110),
        ("nvidia.com/gpu", "2", 2000),
        ("nvidia.com/gpu", 2, 2000),
        ("NVIDIA-A100", "500m", 500),
        ("volcano.sh/vgpu-memory", "1Ki", 1024000),
        ("cpu", "-1n", -1),
        ("memory", "8Ei", MAX_AMOUNT),
        ("memory", "-9Ei", -MAX_AMOUNT),
        ("cpu", "1e40", MAX_AMOUNT),
        ("nvidia.com/gpu", 10**30, MAX_AMOUNT),
    ],
)
def test_an_amount_counts_in_the_unit_of_its_resource_rounded_away_from_zero(
    resource: str, text: str | float, amount: int
) -> None:
    assert amount_of(resource, text) == amount


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 0, "0"),
        ("cpu", 500, "500m"),
        ("cpu", 2000, "2"),
        ("cpu", 2500, "2500m"),
        ("cpu", 1_000_000, "1k"),
        ("cpu", -1500, "-1500m"),
        ("memory", 0, "0"),
        ("memory", 1, "1"),
        ("memory", 1000, "1k"),
        ("memory", 1024, "1Ki"),
        ("memory", 1536 * 2**20, "1536Mi"),
        ("memory", 2**30, "1Gi"),
        ("memory", 10**9, "1000000000"),
        ("memory", -(2**30), "-1Gi"),
        ("memory", 2**62, "4Ei"),
        ("pods", 110, "110"),
        ("nvidia.com/gpu", 2000, "2"),
        ("nvidia.com/gpu", 500, "500m"),
        ("nvidia.com/gpu", 8_000_000, "8k"),
        ("cpu", UNLIMITED, "unlimited"),
    ],
)
def test_an_amount_is_written_in_canonical_form(resource: str, amount: int, text: str) -> None:
    assert format_amount(resource, amount) == text


def test_units_follow_the_names_of_resources() -> None:
    assert unit_of("cpu") is Unit.MILLI
    assert unit_of("memory") is Unit.BYTE
    assert unit_of("hugepages-1Gi") is Unit.BYTE
    assert unit_of("pods") is Unit.WHOLE
    assert unit_of("nvidia.com/gpu") is Unit.MILLI


@given(st.one_of(st.text(), st.text(alphabet="+-.0123456789eEinumkKMGTP", max_size=30)))
@example("e" * 1001)
@example("9" * 1000 + "e1000")
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    try:
        value = parse(text)
    except QuantityError:
        return
    assert (value * 10**9).denominator == 1
    assert -MAX_AMOUNT <= amount_of("cpu", text) <= MAX_AMOUNT


@given(st.one_of(st.integers(), st.floats(), st.booleans(), st.none()))
def test_any_number_is_a_quantity_or_a_quantity_error(number: object) -> None:
    try:
        parse(number)  # type: ignore[arg-type]
    except QuantityError:
        return


@given(
    st.integers(min_value=-(2**60), max_value=2**60),
    st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu", "hugepages-2Mi"]),
)
def test_what_is_written_is_read_back(amount: int, resource: str) -> None:
    assert amount_of(resource, format_amount(resource, amount)) == amount


@given(
    st.sampled_from(["", "+", "-"]),
    st.integers(min_value=0, max_value=10**25),
    st.text("0123456789", max_size=25),
    st.sampled_from(SUFFIXES),
    st.sampled_from(["cpu", "memory"]),
)
def test_rounding_gives_the_next_unit_away_from_zero(
    sign: str, whole: int, places: str, suffix: str, resource: str
) -> None:
    text = f"{sign}{whole}.{places}{suffix}"
    exact = parse(text) * (1000 if resource == "cpu" else 1)

    amount = amount_of(resource, text)

    if abs(amount) < MAX_AMOUNT:
        assert 0 <= abs(amount) - abs(exact) < 1
    else:
        assert abs(exact) > MAX_AMOUNT - 1


def test_what_no_float_can_hold_is_infinite() -> None:
    assert in_base_units("cpu", 1500) == 1.5
    assert as_float(Fraction(10**400)) == math.inf
    assert as_float(-Fraction(10**400)) == -math.inf
