"""The examples of the four stories, in a simulation: each comes out as its head says."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from click.testing import CliRunner

from tests.plugins.crossquota.stories import EXAMPLES, STORIES, Story
from volsched.cli import volsched


def workload(pod: str) -> str:
    return pod.removeprefix("default/").partition("-")[0]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.file)
def test_a_story_comes_out_as_told(story: Story) -> None:
    path = str(EXAMPLES / story.file)
    assert CliRunner().invoke(volsched, ["validate", "-f", path]).output == ""

    done = CliRunner().invoke(volsched, ["simulate", "-f", path, "--output", "json"])

    result = json.loads(done.stdout)
    placed = Counter((workload(bind["pod"]), bind["node"]) for bind in result["binds"])
    waiting = [(workload(pending["pod"]), pending["message"]) for pending in result["pending"]]
    assert placed == story.placed
    assert Counter(name for name, _ in waiting) == {name: count for name, (count, _) in story.waiting.items()}
    assert all(story.waiting[name][1] in message for name, message in waiting)


def test_every_example_has_its_story() -> None:
    assert [story.file for story in STORIES] == sorted(path.name for path in EXAMPLES.iterdir())
