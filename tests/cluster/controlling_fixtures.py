"""Fixtures of the cluster tests of the controllers; a module names this one in `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.controlling import LEASE, VOLCANO, Controlled, volcano_leases
from tests.cluster.forks import ForkServer
from tests.cluster.scheduling import LEASE as SCHEDULER_LEASE
from tools.controlplane import ControlPlane


@pytest.fixture
def controlled(manifests_applied: ControlPlane, tmp_path: Path, forks: ForkServer | None) -> Iterator[Controlled]:
    """Our manifests and no lease of an earlier test; processes are killed in the end."""
    api = manifests_applied.api
    if api.find(f"/api/v1/namespaces/{VOLCANO}") is None:
        api.create("/api/v1/namespaces", {"metadata": {"name": VOLCANO}})
    for path in (LEASE, SCHEDULER_LEASE, f"{volcano_leases()}/vc-controller-manager"):
        api.delete(path)
    api.delete(f"/api/v1/namespaces/{VOLCANO}/pods/volcano-controllers-0", grace_seconds=0)
    there = Controlled(manifests_applied, tmp_path, forks)
    yield there
    for process in (*there.processes, *there.controllers):
        process.close()
    for process in there.controllers:
        assert not process.said("a task failed"), process.log.read_text()[-4000:]
