"""A page of text for people: lines, paragraphs and tables, and how they look where no terminal shows them.

Those who make a page know nothing of widths. ``plain`` is the form for pipes and files; ``cli.terminal`` has that of
terminals.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from volsched.model.values.visible import visible

Row: TypeAlias = Sequence[str]

Mood: TypeAlias = Literal["", "good", "waits", "bad"]
"""What a text means to its reader. Only its colour follows from it: the text says the same in words."""

GAP: Final = "  "
_NARROWEST: Final = 24
_NARROWEST_PARAGRAPH: Final = 40


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A text that is wrapped. ``hang`` are columns by which lines after the first are indented further.

    If not ``wraps``, it is one line where no terminal shows it.
    """

    text: str
    indent: int = 0
    hang: int = 0
    mood: Mood = ""
    wraps: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A title, a row of headings, and rows with as many cells."""

    title: str
    rows: Sequence[Row]


Part: TypeAlias = str | Paragraph | Table
"""A part of a page. A plain text is one line, which is shown as it is."""


def section(title: str, rows: Iterable[Row]) -> list[Part]:
    """Return a table with an empty line before it; nothing when the table has only its head."""
    listed = list(rows)
    return ["", Table(title.upper(), listed)] if len(listed) > 1 else []


def plain(parts: Iterable[Part], width: int) -> str:
    """Return a page as text, no wider than ``width`` where words can be broken.

    A line end, or a control character, that a part has inside does not act as one.
    """
    return "".join(f"{visible(line)}\n" for part in parts for line in _lines(part, width))


def _lines(part: Part, width: int) -> Iterable[str]:
    if isinstance(part, str):
        return (part,)
    return _of_table(part, width) if isinstance(part, Table) else _of_paragraph(part, width)


def _of_paragraph(found: Paragraph, width: int) -> list[str]:
    if not found.wraps:
        return [f"{' ' * found.indent}{found.text}"]
    return textwrap.wrap(
        visible(found.text),
        max(width, _NARROWEST_PARAGRAPH),
        initial_indent=" " * found.indent,
        subsequent_indent=" " * (found.indent + found.hang),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _of_table(found: Table, width: int) -> Iterator[str]:
    """Yield the title, and aligned lines. The last column is wrapped to fit."""
    yield found.title
    rows = [tuple(map(visible, row)) for row in found.rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    before = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
    room = max(_NARROWEST, width - before)
    for row in rows:
        head = GAP.join(cell.ljust(wide) for cell, wide in zip(row[:-1], widths[:-1], strict=True))
        first, *rest = textwrap.wrap(row[-1], room, break_long_words=False, break_on_hyphens=False) or [""]
        yield (f"{head}{GAP}{first}" if len(row) > 1 else first).rstrip()
        for line in rest:
            yield " " * before + line
