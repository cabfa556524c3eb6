"""Random inputs for everything that reads what users write: objects by the shape of their structs, and texts.

What is generated depends on the name of an input alone (`Maker.begin`), so every input can be made again. Objects are
made from the structs that they are decoded into: a field that is added to one is tried from then on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import inspect

from drills.fuzz_words import DICTIONARIES, KEYS, LISTS_OF_CARDS, ODD_TEXTS, QUANTITIES, RESOURCES, SELECTORS, TEXTS

T = TypeVar("T")

Make: TypeAlias = Callable[[int], Any]
"""From how deep a value lies to the value."""

NUMBERS: Final = (
    *(
        0,
        1,
        2,
        3,
        -1,
        8,
        63,
        64,
        100,
        1000,
        65535,
        2**31 - 1,
        2**31,
        -(2**31),
        2**53,
        2**62,
        2**63 - 1,
        2**63,
        -(2**63),
    ),
    *(2**64, 10**18, 10**30, 10**400, 0.5, -0.5, 1e-9, 1e18, 1e308, float(2**53), float("inf"), float("nan")),
)
"""Whole numbers at the edges of machine words, and what Python's JSON reads and others do not."""

_DEEPEST: Final = 7
_ODD_LETTERS: Final = "\x00\x07\t\n\r \"'\\{}[](),:;|/.-_+*?%&#@!~^$<>=ä日\u202e\u200b\ufeff\U0001f600eE0159aZkKmMiGn"


class Maker:
    """Makes values from a seed. `spoil` is the part of the values of an object that are of another type than meant."""

    def __init__(self) -> None:
        self.random = Random()
        self.spoil = 0.0
        self._shapes: dict[Any, Make] = {}
        self._fields = 0.3

    def begin(self, name: str) -> None:
        """Begin an input: what is made from now on depends on its name alone."""
        self.random.seed(name)
        draw = self.random.random()
        self.spoil = 0.0 if draw < 0.5 else 0.02 if draw < 0.85 else 0.15
        self._fields = 0.15 if self.random.random() < 0.6 else 0.5

    # -- draws

    def chance(self, part: float) -> bool:
        """Return true in this part of all cases."""
        return self.random.random() < part

    def one_of(self, listed: Sequence[T]) -> T:
        """Return one of these."""
        return listed[int(self.random.random() * len(listed))]

    def count(self, most: int) -> int:
        """Return how many there are of something: few, most of the time."""
        return int(self.random.random() ** 2 * (most + 1))

    # -- values

    def text(self, name: str = "") -> str:
        """Return a text as it may stand in a field of this name."""
        words = TEXTS.get(name) or TEXTS[""]
        draw = self.random.random()
        if draw < 0.001:
            return self.long(self.one_of(words))
        if draw < 0.8:
            return self.one_of(words)
        if draw < 0.9:
            return self.one_of(ODD_TEXTS)
        return self.changed(self.one_of(words))

    def long(self, text: str) -> str:
        """Return a text in which something is said again and again, as long as the API server takes it."""
        again = self.one_of(
            (text, self.one_of(_ODD_LETTERS), self.one_of(QUANTITIES[:40]), "9", " ", "a", "[", '{"a":', "a,")
        )
        many = again * (self.one_of((2_000, 20_000, 200_000)) // (len(again) or 1))
        return self.one_of(("", text)) + many + self.one_of(("", "x", "\n", text))

    def number(self) -> Any:
        """Return a number."""
        draw = self.random.random()
        if draw < 0.5:
            return self.count(12)
        return self.one_of(NUMBERS) if draw < 0.9 else self.random.randint(-(2**40), 2**40)

    def whole(self) -> int:
        """Return a whole number that the API server would take."""
        return self.count(9) if self.chance(0.8) else self.one_of((0, -1, 2**31 - 1, 2**63 - 1, -(2**63)))

    def quantity(self) -> Any:
        """Return what may stand for an amount."""
        draw = self.random.random()
        if draw < 0.7:
            return self.one_of(QUANTITIES)
        return self.number() if draw < 0.85 else self.changed(self.one_of(QUANTITIES))

    def anything(self, deep: int = 0) -> Any:
        """Return any value that JSON can hold."""
        draw = self.random.random()
        if deep < _DEEPEST and draw < 0.3:
            if draw < 0.15:
                return [self.anything(deep + 1) for _ in range(self.count(4))]
            return {self.text(): self.anything(deep + 1) for _ in range(self.count(4))}
        if draw < 0.32:
            return self.nested(self.one_of((20, 62, 66, 90, 120)))
        if draw < 0.33:
            return [self.text()] * 200
        if draw < 0.5:
            return self.one_of((None, True, False, "", [], {}))
        return self.number() if draw < 0.75 else self.text(self.one_of(KEYS))

    def nested(self, levels: int) -> Any:
        """Return a value with so many levels."""
        value: Any = self.one_of((None, 1, "x", {}, []))
        for _ in range(levels):
            value = [value] if self.chance(0.3) else {"a": value}
        return value

    # -- objects

    def object(self, kind: Any) -> Any:
        """Return a tree of the shape of a struct, now and then with something else in some places."""
        return self.shape(kind)(0)

    def shape(self, kind: Any) -> Make:
        """Return what makes trees of a type, kept by it."""
        if kind not in self._shapes:
            self._shapes[kind] = self._compiled(inspect.type_info(kind), "")
        return self._shapes[kind]

    def spoilt(self, tree: Any) -> Any:
        """Return the tree with another value at some place; the tree itself is changed."""
        for _ in range(1 + self.count(2)):
            place = self._place(tree)
            if place is None:
                return self.anything()
            inside, key = place
            inside[key] = self.anything()
        return tree

    def _place(self, tree: Any) -> tuple[Any, Any] | None:
        found = None
        while isinstance(tree, dict | list) and tree:
            key: Any = self.one_of(list(tree)) if isinstance(tree, dict) else int(self.random.random() * len(tree))
            found = tree, key
            tree = tree[key]
            if self.chance(0.2):
                break
        return found

    def _compiled(self, said: inspect.Type, name: str) -> Make:
        """Return what makes values of a type for a field of this name."""
        if isinstance(said, inspect.StructType):
            return self._struct(said)
        if isinstance(said, inspect.UnionType):
            return self._union(said, name)
        if isinstance(said, inspect.DictType):
            return self._mapping(said, name)
        if isinstance(said, inspect.VarTupleType | inspect.ListType):
            return self._list(self._compiled(said.item_type, name), name)
        return self._plain(said, name)

    def _plain(self, said: inspect.Type, name: str) -> Make:
        if isinstance(said, inspect.StrType):
            return self._cel if name == "expression" else lambda _: self.text(name)
        if isinstance(said, inspect.IntType):
            return lambda _: self.whole()
        if isinstance(said, inspect.BoolType):
            return lambda _: self.chance(0.5)
        return self.anything

    def _cel(self, _: int) -> str:
        return self.selector()

    def selector(self) -> str:
        """Return an expression in CEL, or nearly one."""
        text = self.one_of(SELECTORS)
        draw = self.random.random()
        if draw < 0.3:
            return text
        if draw < 0.5:
            return f"{text} {self.one_of(('&&', '||', '+', '==', '?', '.', ','))} {self.one_of(SELECTORS)}"
        return self.changed(text)

    def _struct(self, said: inspect.StructType) -> Make:
        fields: list[tuple[str, Make]] = []
        known = self._shapes.setdefault(said.cls, lambda deep: self._filled(fields, deep))
        if not fields:
            fields.extend((field.encode_name, self._compiled(field.type, field.encode_name)) for field in said.fields)
        return known

    def _filled(self, fields: Sequence[tuple[str, Make]], deep: int) -> Any:
        draw, part = self.random.random, 0.8 if deep < 1 or len(fields) < 5 else self._fields / (1 + deep / 6)
        if self.spoil:
            return {
                name: make(deep + 1) if draw() >= self.spoil else self.anything(deep)
                for name, make in fields
                if draw() < part
            }
        return {name: make(deep + 1) for name, make in fields if draw() < part}

    def _union(self, said: inspect.UnionType, name: str) -> Make:
        others = [one for one in said.types if not isinstance(one, inspect.NoneType)]
        has_none = len(others) < len(said.types)
        make = self._compiled(others[0], name) if len(others) == 1 else lambda _: self.quantity()
        return (lambda deep: None if self.chance(0.05) else make(deep)) if has_none else make

    def _list(self, make: Make, name: str) -> Make:
        most = 2 if name in ("containers", "tasks", "devices") else 3
        return lambda deep: [make(deep + 1) for _ in range(self.count(most))]

    def _mapping(self, said: inspect.DictType, name: str) -> Make:
        pairs = DICTIONARIES.get(name)
        if pairs is not None:
            return lambda _: self.texts(pairs)
        make = self._compiled(said.value_type, name)
        keys = RESOURCES if isinstance(said.value_type, inspect.UnionType) else TEXTS[""]
        return lambda deep: {self.one_of(keys): make(deep + 1) for _ in range(self.count(4))}

    def texts(self, pairs: Sequence[tuple[str, Sequence[str]]]) -> dict[str, str]:
        """Return annotations or labels: keys that somebody reads, with what is meant there or with something else."""
        found = {}
        for _ in range(self.count(5)):
            key, values = self.one_of(pairs)
            draw = self.random.random()
            value = self.one_of(values) if draw < 0.6 else self.changed(self.one_of(values))
            found[key if draw < 0.97 else self.changed(key)] = value if draw < 0.9 else self.text()
        return found

    # -- texts

    def changed(self, text: str) -> str:
        """Return a text with some letters more, less or others, with a part twice, or with a part of another text."""
        for _ in range(1 + self.count(3)):
            at = int(self.random.random() * (len(text) + 1))
            draw = self.random.random()
            if draw < 0.35:
                text = text[:at] + self.one_of(_ODD_LETTERS) + text[at:]
            elif draw < 0.6:
                text = text[:at] + text[at + 1 + self.count(5) :]
            elif draw < 0.75:
                text = text[:at] + self.one_of(_ODD_LETTERS) + text[at + 1 :]
            elif draw < 0.85:
                end = at + self.count(12)
                text = text[:at] + text[at:end] * self.one_of((2, 3, 40)) + text[end:]
            elif draw < 0.97:
                text = text[:at] + self.one_of(self.one_of((ODD_TEXTS, QUANTITIES, LISTS_OF_CARDS))) + text[at:]
            else:
                text = text[:at] + self.one_of(("[", '{"a":', "(", "!", "-")) * self.one_of((70, 700)) + text[at:]
        return text

    def json(self, tree: Any) -> bytes:
        """Return a tree as JSON text, most of the time as it should be written."""
        text = json.dumps(tree, ensure_ascii=self.chance(0.5))
        draw = self.random.random()
        if draw < 0.2:
            text = self.changed(text)
        elif draw < 0.23:
            text = self.with_deep_part(text)
        elif draw < 0.25:
            text = text.replace(self.one_of("aegint"), self.one_of(("\\ud800", "\\udfff", "\\ud83d\\ude00")), 1)
        written = text.encode()
        return written if draw < 0.97 else self._broken(written)

    def with_deep_part(self, text: str) -> str:
        """Return JSON with a value in it that is nested deeper than decoders go."""
        at = text.find(":", int(self.random.random() * len(text)))
        levels = self.one_of((100, 500, 1500, 4000))
        opening, closing = self.one_of((('{"a":', "}"), ("[", "]")))
        deep = opening * levels + "1" + closing * self.one_of((levels, levels, levels - 1, 0))
        return f'{text[: at + 1]}{deep},"z":{text[at + 1 :]}' if at >= 0 else deep

    def _broken(self, written: bytes) -> bytes:
        at = int(self.random.random() * (len(written) + 1))
        return written[:at] + self.one_of((b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x00", b"\xef\xbb\xbf")) + written[at:]


def copied(tree: Any) -> Any:
    """Return a copy of a tree."""
    return msgspec.json.decode(msgspec.json.encode(tree))
