"""Selectors in CEL: what Kubernetes says of the same expressions, and that nothing a user writes does harm."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volsched.framework.dra.selectors import LONGEST, Selectors, compiled, with_any_domain
from volsched.model.dra.device import Capacity, Device, DeviceId, Version

OWN = 'device.attributes["gpu.example.com"]'
MEMORY = 'device.capacity["gpu.example.com"].memory'
DEVICE = Device(
    DeviceId("gpu.example.com", "p", "d"),
    {
        "model": "x",
        "numa": 0,
        "flag": True,
        "cuda": Version("12.1.0+build7"),
        "other.example.com/speed": 100,
        "list": (1, 2),
    },
    {"memory": Capacity(Fraction(80 << 30)), "share": Capacity(Fraction(1, 2))},
)


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.example.com"',
        f'{OWN}.model == "x" && {OWN}["numa"] == 0',
        f"{OWN}.flag",
        'device.attributes["other.example.com"].speed > 99',
        '"gpu.example.com" in device.attributes && !("nobody.example.com" in device.attributes)',
        '!has(device.attributes["nobody.example.com"].speed)',
        f"has({OWN}.model) && !has({OWN}.nope)",
        f'{OWN}.?nope.orValue("z") == "z"',
        f'device.attributes[?"nobody"].?nope.orValue(1) == 1 && {OWN}[?"model"].hasValue()',
        f'cel.bind(own, {OWN}, own.model == "x" && own.numa < 1)',
        f'{OWN}.?model.optMap(m, m + "y").orValue("") == "xy"',
        f"{OWN}.nope == 1 || true",
        f"!({OWN}.nope == 1 && false)",
        f'{MEMORY}.compareTo(quantity("40Gi")) >= 0 && {MEMORY}.isGreaterThan(quantity("79Gi"))',
        f'{MEMORY} == quantity("81920Mi") && {MEMORY} != quantity("81920M")',
        f'{MEMORY}.add(quantity("1Gi")).sub(1).isLessThan(quantity("81Gi")) && sign({MEMORY}) == 1',
        'device.capacity["gpu.example.com"].share == quantity("500m")',
        'quantity("5k").asInteger() == 5000 && !quantity("1.5").isInteger()',
        'quantity("1.5").asApproximateFloat() > 1.4 && isQuantity("1Gi") && !isQuantity("1 Gi")',
        f'{OWN}.cuda.isGreaterThan(semver("11.99.0")) && {OWN}.cuda.major() == 12 && {OWN}.cuda.minor() == 1',
        f'{OWN}.cuda == semver("12.1.0") && {OWN}.cuda.patch() == 0',
        'semver("1.0.0-alpha.1").isLessThan(semver("1.0.0-alpha.beta"))',
        'semver("1.0.0-rc.11").isGreaterThan(semver("1.0.0-rc.2"))',
        'semver("1.0.0-rc").compareTo(semver("1.0.0")) == -1 && semver("1.0.0-a").isLessThan(semver("1.0.0-a.b"))',
        'isSemver("1.2.3") && !isSemver("1.2") && !isSemver("01.2.3") && !isSemver("1.2.3-01")',
        'isSemver("v1.2", true) && semver("v01.2", true) == semver("1.2.0")',
        f'{OWN}.model.matches("^[w-z]$") && {OWN}.model in ["x", "y"] && {OWN}.model.startsWith("x")',
        '"a,b".split(",").size() == 2 && "AbC".lowerAscii() == "abc" && "hello".substring(1, 3) == "el"',
        '["a", "b"].exists(x, x == "a") && [1, 2].all(x, x > 0) && [1, 2].map(x, x * 2) == [2, 4]',
        "sets.contains([1, 2], [1]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 1], [1])",
        "[1, 2].sum() == 3 && [1, 2].min() == 1 && [1, 2].max() == 2 && [1, 2].isSorted()",
        f"{OWN}.list.includes(2) && {OWN}.model.includes('x') && !{OWN}.list.includes(3)",
        f"{OWN}.numa < 1.5 && {OWN}.numa == 0.0 && {OWN}.model != 3",
        "device.allowMultipleAllocations == false",
        "device . attributes [ 'odd]name' ] .?x.orValue(3) == 3 // device.attributes[",
    ],
)
def test_expressions_that_select_the_device(expression: str) -> None:
    assert compiled(expression).select(DEVICE) is True


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (f"{OWN}.nope == 1", "CEL runtime error: Key not found"),
        ('device.attributes["nobody"].x == 1', "CEL runtime error: Key not found"),
        (f"{OWN}.model", "CEL runtime error: result is of type string"),
        ("1 / 0 == 1", "CEL runtime error: divide by zero"),
        ("9223372036854775807 + 1 > 0", "CEL runtime error: integer overflow"),
        ('quantity("1 Gi") == quantity("1Gi")', "CEL runtime error: "),
        ('semver("1.2").major() == 1', "CEL runtime error: "),
        (f'{MEMORY}.isLessThan(semver("1.0.0"))', "CEL runtime error: is no quantity"),
        (f"{OWN}.model.isLessThan({MEMORY})", "CEL runtime error: No matching overloads"),
        ('"a".matches("(")', "CEL runtime error: invalid regular expression"),
        ('"text"', "CEL compile error: must evaluate to bool, not string"),
        ("nobody.x == 1", "CEL compile error: 1:7: undeclared reference to 'nobody.x'"),
        ("true || nobody", "CEL compile error: "),
        ("(1", "CEL compile error: 1:3: Syntax error"),
        ("", "CEL compile error: "),
        ('ip("10.0.0.1").family() == 4', "CEL compile error: 1:3: undeclared reference to 'ip'"),
        ("true" + " " * LONGEST, "CEL compile error: has 10244 characters, at most 10240 are allowed"),
        ("(" * 900 + "true" + ")" * 900, "CEL compile error: Expression recursion limit exceeded"),
    ],
)
def test_what_cannot_be_evaluated_says_so(expression: str, said: str) -> None:
    answer = compiled(expression).select(DEVICE)

    assert isinstance(answer, str)
    assert answer.startswith(said)


def test_loops_in_loops_come_to_an_end() -> None:
    loop = "true"
    for name in "abcdefgh":
        loop = f"[0,1,2,3,4,5,6,7,8,9].all({name}, {loop})"

    assert compiled(loop).select(DEVICE) == "CEL runtime error: Iteration budget exceeded [INTERNAL]"


def test_a_bad_pattern_is_quick() -> None:
    assert compiled(f'"{"a" * 60}b".matches("^(a|a)*$")').select(DEVICE) is False


def test_an_expression_is_compiled_once_and_asked_once_for_each_device() -> None:
    selectors = Selectors()
    twin = Device(DEVICE.id, DEVICE.attributes, DEVICE.capacity)

    first = selectors.of("device.driver == 'gpu.example.com'")
    selectors.select(first.expression, twin)

    assert selectors.of("device.driver == 'gpu.example.com'") is first
    assert twin.verdicts == {first.expression: True}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('device.attributes["a"].b', 'device.attributes[?"a"].orValue({}).b'),
        ('device.capacity["a"]["b"]', 'device.capacity[?"a"].orValue({})["b"]'),
        ('device.attributes[?"a"].?b', 'device.attributes[?"a"].?b'),
        ('x.device.attributes["a"]', 'x.device.attributes["a"]'),
        ("device.attributes[['a'][0]]", "device.attributes[?['a'][0]].orValue({})"),
        ("'device.attributes[0]' == r'\\'", "'device.attributes[0]' == r'\\'"),
    ],
)
def test_domains_are_looked_up_as_if_they_may_be_absent(written: str, read: str) -> None:
    assert with_any_domain(written) == read


WORDS = st.sampled_from(
    [
        *("device", "attributes", "capacity", "driver", ".", "[", "]", "(", ")", "{", "}", "?", ":", ",", "&&", "||"),
        *("!", "==", "<", "+", "-", "/", "%", '"gpu.example.com"', '"', "'", "r'", '"""', "\\", "//", "\n", " "),
        *("1", "1.5", "0x", "true", "null", "[]", "{}", ".all(x,", ".map(x,", "cel.bind(x,", "quantity(", "semver("),
        *('"1Gi"', ".compareTo(", ".add(", ".?model", "[?", "has(", ".sum()", ".includes(", "matches(", "é", "\x00"),
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=25).map("".join)))
def test_no_text_breaks_the_scheduler(text: str) -> None:
    answer = compiled(text).select(Device(DEVICE.id, DEVICE.attributes, DEVICE.capacity))

    assert isinstance(answer, (bool, str))
