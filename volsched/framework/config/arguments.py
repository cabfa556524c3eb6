"""The schema of arguments of plugins and actions, and the check of given arguments.

The schema is data, so that one check serves the loader, the plugin itself and the documentation. A number or a boolean
in quotes counts if the text is one (Volcano's ConfigMaps are full of them), except for arguments that Volcano never
read so. Nothing else is converted, and no given argument is ignored silently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from volsched.model import api
from volsched.model.errors import ConfigError, FieldError, QuantityError, nearest, shortened
from volsched.model.selectors import LabelSelector
from volsched.model.values.duration import seconds_of
from volsched.model.values.quantity import parse

ArgumentType: TypeAlias = Literal[
    "bool", "int", "float", "str", "names", "quantity", "percentage", "duration", "selector", "shape", "mappings"
]
NameType: TypeAlias = Literal["resource", "resource pattern", "domain", "label", "card"]
Severity: TypeAlias = Literal["error", "warning"]

_INT = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", re.ASCII)
_WANTED: Mapping[str, str] = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "names": "a list of names, or one text with commas between them",
    "quantity": "a quantity that is not negative, as 500m, 32 or 64Gi",
    "percentage": "a number above 0 and at most 100, without %",
    "duration": "a duration as 1h30m or 90s, or 0",
    "selector": "a mapping with matchLabels, matchExpressions or both",
    "shape": "a list of points, each with a utilization from 0 to 100 and a score from 0 to 10",
    "mappings": "a list of mappings",
}

Place: TypeAlias = tuple[int | str, ...]
"""Where in a value something stands: numbers of items from 0, and names of fields."""


class PlaceError(ValueError):
    """States what is wrong at a place inside an argument's value."""

    def __init__(self, at: Place, message: str) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a plugin or an action.

    ``key`` is its name in the configuration; a key that ends in ``*`` is a prefix. Values by type: bool, int, float or
    str as themselves; ``names`` a tuple of texts; ``quantity`` its text (the unit depends on the resource);
    ``percentage`` an exact Fraction; ``duration`` seconds; ``selector`` a LabelSelector; ``shape`` pairs of utilization
    and score; ``mappings`` a tuple of dicts of texts, whose keys are among ``fields``.

    * ``default``: the value if the key is absent; a prefix has none.
    * ``minimum`` and ``maximum``: inclusive bounds of numbers; ``choices``: the allowed texts, in ``any_case`` if set.
    * ``lenient``: a wrong value is a warning, and the default counts.
    * ``bare``: a quoted number does not count.
    * ``expected``: leaving it out is worth a warning.
    * ``unused``: accepted as in Volcano without effect; the text says why, and giving it is worth a warning.
    * ``holds``: the kind of texts in ``names``, and of each field of ``mappings``; anonymous snapshots rename by it.
    """

    key: str
    type: ArgumentType
    default: Any
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    lenient: bool = False
    any_case: bool = False
    bare: bool = False
    expected: bool = False
    unused: str = ""
    fields: tuple[str, ...] = ()
    holds: tuple[NameType, ...] = ("resource",)

    @property
    def is_prefix(self) -> bool:
        """True if the key is a prefix."""
        return self.key.endswith("*")

    def covers(self, key: str) -> bool:
        """True if this argument covers ``key``."""
        if self.is_prefix:
            return key.startswith(self.key[:-1]) and len(key) >= len(self.key)
        return key == self.key

    def parse(self, value: object) -> Any:
        """Return the value in this argument's type. A ValueError states what is wrong with it."""
        parsed = None if self.bare and isinstance(value, str) else _PARSERS[self.type](value)
        if parsed is None:
            raise ValueError(f"must be {_WANTED[self.type]}{self._of_fields()}, not {describe(value)}")
        if self.type == "mappings" and isinstance(parsed, tuple):
            self._check_fields(parsed)
        if isinstance(parsed, int | float) and not isinstance(parsed, bool):
            self._check_range(parsed)
        if self.any_case and isinstance(parsed, str):
            parsed = {choice.casefold(): choice for choice in self.choices}.get(parsed.casefold(), parsed)
        if self.choices and isinstance(parsed, str) and parsed not in self.choices:
            raise ValueError(
                f"must be one of {', '.join(self.choices)}, not {describe(value)}{hint(parsed, self.choices)}"
            )
        return parsed

    def _of_fields(self) -> str:
        return f" with {', '.join(self.fields)}" if self.fields else ""

    def _check_fields(self, items: Sequence[Any]) -> None:
        for number, item in enumerate(items):
            for name, text in item.items():
                if name not in self.fields:
                    known = (
                        hint(name, (field for field in self.fields if field not in item))
                        or f"; there are {', '.join(self.fields)}"
                    )
                    raise PlaceError((number, name), f"is no field of an entry{known}")
                if not isinstance(text, str):
                    way_out = "; put it into quotes" if isinstance(text, int | float) else ""
                    raise PlaceError((number, name), f"must be a text, not {describe(text)}{way_out}")

    def _check_range(self, number: float) -> None:
        low, high = self.minimum, self.maximum
        if low is not None and high is not None and not low <= number <= high:
            raise ValueError(f"must be from {low:g} to {high:g}, not {number:g}")
        if low is not None and number < low:
            raise ValueError(f"must be at least {low:g}, not {number:g}")
        if high is not None and number > high:
            raise ValueError(f"must be at most {high:g}, not {number:g}")


Schema: TypeAlias = Sequence[Argument]


@dataclass(frozen=True, slots=True)
class ArgumentProblem:
    """A fault of one given argument; a warning refuses nothing. ``at``: the place inside its value."""

    key: str
    message: str
    severity: Severity = "error"
    at: Place = ()

    @property
    def path(self) -> str:
        """Return the key, with the place inside its value."""
        return self.key + written(self.at)


CheckFn: TypeAlias = Callable[[Mapping[str, Any]], Iterable[ArgumentProblem]]
"""Checks complete values together, after each one is right: the ``check_arguments`` of a plugin."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Every argument's value, given or default, and what was wrong with those given.

    A key with a problem has its default; keys of families are there when they were given.
    """

    values: dict[str, Any]
    problems: tuple[ArgumentProblem, ...] = ()


def check(owner: str, schema: Schema, given: Mapping[str, object], together: CheckFn | None = None) -> Checked:
    """Check given arguments of ``owner`` (as "plugin binpack") against its schema, and then ``together``.

    Checked arguments pass again unchanged, so plugin and loader may both check.
    """
    values = {argument.key: argument.default for argument in schema if not argument.is_prefix}
    problems: list[ArgumentProblem] = []
    for key, value in given.items():
        argument = find(schema, key)
        if argument is None:
            problems.append(ArgumentProblem(key, _unknown(owner, schema, key, given)))
            continue
        try:
            values[key] = argument.parse(value)
        except ValueError as error:
            at = error.at if isinstance(error, PlaceError) else ()
            message = f"{key}{written(at)} of {owner} {error}"
            lenient = ArgumentProblem(key, f"{message}; it counts as not given", "warning", at)
            problems.append(lenient if argument.lenient else ArgumentProblem(key, message, at=at))
    if together is not None:
        problems.extend(together(values))
    return Checked(values, tuple(problems))


def values_of(
    owner: str, schema: Schema, given: Mapping[str, object], together: CheckFn | None = None
) -> dict[str, Any]:
    """Return every argument's value. The first error is a ConfigError."""
    checked = check(owner, schema, given, together)
    for problem in checked.problems:
        if problem.severity == "error":
            raise ConfigError(f"arguments.{problem.path}", problem.message)
    return checked.values


def written(at: Place) -> str:
    """Return a place as it is written behind the key of its argument: ``[0].name``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{shortened(part)}" for part in at)


def find(schema: Schema, key: str) -> Argument | None:
    """Return what the schema states about a key: the argument of that name before any family."""
    family = None
    for argument in schema:
        if argument.key == key:
            return argument
        if family is None and argument.key.endswith("*") and argument.covers(key):
            family = argument
    return family


def hint(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" for a misspelt word, or nothing if no known word is near."""
    meant = nearest(word, known)
    return f"; did you mean {meant}?" if meant else ""


def describe(value: object) -> str:
    """Return a value as a user wrote it, short."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'the text "{shortened(value, 40)}"'
    if isinstance(value, int | float):
        return _digits(value)
    if isinstance(value, list | tuple):
        return "a list"
    return "a mapping" if isinstance(value, Mapping) else f"a {type(value).__name__}"


def _digits(number: float) -> str:
    if isinstance(number, int) and number.bit_length() >= 128:
        return "a very large number"
    return str(number) if isinstance(number, int) else f"{number:g}"


def _unknown(owner: str, schema: Schema, key: str, given: Container[str]) -> str:
    keys = [argument.key for argument in schema]
    if not keys:
        return f"{owner} takes no arguments, not even {shortened(key)}"
    begun = [argument.key[:-1] for argument in schema if argument.is_prefix]
    if key in begun:
        return f"{owner} has no argument {shortened(key)}; put a name behind it"
    free = (argument.key for argument in schema if not argument.is_prefix and argument.key not in given)
    meant = nearest(key, (*free, *(found for prefix in begun if (found := _with_prefix(key, prefix)) not in given)))
    return f"{owner} has no argument {shortened(key)}; " + (
        f"did you mean {meant}?" if meant else f"it has {', '.join(keys)}"
    )


def _with_prefix(key: str, prefix: str) -> str:
    """Return a key with a misspelt prefix, corrected."""
    parts, dots = key.split("."), prefix.count(".")
    begins, name = ".".join((*parts[:dots], "")), ".".join(parts[dots:])
    return f"{prefix}{name}" if 0 < len(name) <= _LONGEST_NAME and nearest(begins, (prefix,)) else ""


def _bool(value: object) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _int(value: object) -> int | None:
    if isinstance(value, str):
        return int(value) if _INT.fullmatch(value := value.strip()) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18 else None


def _float(value: object) -> float | None:
    if isinstance(value, str):
        value = float(value) if _FLOAT.fullmatch(value.strip()) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) >= 10**18 or math.isnan(value):
        return None
    return float(value)


def _string_or_none(value: object) -> str | None:
    """Return a string, or None for any other type."""
    return value if isinstance(value, str) else None


def _names(value: object) -> tuple[str, ...] | None:
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        return None
    return tuple(name.strip() for name in value if name.strip())


def _mappings(value: object) -> tuple[dict[str, object], ...] | None:
    if not isinstance(value, list | tuple):
        return None
    for number, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise PlaceError((number,), f"must be a mapping, not {describe(item)}")
    return tuple({str(name): text for name, text in item.items()} for item in value)


def _quantity(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text: str | int | float = value.strip() if isinstance(value, str) else value
    try:
        return None if parse(text) < 0 else str(text)
    except QuantityError:
        return None


def _percentage(value: object) -> Fraction | None:
    """Read a number exactly as it is written: a float counts as the text that YAML and JSON write for it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = repr(value)
    if isinstance(value, str):
        text = value.strip()
        value = Fraction(text) if len(text) <= _LONGEST_NUMBER and _FLOAT.fullmatch(text) else None
    return value if isinstance(value, Fraction) and 0 < value <= 100 else None


def _duration(value: object) -> float | None:
    """Read a duration as Go writes it, or a number of seconds."""
    seconds = seconds_of(value) if isinstance(value, str) else _float(value)
    return seconds if seconds is not None and 0 <= seconds < 10**18 else None


def _selector(value: object) -> LabelSelector | None:
    if isinstance(value, LabelSelector):
        return value
    if not isinstance(value, Mapping):
        return None
    for key in value:
        if key not in _SELECTOR_KEYS:
            meant = hint(str(key), (known for known in _SELECTOR_KEYS if known not in value))
            raise ValueError(f"has no key {shortened(str(key))}{meant}; {_SELECTOR_HAS}")
    try:
        selector = LabelSelector.parse(api.convert(api.as_json(value), api.LabelSelector), "")
    except FieldError as error:
        raise ValueError(f"is no selector: {error.path.lstrip('$.')}: {error.message}") from None
    if not all(selector.keys()):
        raise ValueError("is no selector: the key of a label must not be empty")
    return selector


def _shape(value: object) -> tuple[tuple[int, int], ...] | None:
    """Read the points of kube-scheduler's RequestedToCapacityRatio, as pairs."""
    if not isinstance(value, list | tuple):
        return None
    points = [_point(item) for item in value]
    return None if None in points else tuple(point for point in points if point is not None)


def _point(value: object) -> tuple[int, int] | None:
    if isinstance(value, Mapping) and value.keys() == {"utilization", "score"}:
        value = value["utilization"], value["score"]
    if not isinstance(value, tuple) or len(value) != len(_MOST_OF_POINT):
        return None
    numbers = [_int(number) for number in value]
    utilization, score = (
        number if number is not None and 0 <= number <= most else None
        for number, most in zip(numbers, _MOST_OF_POINT, strict=True)
    )
    return None if utilization is None or score is None else (utilization, score)


_MOST_OF_POINT = (100, 10)
_LONGEST_NUMBER = 100
_LONGEST_NAME = 317  # of a resource: a domain of 253 characters, a slash, and 63
_SELECTOR_KEYS = ("matchLabels", "matchExpressions")
_SELECTOR_HAS = "a selector has matchLabels and matchExpressions"
_PARSERS = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "str": _string_or_none,
    "names": _names,
    "quantity": _quantity,
    "percentage": _percentage,
    "duration": _duration,
    "selector": _selector,
    "shape": _shape,
    "mappings": _mappings,
}
