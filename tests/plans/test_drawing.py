"""Scenarios of each theme can be drawn anew."""

from __future__ import annotations

from random import Random

import pytest

from tests.plans.drawing.configurations import THEMES, configuration
from tests.plans.drawing.scenarios import scenario_of
from tests.plans.scenarios import plan_of

NUMBER = 1000
"""No stored scenario has this number."""


@pytest.mark.parametrize("theme", THEMES)
def test_a_scenario_is_drawn_and_played(theme: str) -> None:
    rng = Random(theme)  # noqa: S311 - nothing secret is drawn
    scenario = scenario_of(rng, f"{theme} {NUMBER}", THEMES[theme], configuration(rng, THEMES[theme], NUMBER))
    assert len(plan_of(scenario)) == 1 + len(scenario.chapters)
