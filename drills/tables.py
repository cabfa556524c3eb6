"""Which tables of `volsched_memory_objects` keep what is gone, and how much (docs/memory.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BOUNDED: Final[Mapping[str, int]] = {
    "views.gone": 16_384,
    "holdings.specs": 8_192,
    "binder.refusals": 16_384,
    "events.said": 16_384,
    "events.waiting": 65_536,
    "store.seeds": 10_000,
    "store.tombstones": 4_096,
    "mirror.events": 8_192,
}
"""So many entries at most."""

SWEPT: Final[Mapping[str, int]] = {"mirror.templates": 64, "mirror.remembered": 64}
"""Swept as pods come and go: so many entries, or as many as there are pods, may be there beforehand."""

KINDS: Final = frozenset({"requests.series", "binder.waits"})
"""An entry for each of what there are only so many kinds of."""

BY_TEMPLATE: Final = ("accounts.", "decisions.")
MOST_BY_TEMPLATE: Final = 30_000
"""The engine and the accounts of plugins remember up to 10,000 templates in each of two or three tables."""


def keeps_what_is_gone(table: str) -> bool:
    """Whether a table may be larger after objects went than before they came."""
    return table in BOUNDED or table in SWEPT or table in KINDS or table.startswith(BY_TEMPLATE)
