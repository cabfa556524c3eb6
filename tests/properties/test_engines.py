"""The fast engine decides what the naive one decides, whatever the cluster, the plugins and the changes in between."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given

from tests.properties.stories import Story, steps_with, stories
from volsched.testing.contract import engine_contract


@pytest.mark.slow(reason="a hundred random clusters and their sessions")
@given(stories())
def test_the_fast_engine_agrees_with_the_naive_one_to_the_bit(story: Story) -> None:
    """All steps, their order and every message."""
    engine_contract(partial(steps_with, story))


@pytest.mark.slow(reason="a hundred random clusters and their sessions")
@given(stories(evicting=True))
def test_they_agree_about_victims_too(story: Story) -> None:
    engine_contract(partial(steps_with, story))
