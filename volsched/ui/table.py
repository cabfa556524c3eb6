"""A table in a browser, and the events that update it: rows gone, new and changed.

htmx puts each row in its place (``hx-swap-oob``), so no script of our own is needed.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Render = Callable[[str, Any], str]
"""Makes the HTML of a row, from its name and what it shows."""

Rows = Sequence[tuple[str, Any]]
"""The content of a table, in order: the name of each row, and a value."""

Event = tuple[str, str]
"""The name of a server-sent event, and HTML."""

BODY: Final = "rows"
"""The id of the table's body."""


@dataclass(slots=True)
class Table:
    """The content in one browser. Unchanged rows are not made again."""

    render: Render
    _values: dict[str, Any] = field(default_factory=dict)
    _html: dict[str, str] = field(default_factory=dict)

    @property
    def html(self) -> Mapping[str, str]:
        """Return the rows by name, in order."""
        return self._html

    @property
    def digest(self) -> str:
        """Return a short name for what it shows."""
        return hashlib.sha256("\0".join(self._html.values()).encode()).hexdigest()[:16]

    def show(self, rows: Rows) -> list[Event]:
        """Show other rows. The events that do so where the former ones are shown."""
        before = self._html
        html = {name: self._made(name, value) for name, value in rows}
        self._values, self._html = dict(rows), html
        return differences(before, html)

    def everything(self) -> Event:
        """Return the event that shows all rows, whatever is shown."""
        return BODY, "\n".join(self._html.values())

    def _made(self, name: str, value: Any) -> str:
        kept = self._html.get(name)
        return kept if kept is not None and self._values[name] == value else self.render(name, value)


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[Event]:
    """Return the events from one list of rows to another, in the order in which they are sent."""
    stay = _that_stay(list(before), list(after))
    gone = [name for name in before if name not in stay]
    changed = [name for name in after if name in stay and after[name] != before[name]]
    new = list(_insertions(after, stay))
    events = [
        ("gone", "\n".join(f'<tr id="{name}" hx-swap-oob="delete"></tr>' for name in gone)),
        ("new", "\n".join(f'<tbody hx-swap-oob="{place}">{html}</tbody>' for place, html in new)),
        ("changed", "\n".join(_in_place(name, after[name]) for name in changed)),
    ]
    return [(name, html) for name, html in events if html]


def _in_place(name: str, html: str) -> str:
    """Return a row that takes the place of the one of its name."""
    return html.replace(f'<tr id="{name}"', f'<tr id="{name}" hx-swap-oob="true"', 1)


def _insertions(after: Mapping[str, str], stay: set[str]) -> Iterable[tuple[str, str]]:
    """Yield where rows come in and their HTML, those that follow one another together."""
    place, run = f"afterbegin:#{BODY}", ""
    for name, html in after.items():
        if name not in stay:
            run += html
            continue
        if run:
            yield place, run
        place, run = f"afterend:#{name}", ""
    if run:
        yield place, run


def _that_stay(before: Sequence[str], after: Sequence[str]) -> set[str]:
    """Return the most rows that are in both lists in the same order: the longest increasing run of their places."""
    places = {name: place for place, name in enumerate(before)}
    common = [name for name in after if name in places]
    tails: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for number, name in enumerate(common):
        length = bisect_left(tails, places[name])
        previous.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [places[name]]
        ends[length : length + 1] = [number]
    found: set[str] = set()
    at = ends[-1] if ends else -1
    while at >= 0:
        found.add(common[at])
        at = previous[at]
    return found
