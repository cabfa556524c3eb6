"""Layouts of pages for a terminal: they fit, and no word is broken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from volsched.cli.terminal import lines
from volsched.text_page import Paragraph, Part, Table, plain

LONG = "a-team-of-language-models/the-second-pretraining-with-a-longer-context-7f6c5b9d8-x2x4z"


def shown(*parts: Part, width: int, wide: bool = False, encoding: str = "utf-8") -> list[str]:
    return [line.plain for line in lines(parts, width, encoding, wide=wide)]


def queues() -> Table:
    heads = ("QUEUE", "STATE", "QUOTA", "HEADROOM", "WHY")
    why = "the quota of the queue is used up by the jobs of others"
    return Table("QUEUES", [heads, ("language", "Open", "512Gi", "8", why), (LONG, "Closed", "4", "128", "-")])


# --- layouts --------------------------------------------------------------------------------------------------------


def test_a_table_that_fits_is_as_it_is_with_numbers_at_the_right() -> None:
    table = Table("T", [("NAME", "CARDS", "STATE"), ("a", "128", "Open"), ("bb", "4", "Closed")])

    assert shown(table, width=80) == ["T", "NAME  CARDS  STATE", "a       128  Open", "bb        4  Closed"]


def test_text_of_the_last_column_is_wrapped_then_put_below_then_names_are_shortened_then_rows_are_lists() -> None:
    assert shown(queues(), width=160)[2].endswith("the quota of the queue is used up by the jobs")
    assert shown(queues(), width=160)[3].strip() == "of others"
    assert shown(queues(), width=200)[3].startswith(LONG)
    assert shown(queues(), width=120)[2] == f"{'language'.ljust(len(LONG))}  Open    512Gi         8"
    assert shown(queues(), width=120)[3] == "  WHY: the quota of the queue is used up by the jobs of others"
    assert shown(queues(), width=60)[-1] == "a-team-of-languag…t-7f6c5b9d8-x2x4z  Closed      4       128"
    assert shown(queues(), width=30)[-5:] == [
        f"QUEUE:    {LONG[:10]}…{LONG[-9:]}",
        "STATE:    Closed",
        "QUOTA:    4",
        "HEADROOM: 128",
        "WHY:      -",
    ]


def test_wide_names_are_whole_and_reasons_are_still_wrapped() -> None:
    page = shown(queues(), width=60, wide=True)

    assert any(LONG in line for line in page)
    assert not any("…" in line for line in page)
    assert len(page) > 4


WORDS = st.lists(st.text("abc-/中é", min_size=1, max_size=20), min_size=1, max_size=12).map(" ".join)
CELLS = st.one_of(WORDS, st.integers(0, 10**9).map(str), st.sampled_from(["Open", "-", "512Gi"]))
ROWS = st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=1, max_size=5))


@given(ROWS, st.sampled_from([40, 60, 80, 200]), st.sampled_from(["utf-8", "ascii"]))
def test_no_table_is_wider_than_the_terminal_and_no_word_is_broken(
    rows: list[list[str]], width: int, encoding: str
) -> None:
    head = [f"H{number}" for number in range(len(rows[0]))]
    page = shown(Table("T", [head, *rows]), width=width, encoding=encoding)

    assert max(map(cell_len, page)) <= width
    assert all(line.encode(encoding) for line in page if line)
    whole = {
        word.encode(encoding, "backslashreplace").decode(encoding) for row in rows for c in row for word in c.split()
    }
    mark = "…" if encoding == "utf-8" else "..."
    for word in " ".join(page[1:]).replace(":", " ").split():
        assert word in whole or mark in word or word in head or f"{word}:" in whole, word


def test_paragraphs_are_wrapped_with_their_indent_and_lines_to_copy_are_not() -> None:
    command = "kubectl patch queue language --type merge -p '{}' " * 3
    page = shown(Paragraph("Position:  1 of 2 in queue vision of the team", hang=11), command, width=32)

    assert page == ["Position:  1 of 2 in queue", "           vision of the team", command]


def test_the_plain_form_has_a_fixed_layout() -> None:
    table = Table("T", [("NAME", "CARDS", "WHY"), ("a", "128", "one two three four five six seven"), ("bb", "4", "")])

    assert plain(["", table], 40) == (
        "\nT\nNAME  CARDS  WHY\na     128    one two three four five six\n             seven\nbb    4\n"
    )
