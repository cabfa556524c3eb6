"""A drill is judged by its lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drills import report as reporting
from drills.report import Report

pytestmark = pytest.mark.process


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    return Report("some", "a drill")


def test_a_drill_whose_lines_are_all_met_ends_with_0(report: Report, tmp_path: Path) -> None:
    report.must("pods lost", 0, "==", 0)
    report.must("takeover, seconds", 21.5, "<=", 22)
    report.figure("pods", 300)
    assert report.finish() == 0
    written = json.loads((tmp_path / "some.json").read_text())
    assert written["is_met"] is True
    assert written["figures"] == {"pods": 300}


def test_one_line_that_is_not_met_ends_it_with_1(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report.must("pods lost", 0, "==", 0)
    report.must("bound twice", 1, "==", 0, ("pod a/b: node-1, then node-2",))
    assert report.finish() == 1
    assert "NOT MET" in (shown := capsys.readouterr().out)
    assert "pod a/b: node-1, then node-2" in shown
    assert [line["is_met"] for line in json.loads((tmp_path / "some.json").read_text())["lines"]] == [True, False]


def test_a_drill_that_shows_nothing_is_not_met(report: Report) -> None:
    assert report.finish() == 1


def test_where_time_is_not_judged_a_line_about_it_is_shown_and_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    short = Report("some", "a short form", judge_time=False)
    short.must("takeover, seconds", 90, "<=", 22, is_time=True)
    short.must("pods lost", 0, "==", 0)
    assert short.finish() == 0
    assert "NOT MET" not in capsys.readouterr().out

    short.must("bound twice", 1, "==", 0)
    assert short.finish() == 1
