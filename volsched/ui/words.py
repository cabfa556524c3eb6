"""Texts of the cluster as the page shows them: names that break only where they may, and amounts in a useful order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from markupsafe import Markup, escape

MOST_REQUESTS: Final = 3
"""Resources of a request in a list."""

_BREAK: Final = re.compile(r"(?<=[-/._:])(?=[^-/._:])")
_AFTER_CARDS: Final = ("cpu", "memory")


def breakable(name: str) -> Markup:
    """Return a name as HTML that a browser may break after a dash, slash, dot, underscore or colon."""
    parts = Markup("<wbr>").join(escape(part) for part in _BREAK.split(name))
    return Markup("<bdi>{}</bdi>").format(parts)


def cards_first(requests: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the most telling resources of a request: cards, then cpu and memory, then others by name."""

    def place(name: str) -> tuple[bool, int, str]:
        return "/" not in name, _AFTER_CARDS.index(name) if name in _AFTER_CARDS else len(_AFTER_CARDS), name

    return [(name, requests[name]) for name in sorted(requests, key=place)[:MOST_REQUESTS]]
