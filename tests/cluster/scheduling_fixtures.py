"""Fixtures of the cluster tests of the scheduler; a module names this one in `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.checkout import command_of_checkout
from tests.cluster.forks import HAVE_FORKS, ForkServer
from tests.cluster.scheduling import CONFIG, LEASE, SYSTEM, Installed
from tests.cluster.served import wait_served
from tools.controlplane import ControlPlane


@pytest.fixture(scope="session")
def manifests_applied(control_plane: ControlPlane) -> ControlPlane:
    """The control plane of this test run, once it has our kinds."""
    return wait_served(control_plane)


@pytest.fixture(scope="session")
def fork_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer | None]:
    """The process of which the processes of a cluster are forked; they can write to the folders of their logs."""
    if not HAVE_FORKS:
        yield None
        return
    folder = tmp_path_factory.getbasetemp()
    server = ForkServer(folder / "fork-server.log", lambda words: command_of_checkout(words, folder))
    yield server
    server.close()


@pytest.fixture
def forks(fork_server: ForkServer | None) -> ForkServer | None:
    """What tests start processes with; a module about starts or signals replaces this fixture with None."""
    return fork_server


@pytest.fixture
def installed(manifests_applied: ControlPlane, tmp_path: Path, forks: ForkServer | None) -> Iterator[Installed]:
    """Our manifests without Lease and ConfigMap; schedulers are killed in the end, and these two deleted."""
    forget_configuration(manifests_applied)
    there = Installed(manifests_applied, tmp_path, forks)
    yield there
    for process in there.processes:
        process.close()
    forget_configuration(manifests_applied)


def forget_configuration(control_plane: ControlPlane) -> None:
    """Delete the ConfigMap, and the Lease on which a scheduler leaves which configuration it had."""
    control_plane.api.delete(LEASE)
    control_plane.api.delete(f"/api/v1/namespaces/{SYSTEM}/configmaps/{CONFIG}")
