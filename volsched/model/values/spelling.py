"""Misspelt words, and the words that were meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the known word that a misspelt one was probably meant to be; ``likeness`` is from 0 to 1."""
    listed = list(known)
    folded = {name.casefold(): name for name in reversed(listed)}
    found = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=likeness)
    return folded[found[0]] if found else None
