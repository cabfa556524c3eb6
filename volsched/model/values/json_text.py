"""Decodes JSON of others, however deep it is nested.

The API server keeps objects that are nested ten thousand levels deep (in free-form fields: parameters of a claim's
driver, templates of a Volcano Job, policies of a PodGroup). Decoders recurse, and give up at about a thousand levels.
volsched reads nothing below some twenty. So a text that is too deep is cut, and decoded then.

A cut value is not made up: `api.as_json` refuses everything that is nested deeper than ``MOST_LEVELS``, and a text is
cut only below that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, overload

import msgspec

MOST_LEVELS: Final = 64
"""Objects and lists inside one another that are looked at. The deepest field that is read, a label of the pod affinity
of a task of a Volcano Job, is at 17."""

_KEPT_LEVELS: Final = 2 * MOST_LEVELS
"""The levels that stay of a cut text: those that are read, and a few around the object."""

_CUT: Final = b"null"

_TOKENS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{]|[\]}]', re.DOTALL)

_STRINGS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))

T = TypeVar("T")


@overload
def decode(text: bytes | str) -> Any: ...


@overload
def decode(text: bytes | str, kind: type[T]) -> T: ...


def decode(text: bytes | str, kind: Any = Any) -> Any:
    """Return the value of a JSON text as such a type. Raises DecodeError and ValidationError of msgspec."""
    return decode_by(partial(msgspec.json.decode, type=kind), text)


def decode_by(decoder: Callable[[bytes | str], T], text: bytes | str) -> T:
    """Return the result of a msgspec decoder for a JSON text, however deep it is nested. Raises its errors.

    In a text that is no JSON, the part that is nested too deep cannot be found: that is a DecodeError as any other.
    """
    try:
        return decoder(text)
    except RecursionError:
        pass
    try:
        return decoder(cut(text))
    except RecursionError:
        raise msgspec.DecodeError("JSON is malformed, and nested too deep") from None


def is_deeper(text: bytes, levels: int) -> bool:
    """True if JSON text has more objects and lists inside one another; fast for wide and flat texts."""
    brackets = _STRINGS.sub(b"", text).translate(None, _NO_BRACKETS)
    for _ in range(levels // 2):  # each turn takes off one level, or two
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets) and _depth(text) > levels


def _depth(text: bytes) -> int:
    depth = deepest = 0
    for token in _TOKENS.finditer(text):
        mark = text[token.start()]
        depth += (mark in b"[{") - (mark in b"]}")
        deepest = max(deepest, depth)
    return deepest


def cut(text: bytes | str) -> bytes:
    """Return JSON text with null in place of values that are nested too deep for a decoder; linear in the text."""
    whole = text.encode() if isinstance(text, str) else text
    kept: list[bytes] = []
    depth = written = cut_from = 0
    for token in _TOKENS.finditer(whole):
        mark = whole[token.start()]
        if mark in b"[{":
            depth += 1
            if depth == _KEPT_LEVELS + 1:
                cut_from = token.start()
        elif mark in b"]}":
            if depth == _KEPT_LEVELS + 1:
                kept += (whole[written:cut_from], _CUT)
                written = token.end()
            depth -= 1
    return b"".join((*kept, whole[written:]))
