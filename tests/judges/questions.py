"""All that other programs are asked."""

from __future__ import annotations

from typing import Final

from tests.cluster.native.questions import QUESTIONS as GANGS
from tests.judges.answers import Question
from tests.oracle.failing import FAILING
from tests.oracle.questions import QUESTIONS as ORACLE

ALL: Final[dict[str, Question]] = {question.name: question for question in (*ORACLE, FAILING, *GANGS)}
