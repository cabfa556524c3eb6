"""Tests on a real node. They run inside its namespaces, by ``make real-node``, and are no part of ``make test``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.realnode.cluster import DEPLOYMENTS, SYSTEM, Cluster

OVERLAY = "manifests/overlays/standalone"
FIRST, LAST = "test_start.py", "test_removal.py"
"""What looks at a start that nothing has disturbed yet, and what takes volsched away again."""

FIGURES: list[str] = []

collect_ignore_glob = [] if "VOLSCHED_REAL_NODE" in os.environ else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this folder, and put it in order."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in here:
        item.add_marker(pytest.mark.realnode)
    if len(here) == len(items):
        items.sort(key=lambda item: (item.path.name != FIRST, item.path.name == LAST))


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
def figure() -> Callable[[str, float], None]:
    """Takes what was measured; it is shown at the end."""
    return lambda what, measured: FIGURES.append(f"{what}: {measured:g}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what was measured."""
    terminalreporter.section("measured")
    for line in FIGURES:
        terminalreporter.line(line)


@pytest.fixture
def namespace(installed: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own."""
    name = request.node.name.replace("_", "-").partition("[")[0][:60].strip("-")
    with installed.namespace(name) as made:
        yield made
