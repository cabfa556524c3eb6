"""Scheduler and controllers of the image start with the arguments of Volcano's manifests, word for word."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from tests.cli import volcano_arguments as volcano
from tests.cluster.scheduling import eventually
from tests.manifests.applying import applied, installed
from tests.manifests.dockerfile import Image
from tests.manifests.examples import NODES, WORKLOADS, observed, simulated
from tests.manifests.kubelet import Kubelet
from tests.manifests.processes import Replica, pods_of
from tests.manifests.rendering import MANIFESTS, SYSTEM, Json
from tools.controlplane import ControlPlane

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""The chart's own."""

CONFIGMAP: Json = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "volcano-scheduler-configmap", "namespace": SYSTEM},
    "data": {"volcano-scheduler.conf": CONFIGURATION},
}
MOUNT: Json = {"name": "scheduler-config", "mountPath": "/volcano.scheduler"}
VOLUME: Json = {"name": "scheduler-config", "configMap": {"name": CONFIGMAP["metadata"]["name"], "defaultMode": 0o644}}
WARNING = "arguments of Volcano that have no effect here"

Start = Callable[[str, Sequence[str]], Replica]


@pytest.fixture(scope="module")
def volcano_configured(
    cluster: ControlPlane, example_nodes: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    path = tmp_path_factory.mktemp("volcano") / "configmap.yaml"
    path.write_text(yaml.safe_dump(CONFIGMAP))
    with installed(cluster, MANIFESTS / "overlays/standalone"), applied(cluster, path):
        yield


@pytest.fixture
def start(cluster: ControlPlane, image: Image, volcano_configured: None, tmp_path: Path) -> Iterator[Start]:
    """Starts the pod of a Deployment of ours with other arguments, and with the volume that Volcano's chart has."""
    kubelet = Kubelet(cluster, image, tmp_path)
    started: list[Replica] = []

    def start(name: str, arguments: Sequence[str]) -> Replica:
        deployment = cluster.api.get(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{name}")
        pod = copy.deepcopy(pods_of(cluster, deployment)[0])
        [container] = pod["spec"]["containers"]
        container["args"] = [container["args"][0], *arguments]
        container["volumeMounts"].append(MOUNT)
        pod["spec"]["volumes"].append(VOLUME)
        started.append(Replica(kubelet, pod, tmp_path / f"{name}.log"))
        eventually(lambda: started[-1].page("/readyz")[0] == 200, what=f"{name} is ready")
        return started[-1]

    yield start
    for replica in started:
        replica.close()


def test_a_gang_runs_with_the_arguments_of_the_chart(cluster: ControlPlane, start: Start, tmp_path: Path) -> None:
    controllers = start("volsched-controllers", volcano.CONTROLLERS_OF_CHART)
    scheduler = start("volsched-scheduler", volcano.SCHEDULER_OF_CHART)

    configuration = tmp_path / "volcano-scheduler.conf"
    configuration.write_text(CONFIGURATION)
    for sample in WORKLOADS:
        with applied(cluster, sample):
            expected = simulated([sample], NODES, config=configuration)
            eventually(lambda s=sample, e=expected: observed(cluster, [s]).counts == e.counts, what=str(sample))

    [said] = scheduler.said(WARNING)
    assert said["level"] == "warning"
    assert said["arguments"] == [
        *("--enable-healthz", "--enable-metrics", "--logtostderr", "--node-worker-threads", "-v", "2>&1")
    ]
    [said] = controllers.said(WARNING)
    assert {"--sharding-configmap", "--worker-threads-for-gc", "2>&1"} < set(said["arguments"])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("volsched-scheduler", volcano.SCHEDULER_OF_SEED),
        ("volsched-scheduler", volcano.SCHEDULER_WITH_ALL_VALUES),
        ("volsched-controllers", volcano.CONTROLLERS_WITH_ALL_VALUES),
    ],
    ids=["seed 001", "scheduler, all values", "controllers, all values"],
)
def test_it_leads_with_the_arguments_of_the_seed_and_of_the_whole_template(
    start: Start, name: str, arguments: Sequence[str]
) -> None:
    replica = start(name, arguments)

    replica.wait_for("leading")
    assert len(replica.said(WARNING)) == 1
    assert replica.terminate() == 0
