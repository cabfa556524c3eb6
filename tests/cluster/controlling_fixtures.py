"""Fixtures of the cluster tests of the controllers; a module names this one in `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.controlling import LEASE, VOLCANO_LEASES, Controlled
from tests.cluster.scheduling import LEASE as SCHEDULER_LEASE
from volsched.testing.controlplane import ControlPlane


@pytest.fixture
def controlled(manifests_applied: ControlPlane, tmp_path: Path) -> Iterator[Controlled]:
    """Our manifests and no lease of an earlier test; processes are killed in the end."""
    api = manifests_applied.api
    for path in (LEASE, SCHEDULER_LEASE, f"{VOLCANO_LEASES}/vc-controller-manager"):
        api.delete(path)
    there = Controlled(manifests_applied, tmp_path)
    yield there
    for process in (*there.processes, *there.controllers):
        process.close()
    for process in there.controllers:
        assert not process.said("a task failed"), process.log.read_text()[-4000:]
