"""Tables of quotas that plugins keep (`framework.quota_report.QuotaTable`), for people and for programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from volsched.framework.quota_report import QuotaRow, QuotaTable, Value
from volsched.text_page import Part, section

_ALL: Final = "all"
"""The name of the row of sums."""
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def by_name(tables: Sequence[QuotaTable]) -> dict[str, Any]:
    """Return the rows of each table, as objects, by its name; null for no limit, and for the row of sums."""
    return {table.name: table.objects() for table in tables}


def sections(tables: Sequence[QuotaTable], queue: str | None = None) -> Iterator[Part]:
    """Yield each table with rows; for one queue only those about queues."""
    for table in tables:
        if queue is None:
            yield from section(table.title, _rows(table, table.rows))
        elif table.about[0] == "queue":
            yield from section(table.title, _rows(table, [row for row in table.rows if row.about[0] == queue]))


def _rows(table: QuotaTable, rows: Sequence[QuotaRow]) -> Iterator[Sequence[str]]:
    figures = [name for name in table.figures if any(row.figures.get(name) is not None for row in rows)]
    yield [_heading(name) for name in (*table.about, *figures)]
    for row in rows:
        yield [*(_text(value, _ALL) for value in row.about), *(_text(row.figures.get(name), "-") for name in figures)]


def _text(value: Value, otherwise: str) -> str:
    return otherwise if value is None else str(value)


def _heading(name: str) -> str:
    return _HUMP.sub(" ", name).upper()
