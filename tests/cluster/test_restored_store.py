"""The API server's store is put back to an earlier state: what is known is not believed, everything is listed anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.control_plane import OURS, running_control_plane
from tests.cluster.controlling import AT_WORK, Controlled
from tests.cluster.forks import ForkServer
from tests.cluster.scheduling import eventually
from tests.cluster.served import wait_served
from tests.cluster.signals import ready
from tools.controlplane import a_node

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

LEASE: Final = ("--leader-elect-lease-duration", "40s", "--leader-elect-renew-deadline", "35s")
"""Outlives the restart of the API server: a leader that has lost its lease would end, and be restarted as a whole."""


@pytest.fixture
def own(request: pytest.FixtureRequest, tmp_path: Path, forks: ForkServer | None) -> Iterator[Controlled]:
    """A control plane of the test's own, as others would lose what they made."""
    with running_control_plane(request, tmp_path / "controlplane", manifests=OURS) as control_plane:
        there = Controlled(wait_served(control_plane), tmp_path, forks)
        yield there
        for process in (*there.processes, *there.controllers):
            process.close()


@pytest.mark.no_retry(reason="data loss")
def test_after_a_restore_everything_is_listed_anew_and_scheduled(own: Controlled, tmp_path: Path) -> None:
    control_plane = own.control_plane
    control_plane.create_nodes([a_node(f"n{number}", cpu="4") for number in range(2)])
    namespace = control_plane.create_namespace("restored")
    own.make_gang(namespace, "early", 2, cpu="1")
    leader = own.start(*LEASE).wait_leading()
    follower = own.start(*LEASE)
    controllers = own.control(*LEASE)
    controllers.wait_for(AT_WORK)
    own.wait_bound(namespace, 2)
    ready(leader, follower, controllers)
    control_plane.save_store(tmp_path / "backup")
    own.make_gang(namespace, "lost", 6, cpu="1")  # fills both nodes
    own.wait_bound(namespace, 8)
    for number in range(200):  # so that versions go back far
        control_plane.api.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": f"m{number}"}})

    control_plane.restore_store(tmp_path / "backup")

    own.make_gang(namespace, "after", 6, cpu="1")
    own.wait_bound(namespace, 8)
    pods = own.pods(namespace)
    assert not [name for name in pods if name.startswith("lost")]
    for process in (leader, follower, controllers):
        process.wait_for("everything is listed anew")
        assert process.process.poll() is None
    eventually(lambda: own.group(namespace, "after")["status"]["phase"] == "Running")
