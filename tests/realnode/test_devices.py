"""Cards that a device plugin offers and devices that a DRA driver offers, from the quota to the container."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.realnode import devices
from tests.realnode.cluster import Cluster, Json, a_pod, eventually, phase_of
from tools.realnode import node

GPU = "nvidia.com/gpu"
MODEL = "Example-A"
CORE, MEMORY = "vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory"
PLACED_ON = "vke.volcengine.com/gpu-index-container-main"

TIERS = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: {plugin}
    arguments: {arguments}
  - name: nodeorder
"""


def offers(cluster: Cluster, resource: str, count: int) -> bool:
    """Whether the node tells of so many."""
    return int(cluster.get("node", node.NAME)["status"]["allocatable"].get(resource, 0)) == count


def with_devices(pod: Json, **metadata: Json) -> Json:
    """The pod with these annotations, and what else its metadata says."""
    return pod | {"metadata": pod["metadata"] | metadata}


def asking(name: str, *, annotations: Json | None = None, env: list[Json] | None = None, **amounts: int) -> Json:
    """A pod that asks for devices and shows its variables and devices."""
    pod = a_pod(name, command=("sh", "-c", "env; ls /dev; sleep 3600"), terminationGracePeriodSeconds=1)
    [container] = pod["spec"]["containers"]
    container["resources"]["limits"] = {resource: str(amount) for resource, amount in amounts.items()}
    container["env"] = env or []
    return with_devices(pod, annotations=annotations or {})


def shown(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """What a pod shows, as soon as it runs."""
    eventually(lambda: phase_of(cluster.get("pod", name, namespace)) == "Running")
    return eventually(lambda: cluster.kubectl("logs", name, "-n", namespace).split())


@pytest.fixture
def gpus(installed: Cluster, tmp_path: Path) -> Iterator[None]:
    """Two cards of one model."""
    labels = {"product": MODEL, "count": "2", "memory": "81920"}
    installed.kubectl("label", "node", node.NAME, *(f"{GPU}.{key}={value}" for key, value in labels.items()))
    with devices.plugin(GPU, 2, tmp_path / "plugin.log", "-files"):
        eventually(lambda: offers(installed, GPU, 2))
        yield
    installed.kubectl("label", "node", node.NAME, *(f"{GPU}.{key}-" for key in labels))


@contextmanager
def queue(cluster: Cluster, name: str, **annotations: str) -> Iterator[Callable[..., None]]:
    """Have a Queue within a ``with`` block; what is yielded gives it other annotations."""
    whose = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}

    def put(**said: str) -> None:
        metadata = {"name": name, "annotations": {f"volcano.sh/card.{key}": value for key, value in said.items()}}
        cluster.apply(whose | {"metadata": metadata, "spec": {"weight": 1, "capability": {"cpu": 8, "memory": "8Gi"}}})

    put(**annotations)
    try:
        yield put
    finally:
        cluster.kubectl("delete", "queues.scheduling.volcano.sh", name)


def claims_that_were(log: Path, what: str) -> set[str]:
    """What a driver says that it has ``prepared`` or ``released``; a kubelet asks until it has heard an answer."""
    return {line.split()[1] for line in log.read_text().splitlines() if line.startswith(what)}


@pytest.mark.usefixtures("gpus")
def test_a_quota_by_card_model_holds_and_its_cards_are_in_the_container(installed: Cluster, namespace: str) -> None:
    wants = {"volcano.sh/card.name": MODEL, "scheduling.volcano.sh/queue-name": "by-model"}
    with (
        installed.configured(TIERS.format(plugin="capacity-card", arguments="{}")),
        queue(installed, "by-model", quota=f'{{"{MODEL}": 1}}') as give,
    ):
        installed.apply(asking("first", annotations=wants, **{GPU: 1}), namespace=namespace)
        said = shown(installed, namespace, "first")
        [given] = [line for line in said if line.startswith("NVIDIA_COM_GPU=")]
        assert f"device{given.partition('=')[2]}" in said

        installed.apply(asking("second", annotations=wants, **{GPU: 1}), namespace=namespace)
        waits = f"insufficient <{MODEL}> quota"
        eventually(lambda: any(waits in line for line in installed.events(namespace, "second")))
        assert "nodeName" not in installed.get("pod", "second", namespace)["spec"]

        give(quota=f'{{"{MODEL}": 2}}')
        [other] = [line for line in shown(installed, namespace, "second") if line.startswith("NVIDIA_COM_GPU=")]
        assert other != given
        held = installed.get("queues.scheduling.volcano.sh", "by-model")["status"]["allocated"]
        assert held[MODEL] == "2"


def test_shares_of_cards_are_in_the_container_by_the_downward_api(
    installed: Cluster, namespace: str, tmp_path: Path
) -> None:
    """As an agent of a node, or the program itself, reads on which cards it is."""
    where = {"name": "CARDS", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{PLACED_ON}']"}}}
    arguments = "{predicate.MGPUEnable: true, predicate.MGPUPolicy: spread}"
    with (
        devices.plugin(CORE, 200, tmp_path / "core.log"),
        devices.plugin(MEMORY, 2048, tmp_path / "memory.log"),
        installed.configured(TIERS.format(plugin="mgpu", arguments=arguments)),
    ):
        eventually(lambda: offers(installed, CORE, 200) and offers(installed, MEMORY, 2048))
        cards = []
        for name in ("one", "two"):
            installed.apply(asking(name, env=[where], **{CORE: 60, MEMORY: 512}), namespace=namespace)
            said = shown(installed, namespace, name)
            [card] = [line.partition("=")[2] for line in said if line.startswith("CARDS=")]
            assert card == installed.get("pod", name, namespace)["metadata"]["annotations"][PLACED_ON]
            cards.append(card)
        assert sorted(cards) == ["0", "1"]

        installed.apply(asking("three", env=[where], **{CORE: 60, MEMORY: 512}), namespace=namespace)
        waits = "no card combination fits"
        eventually(lambda: any(waits in line for line in installed.events(namespace, "three")))


def test_claims_are_prepared_and_the_container_sees_its_device(
    installed: Cluster, namespace: str, tmp_path: Path
) -> None:
    group = "resource.k8s.io/v1"
    chosen = {"cel": {"expression": f'device.attributes["{devices.DRIVER}"].model == "Example"'}}
    asked = {"name": "gpu", "exactly": {"deviceClassName": devices.DRIVER, "selectors": [chosen]}}
    rule = {"cel": {"expression": f'device.driver == "{devices.DRIVER}"'}}
    kinds = [
        {"kind": "DeviceClass", "metadata": {"name": devices.DRIVER}, "spec": {"selectors": [rule]}},
        {
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one"},
            "spec": {"spec": {"devices": {"requests": [asked]}}},
        },
    ]
    with devices.driver(2, tmp_path / "driver.log"):
        eventually(lambda: installed.list("resourceslices"))
        installed.apply(*({"apiVersion": group} | found for found in kinds), namespace=namespace)
        given = []
        for name in ("one", "two", "three"):
            pod = asking(name)
            pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
            pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
            installed.apply(pod, namespace=namespace)
            if name != "three":
                said = shown(installed, namespace, name)
                [device] = [line.partition("=")[2] for line in said if line.startswith("GIVEN_DEVICE=")]
                assert device in said, "its file in /dev"
                given.append(device)
        assert sorted(given) == ["gpu-0", "gpu-1"]
        eventually(lambda: any("FailedScheduling" in line for line in installed.events(namespace, "three")))

        installed.kubectl("delete", "pod", "one", "-n", namespace)
        assert f"GIVEN_DEVICE={given[0]}" in shown(installed, namespace, "three")
        installed.kubectl("delete", "pods", "--all", "-n", namespace)
        log = tmp_path / "driver.log"
        eventually(lambda: claims_that_were(log, "released") == claims_that_were(log, "prepared"))
        assert len(claims_that_were(log, "prepared")) == 3
        order = [line.rpartition("-")[0].rpartition("/")[2] for line in log.read_text().splitlines()]
        assert order[:4] == ["one-gpu", "two-gpu", "one-gpu", "three-gpu"], "released before somebody else gets it"
    installed.kubectl("delete", "deviceclass", devices.DRIVER)
