"""Results: which tests count as failed, and which are tried again."""

from __future__ import annotations

import pytest

from tests.suite.results import FEW_ENOUGH, Result, Results, skipped, to_try_again


def a_line(test: str, when: str, outcome: str, *marks: str, shown: str = "") -> dict[str, object]:
    return {
        "test": test,
        "when": when,
        "outcome": outcome,
        "marks": marks,
        "shown": shown,
        "captured": "",
        "duration": 1,
    }


def a_failure(name: str = "test", *marks: str) -> Result:
    return Result(name, frozenset(marks), outcomes=["failed"])


@pytest.mark.parametrize(
    ("phases", "outcome"),
    [
        (["passed", "passed", "passed"], "passed"),
        (["failed", "passed"], "failed"),
        (["passed", "failed", "passed"], "failed"),
        (["passed", "passed", "failed"], "failed"),
        (["skipped", "passed"], "skipped"),
        (["passed", "skipped", "failed"], "failed"),
    ],
)
def test_one_phase_that_fails_fails_the_test(phases: list[str], outcome: str) -> None:
    results = Results()
    for phase in phases:
        results.read(a_line("t", "", phase))

    assert results.by_test["t"].outcome == outcome
    assert results.by_test["t"].seconds == len(phases)


def test_a_failure_is_returned_once_with_its_words() -> None:
    results = Results()

    assert results.read(a_line("t", "setup", "passed")) is None
    failed = results.read(a_line("t", "call", "failed", "process", shown="why"))

    assert failed is not None
    assert (failed.shown, failed.may_be_flaky) == ("why", True)


def test_tests_that_were_collected_and_not_run_are_missing() -> None:
    results = Results()
    results.read({"planned": 2})
    results.read(a_line("t", "call", "passed"))

    assert results.missing == 1


def test_few_failures_of_processes_are_tried_again() -> None:
    failed = [
        a_failure("a", "process"),
        a_failure("b"),
        a_failure("c", "process", "no_retry"),
        a_failure("d", "process"),
    ]

    assert to_try_again(failed) == ["a", "d"]


def test_many_failures_have_a_common_cause() -> None:
    failed = [a_failure(str(number), "process") for number in range(FEW_ENOUGH + 1)]

    assert to_try_again(failed) == []
    assert len(to_try_again(failed[1:])) == FEW_ENOUGH


def test_skipped_tests_are_counted_by_file_and_reason() -> None:
    results = Results()
    for test in ("a.py::x", "a.py::y"):
        results.read(a_line(test, "setup", "skipped", shown="('/a.py', 3, 'Skipped: takes root')"))

    assert list(skipped([results])) == ["    2 skipped  a.py: takes root"]
