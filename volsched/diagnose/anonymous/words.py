"""Replacements of texts, word by word, so that order stays: texts sort alike before and after.

A text is cut at characters that sort before all digits and letters (space to ``/``), and these stay. The parts between
them are words, and each word becomes another one, the same everywhere. So a composed name (a pod of its job, a key of a
domain) is composed of the other names afterwards. Addresses and uids are one word.

Other words sort among themselves as the words did, and beside words that stay (``fixed``) as they did, too: each begins
like a text that sorts between the two fixed ones around the word.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Final, NamedTuple

_PIECE: Final = re.compile(
    r"""
    (?P<whole>(?<![^\x00-/])
        (?:[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}
        |[0-9]{1,3}(?:-[0-9]{1,3}){3}(?!-?[0-9])
        |[0-9]+(?:\.[0-9]+){2,}(?:/[0-9]+)?)
    (?![^\x00-/]))
    |(?P<between>[\x00-/]+)
    |(?P<word>[^\x00-/]+)
    """,
    re.VERBOSE,
)
"""``whole``: a uid, or an address, whose numbers may have dots or dashes between them."""

_FILLERS: Final = ("", *ascii_lowercase)

Keeps = Callable[[str], bool]


class Piece(NamedTuple):
    """A part of a text. ``stays`` whether it may be read afterwards as it is."""

    text: str
    stays: bool


def nothing(_: str) -> bool:
    """Keep no word."""
    return False


def pieces(text: str, keeps: Keeps = nothing) -> Iterator[Piece]:
    """Yield the parts of a text. ``keeps`` tells which words stay."""
    for match in _PIECE.finditer(text):
        part, kind = match.group(), match.lastgroup
        yield Piece(part, kind == "between" or (kind == "word" and keeps(part)))


class Words:
    """Gathers words as texts go through ``other``, which are returned as they are; once ``settled``, others."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._fixed: set[str] = set()
        self._others: dict[str, str] | None = None

    def other(self, text: str, keeps: Keeps = nothing) -> str:
        """Return the other text."""
        others = self._others
        if others is not None:
            return "".join(part.text if part.stays else others[part.text] for part in pieces(text, keeps))
        for part in pieces(text, keeps):
            (self._fixed if part.stays else self._seen).add(part.text)
        return text

    def keep(self, text: str) -> str:
        """Return a text that stays. Others are placed beside its words."""
        if self._others is None:
            self._fixed.update(part.text for part in pieces(text))
        return text

    def settle(self) -> None:
        """Give each word that was gathered another one."""
        fixed = sorted(word for word in self._fixed if _begins_a_word(word))
        found = sorted(self._seen)
        starts = self._starts(fixed, found)
        width = len(str(len(found)))
        for filler in _FILLERS:
            others = {
                word: f"{_lettered(starts[word], filler)}{number:0{width}}" for number, word in enumerate(found, 1)
            }
            if self._seen.isdisjoint(others.values()):
                break
        self._others = {word: other + "-x" * word.count("-") for word, other in others.items()}

    def _starts(self, fixed: list[str], found: list[str]) -> dict[str, str]:
        """Return for each word how its other one begins."""
        gaps = ["", *fixed]
        known: dict[int, str] = {}
        starts = {}
        for word in found:
            place = bisect_right(fixed, word)
            if place not in known:
                known[place] = between(gaps[place], fixed[place] if place < len(fixed) else None)
            starts[word] = known[place]
        return starts


def _begins_a_word(text: str) -> bool:
    return text[:1] > "/"


def _lettered(start: str, filler: str) -> str:
    return start + filler if filler or start[-1:].isalpha() else f"{start}n"


def between(low: str, high: str | None) -> str:
    """Return a short text such that it, and all that begin like it, sort between two; None: there is no upper one.

    It is of small letters where that can be, as most names have no others.
    """
    if not low and high is None:
        return "n"
    longest = max(len(low), len(high or "")) + 1
    for letters in (ascii_lowercase, ascii_uppercase, digits):
        for length in range(longest):
            for start in (low[:length], (high or "")[:length]):
                for letter in letters if len(start) == length else "":
                    found = start + letter
                    if found > low and (high is None or (found < high and not high.startswith(found))):
                        return found
    return f"{low}n"
