"""Fixtures of the short forms of drills; a module names this one in `pytest_plugins`."""

from __future__ import annotations

import pytest

from drills import world
from tests.cluster.forks import ForkServer

pytest_plugins = ["tests.cluster.scheduling_fixtures"]


@pytest.fixture
def forked(forks: ForkServer | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have replicas be forks; a drill that looks at their memory does without."""
    monkeypatch.setattr(world, "forks", forks)
