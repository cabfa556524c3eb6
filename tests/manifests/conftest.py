"""A control plane of these tests' own, since they install and remove what others' tests need to be there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import running_control_plane
from tests.manifests.dockerfile import Image, folder_of_run, shared_image
from tests.manifests.examples import NODES, documents
from tests.manifests.monitoring import MONITORING, a_crd
from tools.controlplane import ControlPlane, a_node

PLAIN_NODES = ("plain-1", "plain-2", "plain-3")
"""Nodes for volsched's own pods, which kube-scheduler places."""


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """The image of the Dockerfile, built by hand, once for all workers."""
    with shared_image(folder_of_run(tmp_path_factory.getbasetemp())) as image:
        yield image


@pytest.fixture(scope="package")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An empty cluster with kube-scheduler and three nodes, one of which takes no pods."""
    folder = tmp_path_factory.mktemp("controlplane")
    with running_control_plane(request, folder, checks_policies=True) as control_plane:
        control_plane.start_kube_scheduler()
        taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
        linux = {"kubernetes.io/os": "linux"}
        control_plane.create_nodes([a_node(name, cpu="2", labels=linux) for name in PLAIN_NODES[:-1]])
        control_plane.create_nodes([a_node(PLAIN_NODES[-1], cpu="2", labels=linux, taints=[taint])])
        yield control_plane


@pytest.fixture(scope="module")
def example_nodes(cluster: ControlPlane) -> Iterator[None]:
    """The nodes of the examples and no others, so that a simulation sees the same."""
    cluster.kubectl("cordon", *PLAIN_NODES)
    nodes = cluster.create_nodes(documents([NODES]))
    yield
    cluster.delete_nodes(nodes)
    cluster.kubectl("uncordon", *PLAIN_NODES)


@pytest.fixture(scope="package")
def monitoring_kinds(cluster: ControlPlane) -> None:
    """The kinds of the Prometheus operator."""
    for kind, spec in MONITORING.items():
        cluster.api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", a_crd(kind, spec))
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=300s")
