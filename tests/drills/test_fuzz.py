"""The fuzz drill finds what is wrong, goes on where it stopped, and can make each input again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drills import fuzz
from drills import report as reporting
from drills.fuzz import Settings
from drills.fuzz_inputs import Maker
from drills.fuzz_parsers import PARSERS, Parser
from drills.report import Report
from volsched.framework.config.loading import is_bare_configuration
from volsched.framework.dra import reads
from volsched.model.values import duration


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    monkeypatch.setattr(fuzz, "STATE", tmp_path / "fuzz-state.json")
    return Report("fuzz", "a short one")


@pytest.fixture(autouse=True)
def few_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "_INPUTS_OF_A_SHARE", 2)


def only(monkeypatch: pytest.MonkeyPatch, *parsers: Parser) -> None:
    monkeypatch.setattr(fuzz, "PARSERS", parsers)


@pytest.mark.process
def test_whatever_is_written_is_read_or_refused_in_the_words_of_the_reader(report: Report) -> None:
    fuzz.run(report, Settings(minutes=0.05))
    assert report.finish() == 0
    assert report.figures["inputs so far"] >= sum(parser.share for parser in PARSERS)


@pytest.mark.process
def test_a_run_goes_on_where_the_last_one_stopped(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, next(parser for parser in PARSERS if parser.name == "quantities"))
    fuzz.run(report, Settings(minutes=0))
    fuzz.run(report, Settings(minutes=0))

    state = json.loads((tmp_path / "fuzz-state.json").read_text())
    assert state["next_round"] == 2
    assert state["inputs"] == {"quantities": 2 * 2 * fuzz.PARSERS[0].share}


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_an_input_is_made_again_from_its_name(parser: Parser) -> None:
    first, second = Maker(), Maker()
    for number in range(5):
        first.begin(f"{parser.name}/{number}")
        made = ascii(parser.make(first))
        second.begin("another one before it")
        second.begin(f"{parser.name}/{number}")
        assert ascii(parser.make(second)) == made


@pytest.mark.process
def test_what_is_raised_is_a_finding_with_the_name_of_its_input_until_it_is_mended(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(text: str) -> None:
        if len(text) > 3:
            raise KeyError(text)

    parser = Parser("raises", 20, lambda maker: maker.text(), raises)
    only(monkeypatch, parser)
    fuzz.run(report, Settings(minutes=0))
    assert report.finish() == 1
    [said] = report.lines[0].examples
    assert "KeyError" in said
    assert fuzz.replay(said.split(": ")[0]) is not None

    only(monkeypatch, parser._replace(read=len))
    mended = Report("fuzz", "mended")
    fuzz.run(mended, Settings(minutes=0))
    assert mended.finish() == 0


@pytest.mark.process
def test_what_takes_too_long_is_a_finding(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, Parser("slow", 1, lambda maker: maker.text(), lambda _: sum(range(300_000)), seconds=1e-4))
    fuzz.run(report, Settings(minutes=0))
    assert report.finish() == 1
    assert "s of CPU" in report.lines[0].examples[0]


@pytest.mark.process
def test_what_never_ends_is_ended(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: str) -> None:
        while True:
            pass

    monkeypatch.setattr(fuzz, "HOPELESS_SECONDS", 0.05)
    only(monkeypatch, Parser("never", 1, lambda maker: maker.text(), never))
    fuzz.run(report, Settings(minutes=0))
    assert report.finish() == 1
    assert "HopelessError" in report.lines[0].examples[0]


def test_empty_lines_are_read_in_linear_time() -> None:
    assert not is_bare_configuration("a" + "\n" * 200_000)


def test_times_and_selectors_are_read_in_linear_time() -> None:
    for text in ("9" * 200_000, "1h" * 100_000 + "x", "9" * 200_000 + "h", "." * 200_000):
        duration.seconds_of(text)
        reads.reads_of(text)
