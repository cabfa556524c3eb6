"""Quotas by card model against a real control plane: KWOK nodes with whole cards, MPS shares and MIG slices."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.scheduling import GROUPS, Installed, Json, SchedulerProcess, eventually
from tests.cluster.signals import after_session
from tests.plugins.capacity_card.clusters import GPU, MPS, A, H, some
from tools.controlplane import ControlPlane, a_node

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

MIG = "nvidia.com/mig-1g.18gb"
A_MPS, H_MIG = f"{A}/mps-80g*1/8", f"{H}/mig-1g.18gb-mixed"
LIST = f"{A}|{H}"
CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: capacity-card
    arguments:
      cardUnlimitedCpuMemory: true
  - name: nodeorder
  - name: binpack
"""


def labels(product: str, memory: str = "81920", **more: str) -> dict[str, str]:
    named = {"product": product, "count": "4", "memory": memory, **more}
    return {f"{GPU}.{key}": value for key, value in named.items() if value}


class Cluster:
    """Card nodes, queues with quotas, and work in a namespace."""

    def __init__(self, installed: Installed, namespace: str) -> None:
        self.installed = installed
        self.api = installed.api
        self.namespace = namespace
        self.nodes: list[str] = []
        self.queues: list[str] = []

    def node(self, name: str, product: str, memory: str = "81920", **amounts: Any) -> None:
        node = a_node(f"{self.namespace}-{name}", labels=labels(product, memory, replicas="8"), **amounts)
        self.nodes.append(node["metadata"]["name"])
        self.installed.control_plane.create_nodes([node])

    def queue(self, name: str, quota: Any) -> None:
        """Create a queue, or give it another quota."""
        text = quota if isinstance(quota, str) else json.dumps(quota)
        meta = {"name": name, "annotations": {"volcano.sh/card.quota": text}}
        if self.api.find(f"{GROUPS}/queues/{name}") is None:
            self.api.create(f"{GROUPS}/queues", {"metadata": meta, "spec": {"weight": 1}, **kind("Queue")})
            self.queues.append(name)
        else:
            self.api.patch(f"{GROUPS}/queues/{name}", {"metadata": meta})

    def start(self) -> SchedulerProcess:
        path = self.installed.folder / "cards.conf"
        path.write_text(CONFIGURATION)
        flags = ("--scheduler-conf", str(path), "--plain-pods", "direct")
        return self.installed.start(*flags).wait_leading()

    def deployment(self, name: str, card: str, replicas: int, resource: str = GPU) -> None:
        container = {"name": "main", "image": "registry.invalid/none:1", "resources": {"limits": {resource: "1"}}}
        template = {
            "metadata": {"labels": {"app": name}, "annotations": {"volcano.sh/card.name": card}},
            "spec": {"schedulerName": self.installed.name, "containers": [container]},
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
        self.api.create(f"/apis/apps/v1/namespaces/{self.namespace}/deployments", body)

    def scale(self, name: str, replicas: int) -> None:
        self.api.patch(
            f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}", {"spec": {"replicas": replicas}}
        )

    def gang(self, name: str, queue: str, size: int, card: str, request: dict[str, int]) -> None:
        meta = {"name": name, "annotations": {"volcano.sh/card.request": json.dumps(request)}}
        spec = {"minMember": size, "queue": queue}
        path = f"{GROUPS}/namespaces/{self.namespace}/podgroups"
        self.api.create(path, {"metadata": meta, "spec": spec, **kind("PodGroup")})
        pods = [self.installed.pod(f"{name}-{n}", group=name, **some({GPU: 1})) for n in range(size)]
        for pod in pods:
            pod["metadata"]["annotations"]["volcano.sh/card.name"] = card
        self.installed.make_pods(self.namespace, pods)

    def placed(self) -> Counter[tuple[str, str]]:
        """Pods of each piece of work on each node."""
        return Counter(
            (name.partition("-")[0], pod["spec"]["nodeName"].removeprefix(f"{self.namespace}-"))
            for name, pod in self.installed.pods(self.namespace).items()
            if "nodeName" in pod["spec"]
        )

    def wait_placed(self, expected: dict[tuple[str, str], int]) -> None:
        eventually(lambda: self.placed() == expected, what=f"{expected}, and not {self.placed()}")

    def refused(self, reason: str) -> list[Json]:
        return [event for event in self.installed.events(self.namespace) if event["reason"] == reason]


def kind(name: str) -> Json:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": name}


@pytest.fixture
def cluster(installed: Installed, namespace: str, control_plane: ControlPlane) -> Iterator[Cluster]:
    found = Cluster(installed, namespace)
    yield found
    control_plane.delete_nodes(found.nodes)
    for name in found.queues:
        control_plane.api.delete(f"{GROUPS}/queues/{name}")


def test_a_service_scales_within_its_quota_and_gives_it_back(cluster: Cluster) -> None:
    cluster.node("a1", A, **some({GPU: 4}))
    cluster.node("h1", H, **some({GPU: 4}))
    cluster.queue("default", {A: 1, H: 2})
    scheduler = cluster.start()

    cluster.deployment("chat", LIST, 2)
    cluster.wait_placed({("chat", "a1"): 1, ("chat", "h1"): 1})

    cluster.scale("chat", 6)
    cluster.wait_placed({("chat", "a1"): 1, ("chat", "h1"): 2})
    eventually(lambda: len(cluster.refused("InsufficientScalarQuota")) == 3, what="three are refused")
    told = cluster.refused("InsufficientScalarQuota")[0]
    assert (told["type"], told["involvedObject"]["kind"]) == ("Warning", "Pod")
    assert told["message"].startswith(
        f"Queue <default> has insufficient <{LIST}> quota: requested <1000>, total would be "
    )
    assert f"{H}: requested 1, held 2, quota 2" in told["message"]
    after_session(cluster.installed)
    assert sum(cluster.placed().values()) == 3

    cluster.deployment("other", H, 1)
    cluster.scale("chat", 0)
    cluster.wait_placed({("other", "h1"): 1})
    held = f'volcano_queue_card_allocated{{card="{H}",queue_name="default"}}'
    eventually(lambda: scheduler.metric(held) == 1, what=scheduler.page("/metrics")[1])
    assert scheduler.metric(f'volsched_cluster_cards{{card="{A}"}}') == 4
    assert not scheduler.said("not allowed")


@pytest.mark.no_retry(reason="quota overrun")
def test_whole_cards_shares_and_slices_have_quotas_of_their_own(cluster: Cluster) -> None:
    cluster.node("m1", A, **some({GPU: 2, MPS: 16}))
    cluster.node("s1", H, **some({GPU: 7, MIG: 3}))
    cluster.queue("default", {A: 1, A_MPS: 3, H_MIG: 2})
    cluster.start()

    for name, card, resource in (("whole", A, GPU), ("shares", A_MPS, MPS), ("slices", H_MIG, MIG), ("none", H, GPU)):
        cluster.deployment(name, card, 4, resource)

    cluster.wait_placed({("whole", "m1"): 1, ("shares", "m1"): 3, ("slices", "s1"): 2})
    eventually(lambda: len(cluster.refused("InsufficientScalarQuota")) == 10, what="ten are refused")
    after_session(cluster.installed)
    assert sum(cluster.placed().values()) == 6


def test_a_gang_is_admitted_once_its_queue_has_the_quota(cluster: Cluster) -> None:
    cluster.node("a1", A, **some({GPU: 4}))
    cluster.node("h1", H, **some({GPU: 4}))
    cluster.queue(f"{cluster.namespace}-q", {A: 1, H: 1})
    cluster.start()

    cluster.gang("train", f"{cluster.namespace}-q", 4, LIST, {LIST: 4})

    told = cluster.installed.wait_event(cluster.namespace, "train", "InsufficientScalarQuota")
    assert (told["type"], told["involvedObject"]["kind"]) == ("Warning", "PodGroup")
    assert "requested <4000>, total would be <4000>, but capability is <2000>" in told["message"]
    assert cluster.placed() == {}

    cluster.queue(f"{cluster.namespace}-q", {A: 1, H: 3})
    cluster.wait_placed({("train", "a1"): 1, ("train", "h1"): 3})
    cluster.installed.wait_group(cluster.namespace, "train", "Running")


@pytest.mark.no_retry(reason="quota overrun")
def test_a_scheduler_that_takes_over_keeps_the_quota(cluster: Cluster) -> None:
    cluster.node("a1", A, **some({GPU: 4}))
    cluster.queue("default", {A: 2})
    first = cluster.start()
    cluster.deployment("chat", A, 2)
    cluster.wait_placed({("chat", "a1"): 2})
    assert first.terminate() == 0

    cluster.scale("chat", 4)
    cluster.start()

    eventually(lambda: len(cluster.refused("InsufficientScalarQuota")) == 2, what="two are refused")
    assert cluster.placed() == {("chat", "a1"): 2}


def test_what_is_wrong_is_said_on_what_has_the_mistake(cluster: Cluster) -> None:
    cluster.node("a1", A, **some({GPU: 4}))
    cluster.node("b1", H, memory="", **some({GPU: 4}))
    cluster.queue(f"{cluster.namespace}-q", '{"NVIDIA-A100": 1.5}')
    cluster.start()

    node = cluster.installed.wait_event("default", cluster.nodes[1], "IncompleteCardLabels")
    queue = cluster.installed.wait_event("default", cluster.queues[0], "InvalidCardQuota")

    assert f"{GPU}.memory" in node["message"]
    assert "must be a whole number of cards, not 1.5" in queue["message"]
