"""Unknown fields: a misspelt name silently removes a rule, as all readers skip it.

The known fields are in `schemas.json`, made from a real API server (see `tools.schemas`). A newer one may have more, so
an unknown field is a warning, unless `--strict` is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from volsched.framework.validation import Fault, Faults, Severity
from volsched.model.errors import nearest, shortened

UNKNOWN_FIELD: Final = "UnknownField"

MOST_FIELDS: Final = 20
"""Unknown fields that are named of one object."""

_LONGEST_NAME: Final = 100
"""The longest name that may be misspelt. No field of Kubernetes has more than 60."""

Step: TypeAlias = str | int | tuple[str]
"""A field, a place in a list, or a key of a map."""

Path: TypeAlias = "tuple[Path, Step] | None"
"""Where something stands, the innermost step outside: hardly a place is ever put into words."""

Part: TypeAlias = tuple[Any, str, Path]
"""A value inside an object, the name of its type, and where it stands."""


class Schemas(msgspec.Struct, frozen=True):
    """The known kinds by version, with their types if they are read.

    A type is the name of a part for each field: empty for fields without parts, after `[` for a list and `{` for a map.
    """

    kubernetes: Mapping[str, Sequence[str]]
    kinds: Mapping[str, str]
    types: Mapping[str, Mapping[str, str]]


@cache
def schemas() -> Schemas:
    """Return what the package's file states."""
    text = files("volsched.validation").joinpath("schemas.json").read_bytes()
    return msgspec.json.decode(text, type=Schemas)


def field_faults(raw: Mapping[str, Any], severity: Severity = "warning") -> Faults:
    """Yield faults for unknown fields of an object, the first few.

    Kinds with unknown fields have no faults. Takes any value that JSON or YAML can hold.
    """
    kind = f"{raw.get('apiVersion')} {raw.get('kind')}"
    unknown = _unknown(raw, schemas().kinds.get(kind, ""))
    for place, meant in islice(unknown, MOST_FIELDS):
        yield Fault(place, UNKNOWN_FIELD, f"unknown field{f'; did you mean {meant}?' if meant else ''}", severity)
    if next(unknown, None) is not None:
        yield Fault("", UNKNOWN_FIELD, f"has more than {MOST_FIELDS} unknown fields", severity)


def _unknown(raw: Any, shape: str) -> Iterator[tuple[str, str]]:
    """Yield the place of each unknown field, and the probable name. An object goes before its parts."""
    types = schemas().types
    left: list[Part] = [(raw, shape, None)]
    while left:
        value, shape, path = left.pop()
        below: list[Part] = []
        fields = types.get(shape)
        if fields is None:
            below.extend(_entries(value, shape, path))
        elif isinstance(value, Mapping):
            yield from _fields(value, fields, path, below)
        left.extend(reversed(below))


def _fields(
    value: Mapping[Any, Any], fields: Mapping[str, str], path: Path, below: list[Part]
) -> Iterator[tuple[str, str]]:
    """Yield the unknown fields of a value. The parts of a misspelt field are judged as if it was spelt rightly."""
    for key, inner in value.items():
        name, shape = key, fields.get(key)
        if shape is None:
            name = str(key)
            meant = (
                nearest(name, (field for field in fields if field not in value)) if len(name) <= _LONGEST_NAME else None
            ) or ""
            yield _text_of((path, name)), meant
            shape = fields.get(meant, "")
        if shape:
            below.append((inner, shape, (path, name)))


def _entries(value: Any, shape: str, path: Path) -> Iterator[Part]:
    """Yield what is in a list or a map, when the value is of its type."""
    inner = shape[1:]
    if shape.startswith("[") and isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield item, inner, (path, number)
    elif shape.startswith("{") and isinstance(value, Mapping):
        for key, item in value.items():
            yield item, inner, (path, (str(key),))


def _text_of(path: Path) -> str:
    steps = []
    while path is not None:
        path, step = path
        steps.append(_word(step))
    return "".join(reversed(steps)).removeprefix(".")


def _word(step: Step) -> str:
    if isinstance(step, tuple):
        return f"[{shortened(step[0], _LONGEST_NAME)}]"
    return f"[{step}]" if isinstance(step, int) else f".{shortened(step, _LONGEST_NAME)}"
