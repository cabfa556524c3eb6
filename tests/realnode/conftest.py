"""Tests on a real node. They run inside its namespaces, by ``make real-node``, and are no part of ``make test``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.realnode.cluster import DEPLOYMENTS, SYSTEM, Cluster

OVERLAY = "manifests/overlays/standalone"
LAST = "test_zz_removal.py"
"""What takes volsched away again."""

collect_ignore_glob = [] if "VOLSCHED_REAL_NODE" in os.environ else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.realnode)


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The cluster, without volsched unless that was installed before."""
    return Cluster()


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Cluster:
    """The cluster with the overlay as it is."""
    cluster.kubectl("apply", "-k", OVERLAY)
    for name in DEPLOYMENTS:
        cluster.kubectl("rollout", "status", "deployment", name, "-n", SYSTEM, "--timeout=180s")
    return cluster


@pytest.fixture
def namespace(installed: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own."""
    name = request.node.name.replace("_", "-").partition("[")[0][:60].strip("-")
    with installed.namespace(name) as made:
        yield made
