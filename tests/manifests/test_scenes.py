"""The examples of plugins, each a whole cluster in one file, on a real API server: they become what simulate says."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.scheduling import eventually
from tests.manifests.applying import installed
from tests.manifests.conftest import PLAIN_NODES
from tests.manifests.dockerfile import Image
from tests.manifests.examples import EXAMPLES, SCENES, WITH_PODS, documents, observed, simulated
from tests.manifests.processes import Processes
from tests.manifests.rendering import MANIFESTS, SYSTEM, Json
from tests.manifests.users import create, remove
from tools.controlplane import ControlPlane
from tools.controlplane.stages import RUN_FOR

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
STANDALONE = MANIFESTS / "overlays/standalone"
CONFIGURATION = f"/api/v1/namespaces/{SYSTEM}/configmaps/volsched-config"


@pytest.fixture(scope="module")
def processes(cluster: ControlPlane, image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Everything running in a cluster in which nothing but a scene's own nodes takes pods."""
    cluster.kubectl("cordon", *PLAIN_NODES)
    try:
        with installed(cluster, STANDALONE):
            found = Processes(cluster, image, tmp_path_factory.mktemp("scenes"))
            try:
                found.wait_ready()
                yield found
            finally:
                found.close()
    finally:
        cluster.kubectl("uncordon", *PLAIN_NODES)


@pytest.mark.parametrize("scene", SCENES, ids=lambda path: path.relative_to(EXAMPLES).as_posix())
def test_a_scene_becomes_what_simulate_says(cluster: ControlPlane, processes: Processes, scene: Path) -> None:
    expected = simulated([scene])
    found = documents([scene])
    [configuration] = [item for item in found if item["kind"] == "ConfigMap"]
    shipped = cluster.api.get(CONFIGURATION)
    del shipped["metadata"]["resourceVersion"]
    rest = [item for item in found if item["kind"] not in {"ConfigMap", "Node"}]
    work = [item for item in rest if item["kind"] in WITH_PODS]

    nodes = cluster.create_nodes([item for item in found if item["kind"] == "Node"])
    try:
        cluster.api.replace(CONFIGURATION, shipped | {"data": configuration["data"]})
        wait_until_in_force(cluster, processes)
        create(cluster, *(item for item in rest if item not in work), namespace="default")
        for item in work:
            create_alone(cluster, lasting(item))
        processes.wait_for([scene], expected)
    finally:
        remove(cluster, *rest, namespace="default")
        eventually(
            lambda: sum(observed(cluster, [scene]).placed.values()) == 0, what="pods leave before their nodes do"
        )
        cluster.delete_nodes(nodes)
        cluster.api.replace(CONFIGURATION, shipped)


def lasting(item: Json) -> Json:
    """Have pods of a Job run on: in a simulation nothing ends either."""
    if item["apiVersion"] != "batch/v1":
        return item
    changed = copy.deepcopy(item)
    metadata = changed["spec"]["template"].setdefault("metadata", {})
    metadata.setdefault("annotations", {})[RUN_FOR] = "1000h"
    return changed


def create_alone(cluster: ControlPlane, item: Json) -> None:
    """Create what makes pods, and have what comes next be younger: who is first is decided by whole seconds."""
    before = len(cluster.api.items(GROUPS))
    create(cluster, item, namespace="default")
    eventually(lambda: len(cluster.api.items(GROUPS)) > before, what=f"a PodGroup of {item['metadata']['name']}")
    time.sleep(1.0 - time.time() % 1.0)


def wait_until_in_force(cluster: ControlPlane, processes: Processes) -> None:
    """Wait until every scheduler has the text that the ConfigMap has."""
    [text] = cluster.api.get(CONFIGURATION)["data"].values()
    for replica in processes.replicas["volsched-scheduler"]:
        eventually(
            lambda r=replica: json.loads(r.page("/configz")[1])["configuration"]["text"] == text, what=replica.log.name
        )
