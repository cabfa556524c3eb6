"""A control plane with all gates of Kubernetes' own gangs, and volsched on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.conftest import running_control_plane
from tests.cluster.native.stage import API_FLAGS, GATES, make_classes
from tests.cluster.scheduling import ACCOUNT, QUICK_LEASE, SYSTEM, SchedulerProcess
from tests.cluster.scheduling_fixtures import apply_manifests
from volsched.testing.controlplane import ControlPlane

DIRECT: Final = ("--plain-pods", "direct")


@pytest.fixture(scope="module")
def gated_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that serves the kinds, with all that is needed to install volsched."""
    folder = tmp_path_factory.mktemp("native")
    with running_control_plane(request, folder, feature_gates=GATES, api_flags=API_FLAGS) as found:
        apply_manifests(found)
        make_classes(found)
        yield found


def start_ours(cluster: ControlPlane, folder: Path, name: str, text: str, *flags: str) -> SchedulerProcess:
    """Start volsched for pods of a scheduler name, with the text of a configuration."""
    folder.mkdir(exist_ok=True)
    configuration = folder / "volsched.conf"
    configuration.write_text(text)
    flags = ("--scheduler-name", name, "--scheduler-conf", str(configuration), *flags)
    kubeconfig = cluster.kubeconfig_for(ACCOUNT, SYSTEM)
    process = SchedulerProcess(kubeconfig, folder / "log", *flags, *QUICK_LEASE)
    process.wait_for("everything is listed")
    return process
