"""Whole cards by name, as users write them: a JSON object in an annotation, such as ``{"NVIDIA-A100": 8}``.

Nothing here raises: a part that cannot be read is an error with its path beside the parts that can. Amounts come out in
milli-cards (a card is 1000), the unit of all extended resources.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from volsched.model.errors import FieldError, shortened
from volsched.model.values.quantity import MAX_AMOUNT

MILLI: Final = 1000
"""Milli-cards of one card."""

_LONGEST_NUMBER: Final = 4000
"""Digits; Python reads no longer ones."""


def entries(path: str, text: str) -> tuple[list[tuple[str, int]], list[FieldError]]:
    """Return names with milli-cards in the order of the text, and what is wrong. Blank text states nothing.

    A bad amount counts as 0 and is an error of its entry; of equal names the last one counts. A text that is no JSON
    object has no entries.
    """
    if not text.strip():
        return [], []
    try:
        read = json.loads(text, parse_int=_integer, parse_constant=_Constant)
    except (ValueError, RecursionError) as error:
        message = getattr(error, "msg", "") or "it is nested too deep"
        where = f" at line {error.lineno} column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return [], [FieldError(path, f"is not JSON{where}: {message}")]
    if read is None:
        return [], []
    if not isinstance(read, dict):
        return [], [FieldError(path, f'must be a JSON object of cards, as {{"NVIDIA-A100": 8}}, not {_shown(read)}')]
    found: dict[str, int] = {}
    errors: list[FieldError] = []
    for name, value in read.items():
        problem = _problem(value)
        found[name] = 0 if problem else min(value, MAX_AMOUNT // MILLI) * MILLI
        if problem:
            errors.append(FieldError(at(path, name), problem))
    return list(found.items()), errors


def at(path: str, name: str) -> str:
    """Return the path of one entry. Odd characters of its name are escaped."""
    return f"{path}[{json.dumps(shortened(name))}]"


def is_plain(name: str) -> bool:
    """True if a name can be that of a card: not empty, and of visible characters."""
    return bool(name) and name.isprintable()


def whole(amount: int) -> int:
    """Return the whole cards of an amount in milli-cards."""
    return amount // MILLI


def whole_up(amount: int) -> int:
    """Return an amount in milli-cards rounded up to whole cards."""
    return -(-amount // MILLI) * MILLI


def names_in(text: str) -> tuple[str, ...]:
    """Split a list ``A|B`` into its names: trimmed, empty ones dropped, the first of equal ones kept."""
    return tuple(dict.fromkeys(_trimmed(text)))


def joined(names: tuple[str, ...]) -> str:
    """Return the list that names make, as it is written."""
    return "|".join(names)


def _trimmed(text: str) -> Iterator[str]:
    return (name for part in text.split("|") if (name := part.strip()))


def _problem(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"must be a whole number of cards, not {_shown(value)}"
    if value < 0:
        return f"must not be negative ({_shown(value)})"
    return ""


class _Constant:
    """NaN or an infinity, which JSON does not have and Python reads."""

    def __init__(self, name: str) -> None:
        self.name = name


def _integer(digits: str) -> int:
    return int(digits[:_LONGEST_NUMBER])


def _shown(value: Any) -> str:
    if isinstance(value, _Constant):
        return value.name
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return "a very long number"
    return shortened(json.dumps(value), 60)
