"""A control plane with all gates of Kubernetes' own gangs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import OURS, running_control_plane
from tests.cluster.native.stage import API_FLAGS, GATES, make_classes
from tests.cluster.served import wait_served
from tools.controlplane import ControlPlane


@pytest.fixture(scope="module")
def gated_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that serves the kinds, with all that is needed to install volsched."""
    folder = tmp_path_factory.mktemp("native")
    options = {"feature_gates": GATES, "api_flags": API_FLAGS, "manifests": OURS}
    with running_control_plane(request, folder, **options) as found:
        wait_served(found)
        make_classes(found)
        yield found
