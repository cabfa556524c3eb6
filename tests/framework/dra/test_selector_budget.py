"""Answers of selectors are shared by devices that agree in what is read, and worked out within a budget."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.framework.dra.reads import kind_of, reads_of
from volsched.framework.dra.selectors import OverBudgetError, Selectors, compiled
from volsched.model.dra.device import Capacity, Device, DeviceId, Value
from volsched.model.values.quantity import parse

DRIVER = "gpu.example.com"


def device(number: int, attributes: Mapping[str, Value] | None = None, memory: str = "80Gi") -> Device:
    given_ = {"model": "H100", "serial": f"s{number}", **(attributes or {})}
    return Device(DeviceId(DRIVER, "pool", f"d{number}"), given_, {"memory": Capacity(parse(memory))})


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ("device.driver == 'x'", ()),
        ("device.allowMultipleAllocations", ()),
        ('device.attributes["d"].model == "a"', (("attributes", "d", "model"),)),
        ("device.attributes['d']['model'] == 'a'", (("attributes", "d", "model"),)),
        (
            'device.attributes["d"].a == 1 && device.capacity["e"].m.compareTo(quantity("1Gi")) > 0',
            (("attributes", "d", "a"), ("capacity", "e", "m")),
        ),
        ('[1, 2].all(x, x > 0) && device.attributes["d"].b', (("attributes", "d", "b"),)),
        ("true", ()),
    ],
)
def test_what_an_expression_reads_is_found_in_its_text(expression: str, reads: object) -> None:
    assert reads_of(expression) == reads


@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes["d"].exists(k, k == "a")',
        'device.attributes["d"].size() > 1',
        'device.attributes.exists(d, d == "a")',
        'device.attributes["d" + "e"].a',
        'device.attributes[?"d"].?a.orValue(1) == 1',
        'device.attributes["d"][device.driver]',
        'device.attributes["d"]["a" + "b"]',
        'cel.bind(x, device.attributes["d"], x.a)',
        'device.attributes["d\\n"].a',
        '"a" in device.attributes["d"]',
        "device == device",
        "x.device.attributes",
        "device",
    ],
)
def test_whatever_else_reads_everything(expression: str) -> None:
    assert reads_of(expression) is None


NAMES = ("model", "index", "other/model")
EXPRESSIONS = st.sampled_from(
    [
        f'device.attributes["{DRIVER}"].model == "H100"',
        f'device.attributes["{DRIVER}"]["index"] > 1',
        'device.attributes["other"].model == "H100"',
        f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0',
        f'device.driver == "{DRIVER}" || device.attributes["other"].index == 1',
    ]
)
WORTHS = st.sampled_from([0, 1, 2, True, False, "H100", "A100", "1"])


@given(EXPRESSIONS, st.lists(st.dictionaries(st.sampled_from(NAMES), WORTHS), min_size=2, max_size=6))
def test_devices_of_a_kind_have_the_same_answer_as_each_by_itself(
    expression: str, found: list[dict[str, Value]]
) -> None:
    selectors, program = Selectors(), compiled(expression)
    for number, attributes in enumerate(found):
        one = device(number, attributes, memory="80Gi" if number % 2 else "20Gi")
        assert selectors.select(expression, one) == program.select(one)


def test_a_kind_is_worked_out_once_however_many_devices_there_are() -> None:
    ticks = iter(range(10_000))
    selectors = Selectors(most_seconds=10)
    selectors.begin(lambda: next(ticks))  # every look at the clock is a second later

    for number in range(1_000):
        assert selectors.select(f'device.attributes["{DRIVER}"].model == "H100"', device(number)) is True

    assert next(ticks) == 2


def test_what_is_not_known_when_the_budget_is_over_is_known_in_later_sessions() -> None:
    expression = f'device.attributes["{DRIVER}"].serial != "s1"'
    devices = [device(number) for number in range(10)]
    selectors, sessions = Selectors(most_seconds=3), 0
    answers: dict[int, object] = {}
    while len(answers) < len(devices):
        ticks = iter(range(10_000))
        selectors.begin(lambda ticks=ticks: next(ticks))
        sessions += 1
        for number, one in enumerate(devices):
            try:
                answers[number] = selectors.select(expression, one)
            except OverBudgetError:
                assert selectors.is_over_budget

    assert sessions == 4
    assert [answers[number] for number in range(3)] == [True, False, True]


def test_whoever_comes_first_in_every_session_does_not_keep_the_others_waiting() -> None:
    """A team with a thousand devices to judge asks before the one that needs a single answer."""
    many = [device(number) for number in range(1_000)]
    selectors = Selectors(most_seconds=4)
    hostile, honest = (f'device.attributes["{DRIVER}"].{name} != "s1"' for name in ("serial", "uuid"))

    def session() -> tuple[int, int]:
        """How many answers each of the two teams has had by its end."""
        ticks = iter(range(10_000))
        selectors.begin(lambda: next(ticks))
        for namespace, expression, devices in (("hostile", hostile, many), ("honest", honest, many[:1])):
            selectors.ask_for(namespace)
            for one in devices:
                with suppress(OverBudgetError):
                    selectors.select(expression, one)
        return tuple(sum(expression in one.verdicts for one in many) for expression in (hostile, honest))

    assert session() == (4, 0)
    assert session() == (6, 1)
    assert session() == (8, 1)


def test_compiled_expressions_are_bounded_by_their_length() -> None:
    selectors = Selectors()
    for number in range(100):
        selectors.of(f"{number} == 1 || " + "true || " * 1000 + "true")
    assert selectors.expressions <= 1 << 16


def test_what_is_remembered_is_bounded_by_device() -> None:
    selectors, one = Selectors(), device(1)
    for number in range(100):
        selectors.select(f"{number} == 1", one)
    assert len(one.verdicts) <= 16


def test_a_kind_tells_values_apart_that_python_takes_for_equal() -> None:
    reads = (("attributes", DRIVER, "index"),)
    assert kind_of(device(1, {"index": 1}), reads) != kind_of(device(2, {"index": True}), reads)
