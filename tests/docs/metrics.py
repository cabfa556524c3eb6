"""The tables of docs/metrics.md as data."""

from __future__ import annotations

from dataclasses import dataclass

from tests.docs.pages import DOCS, codes, prose, rows

PAGE = DOCS / "metrics.md"


@dataclass(frozen=True)
class Row:
    """What the page says of a metric."""

    type: str
    labels: tuple[str, ...]


def documented() -> dict[str, Row]:
    """Type and labels of every metric by its name; a name that stands twice is an error."""
    found: dict[str, Row] = {}
    for names, kind, labels, _ in rows([line for _, line in prose(PAGE)]):
        for name in codes(names):
            assert name not in found, f"{name} stands twice"
            found[name] = Row(kind, tuple(label.strip() for label in labels.split(",") if label.strip()))
    return found
