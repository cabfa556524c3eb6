"""Work that comes and goes: gangs with quotas of cards, pods with shared cards or devices, gangs of cpu, Volcano Jobs.

A round is 26 pods and 4 pods of a Job, all with room of their own kind: so tight that a binding too much overruns
something, and so that what waited while nobody scheduled is placed within a minute. KWOK runs every pod for some
seconds; what has finished is deleted, whole works at a time.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from typing import Any, Final

from drills import devices
from drills.reading import CARD_NAME, CARD_QUOTA, CORE, GROUP_NAME, MEMORY, QUEUE_NAME, Json
from drills.world import World
from tests.cluster.controlling import JOBS
from tests.cluster.scheduling import GROUPS
from tools.controlplane import a_pod
from tools.controlplane.stages import RUN_FOR

GPU: Final = "nvidia.com/gpu"
CARD: Final = "NVIDIA-A100"
WORK: Final = "drills.volsched.io/work"
PODS_OF_A_ROUND: Final = 30

SHARED_CARD_MEMORY: Final = 16_384
_SHARES: Final = ((30, 4_096), (45, 6_000), (60, 9_000))
_CARD_QUOTA: Final = 12
_WITHOUT_GROUP: Final = ("share-", "own-", "resource-")
"""Works whose PodGroups the controllers make, and delete."""

_CPU: Final = "24"


def furnish(world: World) -> None:
    """Make the nodes and queues that the load needs: 16 cards of which one queue may hold 12, 12 cards to share."""
    labels = {f"{GPU}.product": CARD, f"{GPU}.count": "8", f"{GPU}.memory": "81920"}
    world.nodes(2, prefix="card", cpu="16", labels=labels, **{GPU: 8})
    world.nodes(3, prefix="shared", cpu="4", **{CORE: 400, MEMORY: 4 * SHARED_CARD_MEMORY})
    world.nodes(3, prefix="plain", cpu="16")
    devices.furnish(world.api, world.nodes(2, prefix="devices", cpu="4"))
    for name, cpu, quota in (("cards", "12", _CARD_QUOTA), ("shares", "4", 0), ("teams", _CPU, 0), ("jobs", _CPU, 0)):
        notes = {CARD_QUOTA: f'{{"{CARD}": {quota}}}'} if quota else {}
        world.api.create(f"{GROUPS}/queues", {
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
            "metadata": {"name": name, "annotations": notes},
            "spec": {"weight": 1, "capability": {"cpu": cpu, "memory": "1Ti"}},
        })  # fmt: skip


class Load:
    """Makes rounds of work, and deletes what has finished; both on one thread, from `start` until `stop`."""

    def __init__(self, world: World, namespace: str, per_minute: int, rng: random.Random) -> None:
        self.made = 0
        """Pods that were made, or that Jobs were to make."""
        self.per_minute = 0.0
        """Pods that were made a minute, so far."""
        self.failures: list[str] = []
        self._world = world
        self._api = world.api
        self._namespace = namespace
        self._pause = 60.0 * PODS_OF_A_ROUND / per_minute
        self._rng = rng
        self._works = 0
        self._has_template = False
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Make no more."""
        self._is_over.set()
        self._thread.join()

    def left(self) -> list[str]:
        """Works that have not finished yet, after those that have are deleted."""
        return [*self._sweep_pods(), *self._sweep_jobs()]

    def _run(self) -> None:
        due = began = time.monotonic()
        while not self._is_over.is_set():
            try:
                self.make_round()
                self.left()
                due += self._pause
                self._is_over.wait(max(0.0, due - time.monotonic()))
                self.per_minute = 60.0 * self.made / (time.monotonic() - began)
            except Exception as error:  # the drill is to say so and not to go on with less
                self.failures.append(f"{type(error).__name__}: {error}"[:300])
                self._is_over.wait(1.0)

    # -- what comes -----------------------------------------------------------------------------------------------

    def make_round(self) -> None:
        """Make one of each gang, nine shares, and a Job."""
        self.gang("cards", 4, {GPU: "1", "cpu": "1"})
        for _ in range(2):
            self.gang("teams", 4, {"cpu": "1"})
        for _ in range(9):
            self.share()
        self.with_devices()
        self.job()

    def with_devices(self) -> None:
        """Make two pods with a claim each, a gang of two with one for both, and a pod with devices by a resource."""
        if not self._has_template:
            devices.make_template(self._api, self._namespace)
            self._has_template = True
        for _ in range(2):
            name = self._name("own")
            self._pod(name, name, {QUEUE_NAME: "teams"}, {"cpu": "100m"}, devices.own())
        name = self._name("sharing")
        devices.make_claim(self._api, self._namespace, name)
        self.gang("teams", 2, {"cpu": "100m"}, name, devices.shared(name))
        name = self._name("resource")
        self._pod(name, name, {QUEUE_NAME: "teams"}, {**devices.by_resource(), "cpu": "100m"})

    def gang(
        self, queue: str, size: int, requests: dict[str, Any], name: str = "", spec: dict[str, Any] | None = None
    ) -> None:
        """Make a gang that is placed whole or not at all."""
        name = name or self._name(queue)
        self._api.create(f"{GROUPS}/namespaces/{self._namespace}/podgroups", {
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
            "spec": {"minMember": size, "queue": queue},
        })  # fmt: skip
        notes = {GROUP_NAME: name} | ({CARD_NAME: CARD} if GPU in requests else {})
        for index in range(size):
            self._pod(f"{name}-{index}", name, notes, requests, spec)

    def share(self) -> None:
        """Make a pod with a part of a card; its PodGroup is made by the controllers."""
        core, memory = self._rng.choice(_SHARES)
        name = self._name("share")
        self._pod(name, name, {QUEUE_NAME: "shares"}, {CORE: core, MEMORY: memory, "cpu": "100m"})

    def job(self, replicas: int = 4) -> None:
        """Make a Volcano Job, whose pods the controllers make."""
        name = self._name("job")
        task = self._world.task("worker", replicas, {RUN_FOR: self._seconds()})
        self._world.job(self._namespace, name, [task], minAvailable=replicas, queue="jobs")
        self.made += replicas

    def _pod(
        self,
        name: str,
        work: str,
        notes: dict[str, str],
        requests: dict[str, Any],
        spec: dict[str, Any] | None = None,
    ) -> None:
        pod = a_pod(
            name,
            scheduler=self._world.name,
            labels={WORK: work},
            annotations={RUN_FOR: self._seconds(), **notes},
            spec={"restartPolicy": "Never", **(spec or {})},
            **requests,
        )
        self._api.create(f"/api/v1/namespaces/{self._namespace}/pods", pod)
        self.made += 1

    def _name(self, stem: str) -> str:
        self._works += 1
        return f"{stem}-{self._works}"

    def _seconds(self) -> str:
        return f"{self._rng.randint(3, 9)}s"

    # -- what goes ------------------------------------------------------------------------------------------------

    def _sweep_pods(self) -> list[str]:
        works: dict[str, list[Json]] = defaultdict(list)
        for pod in self._api.items(f"/api/v1/namespaces/{self._namespace}/pods?labelSelector={WORK}"):
            works[pod["metadata"]["labels"][WORK]].append(pod)
        left = []
        for work, pods in works.items():
            if all(pod["status"].get("phase") == "Succeeded" for pod in pods):
                self._delete(work, pods)
            else:
                left.append(work)
        return left

    def _delete(self, work: str, pods: list[Json]) -> None:
        for pod in pods:
            path = f"/api/v1/namespaces/{self._namespace}/pods/{pod['metadata']['name']}"
            self._api.delete(path, grace_seconds=0)
        if GROUP_NAME in pods[0]["metadata"]["annotations"] and not work.startswith(_WITHOUT_GROUP):
            self._api.delete(f"{GROUPS}/namespaces/{self._namespace}/podgroups/{work}")
        if work.startswith("sharing"):
            self._api.delete(f"{devices.claims(self._namespace)}/{work}")

    def _sweep_jobs(self) -> list[str]:
        left = []
        for job in self._api.items(f"{JOBS}/namespaces/{self._namespace}/jobs"):
            name = job["metadata"]["name"]
            if job.get("status", {}).get("state", {}).get("phase") == "Completed":
                self._api.delete(f"{JOBS}/namespaces/{self._namespace}/jobs/{name}")
            else:
                left.append(name)
        return left
