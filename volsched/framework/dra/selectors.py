"""Selectors of devices in CEL, as Kubernetes evaluates them.

The language is cel-cpp's (package ``cel-expr-python``): parser, type checker, RE2, optional types, strings and
bindings come with it, and so do the limits (nesting, and 10,000 turns of all loops together). What Kubernetes adds is
added here: ``quantity``, ``semver``, ``sets``, sums over lists, and attributes grouped by domain.

Values that CEL has no type for are maps with one key, in one canonical form each, so that ``==`` compares as it
should: a quantity in whole billionths, a version without its build metadata.

The domain of an attribute may be one that a device has nothing of: Kubernetes then finds an empty map. A map here
cannot do that, so ``device.attributes[x]`` is read as ``device.attributes[?x].orValue({})``.

Source: apiserver/pkg/cel/library and dynamic-resource-allocation/cel of Kubernetes 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from hashlib import blake2b
from itertools import pairwise, zip_longest
from typing import Any, Final

from volsched.framework.dra.reads import kind_of, reads_of, tokens_of
from volsched.model.dra.device import Device, Value, Version
from volsched.model.errors import QuantityError
from volsched.model.values.bounded import Bounded, Weighed
from volsched.model.values.quantity import parse

LONGEST: Final = 10 * 1024
"""Characters of an expression, as the API server allows."""

MOST_VALUES: Final = 64
"""Values of a list attribute that ``includes`` looks at."""

MOST_SECONDS: Final = 0.5
"""The most seconds of a session for answers that are not known yet."""

MOST_CHARACTERS: Final = 1 << 16
"""The most characters of all compiled expressions together. One character takes up to a hundred bytes, compiled."""

_KEPT_ANSWERS: Final = 1 << 16
_KEPT_BY_DEVICE: Final = 16
_SHORT: Final = 256
"""Characters of an expression: of a longer one the text itself is not kept beside its answers."""

_QUANTITY: Final = "quantity"
_SEMVER: Final = "semver"
_NANO: Final = 10**9
_INT64: Final = 2**63

Map = Mapping[str, Any]


class OverBudgetError(Exception):
    """An answer that is not known yet is not worked out in this session any more."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled expression, or what is wrong with it."""

    expression: str
    program: Any = None
    fault: str = ""

    def select(self, device: Device) -> bool | str:
        """Work out whether a device is meant. A text states why that cannot be told."""
        if self.fault:
            return f"CEL compile error: {self.fault}"
        try:
            value = self.program.eval(data=view_of(device))
            kind, found = value.type().name(), value.plain_value()
        except Exception as error:  # the library raises RuntimeError for its own limits, and others for odd values
            return f"CEL runtime error: {_message_of(error)}"
        if kind == "BOOL":
            return bool(found)
        if kind == "ERROR":
            return f"CEL runtime error: {_message_of(found)}"
        return f"CEL runtime error: result is of type {kind.lower()} and not a bool"


class Selectors:
    """Expressions, each compiled once, and their answers, each worked out once for all devices of a kind.

    ``most_seconds`` is what working out answers may take in one session. What is not known when that is over is known
    in a later session: tenants write expressions, and one may take milliseconds for each of 40,000 devices. Namespaces
    share that time: each has as much as any other of those that asked in the session before, so that the one
    that comes first in every session does not keep the others waiting for ever.
    """

    def __init__(self, most_seconds: float = MOST_SECONDS) -> None:
        self._most_seconds = most_seconds
        self._known: Weighed[str, Selector] = Weighed(MOST_CHARACTERS, len)
        self._answers: Bounded[tuple[str | bytes, Hashable], bool | str] = Bounded(_KEPT_ANSWERS)
        self._digests: Weighed[str, bytes] = Weighed(MOST_CHARACTERS, len)
        self._clock: Callable[[], float] = lambda: 0.0
        self._spent: dict[str, float] = {}
        self._sharing = 1
        self._namespace = ""

    def begin(self, clock: Callable[[], float]) -> None:
        """Begin a session. The clock gives seconds."""
        self._clock, self._sharing, self._spent = clock, max(1, len(self._spent)), {}

    def ask_for(self, namespace: str) -> None:
        """Note the namespace whose pods are looked at from now on: its share of the time is used."""
        self._namespace = namespace

    @property
    def is_over_budget(self) -> bool:
        """True if nothing more is worked out for this namespace in this session."""
        own = self._spent.get(self._namespace, 0.0)
        return own >= self._most_seconds / self._sharing or sum(self._spent.values()) >= self._most_seconds

    @property
    def expressions(self) -> int:
        """Characters of all expressions that are kept compiled."""
        return self._known.weight

    def of(self, expression: str) -> Selector:
        """Return the compiled expression."""
        return self._known.recall(expression) or self._known.keep(expression, compiled(expression))

    def select(self, expression: str, device: Device) -> bool | str:
        """Return whether a device is meant. A text states why that cannot be told. Raises OverBudgetError."""
        short = expression if len(expression) <= _SHORT else self._digest(expression)
        known = device.verdicts.get(short)
        if known is None:
            if len(device.verdicts) >= _KEPT_BY_DEVICE:
                device.verdicts.clear()
            known = device.verdicts[short] = self._answer(expression, device)
        return known  # type: ignore[return-value]  # only this method writes there

    def _digest(self, expression: str) -> bytes:
        """Return what stands for a long expression beside its many answers."""
        known = self._digests.recall(expression)
        return known or self._digests.keep(expression, blake2b(expression.encode(), digest_size=16).digest())

    def _answer(self, expression: str, device: Device) -> bool | str:
        reads = reads_of(expression)
        if reads is None:
            return self._work_out(expression, device)
        key = (expression if len(expression) <= _SHORT else self._digest(expression), kind_of(device, reads))
        known = self._answers.recall(key)
        if known is None:
            known = self._answers[key] = self._work_out(expression, device)
        return known

    def _work_out(self, expression: str, device: Device) -> bool | str:
        is_over = self.is_over_budget
        spent = self._spent.setdefault(self._namespace, 0.0)
        if is_over:
            raise OverBudgetError
        began = self._clock()
        answer = self.of(expression).select(device)
        self._spent[self._namespace] = spent + self._clock() - began
        return answer


def compiled(expression: str) -> Selector:
    """Compile an expression. What is wrong with it, or cannot be evaluated here, becomes its fault."""
    if len(expression) > LONGEST:
        return Selector(expression, fault=f"has {len(expression)} characters, at most {LONGEST} are allowed")
    try:
        program = _environment().compile(with_any_domain(expression))
        kind = program.return_type().name()
    except ImportError as error:
        return Selector(expression, fault=f"selectors need the package cel-expr-python: {error}")
    except Exception as error:  # RuntimeError for every fault in the text, and others for what is no text at all
        return Selector(expression, fault=_message_of(error))
    if kind not in ("BOOL", "DYN", "ANY"):
        return Selector(expression, fault=f"must evaluate to bool, not {kind.lower()}")
    return Selector(expression, program)


def _message_of(error: object) -> str:
    """Return the first line of the library's message, without the name of a status code."""
    line = str(error).strip().partition("\n")[0]
    line = re.sub(r"^[A-Z_]+: (?=\S)", "", line)
    return re.sub(r"^ERROR: <input>:", "", line)


# --- the device ------------------------------------------------------------------------------------------------------


def view_of(device: Device) -> dict[str, Any]:
    """Return the variable ``device`` in parts: attributes and capacities by domain, the driver's if they name none."""
    driver = device.id.driver
    attributes: dict[str, dict[str, Any]] = {}
    for name, value in device.attributes.items():
        domain, own = _qualified(name, driver)
        attributes.setdefault(domain, {})[own] = _value(value)
    capacity: dict[str, dict[str, Any]] = {}
    for name, found in device.capacity.items():
        domain, own = _qualified(name, driver)
        capacity.setdefault(domain, {})[own] = _quantity_map(found.value)
    return {
        "device.driver": driver,
        "device.allowMultipleAllocations": device.shareable,
        "device.attributes": attributes,
        "device.capacity": capacity,
    }


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, own = name.partition("/")
    return (domain, own) if slash else (driver, name)


def _value(value: Value) -> Any:
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    return _semver_map(value) if isinstance(value, Version) else value


def with_any_domain(expression: str) -> str:
    """Return the expression so that it finds an empty map where a device has nothing of a domain."""
    tokens = tokens_of(expression)
    return "".join(_rewritten(tokens))


def _rewritten(tokens: Sequence[str]) -> Iterator[str]:
    """Yield the tokens with each index into attributes or capacity made optional."""
    seen: list[str] = []
    brackets: list[str] = []
    for place, word in enumerate(tokens):
        if word == "[" and _is_domain_index(seen) and not _is_optional(tokens, place):
            brackets.append("].orValue({})")
            yield "[?"
        elif word in "[({":
            brackets.append({"[": "]", "(": ")", "{": "}"}[word])
            yield word
        elif word in "])}":
            yield brackets.pop() if brackets and brackets[-1][0] == word else word
        else:
            yield word
        if not word.isspace() and not word.startswith("//"):
            seen.append(word)


def _is_domain_index(seen: Sequence[str]) -> bool:
    return (
        len(seen) >= 3
        and seen[-1] in ("attributes", "capacity")
        and seen[-2] == "."
        and seen[-3] == "device"
        and (len(seen) == 3 or seen[-4] != ".")
    )


def _is_optional(tokens: Sequence[str], place: int) -> bool:
    return next((token for token in tokens[place + 1 :] if not token.isspace()), "") == "?"


# --- quantities ------------------------------------------------------------------------------------------------------


def _quantity_map(value: Fraction) -> dict[str, Any]:
    return {_QUANTITY: str(int(value * _NANO))}


def _quantity(text: str) -> dict[str, Any]:
    return _quantity_map(parse(text))


def _is_quantity(text: str) -> bool:
    try:
        parse(text)
    except QuantityError:
        return False
    return True


def _fraction(value: Map) -> Fraction:
    if _QUANTITY not in value:
        raise ValueError("is no quantity")
    return Fraction(int(value[_QUANTITY]), _NANO)


def _is_integer(value: Map) -> bool:
    found = _fraction(value)
    return found.denominator == 1 and -_INT64 <= found < _INT64


def _as_integer(value: Map) -> int:
    if not _is_integer(value):
        raise ValueError("cannot convert value to integer")
    return int(_fraction(value))


def _sign(value: Map) -> int:
    found = _fraction(value)
    return (found > 0) - (found < 0)


def _plus(value: Map, by: Map | int) -> dict[str, Any]:
    return _quantity_map(_fraction(value) + (Fraction(by) if isinstance(by, int) else _fraction(by)))


def _minus(value: Map, by: Map | int) -> dict[str, Any]:
    return _quantity_map(_fraction(value) - (Fraction(by) if isinstance(by, int) else _fraction(by)))


# --- versions --------------------------------------------------------------------------------------------------------

_NUMBER = r"(0|[1-9][0-9]*)"
_WORDS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMVER_TEXT: Final = rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_WORDS}))?(?:\+({_WORDS}))?"
_LARGEST: Final = 2**64


def _semver_map(text: str) -> dict[str, Any]:
    """Return a version in its canonical form, without build metadata. Raises ValueError when it is none."""
    match = re.fullmatch(_SEMVER_TEXT, text, re.ASCII)
    if match is None:
        raise ValueError(f'"{text}" is no semantic version')
    major, minor, patch, pre, _ = match.groups()
    if any(int(part) >= _LARGEST for part in (major, minor, patch)):
        raise ValueError(f'"{text}" has a number that is too large')
    for word in pre.split(".") if pre else ():
        if word.isdigit() and len(word) > 1 and word[0] == "0":
            raise ValueError(f'"{text}": numbers must not begin with 0')
    return {_SEMVER: f"{major}.{minor}.{patch}" + (f"-{pre}" if pre else "")}


def _semver(text: str, lenient: bool = False) -> dict[str, Any]:
    return _semver_map(_complete(text) if lenient else text)


def _complete(text: str) -> str:
    """Return a version of which the first letter v, zeros in front and parts at the end may be odd, made whole."""
    text = text.strip().removeprefix("v")
    rest = re.search(r"[-+]", text)
    numbers, tail = (text[: rest.start()], text[rest.start() :]) if rest else (text, "")
    parts = [part.lstrip("0") or ("0" if part else "") for part in numbers.split(".")]
    if tail and len(parts) < 3:
        return text
    return ".".join([*parts, *["0"] * (3 - len(parts))]) + tail


def _is_semver(text: str, lenient: bool = False) -> bool:
    try:
        _semver(text, lenient)
    except ValueError:
        return False
    return True


def _version_key(value: Map) -> tuple[list[int], list[str] | None]:
    if _SEMVER not in value:
        raise ValueError("is no semver")
    numbers, dash, pre = str(value[_SEMVER]).partition("-")
    return [int(part) for part in numbers.split(".")], pre.split(".") if dash else None


def _compare_versions(one: Map, other: Map) -> int:
    """Compare as semver.org does: a pre-release comes before its release, its words one by one, numbers first."""
    (numbers, words), (other_numbers, other_words) = _version_key(one), _version_key(other)
    if numbers != other_numbers:
        return 1 if numbers > other_numbers else -1
    if words is None or other_words is None:
        return (words is None) - (other_words is None)
    for word, other_word in zip_longest(words, other_words):
        if word != other_word:
            return 1 if _word_key(word) > _word_key(other_word) else -1
    return 0


def _word_key(word: str | None) -> tuple[int, int, str]:
    if word is None:
        return 0, 0, ""
    return (1, int(word), "") if word.isdigit() else (2, 0, word)


def _part(place: int) -> Callable[[Map], int]:
    return lambda value: _version_key(value)[0][place]


# --- comparisons, sets and lists -------------------------------------------------------------------------------------


def _compare(one: Map, other: Map) -> int:
    if _SEMVER in one:
        return _compare_versions(one, other)
    difference = _fraction(one) - _fraction(other)
    return (difference > 0) - (difference < 0)


def _contains(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(item in one for item in other)


def _equivalent(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return _contains(one, other) and _contains(other, one)


def _intersects(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return any(item in one for item in other)


def _includes(found: Any, wanted: Any) -> bool:
    if not isinstance(found, (list, tuple)):
        return bool(found == wanted)
    if len(found) > MOST_VALUES:
        raise ValueError(f"'includes' cannot be used on lists of more than {MOST_VALUES} values")
    return wanted in list(found)


def _index(found: Sequence[Any], wanted: Any) -> int:
    return next((place for place, item in enumerate(found) if item == wanted), -1)


def _is_sorted(found: Sequence[Any]) -> bool:
    return all(one <= other for one, other in pairwise(found))


@cache
def _environment() -> Any:
    """Return the compiler with the variable and all functions. The library is loaded when it is first needed."""
    from cel_expr_python import cel  # noqa: PLC0415 - fourteen megabytes that only clusters with devices need
    from cel_expr_python.ext import ext_bindings, ext_math, ext_optional, ext_strings  # noqa: PLC0415

    kinds = cel.Type
    text, number, flag, double = kinds.STRING, kinds.INT, kinds.BOOL, kinds.DOUBLE
    anything, mapping, items = kinds.DYN, kinds.MAP, kinds.LIST
    scalars = (text, number, flag, mapping)

    def function(name: str, *overloads: Any) -> Any:
        numbered = [
            cel.Overload(id=f"{name}_{n}", return_type=result, parameters=list(takes), is_member=member, impl=impl)
            for n, (takes, result, impl, member) in enumerate(overloads)
        ]
        return cel.FunctionDecl(name, numbered)

    def plain(takes: Sequence[Any], result: Any, impl: Callable[..., Any]) -> tuple[Any, ...]:
        return takes, result, impl, False

    def method(takes: Sequence[Any], result: Any, impl: Callable[..., Any]) -> tuple[Any, ...]:
        return takes, result, impl, True

    functions = [
        function("quantity", plain([text], mapping, _quantity)),
        function("isQuantity", plain([text], flag, _is_quantity)),
        function("isInteger", method([mapping], flag, _is_integer)),
        function("asInteger", method([mapping], number, _as_integer)),
        function("asApproximateFloat", method([mapping], double, lambda value: float(_fraction(value)))),
        function("sign", plain([mapping], number, _sign)),
        function("add", method([mapping, mapping], mapping, _plus), method([mapping, number], mapping, _plus)),
        function("sub", method([mapping, mapping], mapping, _minus), method([mapping, number], mapping, _minus)),
        function("semver", plain([text], mapping, _semver), plain([text, flag], mapping, _semver)),
        function("isSemver", plain([text], flag, _is_semver), plain([text, flag], flag, _is_semver)),
        function("major", method([mapping], number, _part(0))),
        function("minor", method([mapping], number, _part(1))),
        function("patch", method([mapping], number, _part(2))),
        function("compareTo", method([mapping, mapping], number, _compare)),
        function("isGreaterThan", method([mapping, mapping], flag, lambda a, b: _compare(a, b) > 0)),
        function("isLessThan", method([mapping, mapping], flag, lambda a, b: _compare(a, b) < 0)),
        function("sets.contains", plain([items, items], flag, _contains)),
        function("sets.equivalent", plain([items, items], flag, _equivalent)),
        function("sets.intersects", plain([items, items], flag, _intersects)),
        function("includes", *(method([of, what], flag, _includes) for of in (items, *scalars) for what in scalars)),
        function("sum", method([items], anything, sum)),
        function("min", method([items], anything, min)),
        function("max", method([items], anything, max)),
        function("isSorted", method([items], flag, _is_sorted)),
    ]
    extensions = [
        ext_optional.ExtOptional(),
        ext_strings.ExtStrings(),
        ext_bindings.ExtBindings(),
        ext_math.ExtMath(),
    ]
    variables = {
        "device.driver": text,
        "device.allowMultipleAllocations": flag,
        "device.attributes": kinds.Map(text, kinds.Map(text, anything)),
        "device.capacity": kinds.Map(text, kinds.Map(text, kinds.Map(text, text))),
    }
    return cel.NewEnv(variables=variables, extensions=extensions, functions=functions)
