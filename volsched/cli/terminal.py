"""Pages on a terminal: fitted to its width, with colours. Only output for a terminal imports this module.

A table is laid out in the first of these ways that fits:

* As it is, with long texts wrapped.
* With the text of the last column below its row.
* With long names shortened in the middle, and at last with one space between columns.
* As lists: each row has a line for each cell.

Words are never broken. Numbers and states are never shortened. Colours repeat what a word says.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from volsched.cli.printing import encodable
from volsched.model.values.visible import visible
from volsched.text_page import GAP, Mood, Paragraph, Part, Table

_NARROWEST: Final = 20
"""Columns that are assumed at least: a narrower terminal wraps lines itself."""
_NAME: Final = 12
"""To how many columns a name may be shortened."""
_TEXT: Final = 32
"""To how many columns a text may be wrapped beside other cells."""

_NUMBER: Final = re.compile(r"[-+]?\d[\d.,]*[A-Za-z%]{0,2}(/\d[\d.,]*[A-Za-z%]{0,2})?")
_NOTHING: Final = ("", "-")

_STYLES: Final[dict[Mood, str]] = {"": "", "good": "green", "waits": "yellow", "bad": "red"}
_HEAD: Final = "bold"

_STATES: Final = ("STATE", "PHASE", "STEP", "DIFFERENCE", "OUTCOME")
"""Headings of columns whose cells are a state."""
_MOODS: Final[dict[str, Mood]] = {
    **dict.fromkeys(("Open", "Running", "Completed", "placed", "starts", "spared", "gains"), "good"),
    **dict.fromkeys(("Closed", "Failed", "Unknown", "invalid", "evicted", "loses"), "bad"),
    **dict.fromkeys(("Closing", "Pending", "Inqueue", "waits", "moves", "reason"), "waits"),
    **dict.fromkeys(("enqueue", "allocate", "predicate", "gang", "gate", "starts later"), "waits"),
}

Show: TypeAlias = Callable[[str], str]
"""Makes a text of others harmless, and one that the terminal's encoding has."""


def print_page(parts: Iterable[Part], *, wide: bool) -> None:
    """Print a page on the terminal that is standard output."""
    console = console_of_output()
    for line in lines(parts, console.width, console.encoding, wide=wide):
        console.print(line, soft_wrap=True, highlight=False)


def console_of_output() -> Console:
    """Return the terminal that is standard output."""
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False)


def lines(parts: Iterable[Part], width: int, encoding: str, *, wide: bool = False) -> Iterator[Text]:
    """Yield the lines of a page, no longer than ``width`` columns except for lines that are to be copied.

    With ``wide`` names are whole, and lines may be longer. A character that ``encoding`` does not have is escaped.
    """
    width = max(width, _NARROWEST)
    page = _Page(width, _shown_in(encoding), _ellipsis_in(encoding), wide=wide)
    for part in parts:
        yield from page.lines(part)


def _shown_in(encoding: str) -> Show:
    def show(text: str) -> str:
        return encodable(visible(text), encoding)

    return show


def _ellipsis_in(encoding: str) -> str:
    return "…" if encodable("…", encoding) == "…" else "..."


class _Page:
    """How parts look on a terminal of one width and encoding."""

    def __init__(self, width: int, show: Show, ellipsis: str, *, wide: bool) -> None:
        self._width = width
        self._show = show
        self._ellipsis = ellipsis
        self._wide = wide

    def lines(self, part: Part) -> Iterator[Text]:
        """Yield the lines of a part."""
        if isinstance(part, str):
            yield Text(self._show(part))
        elif isinstance(part, Paragraph):
            yield from self._paragraph(part)
        else:
            yield from self._table(part)

    def _paragraph(self, found: Paragraph) -> Iterator[Text]:
        indent, style = found.indent, _STYLES[found.mood]
        room = self._width - indent - found.hang
        for number, line in enumerate(_wrapped(self._show(found.text), room, first=self._width - indent)):
            yield Text(" " * (indent + (found.hang if number else 0)) + line, style)

    def _table(self, found: Table) -> Iterator[Text]:
        head, *rows = [tuple(map(self._show, row)) for row in found.rows]
        yield Text(self._show(found.title), _HEAD)
        columns = [_Column(name, cells) for name, *cells in zip(head, *rows, strict=True)]
        if self._wide:
            layout = _Layout([column.natural for column in columns[:-1]] + [self._last(columns)])
        else:
            layout = _layout(columns, self._width)
        if not layout.widths:
            yield from self._lists(columns)
        elif layout.has_text_below:
            yield from self._rows(columns[:-1], layout, below=columns[-1])
        else:
            yield from self._rows(columns, layout)

    def _last(self, columns: Sequence[_Column]) -> int:
        """Return the width of the last column, where no other is shortened."""
        before = sum(column.natural + len(GAP) for column in columns[:-1])
        return min(columns[-1].natural, max(_TEXT, self._width - before))

    def _rows(self, columns: Sequence[_Column], layout: _Layout, below: _Column | None = None) -> Iterator[Text]:
        widths = layout.widths
        names = [column.aligned(column.name, wide) for column, wide in zip(columns, widths, strict=True)]
        yield Text(layout.gap.join(names).rstrip(), _HEAD)
        for number in range(len(columns[0].cells)):
            cells = [self._cell(column, number, wide) for column, wide in zip(columns, widths, strict=True)]
            for at in range(max(map(len, cells))):
                yield _beside(columns, [cell[at] if at < len(cell) else "" for cell in cells], layout)
            if below is not None and below.cells[number] not in _NOTHING:
                text = f"{below.name}: {below.cells[number]}" if below.name else below.cells[number]
                yield from (Text(f"{GAP}{line}") for line in self._whole(text, self._width - len(GAP)))

    def _cell(self, column: _Column, number: int, width: int) -> list[str]:
        return self._whole(column.cells[number], width, shorten=not self._wide) or [""]

    def _whole(self, text: str, width: int, *, shorten: bool = True) -> list[str]:
        """Return a text wrapped at spaces; a word that does not fit is shortened in the middle."""
        if shorten:
            text = " ".join(self._shortened(word, width) for word in text.split(" "))
        return list(_wrapped(text, width))

    def _shortened(self, word: str, width: int) -> str:
        if cell_len(word) <= width:
            return word
        kept = max(2, width - len(self._ellipsis))
        return f"{_start(word, kept - kept // 2)}{self._ellipsis}{_start(word[::-1], kept // 2)[::-1]}"

    def _lists(self, columns: Sequence[_Column]) -> Iterator[Text]:
        label = max(cell_len(column.name) for column in columns) + len(": ")
        for number in range(len(columns[0].cells)):
            if number:
                yield Text()
            for column in columns:
                for at, line in enumerate(self._whole(column.cells[number], max(_NAME, self._width - label))):
                    text = Text(f"{column.name}: ".ljust(label) if not at and column.name else " " * label, _HEAD)
                    yield text.append(line, f"not bold {column.style(line)}")


class _Column:
    """A column of a table. Its width is counted in columns of the terminal: some characters take two."""

    def __init__(self, name: str, cells: Sequence[str]) -> None:
        self.name = name
        self.cells = cells
        self.natural = max(map(cell_len, (name, *cells)))
        self.is_state = name in _STATES
        told = [cell for cell in cells if cell not in _NOTHING]
        self.is_number = bool(told) and all(map(_NUMBER.fullmatch, told))
        self.is_text = any(" " in cell for cell in cells)

    @property
    def least(self) -> int:
        """Return how narrow the column may be."""
        if self.is_number or self.is_state:
            return self.natural
        return min(self.natural, max(_TEXT if self.is_text else _NAME, cell_len(self.name)))

    def aligned(self, cell: str, width: int) -> str:
        """Return a cell with as many columns; a number is at their end."""
        space = " " * (width - cell_len(cell))
        return space + cell if self.is_number else cell + space

    def style(self, cell: str) -> str:
        """Return the style of a cell: a state has its colour."""
        return _STYLES[_MOODS.get(cell, "")] if self.is_state else ""


@dataclass(frozen=True, slots=True)
class _Layout:
    """The widths of columns beside each other, empty if they do not fit."""

    widths: Sequence[int]
    gap: str = GAP
    has_text_below: bool = False


def _layout(columns: Sequence[_Column], width: int) -> _Layout:
    """Return the first layout that fits; empty when none does."""
    texts = [column.least if column.is_text else column.natural for column in columns]
    least = [column.least for column in columns]
    for narrowest, gap in ((texts, GAP), (least, GAP), (least, " ")):
        if widths := _fitting(columns, narrowest, width, gap):
            return _Layout(widths, gap)
        if columns[-1].is_text and (widths := _fitting(columns[:-1], narrowest[:-1], width, gap)):
            return _Layout(widths, gap, has_text_below=True)
    return _Layout(())


def _beside(columns: Sequence[_Column], cells: Sequence[str], layout: _Layout) -> Text:
    """Return one line of the cells of a row."""
    line = Text()
    for column, cell, wide in zip(columns, cells, layout.widths, strict=True):
        line.append(column.aligned(cell, wide), column.style(cell))
        line.append(layout.gap)
    line.rstrip()
    return line


def _fitting(columns: Sequence[_Column], least: Sequence[int], width: int, gap: str) -> list[int]:
    """Return the widths of columns with which a table fits; none if it does not. The widest columns give way first."""
    room = width - len(gap) * (len(columns) - 1)
    widths = [column.natural for column in columns]
    if not columns or sum(map(min, widths, least)) > room:
        return []
    while (over := sum(widths) - room) > 0:
        spare = [wide - narrow for wide, narrow in zip(widths, least, strict=True)]
        widest = max((wide for wide, free in zip(widths, spare, strict=True) if free), default=0)
        at = next(n for n, free in enumerate(spare) if free and widths[n] == widest)
        others = [wide for n, wide in enumerate(widths) if spare[n] and wide < widest]
        widths[at] -= min(over, spare[at], max(1, widest - max(others, default=0)))
    return widths


def _wrapped(text: str, width: int, first: int | None = None) -> Iterator[str]:
    """Yield lines of at most ``width`` columns, the first of at most ``first``; a longer word has its own line."""
    line, room = "", first or width
    for word in text.strip().split(" "):
        longer = f"{line} {word}" if line else word
        if line and cell_len(longer.rstrip()) > room:
            yield line.rstrip()
            line, room = word, width
        else:
            line = longer
    if line:
        yield line.rstrip()


def _start(text: str, width: int) -> str:
    """Return as much of the beginning as fits into these columns."""
    while cell_len(text) > width:
        text = text[:-1]
    return text


class LivePage:
    """A page that is drawn again in place. It is cut where the terminal ends; the last lines stay on the terminal."""

    def __init__(self, *, wide: bool) -> None:
        self._wide = wide
        self._console = console_of_output()
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
        self._parts: Sequence[Part] = ()
        self._trouble = ""

    def start(self) -> None:
        """Begin to draw."""
        self._live.start()

    def stop(self) -> None:
        """Leave what was drawn last, with the cursor below it."""
        self._live.stop()

    def show(self, parts: Sequence[Part]) -> None:
        """Draw another page."""
        self._parts = parts
        self.draw()

    def trouble(self, message: str) -> None:
        """Draw a message below the page; none if it is empty."""
        self._trouble = message
        self.draw()

    def draw(self) -> None:
        """Draw the page for the present size of the terminal."""
        console = self._console
        page = list(lines(self._parts, console.width, console.encoding, wide=self._wide))
        foot = list(lines(self._foot(), console.width, console.encoding))
        room = max(1, console.height - len(foot) - 1)
        if len(page) > room:
            page = [*page[: room - 1], Text(f"({len(page) - room + 1} more lines; make the terminal taller)", _HEAD)]
        for line in page:
            line.no_wrap, line.overflow = True, "ignore"
        self._live.update(Group(*page, *foot), refresh=True)

    def _foot(self) -> Iterator[Part]:
        if self._trouble:
            yield Paragraph(self._trouble, mood="bad")
