"""The outcome of the search for a placement of a whole gang."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The outcome for a gang whose members found no nodes one by one."""

    FOUND = "found"
    IMPOSSIBLE = "impossible"
    EXHAUSTED = "exhausted"
    SKIPPED = "skipped"
