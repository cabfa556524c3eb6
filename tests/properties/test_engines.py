"""The fast engine decides what the naive one decides, whatever the cluster, the plugins and the changes in between."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.properties.stories import Reader, Story, difference, live, stories
from volsched.testing.checked import CheckedEngine
from volsched.testing.naive import NaiveEngine


@pytest.mark.slow(reason="a hundred random clusters and their sessions")
@given(stories())
def test_the_fast_engine_agrees_with_the_naive_one_to_the_bit(story: Story) -> None:
    """All steps, their order and every message."""
    fast, naive = Reader(story.configuration), Reader(story.configuration, NaiveEngine)

    live(story, fast, naive)

    assert difference(fast.steps, naive.steps) == ""


@pytest.mark.slow(reason="a hundred random clusters and their sessions")
@given(stories(evicting=True))
def test_they_agree_about_victims_too(story: Story) -> None:
    fast, naive = Reader(story.configuration), Reader(story.configuration, NaiveEngine)

    live(story, fast, naive)

    assert difference(fast.steps, naive.steps) == ""


@pytest.mark.slow(reason="a hundred random clusters and their sessions")
@given(stories(evicting=True, cycles=3))
def test_every_callback_of_every_plugin_keeps_what_it_declares(story: Story) -> None:
    checked, fast = Reader(story.configuration, CheckedEngine), Reader(story.configuration)

    live(story, checked, fast)

    assert difference(checked.steps, fast.steps) == ""
