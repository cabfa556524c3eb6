"""Amounts and times of the cluster as lists and pages tell them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from volsched.diagnose.records import Short
from volsched.ui.history import number

MOST_REQUESTS: Final = 3
"""Resources of a request in a list."""

_AFTER_CARDS: Final = ("cpu", "memory")


def cards_first(requests: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the most telling resources of a request: cards, then cpu and memory, then others by name."""

    def place(name: str) -> tuple[bool, int, str]:
        return "/" not in name, _AFTER_CARDS.index(name) if name in _AFTER_CARDS else len(_AFTER_CARDS), name

    return [(name, requests[name]) for name in sorted(requests, key=place)[:MOST_REQUESTS]]


def expected(at: float, now: float) -> str:
    """Return a time to come for people, in UTC, and how long it is until then; both in seconds since the epoch."""
    seconds = max(0, int(at - now))
    days, rest = divmod(seconds, 86400)
    hours, minutes = rest // 3600, rest % 3600 // 60
    left = f"{days} d {hours} h" if days else f"{hours} h {minutes} min" if hours else f"{minutes} min"
    return f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime(at))} UTC, in {left}"


class ShortBar(NamedTuple):
    """The lengths of the parts of a bar, in percent: what is used, what is needed beside it, and the limit."""

    used: float
    need: float
    limit: float


def short_bar(short: Short) -> ShortBar:
    """Return a shortage as the lengths of a bar, as long as the larger of limit and demand."""
    used, need, limit = number(short.used), number(short.requested), number(short.limit)
    whole = max(used + need, limit) or 1.0
    return ShortBar(*(round(100 * amount / whole, 1) for amount in (used, need, limit)))


def share(short: Short) -> str:
    """Return in words whose amounts are short."""
    named = f"queue {short.name}" if short.name else "its queue"
    return {"queue": named, "nodes": "all nodes together", "node": "a node"}.get(short.of, "admitted jobs")
