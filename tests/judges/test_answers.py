"""Answers are taken from the record while all that they depend on is the same; else the judge is asked again."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.judges.answers import Cases, Question, differences

ANSWERS = {"a pod": {"node": "n1"}, "a larger pod": {"node": None}}


class Judge:
    """Answers from a table, and counts how often it is asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = dict(ANSWERS)
        self.asked = 0

    def ask(self, cases: Cases, report: Callable[[str], None]) -> dict[str, Any]:
        self.asked += 1
        return {name: self.answers[name] for name in cases}


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture(params=["answers.jsonl", "answers.jsonl.xz"])
def question(request: pytest.FixtureRequest, judge: Judge, tmp_path: Path) -> Question:
    """A question whose answers are recorded."""
    program = tmp_path / "program.go"
    program.write_text("package main")
    made = Question(
        name="pods",
        about="where pods go",
        judge="kube-scheduler v1",
        file=tmp_path / "answers" / request.param,
        asking=(program,),
        cases=lambda: {name: {"cpu": "1"} for name in ANSWERS},
        ask=judge.ask,
    )
    made.record(made.basis(made.cases()), ANSWERS)
    return made


def test_recorded_answers_are_used_without_asking(question: Question, judge: Judge) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert question.answers(question.cases()) == ANSWERS
    assert judge.asked == 0
    assert question.is_asked_as_recorded()


def test_another_version_is_asked_again(question: Question, judge: Judge) -> None:
    newer = replace(question, judge="kube-scheduler v2")

    assert not newer.is_asked_as_recorded()
    assert_asked_again(newer, judge, "the judge is kube-scheduler v2 and no longer kube-scheduler v1")


def test_another_program_that_asks_asks_again(question: Question, judge: Judge) -> None:
    question.asking[0].write_text("package other")

    assert not question.is_asked_as_recorded()
    assert_asked_again(question, judge, "the program that asks has changed")


@pytest.mark.parametrize(
    "cases",
    [
        {"a pod": {"cpu": "1"}, "a larger pod": {"cpu": "2"}},
        {"a pod": {"cpu": "1"}},
    ],
    ids=["changed", "fewer"],
)
def test_other_cases_are_asked_about_again(question: Question, judge: Judge, cases: dict[str, Any]) -> None:
    changed = replace(question, cases=lambda: cases)

    assert changed.is_asked_as_recorded()
    assert_asked_again(changed, judge, "the cases have changed")


def test_what_was_never_recorded_is_asked(question: Question, judge: Judge) -> None:
    question.file.unlink()

    assert not question.is_asked_as_recorded()
    assert_asked_again(question, judge, "no answers are recorded")


def assert_asked_again(question: Question, judge: Judge, why: str) -> None:
    judge.answers["a pod"] = {"node": "n2"}
    cases = question.cases()
    lines: list[str] = []
    with pytest.warns(UserWarning, match=rf"pods: {why}; .*: python -m tests.judges --record pods"):
        found = question.answers(cases, lines.append)
    assert found == {name: judge.answers[name] for name in cases}
    assert judge.asked == 1
    assert lines == [f"pods: {why}: asking {question.judge}"]
    question.record(question.basis(cases), found)
    assert question.outdated(cases) == []
    assert question.recorded() == found


def test_a_judge_may_be_a_process_where_the_test_is_not_marked(question: Question) -> None:
    """A judge is asked again in any run, also by a test that needs no process as long as the record is good."""

    def ask(cases: Cases, report: Callable[[str], None]) -> dict[str, Any]:
        subprocess.run([sys.executable, "-c", ""], check=True)
        return ANSWERS

    question.file.unlink()
    with pytest.warns(UserWarning, match="no answers are recorded"):
        assert replace(question, ask=ask).answers(question.cases()) == ANSWERS


def test_what_differs_is_named() -> None:
    recorded = {"same": {"scores": {"n1": 5}}, "gone": 1, "other": {"feasible": ["n1"], "scores": {"n1": 5, "n2": 6}}}
    found = {"same": {"scores": {"n1": 5}}, "other": {"feasible": ["n1"], "scores": {"n1": 7}}, "more": 1}

    assert dict(differences(recorded, found)) == {
        "gone": "it is recorded and no longer asked",
        "other": "scores.n1: recorded 5, now 7; scores.n2: recorded 6, now null",
        "more": "it is not recorded",
    }


def test_an_answer_that_is_no_object_is_compared_as_a_whole() -> None:
    found = dict(differences({"g1": "comes true"}, {"g1": ("fails", 1)}))

    assert found == {"g1": 'answer: recorded "comes true", now ["fails",1]'}
