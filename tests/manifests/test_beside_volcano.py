"""volsched as the second scheduler of a cluster whose CRDs and controllers are Volcano's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.scheduling import eventually
from tests.manifests.applying import applied, installed
from tests.manifests.dockerfile import Image
from tests.manifests.examples import CONFIGURATION, EXAMPLES, NODES, observed, simulated
from tests.manifests.processes import Processes
from tests.manifests.rendering import MANIFESTS
from tools.controlplane import ControlPlane

GANG, POD = EXAMPLES / "workloads/gang.yaml", EXAMPLES / "workloads/pod.yaml"
PODGROUPS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.scheduling.volcano.sh"


@pytest.fixture(scope="module")
def volcano(cluster: ControlPlane) -> Iterator[None]:
    """Of Volcano what volsched meets: its kinds, of which PodGroup has no status subresource."""
    with installed(cluster, MANIFESTS / "crds"):
        versions = cluster.api.get(PODGROUPS)["spec"]["versions"]
        cluster.api.patch(PODGROUPS, {"spec": {"versions": [{**version, "subresources": {}} for version in versions]}})
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=300s")
        yield


@pytest.fixture(scope="module")
def processes(
    cluster: ControlPlane, example_nodes: None, volcano: None, image: Image, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Processes]:
    with installed(cluster, MANIFESTS / "overlays/beside-volcano"):
        found = Processes(cluster, image, tmp_path_factory.mktemp("beside-volcano"))
        try:
            found.wait_ready()
            yield found
        finally:
            found.close()


def test_a_gang_with_a_podgroup_runs(cluster: ControlPlane, processes: Processes) -> None:
    assert set(processes.replicas) == {"volsched-scheduler"}

    with applied(cluster, GANG):
        processes.wait_for([GANG], simulated([GANG], NODES, config=CONFIGURATION))


def test_a_plain_pod_waits_for_the_podgroup_that_volcanos_controllers_make(
    cluster: ControlPlane, processes: Processes
) -> None:
    pod = "/api/v1/namespaces/default/pods/notebook"
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "of-notebook"}}
    with applied(cluster, POD):
        eventually(lambda: "does not exist" in "".join(why for _, why in observed(cluster, [POD]).waiting))
        cluster.api.create(
            "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups", group | {"spec": {"minMember": 1}}
        )
        cluster.api.patch(pod, {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "of-notebook"}}})

        processes.wait_for([POD], simulated([POD], NODES, config=CONFIGURATION))


def test_nobody_was_refused_anything(processes: Processes) -> None:
    """Comes after the tests in which the scheduler has done its work."""
    for replica in processes.all():
        assert replica.refusals() == [], replica.log.name
