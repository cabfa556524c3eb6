"""Reads the documents of a text, as kubectl reads YAML and JSON.

A time stays a text, and a number without a fraction, as 3.0, is a whole one. Of a key that is given twice the last
value counts, and its place is reported.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from volsched.model.errors import shortened

Step: TypeAlias = str | int
"""The key of a mapping, or the place in a list, from 0."""

_BETWEEN: Final = re.compile(r"\s*(?P<apart>(^---\s+)+)?", re.MULTILINE)
"""The text before a document of JSON, and between two: nothing, or the separators of YAML."""

_ANCHOR: Final = r"(?:^|[\s\[{,:?\ufeff-])&([^\s\[\]{},&*])"
_ALIAS: Final = r"(?:^|[\s\[{,:?\ufeff-])\*([^\s\[\]{},&*])"
"""Where an anchor and an alias may stand, and how their names begin."""

_MOST_BITS: Final = 1024
"""Of a whole number: ten times what any field takes."""

_LARGEST: Final = 1e15
"""Below this every integer is a number of its own."""

MOST_REPEATED: Final = 100_000
MOST_TIMES: Final = 10
"""The most values of a document by its aliases, as a multiple of those that are written in it."""

MOST_LEVELS: Final = 500
"""The deepest nesting of a YAML document. libyaml follows it on the stack, which ends at some 20,000 levels.

The process would end there; readers of objects take far fewer.
"""

_MERGE: Final = "tag:yaml.org,2002:merge"


class Twice(NamedTuple):
    """A duplicate key: its path, and its line in the text from 1 (0 if not known, as in JSON)."""

    path: tuple[Step, ...]
    line: int

    @property
    def field(self) -> str:
        """Return the path as a field of an object is written."""
        return "".join(map(_written, self.path)).removeprefix(".")

    @property
    def message(self) -> str:
        """Return the message about it."""
        again = f", again in line {self.line}" if self.line else ""
        return f"is given twice{again}; the last value counts"


class Parsed(NamedTuple):
    """The value of one document, and which keys in it are given twice."""

    value: Any
    twice: tuple[Twice, ...] = ()


def parsed(text: str) -> Iterator[Parsed]:
    """Yield the value of each document of a text. Raises various errors for a text that is neither YAML nor JSON.

    Documents of JSON may follow each other without a separator, as outputs of kubectl do in one file. Other text, also
    behind a document of JSON, is YAML.
    """
    at, is_apart = _after(text, 0)[0], True
    while text.startswith(("{", "["), at):
        try:
            document, end = _of_json(text, at)
        except json.JSONDecodeError:
            if is_apart:
                break  # YAML in its flow style
            raise
        yield document
        at, is_apart = _after(text, end)
    line = text.rfind("\n", 0, at) + 1
    at = line if text[line:at].isspace() else at  # as far in as its other lines
    yield from _of_yaml("\n" * text.count("\n", 0, at) + text[at:] if at else text)


def _after(text: str, end: int) -> tuple[int, bool]:
    """Return where the next document may begin, and whether a YAML separator precedes it."""
    found = _BETWEEN.match(text, end)
    return (found.end(), found["apart"] is not None) if found else (end, False)


def _written(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f"[{shortened(step)}]" if set(step) & set("./[]") else f".{shortened(step)}"


# --- JSON -----------------------------------------------------------------------------------------------------------


class _Doubled(NamedTuple):
    """A mapping, or its node, with repeated keys and their lines. It stays alive for its id."""

    mapping: Any
    keys: list[tuple[str, int]]


def _of_json(text: str, at: int) -> tuple[Parsed, int]:
    """Return the document that begins at a place of a text, and where it ends."""
    doubled: dict[int, _Doubled] = {}

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            again = [key for key, times in Counter(key for key, _ in pairs).items() if times > 1]
            doubled[id(made)] = _Doubled(made, [(key, 0) for key in again])
        return made

    reader = json.JSONDecoder(object_pairs_hook=mapping, parse_float=lambda number: _whole(float(number)))
    value, end = reader.raw_decode(text, at)
    return Parsed(value, tuple(_located(value, _parts_of_value, doubled))), end


def _parts_of_value(value: Any) -> Iterable[tuple[Step, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


# --- YAML -----------------------------------------------------------------------------------------------------------


class _DocumentLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # whichever of two there is
    """YAML without times, which stay texts. It notes keys that are given twice."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in the base class
        first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        self.doubled: dict[int, _Doubled] = {}
        self._merged: set[int] = set()
        self._levels = 0
        super().__init__(text)

    def descend_resolver(self, current_node: yaml.Node | None, current_index: Any) -> None:
        """Refuse a document that is nested too deep: this is called for each node before its children."""
        self._levels += 1
        if self._levels > MOST_LEVELS:
            raise yaml.composer.ComposerError(None, None, f"is nested deeper than {MOST_LEVELS} levels")

    def ascend_resolver(self) -> None:
        """Leave a node."""
        self._levels -= 1

    def begin(self) -> None:
        """Forget the document before."""
        self.doubled.clear()
        self._merged.clear()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Note repeated keys, before `<<` takes in those of other mappings."""
        if id(node) not in self._merged:
            self._note_doubled(node)
        super().flatten_mapping(node)

    def _note_doubled(self, node: yaml.MappingNode) -> None:
        seen: set[str] = set()
        again: list[tuple[str, int]] = []
        for key, _ in node.value:
            if key.tag == _MERGE:
                self._merged.add(id(node))
            elif isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    again.append((key.value, key.start_mark.line + 1))
                seen.add(key.value)
        if again:
            self.doubled[id(node)] = _Doubled(node, again)


def _float(loader: _DocumentLoader, node: yaml.ScalarNode) -> float:
    return _whole(loader.construct_yaml_float(node))


def _int(loader: _DocumentLoader, node: yaml.ScalarNode) -> int:
    number: int = loader.construct_yaml_int(node)
    if number.bit_length() > _MOST_BITS:  # Python does not write thousands of digits, and messages write numbers
        raise yaml.constructor.ConstructorError(None, None, "a number has too many digits", node.start_mark)
    return number


_DocumentLoader.add_constructor("tag:yaml.org,2002:float", _float)
_DocumentLoader.add_constructor("tag:yaml.org,2002:int", _int)


def _of_yaml(text: str) -> Iterator[Parsed]:
    loader = _DocumentLoader(text)
    has_aliases = _may_have_aliases(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if has_aliases:
                _check_aliases(node)
            loader.begin()
            value = loader.construct_document(node)
            yield Parsed(value, tuple(_located(node, _parts_of_node, loader.doubled)))
    finally:
        loader.dispose()


def _may_have_aliases(text: str) -> bool:
    """True if there may be an alias, and an anchor that begins like it. `a && b` and `*/5 * * * *` are none."""
    return "&" in text and not {*re.findall(_ANCHOR, text)}.isdisjoint(re.findall(_ALIAS, text))


def _check_aliases(root: yaml.Node) -> None:
    """Raise yaml.YAMLError if a document stands for far more than is written: ten aliases of ten, and so on.

    A list that contains itself counts once here; it is nested too deep for all readers.
    """
    sizes: dict[int, int] = {}
    left: list[tuple[yaml.Node, bool]] = [(root, False)]
    while left:
        node, is_counted = left.pop()
        if is_counted:
            inner = sum(sizes[id(part)] for part in _inside(node))
            sizes[id(node)] = min(1 + inner, _ENDLESS)
        elif id(node) not in sizes:
            sizes[id(node)] = 1
            left.append((node, True))
            left.extend((part, False) for part in _inside(node))
    if sizes[id(root)] > max(MOST_REPEATED, MOST_TIMES * len(sizes)):
        problem = f"has {len(sizes)} values, and aliases that make far more of them"
        raise yaml.constructor.ConstructorError(None, None, problem, root.start_mark)


_ENDLESS: Final = 10**12


def _inside(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _parts_of_node(node: yaml.Node) -> Iterable[tuple[Step, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        return [(str(key.value), value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
    return enumerate(node.value) if isinstance(node, yaml.SequenceNode) else ()


def _whole(number: float) -> float:
    """Return a number without a fraction as an integer, as kubectl sends it to the API server."""
    return int(number) if abs(number) < _LARGEST and number.is_integer() else number


# --- both -----------------------------------------------------------------------------------------------------------


def _located(
    root: Any, parts: Callable[[Any], Iterable[tuple[Step, Any]]], doubled: Mapping[int, _Doubled]
) -> Iterator[Twice]:
    """Yield the places of repeated keys, outer ones first. Each part is looked at once."""
    left: deque[tuple[Any, tuple[Step, ...]]] = deque([(root, ())])
    seen: set[int] = set()
    while left and not doubled.keys() <= seen:
        part, path = left.popleft()
        if id(part) in seen:  # YAML can put a list into itself
            continue
        seen.add(id(part))
        if id(part) in doubled:
            yield from (Twice((*path, key), line) for key, line in doubled[id(part)].keys)
        left.extend((inner, (*path, step)) for step, inner in parts(part))
