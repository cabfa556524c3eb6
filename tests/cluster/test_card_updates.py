"""Deployments on a quota of cards: starts, growth and rolling updates, by Kubernetes' own controllers.

kube-controller-manager makes ReplicaSets and pods, `volsched controllers` their PodGroups, and `volsched run` places
what the quota allows. No step of an update may need more than a pod's own card.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.controlling import AT_WORK, Controlled
from tests.cluster.scheduling import GROUPS, Json, eventually
from tests.cluster.signals import after_session
from tests.cluster.test_capacity_card import CONFIGURATION, labels
from tests.plugins.capacity_card.clusters import GPU, A, some
from tools.controlplane import ControlPlane, a_node

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

QUOTA = 4
SURGES = {"maxSurge": 1, "maxUnavailable": 0}
MAKES_ROOM = {"maxSurge": 0, "maxUnavailable": 1}
DEFAULTS = {"maxSurge": "25%", "maxUnavailable": "25%"}


class Service:
    """Deployments of one team, in a queue with a quota, on a node with more cards than that."""

    def __init__(self, controlled: Controlled, namespace: str) -> None:
        self.controlled = controlled
        self.api = controlled.api
        self.namespace = namespace
        self.queue = f"{namespace}-q"
        self.node = f"{namespace}-a1"
        controlled.control_plane.create_nodes([a_node(self.node, labels=labels(A), **some({GPU: 8}))])
        controlled.queue(self.queue, weight=1)
        self.allow(QUOTA)

    def allow(self, cards: int) -> None:
        annotations = {"volcano.sh/card.quota": json.dumps({A: cards})}
        self.api.patch(f"{GROUPS}/queues/{self.queue}", {"metadata": {"annotations": annotations}})

    def schedule(self) -> None:
        path = self.controlled.folder / "cards.conf"
        path.write_text(CONFIGURATION)
        self.controlled.start("--scheduler-conf", str(path)).wait_leading()

    def control(self) -> None:
        self.controlled.control().wait_for(AT_WORK)

    def deploy(self, name: str, replicas: int, strategy: Json | None = None) -> None:
        named = {"volcano.sh/card.name": A, "scheduling.volcano.sh/queue-name": self.queue}
        template = self.controlled.template(named, **some({GPU: 1}))
        rolling = {"strategy": {"type": "RollingUpdate", "rollingUpdate": strategy or DEFAULTS}}
        self.controlled.workload(self.namespace, "Deployment", name, replicas, template=template, **rolling)

    def path(self, name: str) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}"

    def scale(self, name: str, replicas: int) -> None:
        """What a HorizontalPodAutoscaler does."""
        self.api.patch(f"{self.path(name)}/scale", {"spec": {"replicas": replicas}})

    def update(self, name: str) -> None:
        """Another version of its pods."""
        self.api.patch(self.path(name), {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}})

    def status(self, name: str) -> dict[str, int]:
        said = self.api.get(self.path(name)).get("status", {})
        return {key: said.get(key, 0) for key in ("replicas", "readyReplicas", "updatedReplicas")}

    def is_updated(self, name: str, replicas: int) -> bool:
        assert self.running() <= QUOTA, "the quota holds in the middle of an update"
        return set(self.status(name).values()) == {replicas}

    def running(self) -> int:
        """Pods that hold a card: on a node, and not on their way out."""
        pods = self.controlled.pods(self.namespace).values()
        return sum("nodeName" in p["spec"] and "deletionTimestamp" not in p["metadata"] for p in pods)

    def pods_of(self, version: str) -> int:
        pods = self.controlled.pods(self.namespace).values()
        return sum(pod["metadata"]["annotations"].get("version", "1") == version for pod in pods)

    def wait_running(self, count: int) -> None:
        eventually(lambda: self.running() == count, what=f"{count} run")
        self.settle()
        assert self.running() == count

    def settle(self) -> None:
        """Wait until all pods that Deployments want are there with their PodGroup, and the scheduler has decided."""
        deployments = self.path("").removesuffix("/")
        eventually(lambda: all(map(has_its_pods, self.api.items(deployments))), what="Deployments have their pods")
        eventually(lambda: len(grouped(self)) == len(self.controlled.pods(self.namespace)), what="all have a PodGroup")
        after_session(self.controlled)

    def wait_updated(self, name: str, replicas: int) -> None:
        eventually(lambda: self.is_updated(name, replicas), what=f"{name} is updated")

    def refusals(self) -> list[Json]:
        found = self.controlled.events(self.namespace)
        return [event for event in found if event["reason"] == "InsufficientScalarQuota"]


@pytest.fixture
def service(controlled: Controlled, namespace: str, control_plane: ControlPlane) -> Iterator[Service]:
    found = Service(controlled, namespace)
    yield found
    control_plane.delete_nodes([found.node])
    control_plane.api.delete(f"{GROUPS}/queues/{found.queue}")


@pytest.mark.no_retry(reason="quota overrun")
@pytest.mark.parametrize("scheduler_is_there", [True, False], ids=["before the pods", "once all pods are there"])
def test_a_deployment_of_five_on_a_quota_of_four_gets_four(service: Service, scheduler_is_there: bool) -> None:
    """Whether its PodGroup is first judged without pods or with all of them."""
    service.control()
    if scheduler_is_there:
        service.schedule()
    service.deploy("chat", 5)
    eventually(lambda: len(grouped(service)) == 5, what="five pods have their PodGroup")
    if not scheduler_is_there:
        service.schedule()

    service.wait_running(QUOTA)

    eventually(lambda: any(event["involvedObject"]["kind"] == "Pod" for event in service.refusals()), what="the fifth")
    [group] = service.controlled.groups(service.namespace)
    service.controlled.wait_group(service.namespace, group, "Running")


def has_its_pods(deployment: Json) -> bool:
    """Whether Kubernetes' own controllers have seen what a Deployment wants, and made as many pods."""
    said = deployment.get("status", {})
    is_seen = said.get("observedGeneration") == deployment["metadata"]["generation"]
    return bool(is_seen and said.get("replicas", 0) == deployment["spec"]["replicas"])


def grouped(service: Service) -> list[Any]:
    pods = service.controlled.pods(service.namespace).values()
    return [pod for pod in pods if "scheduling.k8s.io/group-name" in pod["metadata"]["annotations"]]


def test_an_autoscaler_grows_a_deployment_up_to_the_quota_and_gives_it_back(service: Service) -> None:
    service.control()
    service.schedule()
    service.deploy("chat", 2)
    service.wait_running(2)

    service.scale("chat", 3)
    service.wait_running(3)
    service.scale("chat", 9)
    service.wait_running(QUOTA)

    service.deploy("late", 2)
    service.scale("chat", 3)
    eventually(lambda: service.status("late")["readyReplicas"] == 1, what="the other one starts with what is left")
    service.wait_running(QUOTA)


@pytest.mark.parametrize(
    ("replicas", "strategy"),
    [
        pytest.param(4, DEFAULTS, id="defaults"),
        pytest.param(4, MAKES_ROOM, id="one less, then one of the new"),
        pytest.param(3, SURGES, id="one more, then one less of the old"),
    ],
)
def test_a_rolling_update_ends(service: Service, replicas: int, strategy: Json) -> None:
    service.control()
    service.schedule()
    service.deploy("chat", replicas, strategy)
    eventually(lambda: service.status("chat")["readyReplicas"] == replicas, what="version 1 runs")

    service.update("chat")

    service.wait_updated("chat", replicas)


def test_three_old_pods_and_two_new_ones_share_four_cards(service: Service) -> None:
    """The middle of an update with the defaults, found by a scheduler that was not there when it began."""
    service.control()
    service.schedule()
    service.deploy("chat", QUOTA)
    eventually(lambda: service.status("chat")["readyReplicas"] == QUOTA, what="version 1 runs")
    assert service.controlled.processes[-1].terminate() == 0

    service.update("chat")
    eventually(lambda: (service.pods_of("1"), service.pods_of("2")) == (3, 2), what="the update waits")
    assert service.running() == 3
    service.schedule()

    service.wait_updated("chat", QUOTA)


def test_an_update_that_needs_a_card_more_waits_for_it_and_says_so(service: Service) -> None:
    """Four of four cards are held, and no old pod may go before a new one is there."""
    service.control()
    service.schedule()
    service.deploy("chat", QUOTA, SURGES)
    eventually(lambda: service.status("chat")["readyReplicas"] == QUOTA, what="version 1 runs")

    service.update("chat")
    eventually(lambda: bool(service.refusals()), what="the new pod is refused")
    after_session(service.controlled)
    assert service.status("chat") == {"replicas": 5, "readyReplicas": 4, "updatedReplicas": 1}
    service.allow(QUOTA + 1)

    eventually(lambda: set(service.status("chat").values()) == {QUOTA}, what="chat is updated")
