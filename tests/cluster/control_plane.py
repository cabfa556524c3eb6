"""One real control plane for the test run, a namespace per test, and a proxy that makes the API server fail.

A plugin of all tests, since tests in several folders share the control plane.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.scheduling import MANIFESTS
from tools.controlplane import ControlPlane, Manifests, a_node, find_binaries
from tools.controlplane.faults import FaultProxy

MakeNodes = Callable[..., list[str]]

OURS: Final = Manifests(MANIFESTS, ("crds", "rbac", "components/own-fields/policy.yaml"))
"""Our kinds and rights. The component `own-fields` is there, too: what a process writes is all that it may write."""

ALWAYS_THERE: Final = frozenset({"configmaps", "events", "serviceaccounts"})
"""What Kubernetes itself makes in a namespace, and what no other test would notice."""

COLLECTIONS: Final = {
    "batch.volcano.sh/jobs": "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs",
    "scheduling.volcano.sh/podgroups": "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups",
    "resourceclaims": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "leases": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "pods": "/api/v1/namespaces/{}/pods",
}
"""What most tests make in a namespace, by etcd's folder, owners first."""


@contextlib.contextmanager
def running_control_plane(request: pytest.FixtureRequest, folder: Path, **options: Any) -> Iterator[ControlPlane]:
    """A control plane whose logs are in that folder; options are those of `ControlPlane`."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # a first build takes minutes and says so
        binaries = find_binaries()
    with ControlPlane(folder=folder, binaries=binaries, **options) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane of this test run; its logs stay in pytest's temporary folder."""
    with running_control_plane(request, tmp_path_factory.mktemp("controlplane"), manifests=OURS) as cluster:
        yield cluster


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace of the test's own; what is in it is deleted afterwards, pods without their time to end."""
    with own_namespace(control_plane) as name:
        yield name


@pytest.fixture
def other_namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A second namespace of the test's own, such as that of another tenant.

    Pods that a test leaves behind count in the queues of the tests after it.
    """
    with own_namespace(control_plane) as name:
        yield name


@contextlib.contextmanager
def own_namespace(control_plane: ControlPlane) -> Iterator[str]:
    """Create a namespace, and delete what is in it afterwards."""
    control_plane.check()
    name = control_plane.create_namespace(f"test-{uuid.uuid4().hex[:8]}")
    yield name
    clear(control_plane, name)


def clear(control_plane: ControlPlane, namespace: str) -> None:
    """Delete what is in a namespace.

    Kubernetes ends a namespace with two requests for each of some sixty kinds, which takes 0.2 CPU seconds. So the
    namespace stays if it has nothing but what most tests make.
    """
    kinds = control_plane.kinds_stored_in(namespace) - ALWAYS_THERE
    if not kinds <= COLLECTIONS.keys():
        control_plane.api.delete(f"/api/v1/namespaces/{namespace}")
    for kind, collection in COLLECTIONS.items():
        if kind in kinds:
            control_plane.api.delete(collection.format(namespace), grace_seconds=0)


@pytest.fixture
def make_nodes(control_plane: ControlPlane) -> Iterator[MakeNodes]:
    """A function that creates that many nodes, all alike, and returns their names; they go after the test.

    Its keywords are those of `a_node`. Names are never used twice in a test run.
    """
    made: list[str] = []

    def make(count: int, *, prefix: str = "node", **keywords: Any) -> list[str]:
        stem = f"{prefix}-{uuid.uuid4().hex[:6]}"
        nodes = [a_node(f"{stem}-{index}", **keywords) for index in range(count)]
        made.extend(node["metadata"]["name"] for node in nodes)
        return control_plane.create_nodes(nodes)

    yield make
    control_plane.delete_nodes(made)


@pytest.fixture
def fault_proxy(control_plane: ControlPlane) -> Iterator[FaultProxy]:
    """A proxy in front of the control plane, without any fault yet."""
    with FaultProxy(control_plane) as proxy:
        yield proxy
