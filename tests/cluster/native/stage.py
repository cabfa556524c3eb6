"""What a control plane needs for Kubernetes' own gangs, and a stage on which a scheduler plays a case."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final, Protocol

from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from tools.controlplane import ControlPlane, a_binding, a_node, a_pod
from tools.patience import PATIENCE, looks

Json = dict[str, Any]

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
QUIET_SECONDS: Final = 1.5
"""For so long nothing happens where nothing may happen, with a scheduler that gives no sign of having decided."""
KEY: Final = "rack"
"""The label of nodes that groups with a topology key name."""
VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
_DEVICES: Final = "/apis/resource.k8s.io/v1"


def make_classes(cluster: ControlPlane) -> None:
    """Make the priority classes that cases name."""
    for name, value in PRIORITIES.items():
        cluster.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})


class Settle(Protocol):
    """Waits until the scheduler has decided about all that there is, and has written what it decided."""

    def __call__(self, *, reports: bool = False) -> None:
        """Wait for decisions; with `reports` also for what is reported of those pods that wait."""


def pause(*, reports: bool = False) -> None:
    """Wait for a while: kube-scheduler tries again after a back-off of a second, and gives no sign in between."""
    time.sleep(QUIET_SECONDS)


class NativeStage:
    """Nodes and a namespace of one case, and what is seen there; its pods are for one scheduler."""

    def __init__(
        self,
        cluster: ControlPlane,
        namespace: str,
        scheduler: str = "default-scheduler",
        version: str = API,
        settle: Settle = pause,
    ) -> None:
        self._cluster, self.api = cluster, cluster.api
        self.version = version
        self.namespace = namespace
        self.scheduler = scheduler
        self._settle = settle
        self._stem = uuid.uuid4().hex[:6]
        self.nodes: dict[str, str] = {}
        self._device_classes: list[str] = []

    @property
    def _pods(self) -> str:
        return self._in_namespace("/api/v1", "pods")

    @property
    def _groups(self) -> str:
        return self._in_namespace(f"/apis/{self.version}", "podgroups")

    @property
    def _claims(self) -> str:
        return self._in_namespace(_DEVICES, "resourceclaims")

    def _in_namespace(self, api: str, kinds: str) -> str:
        return f"{api}/namespaces/{self.namespace}/{kinds}"

    # -- what there is ------------------------------------------------------------------------------------------------

    def node(self, name: str, cpu: int, **labels: str) -> None:
        """Make a node; its name in the case leads to that in the cluster."""
        self._cluster.create_nodes([self._node(name, cpu, labels)])

    def racks(self, labels: dict[str, str] | None = None, **sizes: int) -> None:
        """Make nodes of two cpus, with these labels, in racks of so many."""
        names = [(rack, f"{rack}-{number}") for rack, size in sizes.items() for number in range(size)]
        self._cluster.create_nodes([self._node(name, 2, {"rack": rack, **(labels or {})}) for rack, name in names])

    def _node(self, name: str, cpu: int, labels: dict[str, str]) -> Json:
        self.nodes[name] = f"{name}-{self._stem}"
        return a_node(self.nodes[name], cpu=str(cpu), labels=labels)

    def gang(self, name: str, least: int, key: str = "", **spec: Any) -> None:
        """Make a PodGroup that starts with so many pods."""
        self._group(name, {"gang": {"minCount": least}}, key, spec)

    def basic(self, name: str, key: str = "", **spec: Any) -> None:
        """Make a PodGroup whose pods start one by one."""
        self._group(name, {"basic": {}}, key, spec)

    def _group(self, name: str, policy: Json, key: str, spec: Json) -> None:
        if key:
            spec = spec | {"schedulingConstraints": {"topology": [{"key": key}]}}
        body = {"apiVersion": self.version, "kind": "PodGroup", "metadata": {"name": name}}
        self.api.create(self._groups, body | {"spec": {"schedulingPolicy": policy, **spec}})

    def change_minimum(self, name: str, least: int) -> None:
        """Change with how many pods a gang starts; Kubernetes 1.37 lets users do that."""
        self.api.patch(f"{self._groups}/{name}", {"spec": {"schedulingPolicy": {"gang": {"minCount": least}}}})

    def volcano_group(self, name: str, least: int) -> None:
        """Make a PodGroup of Volcano's."""
        body = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": {"name": name}, "spec": {"minMember": least}}
        self.api.create(self._in_namespace(f"/apis/{VOLCANO}", "podgroups"), body)

    def queue(self, cpu: int) -> None:
        """Let the queue of the namespace's name have so many cpus; make it when it is not there."""
        path = f"/apis/{VOLCANO}/queues"
        spec = {"spec": {"capability": {"cpu": str(cpu)}}}
        if self.api.find(f"{path}/{self.namespace}") is not None:
            self.api.patch(f"{path}/{self.namespace}", spec)
            return
        self.api.create(path, {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": self.namespace}, **spec})

    def job(self, name: str, size: int) -> None:
        """Make an Indexed Job all of whose pods, of one cpu, run at once."""
        template = a_pod("x", scheduler=self.scheduler, spec={"restartPolicy": "Never"}, cpu="1")
        counts = {"completionMode": "Indexed", "completions": size, "parallelism": size}
        self.api.create(
            self._jobs, {"metadata": {"name": name}, "spec": {**counts, "template": {"spec": template["spec"]}}}
        )

    @property
    def _jobs(self) -> str:
        return self._in_namespace("/apis/batch/v1", "jobs")

    def device(self, count: int = 1) -> str:
        """Make devices that every node reaches; return the name of their class, which is that of their driver."""
        name = f"gpu-{self._stem}.example.com"
        devices = [device(f"d{number}") for number in range(count)]
        self.api.create(f"{_DEVICES}/deviceclasses", device_class(name, driver=name))
        pool: Json = part(name, devices, node=None, pool=name, driver=name, allNodes=True)
        self.api.create(f"{_DEVICES}/resourceslices", pool)
        self._device_classes.append(name)
        return name

    def claim(self, name: str, of: str) -> None:
        """Make a claim of one device of a class."""
        self.api.create(self._claims, {"metadata": {"name": name}, "spec": claim(name, exactly(cls=of))["spec"]})

    def template(self, name: str, of: str) -> None:
        """Make a template of such claims."""
        spec = {"spec": claim(name, exactly(cls=of))["spec"]}
        self.api.create(
            self._in_namespace(_DEVICES, "resourceclaimtemplates"), {"metadata": {"name": name}, "spec": spec}
        )

    def budget(self, app: str, least: int) -> None:
        """Make a PodDisruptionBudget for pods of a label, and wait until the controller has counted them."""
        path = self._in_namespace("/apis/policy/v1", "poddisruptionbudgets")
        selector = {"matchLabels": {"app": app}}
        self.api.create(path, {"metadata": {"name": app}, "spec": {"minAvailable": least, "selector": selector}})
        counted = {"currentHealthy": least, "disruptionsAllowed": 0}
        self._until(lambda: counted.items() <= self.api.get(f"{path}/{app}").get("status", {}).items(), "a budget")

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
        annotations: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        """Make one pod; ``more`` is what its spec has, too."""
        spec: Json = {"terminationGracePeriodSeconds": 0, "schedulerName": self.scheduler, **more}
        spec |= {"schedulingGroup": {"podGroupName": group}} if group else {}
        spec |= {"priorityClassName": priority} if priority else {}
        spec |= {"nodeSelector": {"kubernetes.io/hostname": self.nodes[node]}} if node else {}
        self.api.create(self._pods, a_pod(name, spec=spec, labels=labels, annotations=annotations, cpu=cpu))

    def delete(self, *names: str) -> None:
        """Delete pods."""
        for name in names:
            self.api.delete(f"{self._pods}/{name}", grace_seconds=0)

    def delete_group(self, name: str) -> None:
        """Delete a PodGroup, which stays until its pods have ended."""
        self.api.delete(f"{self._groups}/{name}")

    def ungate(self, name: str) -> None:
        """Take the gates off a pod."""
        self.api.patch(f"{self._pods}/{name}", {"spec": {"schedulingGates": None}})

    def bind(self, name: str, node: str) -> None:
        """Put a pod on a node, as some other scheduler does."""
        pod = self.api.get(f"{self._pods}/{name}")
        self.api.create(f"{self._pods}/{name}/binding", a_binding(pod, self.nodes[node]))

    def clear(self) -> None:
        """Delete all of the case, so that the next one is alone."""
        self._until(self._is_empty, "the case is over")
        self._cluster.delete_nodes(self.nodes.values())
        for name in self._device_classes:
            self.api.delete(f"{_DEVICES}/resourceslices/{name}")
            self.api.delete(f"{_DEVICES}/deviceclasses/{name}")
        self.api.delete(f"/apis/{VOLCANO}/queues/{self.namespace}")

    def _is_empty(self) -> bool:
        for path in (self._jobs, self._pods, self._groups, self._claims):
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
        self._settle()
        assert {stem: self.count(stem) for stem in wanted} == wanted, self.seen()

    def expect_gone(self, *names: str) -> None:
        """Wait until pods are gone or leaving."""
        self._until(lambda: not set(names) & set(self.seen()), f"gone: {names}")

    def expect_bound(self, *names: str) -> None:
        """Wait until pods have a node."""
        self._until(lambda: set(names) <= self.bound(), f"bound: {names}")

    def expect_waiting(self, names: Collection[str]) -> None:
        """Wait until pods say that they cannot be placed."""
        self._until(lambda: set(names) <= self.waiting(), f"waiting: {sorted(names)}")

    def expect_number_waiting(self, number: int) -> None:
        """Wait until so many pods say that they cannot be placed, whichever these are."""
        self._until(lambda: len(self.waiting()) == number, f"{number} waiting")

    def expect_held_back(self, *stems: str) -> None:
        """Look whether pods have neither a node nor anything to say."""
        self._settle(reports=True)
        for stem in stems:
            assert not self.count(stem), self.seen()
        assert not {name for name in self.waiting() if name.rpartition("-")[0] in stems}

    def waiting(self) -> set[str]:
        """Return the pods that report that they cannot be placed."""
        return {pod["metadata"]["name"] for pod in self.api.items(self._pods) if _says_unschedulable(pod)}

    def message(self, pod: str) -> str:
        """Return what a pod's condition PodScheduled says."""
        conditions = self.api.get(f"{self._pods}/{pod}")["status"].get("conditions") or ()
        return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")

    def group(self, name: str) -> Json | None:
        """Return a PodGroup, None when it is gone."""
        return self.api.find(f"{self._groups}/{name}")

    def remove_group(self, name: str) -> None:
        """Delete a PodGroup whatever its pods do: its finalizer goes, too."""
        self.delete_group(name)
        if self.group(name) is not None:
            self.api.patch(f"{self._groups}/{name}", {"metadata": {"finalizers": None}})
        self.expect_group_gone(name)

    def claims(self) -> list[str]:
        """Return the names of all claims."""
        return [each["metadata"]["name"] for each in self.api.items(self._claims)]

    def expect_event(self, name: str, reason: str) -> None:
        """Wait until there is an Event about an object."""
        self._until(lambda: bool(self.events(name, reason)), f"{name}: {reason}")

    def expect_group_gone(self, name: str) -> None:
        """Wait until a PodGroup is really gone."""
        self._until(lambda: self.group(name) is None, f"gone: PodGroup {name}")

    def uid(self, pod: str) -> str:
        """Return the uid of a pod."""
        found: str = self.api.get(f"{self._pods}/{pod}")["metadata"]["uid"]
        return found

    def reserved_for(self, name: str) -> list[tuple[str, str]]:
        """Return the consumers of a claim, as resource and name."""
        consumers = self.api.get(f"{self._claims}/{name}").get("status", {}).get("reservedFor") or ()
        return [(each["resource"], each["name"]) for each in consumers]

    def expect_reserved(self, name: str, *consumers: tuple[str, str]) -> None:
        """Wait until a claim has these consumers, and look whether it stays so."""
        self._until(lambda: self.reserved_for(name) == list(consumers), f"{name} is reserved for {consumers}")
        self._settle()
        assert self.reserved_for(name) == list(consumers)

    def expect_finished(self, *names: str) -> None:
        """Wait until pods have succeeded."""
        found = partial(self.api.get, self._pods)

        def have() -> bool:
            phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in found()["items"]}
            return all(phases.get(name) == "Succeeded" for name in names)

        self._until(have, f"finished: {names}")

    def group_of_job(self, job: str) -> str:
        """Wait until the Job controller has made a group for a Job; return its name."""

        def names() -> list[str]:
            owners = {
                group["metadata"]["name"]: group["metadata"].get("ownerReferences") or ()
                for group in self.api.items(self._groups)
            }
            return [name for name, found in owners.items() if any(owner["name"] == job for owner in found)]

        self._until(lambda: bool(names()), f"a PodGroup of Job {job}")
        return names()[0]

    def expect_job_complete(self, job: str) -> None:
        """Wait until a Job is complete."""

        def types() -> set[str]:
            conditions = self.api.get(f"{self._jobs}/{job}")["status"].get("conditions") or ()
            return {each["type"] for each in conditions if each["status"] == "True"}

        self._until(lambda: "Complete" in types(), f"Job {job} is complete")

    def condition(self, group: str, kind: str = "PodGroupScheduled") -> tuple[str, str, str] | None:
        """Return status, reason and message of a group's condition of a type, None while there is none."""
        found = self.api.get(f"{self._groups}/{group}").get("status", {}).get("conditions") or ()
        known = next((each for each in found if each["type"] == kind), None)
        return (known["status"], known["reason"], known.get("message", "")) if known is not None else None

    def condition_message(self, group: str) -> str:
        """Return what a group's condition PodGroupScheduled says, empty while there is none."""
        found = self.condition(group)
        return found[-1] if found is not None else ""

    def expect_condition(
        self, group: str, status: str, reason: str, begins: str = "", kind: str = "PodGroupScheduled"
    ) -> None:
        """Wait until a group has a condition of a type whose message begins like this."""

        def has_it() -> bool:
            known = self.condition(group, kind)
            return known is not None and known[:2] == (status, reason) and known[2].startswith(begins)

        self._until(has_it, f"{group}: {status} {reason} {begins}")

    def events(self, name: str, reason: str) -> list[Json]:
        """Return Events about an object."""
        found = self.api.items(f"/api/v1/namespaces/{self.namespace}/events")
        return [each for each in found if each["involvedObject"]["name"] == name and each["reason"] == reason]

    def _until(self, check: Callable[[], bool], what: Any) -> None:
        if not any(check() for _ in looks()):
            raise AssertionError(f"did not come true in {PATIENCE:g} s: {what}; seen: {self.seen()}")


def _says_unschedulable(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(
        each["type"] == "PodScheduled" and each["status"] == "False" and each["reason"] == "Unschedulable"
        for each in conditions
    )
