"""What a selector in CEL reads of a device, so that devices which agree in it need one answer.

A cluster has tens of thousands of devices and a dozen kinds of them, but each has a serial number of its own. What an
expression reads is found in its text: indices into attributes and capacities by literal names. Where there is anything
else (a loop over all attributes, a name that is computed), it is taken to read everything.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from volsched.model.dra.device import Device
from volsched.model.values.bounded import Weighed

Read = tuple[str, str, str]
"""``attributes`` or ``capacity``, the domain, and the name in it."""

_PARTS: Final = (
    r"""[rRbB]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")|//[^\n]*|\w+|\s+|."""
)
_LITERAL: Final = r"""'([^'\\\n]*)'|"([^"\\\n]*)\""""
_PLAIN: Final = ("driver", "allowMultipleAllocations")
_TABLES: Final = ("attributes", "capacity")


def tokens_of(expression: str) -> list[str]:
    """Return the literals, comments, names, spaces and signs of an expression, which make it up."""
    return re.findall(_PARTS, expression, re.DOTALL)


def words_of(expression: str) -> list[str]:
    """Return the tokens of an expression without spaces and comments."""
    return [token for token in tokens_of(expression) if not token.isspace() and not token.startswith("//")]


def reads_of(expression: str) -> tuple[Read, ...] | None:
    """Return what an expression reads beside the driver and whether a device is shared; None: everything."""
    known = _known.recall(expression)
    return (known or _known.keep(expression, (_reads_in(expression),)))[0]


_known: Final[Weighed[str, tuple[tuple[Read, ...] | None]]] = Weighed(1 << 17, len)
"""The answers about expressions of so many characters in all: tenants write them, of 10 KiB each."""


def _reads_in(expression: str) -> tuple[Read, ...] | None:
    words = words_of(expression)
    found: set[Read] = set()
    for place, word in enumerate(words):
        if word == "device":
            read = _read_at(words, place)
            if read is None:
                return None
            found |= read
    return tuple(sorted(found))


def _read_at(words: Sequence[str], place: int) -> set[Read] | None:
    """Return what is read by the use of ``device`` at a place, or None when that is not known."""
    if words[place + 1 : place + 2] != ["."] or words[place - 1 : place] == ["."]:
        return None
    table = "".join(words[place + 2 : place + 3])
    if table in _PLAIN:
        return set()
    domain = _index(words, place + 3)
    if table not in _TABLES or domain is None:
        return None
    name = _field(words, place + 6) or _index(words, place + 6)
    return None if name is None else {(table, domain, name)}


def _index(words: Sequence[str], place: int) -> str | None:
    """Return the literal in ``["literal"]``."""
    opening, *rest = [*words[place : place + 3], "", "", ""]
    literal = re.fullmatch(_LITERAL, rest[0])
    return literal[1] or literal[2] or "" if opening == "[" and rest[1] == "]" and literal else None


def _field(words: Sequence[str], place: int) -> str | None:
    """Return the name in ``.name``. A call is none."""
    dot, name, after = [*words[place : place + 3], "", "", ""][:3]
    return name if dot == "." and name.isidentifier() and after != "(" else None


def kind_of(device: Device, reads: Sequence[Read]) -> Hashable:
    """Return what two devices must agree in so that an expression which reads this has one answer for both."""
    driver = device.id.driver
    return (driver, device.shareable, *[_value(device, driver, *read) for read in reads])


def _value(device: Device, driver: str, table: str, domain: str, name: str) -> Hashable:
    known: Mapping[str, object] = device.attributes if table == "attributes" else device.capacity
    found = known.get(f"{domain}/{name}")
    if found is None and domain == driver:
        found = known.get(name)
    return type(found).__name__, found  # 1 and True are not the same here
