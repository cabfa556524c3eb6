"""The drill of memory in short, and what counts as growth."""

from __future__ import annotations

from pathlib import Path

import pytest

from drills import report as reporting
from drills.report import Report
from drills.soak import BOUNDED, SWEPT, Samples, Settings, growing, run, slope
from tests.docs.pages import DOCS

WIDE = 400.0
"""MiB per 10,000 pods: of processes that have just begun, and some hundred pods, no more can be said. Tables tell."""


def samples(**tables: list[float]) -> Samples:
    found = Samples()
    for index in range(max(map(len, tables.values()))):
        found.add(1_000.0 * index, 100.0, {name: sizes[index] for name, sizes in tables.items()})
    return found


def test_a_line_of_least_squares_has_the_slope_of_what_lies_on_it() -> None:
    assert slope([0, 1, 2, 3], [5, 7, 9, 11]) == pytest.approx(2)
    assert slope([0, 1, 2, 3], [1, -1, 1, -1]) == pytest.approx(-0.4)
    assert slope([1, 1, 1], [1, 2, 3]) == 0


def test_a_table_that_keeps_one_entry_for_each_pod_that_went_through_grows() -> None:
    leaking = samples(
        leak=[1_000.0 * index for index in range(20)], steady=[20_000.0 + index % 7 for index in range(20)]
    )

    [found] = growing(leaking, Settings(on_their_way=600))

    assert found.startswith("leak: rises by 19000")


def test_a_bounded_table_may_fill_up_to_its_bound_and_no_further() -> None:
    name, bound = "events.said", BOUNDED["events.said"]
    assert growing(samples(**{name: [0.0, bound / 2, bound]}), Settings()) == []
    assert len(growing(samples(**{name: [0.0, bound / 2, bound + 1.0]}), Settings())) == 1


def test_the_tables_that_remember_are_those_that_the_page_has_with_a_bound() -> None:
    page = (DOCS / "memory.md").read_text()
    for table in (*BOUNDED, *SWEPT):
        assert f"`{table}`" in page


@pytest.mark.process
def test_pods_that_come_and_go_while_others_wait_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    report = Report("soak", "in short", judge_time=False)
    run(report, Settings(pods=500, waiting=100, nodes=20, on_their_way=120, slope=WIDE, sample_seconds=0.5))
    assert report.finish() == 0
