"""kube-scheduler makes the cases come true that volsched plays in `tests/cluster/test_native_groups.py`.

kube-scheduler's answers are recorded; it is asked again when they are out of date (`tests.judges.answers`).
"""

from __future__ import annotations

import pytest

from tests.cluster.native.questions import COMES_TRUE, QUESTIONS
from tests.judges.answers import Question

pytestmark = pytest.mark.slow(reason="kube-scheduler plays all cases of a file when one of them has changed")


def _name_of(question: Question) -> str:
    return question.name


@pytest.mark.parametrize("question", QUESTIONS, ids=_name_of)
def test_kube_scheduler_makes_every_case_come_true(question: Question) -> None:
    cases = question.cases()

    assert question.answers(cases) == dict.fromkeys(cases, COMES_TRUE)
