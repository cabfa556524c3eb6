"""The processes, with exactly the arguments, ServiceAccounts and Roles of the manifests, run what people run."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.scheduling import LEASE, eventually
from tests.manifests.applying import applied, apply, delete, installed
from tests.manifests.dockerfile import Image
from tests.manifests.examples import CONFIGURATION, EXAMPLES, NODES, WORKLOADS, observed, simulated
from tests.manifests.processes import Processes
from tests.manifests.rendering import MANIFESTS
from tools.controlplane import ControlPlane

STANDALONE = MANIFESTS / "overlays/standalone"
TOUR = [path for path in sorted(EXAMPLES.glob("*.yaml")) if path != NODES]


@pytest.fixture(scope="module")
def standalone(
    cluster: ControlPlane, example_nodes: None, image: Image, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Processes]:
    with installed(cluster, STANDALONE):
        processes = Processes(cluster, image, tmp_path_factory.mktemp("standalone"))
        try:
            processes.wait_ready()
            yield processes
        finally:
            processes.close()


@pytest.mark.parametrize("sample", WORKLOADS, ids=lambda path: path.stem)
def test_every_sample_works_as_it_is_and_as_simulate_says(
    cluster: ControlPlane, standalone: Processes, sample: Path
) -> None:
    expected = simulated([sample], NODES, config=CONFIGURATION)
    assert sum(expected.placed.values()) > 0

    with applied(cluster, sample):
        standalone.wait_for([sample], expected)
        eventually(lambda: observed(cluster, [sample]) == expected, what=str(expected))


def test_the_example_cluster_becomes_what_simulate_says(cluster: ControlPlane, standalone: Processes) -> None:
    expected = simulated([EXAMPLES])

    cluster.kubectl("apply", "-f", str(EXAMPLES))
    try:
        standalone.wait_for([EXAMPLES], expected)
    finally:
        for path in reversed(TOUR):
            delete(cluster, "-f", path)
        apply(cluster, STANDALONE)


def test_what_the_scheduler_believes_is_left_in_its_volume(standalone: Processes) -> None:
    [leader] = standalone.leaders(standalone.replicas["volsched-scheduler"])

    leader.process.send_signal(signal.SIGUSR2)

    path = Path(leader.wait_for("dumped the mirror")["path"])
    assert path.parent == Path("/tmp")  # noqa: S108 - where the manifest has the volume
    left = standalone.kubelet.volume(leader.pod, "tmp") / path.name
    assert json.loads(left.read_text())["queues"].keys() >= {"default", "root"}


def test_nobody_was_refused_anything(standalone: Processes) -> None:
    """Comes after the tests in which every process has done its work."""
    for replica in standalone.all():
        assert replica.refusals() == [], replica.log.name


def test_the_second_scheduler_goes_on_when_the_first_one_is_told_to_end(
    cluster: ControlPlane, standalone: Processes
) -> None:
    replicas = standalone.replicas["volsched-scheduler"]
    [leader] = standalone.leaders(replicas)

    assert leader.terminate() == 0
    eventually(lambda: standalone.leaders(replicas) != [])

    [follower] = standalone.leaders(replicas)
    assert cluster.api.get(LEASE)["spec"]["holderIdentity"] == follower.said("leading")[0]["identity"]
    sample = next(path for path in WORKLOADS if path.stem == "gang")
    with applied(cluster, sample):
        standalone.wait_for([sample], simulated([sample], NODES, config=CONFIGURATION))
