"""In the place of Volcano's scheduler: queues that have to exist are made, if somebody allows it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.scheduling import GROUPS, MANIFESTS, Installed, eventually

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

QUEUES = f"{GROUPS}/queues"
BUILT_IN = ("default", "root")
MISSING = "queues that have to exist are missing and may not be made"
RIGHT = MANIFESTS / "rbac/queues"


@pytest.fixture
def without_queues(installed: Installed) -> Iterator[Installed]:
    """No queue of those that have to exist, and no right to make any."""
    for name in BUILT_IN:
        installed.api.delete(f"{QUEUES}/{name}")
    yield installed
    installed.control_plane.kubectl("delete", "-k", str(RIGHT), "--ignore-not-found")


def test_that_the_right_is_missing_is_said_once_with_the_way_out_and_waited_for(without_queues: Installed) -> None:
    scheduler = without_queues.start(name="volcano").wait_leading()

    said = scheduler.wait_for(MISSING)
    assert "manifests/components/queues" in said["way_out"]
    assert "cannot create resource" in said["error"]
    assert without_queues.api.find(f"{QUEUES}/default") is None

    without_queues.control_plane.kubectl("apply", "-k", str(RIGHT))
    made = {name: without_queues.api.wait_for(f"{QUEUES}/{name}", lambda _: True)["spec"] for name in BUILT_IN}
    assert made["default"]["parent"] == "root"
    assert (made["default"]["reclaimable"], made["root"]["reclaimable"]) == (True, False)
    eventually(lambda: len(scheduler.said("made a queue that was missing")) == 2)
    assert len(scheduler.said(MISSING)) == 1


def test_nobody_else_makes_queues_or_speaks_of_them(without_queues: Installed) -> None:
    without_queues.control_plane.kubectl("apply", "-k", str(RIGHT))

    scheduler = without_queues.start().wait_leading()
    scheduler.terminate()

    assert without_queues.api.find(f"{QUEUES}/default") is None
    assert scheduler.said("queue") == []
