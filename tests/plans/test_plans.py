"""Sessions decide what is recorded, and say so in the same words: 2,000 stored scenarios, and the examples."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans import examples
from tests.plans.differences import differences, told
from tests.plans.scenarios import CHUNKS, plans_of, recorded_plans, stored_scenarios

REFRESH = "Where the new plans are meant, record them: python -m tests.plans record"


def check(recorded: dict[str, Any], now: dict[str, Any]) -> None:
    found = differences(recorded, now)
    if found:
        pytest.fail(f"{told(found)}\n\n{REFRESH}", pytrace=False)


@pytest.mark.slow(reason="2,000 scenarios")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_plans_are_as_recorded(chunk: int) -> None:
    check(recorded_plans(chunk), plans_of(stored_scenarios(chunk)))


def test_examples_are_decided_as_recorded() -> None:
    check(examples.recorded(), examples.results())
