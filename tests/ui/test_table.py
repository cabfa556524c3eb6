"""The events that make of one table another, applied as htmx applies them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from volsched.ui.table import Event, Table, differences

_ROW = re.compile(r'<tr id="([^"]*)"[^>]*>(.*?)</tr>')
_NEW = re.compile(r'<tbody hx-swap-oob="(afterbegin:#rows|afterend:#[^"]*)">(.*?)</tbody>')
Html = dict[str, str]


def row(name: str, text: str) -> str:
    return f'<tr id="{name}"><td>{text}</td></tr>'


def applied(shown: Html, events: list[Event]) -> Html:
    """Do what htmx does with rows that say where they go."""
    rows = list(shown.items())
    for event, html in events:
        if event == "gone":
            rows = [each for each in rows if each[0] not in dict(_ROW.findall(html))]
        elif event == "changed":
            said = {name: row(name, inner[4:-5]) for name, inner in _ROW.findall(html)}
            assert set(said) <= {name for name, _ in rows}
            rows = [(name, said.get(name, text)) for name, text in rows]
        else:
            for place, inner in _NEW.findall(html):
                after = place.partition("#")[2]
                at = 0 if after == "rows" else 1 + [name for name, _ in rows].index(after)
                rows[at:at] = [(name, row(name, body[4:-5])) for name, body in _ROW.findall(inner)]
    return dict(rows)


_NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True)
_TABLES = st.builds(
    lambda names, texts: {name: row(name, text) for name, text in zip(names, texts, strict=False)},
    _NAMES,
    st.lists(st.sampled_from("12"), min_size=8, max_size=8),
)


@given(_TABLES, _TABLES)
def test_what_is_sent_makes_of_what_is_shown_what_there_is(before: Html, after: Html) -> None:
    made = applied(before, differences(before, after))

    assert list(made.items()) == list(after.items())


@given(_TABLES)
def test_nothing_is_sent_for_the_same(rows: Html) -> None:
    assert differences(rows, dict(rows)) == []


def test_one_row_that_moved_is_all_that_is_sent() -> None:
    before = {name: row(name, "1") for name in "abcde"}
    after = {name: before[name] for name in "bcdea"}

    assert [(name, html.count("<tr")) for name, html in differences(before, after)] == [("gone", 1), ("new", 1)]


def test_rows_of_the_same_value_are_not_made_again() -> None:
    made: list[str] = []

    def render(name: str, value: str) -> str:
        made.append(name)
        return row(name, value)

    table = Table(render)

    table.show([("a", "1"), ("b", "2")])
    table.show([("a", "1"), ("b", "3")])

    assert made == ["a", "b", "b"]
    assert table.everything()[1].count("<tr") == 2
