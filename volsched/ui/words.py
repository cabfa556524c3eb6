"""Amounts and times of the cluster as lists and pages tell them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

MOST_REQUESTS: Final = 3
"""Resources of a request in a list."""

_AFTER_CARDS: Final = ("cpu", "memory")


def cards_first(requests: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the most telling resources of a request: cards, then cpu and memory, then others by name."""

    def place(name: str) -> tuple[bool, int, str]:
        return "/" not in name, _AFTER_CARDS.index(name) if name in _AFTER_CARDS else len(_AFTER_CARDS), name

    return [(name, requests[name]) for name in sorted(requests, key=place)[:MOST_REQUESTS]]


def until(at: float, now: float) -> str:
    """Return a time to come for people, in UTC, and how long it is until then; both in seconds since the epoch."""
    seconds = max(0, int(at - now))
    days, rest = divmod(seconds, 86400)
    hours, minutes = rest // 3600, rest % 3600 // 60
    left = f"{days} d {hours} h" if days else f"{hours} h {minutes} min" if hours else f"{minutes} min"
    return f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime(at))} UTC, in {left}"
