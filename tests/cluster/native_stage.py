"""What a control plane needs for Kubernetes' own gangs, and a stage on which a scheduler plays a case."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection
from typing import Any, Final

from tests.cluster.scheduling import Json, eventually
from volsched.testing.controlplane import ControlPlane, a_node, a_pod

API: Final = "scheduling.k8s.io/v1alpha2"
GATES: Final = dict.fromkeys(
    (
        "GenericWorkload",
        "GangScheduling",
        "TopologyAwareWorkloadScheduling",
        "WorkloadAwarePreemption",
        "WorkloadWithJob",
        "DRAWorkloadResourceClaims",
    ),
    True,
)
API_FLAGS: Final = (f"--runtime-config={API}=true",)
PRIORITIES: Final = {"very-low": 5, "low": 10, "middle": 50, "high": 100, "highest": 500}
QUIET_SECONDS: Final = 2.0
"""For so long nothing happens where nothing may happen."""


def make_classes(cluster: ControlPlane) -> None:
    """Make the priority classes that cases name."""
    for name, value in PRIORITIES.items():
        cluster.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})


class NativeStage:
    """Nodes and a namespace of one case, and what is seen there; its pods are for one scheduler."""

    def __init__(self, cluster: ControlPlane, namespace: str, scheduler: str = "default-scheduler") -> None:
        self._cluster, self.api = cluster, cluster.api
        self.namespace = namespace
        self.scheduler = scheduler
        self._stem = uuid.uuid4().hex[:6]
        self.nodes: dict[str, str] = {}

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def _groups(self) -> str:
        return f"/apis/{API}/namespaces/{self.namespace}/podgroups"

    # -- what there is ------------------------------------------------------------------------------------------------

    def node(self, name: str, cpu: int, **labels: str) -> None:
        """Make a node; its name in the case leads to that in the cluster."""
        self.nodes[name] = f"{name}-{self._stem}"
        self._cluster.create_nodes([a_node(self.nodes[name], cpu=str(cpu), labels=labels)])

    def racks(self, **sizes: int) -> None:
        """Make nodes of two cpus in racks of so many."""
        for rack, size in sizes.items():
            for number in range(size):
                self.node(f"{rack}-{number}", 2, rack=rack)

    def gang(self, name: str, least: int, key: str = "", **spec: Any) -> None:
        """Make a PodGroup that starts with so many pods."""
        self._group(name, {"gang": {"minCount": least}}, key, spec)

    def basic(self, name: str, key: str = "", **spec: Any) -> None:
        """Make a PodGroup whose pods start one by one."""
        self._group(name, {"basic": {}}, key, spec)

    def _group(self, name: str, policy: Json, key: str, spec: Json) -> None:
        if key:
            spec = spec | {"schedulingConstraints": {"topology": [{"key": key}]}}
        body = {"apiVersion": API, "kind": "PodGroup", "metadata": {"name": name}}
        self.api.create(self._groups, body | {"spec": {"schedulingPolicy": policy, **spec}})

    def pods(self, stem: str, count: int, *, group: str = "", start: int = 0, priority: str = "", **more: Any) -> None:
        """Make pods of one cpu, unless it is said otherwise; ``node`` is where they must be."""
        for number in range(start, start + count):
            self.pod(f"{stem}-{number}", group=group, priority=priority, **more)

    def pod(
        self,
        name: str,
        *,
        group: str = "",
        priority: str = "",
        cpu: str = "1",
        node: str = "",
        labels: dict[str, str] | None = None,
    ) -> None:
        """Make one pod."""
        spec: Json = {"terminationGracePeriodSeconds": 0, "schedulerName": self.scheduler}
        spec |= {"schedulingGroup": {"podGroupName": group}} if group else {}
        spec |= {"priorityClassName": priority} if priority else {}
        spec |= {"nodeSelector": {"kubernetes.io/hostname": self.nodes[node]}} if node else {}
        self.api.create(self._pods, a_pod(name, spec=spec, labels=labels, cpu=cpu))

    def delete(self, name: str) -> None:
        """Delete a pod."""
        self.api.delete(f"{self._pods}/{name}", grace_seconds=0)

    def clear(self) -> None:
        """Delete all of the case, so that the next one is alone."""
        eventually(self._is_empty, what="the case is over")
        self._cluster.delete_nodes(self.nodes.values())

    def _is_empty(self) -> bool:
        for path in (self._pods, self._groups):
            self.api.delete(path, grace_seconds=0)
        return not self.api.items(self._pods)

    # -- what is seen -------------------------------------------------------------------------------------------------

    def seen(self) -> dict[str, str]:
        """Return each pod that is not leaving with the name of its node in the case, empty without one."""
        names = {there: here for here, there in self.nodes.items()}
        found = self.api.items(self._pods)
        staying = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return {pod["metadata"]["name"]: names.get(pod["spec"].get("nodeName", ""), "") for pod in staying}

    def bound(self) -> set[str]:
        """Return the pods that have a node."""
        return {name for name, node in self.seen().items() if node}

    def count(self, stem: str) -> int:
        """Return how many pods of a stem have a node."""
        return sum(1 for name in self.bound() if name.rpartition("-")[0] == stem)

    def on_racks(self, stem: str) -> set[str]:
        """Return the racks of a stem's pods."""
        return {node.rpartition("-")[0] for name, node in self.seen().items() if node and name.startswith(f"{stem}-")}

    def expect(self, **counts: int) -> None:
        """Wait until so many pods of each stem have a node, and look whether it stays so; _ stands for -."""
        wanted = {stem.replace("_", "-"): count for stem, count in counts.items()}
        self._until(lambda: {stem: self.count(stem) for stem in wanted} == wanted, wanted)
        time.sleep(QUIET_SECONDS)
        assert {stem: self.count(stem) for stem in wanted} == wanted, self.seen()

    def expect_gone(self, *names: str) -> None:
        """Wait until pods are gone or leaving."""
        self._until(lambda: not set(names) & set(self.seen()), f"gone: {names}")

    def expect_stay(self, *names: str) -> None:
        """Look whether pods are there with a node."""
        assert set(names) <= self.bound(), self.seen()

    def expect_waiting(self, names: Collection[str]) -> None:
        """Wait until pods say that they cannot be placed."""
        self._until(lambda: set(names) <= self._waiting(), f"waiting: {sorted(names)}")

    def expect_held_back(self, *stems: str) -> None:
        """Look whether pods have neither a node nor anything to say."""
        time.sleep(QUIET_SECONDS)
        for stem in stems:
            assert not self.count(stem), self.seen()
        assert not {name for name in self._waiting() if name.rpartition("-")[0] in stems}

    def _waiting(self) -> set[str]:
        return {pod["metadata"]["name"] for pod in self.api.items(self._pods) if _says_unschedulable(pod)}

    def condition(self, group: str, kind: str = "PodGroupScheduled") -> tuple[str, str, str] | None:
        """Return status, reason and message of a group's condition of a type, None while there is none."""
        found = self.api.get(f"{self._groups}/{group}")["status"].get("conditions") or ()
        known = next((each for each in found if each["type"] == kind), None)
        return (known["status"], known["reason"], known.get("message", "")) if known is not None else None

    def expect_condition(
        self, group: str, status: str, reason: str, begins: str = "", kind: str = "PodGroupScheduled"
    ) -> None:
        """Wait until a group has a condition of a type whose message begins like this."""

        def has_it() -> bool:
            known = self.condition(group, kind)
            return known is not None and known[:2] == (status, reason) and known[2].startswith(begins)

        self._until(has_it, f"{group}: {status} {reason} {begins}")

    def events(self, name: str, reason: str) -> list[Json]:
        """Return Events about a pod."""
        found = self.api.items(f"/api/v1/namespaces/{self.namespace}/events")
        return [each for each in found if each["involvedObject"]["name"] == name and each["reason"] == reason]

    def _until(self, check: Callable[[], bool], what: Any) -> None:
        try:
            eventually(check, timeout=60, what=str(what))
        except AssertionError as error:
            raise AssertionError(f"{error}; seen: {self.seen()}") from None


def _says_unschedulable(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(
        each["type"] == "PodScheduled" and each["status"] == "False" and each["reason"] == "Unschedulable"
        for each in conditions
    )
