"""What comes of a search."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """What came of a gang whose members found no nodes one by one."""

    FOUND = "found"
    IMPOSSIBLE = "impossible"
    EXHAUSTED = "exhausted"
    SKIPPED = "skipped"
