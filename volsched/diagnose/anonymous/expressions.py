"""Selectors of devices (CEL) under other names.

An expression that only compares attributes of devices has its literals and the names of attributes replaced. Any other
one (a function on strings, a loop, a sum, a literal in a rare form) may read the text of a value; so it is evaluated
for each device here, each device gets an attribute with the result, and the expression becomes the question for that
attribute. If it ends with an error, the device lacks the attribute, and the question fails too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from volsched.diagnose.anonymous.names import Names
from volsched.framework.dra.reads import kind_of, reads_of, words_of
from volsched.framework.dra.selectors import compiled
from volsched.model.dra import api as dra
from volsched.model.dra.device import Device, DeviceId
from volsched.model.errors import QuantityError
from volsched.model.values.quantity import parse

DOMAIN: Final = "volsched.io"
NO_EXPRESSION: Final = "undeclared"
"""The replacement for an unreadable expression: it is refused, too."""

_LITERAL: Final = re.compile(r"""(?:'([^'\\\n]*)'|"([^"\\\n]*)")""")
_NUMBER: Final = re.compile(r"[0-9]\w*")
_MARKS: Final = frozenset(("(", ")", "[", "]", ",", ".", "!", "=", "&", "|", "<", ">", "?", ":", "-"))
_WORDS: Final = frozenset(("device", "true", "false", "null", "in", "has"))
_FIELDS: Final = ("attributes", "capacity", "driver", "allowMultipleAllocations")
_TABLES: Final = ("attributes", "capacity")
_MEMBERS: Final = frozenset(("isGreaterThan", "isLessThan", "compareTo", "sign", "asInteger", "isInteger"))
_QUANTITY, _SEMVER = "quantity", "semver"


class Expressions:
    """Gives expressions other texts, and devices the answers of those that cannot have one.

    ``devices`` are all that there are, by driver, pool and name.
    """

    def __init__(self, names: Names, devices: Iterable[Device]) -> None:
        self._names = names
        self._devices = {device.id: device for device in devices}
        self._drivers = {device.driver for device in self._devices}
        self._faulty: dict[str, bool] = {}
        self._asked: dict[str, int] = {}
        self._answers: dict[DeviceId, dict[str, dra.DeviceAttribute]] = {}

    def other(self, expression: str) -> str:
        """Return what stands in place of an expression."""
        if expression not in self._faulty:
            self._faulty[expression] = bool(compiled(expression).fault)
        if self._faulty[expression]:
            return NO_EXPRESSION
        try:
            return "".join(self._parts(words_of(expression)))
        except _LooksIntoTextError:
            return f'device.attributes["{DOMAIN}"].{self._question(expression)}'

    def answers(self, device: DeviceId) -> dict[str, dra.DeviceAttribute]:
        """Return the attributes that a device gets. Complete once all expressions have been given."""
        return self._answers.get(device, {})

    # -- comparisons ---------------------------------------------------------------------------------------------------

    def _parts(self, words: Sequence[str]) -> Iterator[str]:
        """Yield the words of a comparison as they are then."""
        place = 0
        while place < len(words):
            if words[place] == "device":
                known = list(self._of_device(words, place))
                yield "".join(known)
                place += len(known)
            elif words[place] in (_QUANTITY, _SEMVER):
                yield "".join(self._made(words[place : place + 4]))
                place += 4
            else:
                yield self._word(words, place)
                place += 1

    def _of_device(self, words: Sequence[str], place: int) -> Iterator[str]:
        """Yield ``device.attributes["domain"].name``, or what else follows the device, word by word."""
        dot, field, bracket, domain, end, *more = [*words[place + 1 : place + 9], *[""] * 8][:8]
        if dot != "." or field not in _FIELDS:
            raise _LooksIntoTextError
        yield from ("device", dot, field)
        if field not in _TABLES:
            return
        if (bracket, end, more[0]) != ("[", "]", ".") or not more[1].isidentifier() or more[2] == "(":
            raise _LooksIntoTextError
        yield from (bracket, f'"{self._names.domain(_text_of(domain))}"', end, ".", self._names.attribute(more[1]))

    def _made(self, words: Sequence[str]) -> Iterator[str]:
        """Yield ``quantity("1Gi")`` or ``semver("1.2.3")``."""
        kind, opening, literal, closing = [*words, *[""] * 4][:4]
        if (opening, closing) != ("(", ")"):
            raise _LooksIntoTextError
        text = _text_of(literal)
        yield from (kind, opening, f'"{_amount(text) if kind == _QUANTITY else self._names.semver(text)}"', closing)

    def _word(self, words: Sequence[str], place: int) -> str:
        word, before = words[place], words[place - 1] if place else ""
        if word in _WORDS:
            return f" {word} " if word == "in" else word
        if word in _MARKS or _NUMBER.fullmatch(word) or (word in _MEMBERS and before == "."):
            return word
        after = words[place + 1] if place + 1 < len(words) else ""
        if {before, after} & {"<", ">", "in", ":", "?", "."} or (before == "=" and words[place - 2] in ("<", ">")):
            raise _LooksIntoTextError
        text = _text_of(word)
        return f'"{self._names.domain(text) if text in self._drivers else self._names.card(text)}"'

    # -- answers -------------------------------------------------------------------------------------------------------

    def _question(self, expression: str) -> str:
        """Return the name of the attribute with the results of an expression. They are computed once."""
        name = f"selector{self._asked.setdefault(expression, len(self._asked) + 1)}"
        selector, reads = compiled(expression), reads_of(expression)
        known: dict[object, bool | str] = {}
        for device in self._devices.values():
            if name in self._answers.get(device.id, {}):
                break
            kind = device.id if reads is None else kind_of(device, reads)
            answer = known[kind] = known[kind] if kind in known else selector.select(device)
            if isinstance(answer, bool):
                self._answers.setdefault(device.id, {})[f"{DOMAIN}/{name}"] = dra.DeviceAttribute(flag=answer)
        return name


class _LooksIntoTextError(Exception):
    """The expression may be no mere comparison."""


def _text_of(literal: str) -> str:
    """Return the text of a plain literal."""
    found = _LITERAL.fullmatch(literal)
    if found is None:
        raise _LooksIntoTextError
    return found[1] or found[2] or ""


def _amount(text: str) -> str:
    try:
        parse(text)
    except QuantityError:
        raise _LooksIntoTextError from None
    return text
