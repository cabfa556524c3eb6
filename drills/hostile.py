"""Hostile objects: what somebody with `edit` in one namespace may create, while an honest team goes on working.

An honest team makes pods, gangs of Volcano's and of Kubernetes' own, Volcano Jobs and pods with shared cards at a
steady pace. First it is alone. Then somebody creates every object that once took volsched down, robbed it or switched
it off, objects as large as may be, and as many more of all kinds; an administrator writes some Queues and devices
wrongly. Objects that are in use grow, too (`drills/changes.py`). Then all of that is deleted, and it begins once more.
Processes have the memory limits of the manifests. In the end somebody fills one lane after the other
that all tenants share (`drills/crowds.py`).

Judged is how long honest pods wait, that no process ends and no leader changes, that each object that was set aside or
refused is named in an Event, that no honest object is refused for want of memory, that memory comes back, and that the
first request of another tenant does not wait for a crowd.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import math
import os
import re
import signal
import sys
import threading
import time
import urllib.parse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from bench.common import memory_mib
from drills import changes, crowds
from drills.hostile_objects import COMMANDS, DRIVER, GROUP_NAME, MGPU, NATIVE, Attacker, Fate, Hostile, Target
from drills.idle_connections import PROBE_SECONDS, Flood
from drills.report import Report
from drills.tables import keeps_what_is_gone
from drills.world import CONFIGURATION, World, delete_collection, wait_until, world
from tests.cluster.controlling import JOBS, VOLCANO
from tests.cluster.forks import run_volsched
from tests.cluster.native.stage import API_FLAGS, GATES
from tests.cluster.scheduling import GROUPS, LEASE, Json
from tools.controlplane.errors import ApiServerError
from volsched.kube.write.views import DELETED_LATELY_SECONDS
from volsched.mirror.quarantine import NO_MEMORY
from volsched.model.values import json_text
from volsched.model.values.quantity import parse

HONEST_SECONDS: Final = 5.0
ALONE_SECONDS: Final = 2.0
"""Bars of the 99th percentile of what honest pods wait, with hostile objects and without."""

MEMORY_RATIO: Final = 1.1
_TABLE: Final = re.compile(r'^volsched_memory_objects\{.*table="([^"]+)"\} (\S+)$', re.MULTILINE)
_BLOCKS: Final = re.compile(r"^volsched_memory_blocks (\S+)$", re.MULTILINE)
_CONTROLLERS_LEASE: Final = LEASE.replace("/leases/volsched", "/leases/volsched-controllers")
_MANIFESTS: Final = Path(__file__).parent.parent / "manifests"
_KEPT_SECONDS: Final = 5.0
"""How long an honest pod stays once it has a node."""

_SLOWEST: Final = 3
"""Honest pods of a wave of which it is told how long they waited, and for what."""

_LARGEST: Final = 8
"""Tables of which it is told how much they grew."""

_PAGE: Final = 200
IDLE_SECONDS: Final = DELETED_LATELY_SECONDS + 15
"""Until then a writer remembers objects that are gone, since writes to them may be under way."""

_SLACK: Final = 50
"""Entries by which a table may differ: the honest team is not at the same step."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is tried.

    Objects come in `waves`, in each of them `large` ones that are as large as may be: with those that are read more is
    there than is kept. With two waves it is judged whether the second one needs more memory than the first. `rate` is
    honest pods a second, `replicas` those of the largest hostile Job, `connections` those that one pod holds to each
    process. `kept_mib` is the bound on what is kept of objects (`--kept-bytes`), far below the default, so that it is
    reached.
    """

    waves: int = 2
    objects: int = 1_000
    large: int = 500
    seconds: float = 120.0
    rate: float = 3.0
    nodes: int = 40
    replicas: int = 4_000
    patience: float = 180.0
    idle: float = IDLE_SECONDS
    seed: int = 17
    kept_mib: int = 64
    connections: int = 3_000
    crowds: crowds.Sizes = field(default_factory=crowds.Sizes)
    growing: int = 40
    flags: tuple[str, ...] = ()


# --- the honest team ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Waited:
    """One honest pod: when it was first seen, in a PodGroup, and with a node (seconds, monotonic).

    ``stamped`` is how many seconds lie between its creation and its binding by the time stamps of the API server.
    """

    name: str
    seen: float
    grouped: float = math.inf
    bound: float = math.inf
    stamped: float | None = None
    is_deleted: bool = False
    why: str = ""
    """What was said last of why it waits."""

    @property
    def seconds(self) -> float:
        """How long it waited for a node: as watched, within what whole seconds of the API server leave open.

        The watch of this process may be late by minutes while it sends large objects.
        """
        watched = self.bound - self.seen
        return watched if self.stamped is None else min(max(watched, self.stamped - 1), self.stamped + 1)

    def __str__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        return f"{self.name} {self.seconds:.1f} s, {self.grouped - self.seen:.1f} s of them for its PodGroup{why}"


@dataclass(slots=True)
class _Set:
    """A gang or a Job: how many of its pods have not yet run for a while, and what is deleted when all have."""

    running: int
    paths: list[str]


class HonestTeam:
    """Makes pods at a steady pace, deletes them when they have run for a while, and measures how long they waited."""

    def __init__(self, there: World, namespace: str, queue: str, rate: float) -> None:
        self._world, self.namespace, self._queue = there, namespace, queue
        self._rate = rate
        self._number = 0
        self._waited: dict[str, Waited] = {}
        self._sets: dict[str, _Set] = {}
        self._is_over = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()
        self.lost: list[str] = []

    def work(self, seconds: float, until: Callable[[], bool] = lambda: True) -> list[Waited]:
        """Work for so long, and on until something is true; return the pods of this time."""
        began = time.monotonic()
        turn = began
        while time.monotonic() < began + seconds or not until():
            self._make()
            self._tidy()
            turn += 1 / self._rate
            time.sleep(max(0.0, turn - time.monotonic()))
        mine = [waited for waited in list(self._waited.values()) if waited.seen >= began]
        self._wait_for(mine)
        return mine

    def _wait_for(self, mine: Sequence[Waited], patience: float = 60.0) -> None:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and any(waited.bound == math.inf for waited in mine):
            time.sleep(0.1)
        self.lost.extend(f"{waited.name}: {waited.why}" for waited in mine if waited.bound == math.inf)

    def crowd(self, pods: int) -> None:
        """Run one Job of so many pods, and delete it."""
        task = self._world.task("worker", pods) | {"template": self._world.template(cpu="100m")}
        self._world.job(self.namespace, "crowd", [task], minAvailable=1, queue=self._queue)
        _wait(lambda: self._running() >= pods, 300, f"{pods} pods of the honest team have nodes")
        self.rest()

    def _running(self) -> int:
        return sum(waited.bound < math.inf for waited in list(self._waited.values()) if "crowd" in waited.name)

    def rest(self) -> None:
        """Delete everything, and wait until it is gone."""
        for path in (
            f"{JOBS}/namespaces/{self.namespace}/jobs",
            f"{GROUPS}/namespaces/{self.namespace}/podgroups",
            f"/apis/{NATIVE}/namespaces/{self.namespace}/podgroups",
            self._pods,
        ):
            for found in self._world.api.items(path):
                if not found["metadata"]["name"].startswith("steady"):
                    self._world.api.delete(f"{path}/{found['metadata']['name']}", grace_seconds=0)
        _wait(lambda: len(self._world.api.items(self._pods)) <= 1, 120, "the honest team's pods are gone")

    def close(self) -> None:
        """Stop watching."""
        self._is_over.set()

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def _make(self) -> None:
        self._number += 1
        number, name = self._number, f"honest-{self._number}"
        annotations = {"scheduling.volcano.sh/queue-name": self._queue}
        if number % 10 == 9:
            self._world.job(self.namespace, name, [self._task()], minAvailable=2, queue=self._queue)
            self._sets[name] = _Set(2, [f"{JOBS}/namespaces/{self.namespace}/jobs/{name}"])
        elif number % 10 == 4:
            make = self._make_native_gang if number % 20 == 14 else self._make_gang
            paths = [make(name, 3), *(f"{self._pods}/{name}-{index}" for index in range(3))]
            self._sets[name] = _Set(3, paths)
        elif number % 10 == 2:
            pod = self._world.pod(name, cpu="100m")
            pod["metadata"]["annotations"] |= annotations
            pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
            self._world.make_pods(self.namespace, [pod])
        else:
            amounts: Json = {f"{MGPU}-core": 5, f"{MGPU}-memory": 256} if number % 10 == 7 else {}
            pod = self._world.pod(name, cpu="100m", **amounts)
            pod["metadata"]["annotations"] |= annotations
            self._world.make_pods(self.namespace, [pod])

    def _make_gang(self, name: str, size: int) -> str:
        """Make a gang of Volcano's; return the path of its PodGroup."""
        self._world.make_gang(self.namespace, name, size, queue=self._queue, cpu="100m")
        return f"{GROUPS}/namespaces/{self.namespace}/podgroups/{name}"

    def _make_native_gang(self, name: str, size: int) -> str:
        """Make a gang of Kubernetes' own; return the path of its PodGroup."""
        path = f"/apis/{NATIVE}/namespaces/{self.namespace}/podgroups"
        metadata = {"name": name, "annotations": {"scheduling.volcano.sh/queue-name": self._queue}}
        policy = {"schedulingPolicy": {"gang": {"minCount": size}}}
        self._world.api.create(path, {"apiVersion": NATIVE, "kind": "PodGroup", "metadata": metadata, "spec": policy})
        pods = [self._world.pod(f"{name}-{index}", cpu="100m") for index in range(size)]
        for pod in pods:
            pod["spec"]["schedulingGroup"] = {"podGroupName": name}
        self._world.make_pods(self.namespace, pods)
        return f"{path}/{name}"

    def _task(self) -> Json:
        return self._world.task("worker", 2) | {"template": self._world.template(cpu="100m")}

    def _tidy(self) -> None:
        """Delete what has run for a while; a gang or a Job when all its pods have."""
        late = time.monotonic() - _KEPT_SECONDS
        for waited in list(self._waited.values()):
            if waited.bound < late and not waited.is_deleted and waited.name.startswith("honest-"):
                waited.is_deleted = True
                self._end(waited.name)

    def _end(self, pod: str) -> None:
        name = "-".join(pod.split("-")[:2])
        if name == pod:
            self._world.api.delete(f"{self._pods}/{pod}", grace_seconds=0)
        elif name in self._sets:
            self._sets[name].running -= 1
            if not self._sets[name].running:
                for path in self._sets.pop(name).paths:
                    self._world.api.delete(path, grace_seconds=0)

    def _watch(self) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(Exception):  # whatever breaks a watch: the next one begins with what is there
                for event in self._world.api.watch(self._pods, timeout_seconds=30):
                    self._see(event["object"])

    def _see(self, pod: Json) -> None:
        now = time.monotonic()
        waited = self._waited.setdefault(pod["metadata"]["uid"], Waited(pod["metadata"]["name"], now))
        if GROUP_NAME in pod["metadata"].get("annotations", {}):
            waited.grouped = min(waited.grouped, now)
        if pod["spec"].get("nodeName"):
            waited.bound = min(waited.bound, now)
            waited.stamped = seconds_until_bound(pod)
        said = [found.get("message", "") for found in pod["status"].get("conditions", ()) if found["status"] == "False"]
        waited.why = " ".join(said) or waited.why


def seconds_until_bound(pod: Json) -> float | None:
    """Return the seconds between the creation and the binding of a pod; None if the API server stamped no binding."""
    conditions = pod["status"].get("conditions", ())
    bound = [found for found in conditions if (found["type"], found["status"]) == ("PodScheduled", "True")]
    if not bound:
        return None
    stamps = (bound[0]["lastTransitionTime"], pod["metadata"]["creationTimestamp"])
    end, start = (datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S%z") for stamp in stamps)
    return (end - start).total_seconds()


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value that so many of all are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)] if ordered else math.inf


# --- the attack -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Attack:
    """Objects that were sent: those that the API server took, and how many it refused, by kind."""

    namespace: str
    taken: list[Hostile] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    is_over: bool = False
    unnamed: list[Hostile] = field(default_factory=list)
    floods: list[Flood] = field(default_factory=list)


def send(there: World, attack: Attack, objects: Iterable[Hostile]) -> None:
    """Create objects, some at a time, as fast as the API server takes them; what it does not answer is not judged."""

    def one(found: Hostile) -> None:
        try:
            there.api.request("POST", found.path(attack.namespace), found.body, timeout=300)
        except (ApiServerError, OSError, http.client.HTTPException):
            attack.refused[found.kind] += 1
        else:
            attack.taken.append(found)

    try:
        there.api.for_each(one, objects, in_flight=6)
    finally:
        attack.is_over = True


def spoil_results(there: World, attack: Attack) -> None:
    """Change what the scheduler wrote on running pods, and fail a pod with a forged owner, as its kubelet would."""
    for found in attack.taken:
        path = f"{found.path(attack.namespace)}/{found.name}"
        with contextlib.suppress(ApiServerError):  # it may be gone
            if found.kind == "Pod" and MGPU in found.body.decode():
                there.api.patch(
                    path, {"metadata": {"annotations": {"vke.volcengine.com/gpu-index-container-main": "x"}}}
                )
            if found.what == "a forged owner":
                there.api.patch(f"{path}/status", {"status": {"phase": "Failed"}})


def clean_up(there: World, attack: Attack, patience: float) -> None:
    """Delete everything that was sent and what was made of it."""
    kinds = dict.fromkeys((found.version, found.plural) for found in attack.taken if not found.is_cluster_wide)
    whole = [*kinds, ("scheduling.volcano.sh/v1beta1", "podgroups"), ("v1", "pods"), ("apps/v1", "replicasets")]
    for version, plural in sorted(dict.fromkeys(whole), key=lambda kind: kind[1] == "pods"):
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        delete_collection(there, f"{root}/namespaces/{attack.namespace}/{plural}", propagationPolicy="Background")
    for found in attack.taken:
        if found.is_cluster_wide:
            there.api.delete(f"{found.path('')}/{found.name}")
    pods = f"/api/v1/namespaces/{attack.namespace}/pods"
    _wait(lambda: not _delete_all(there, pods), patience, "hostile pods are gone")


def _delete_all(there: World, path: str) -> bool:
    """Delete what is there; say whether there was anything."""
    found = listed(there, path)
    if found:
        delete_collection(there, path)
    return bool(found)


def listed(there: World, path: str) -> list[Json]:
    """Return the objects of a collection, however deep they are nested; page by page, since they are large."""
    found: list[Json] = []
    further = ""
    while True:
        page = msgspec.json.decode(json_text.cut(there.api.request("GET", f"{path}?limit={_PAGE}&continue={further}")))
        found += page.get("items") or []
        further = urllib.parse.quote(page["metadata"].get("continue", ""))
        if not further:
            return found


# --- judging --------------------------------------------------------------------------------------------------------


class Register:
    """What became of the objects of one namespace: Events by kind and name, pods, and what these were made from."""

    def __init__(self, there: World, namespace: str) -> None:
        self._events = defaultdict[tuple[str, str], set[str]](set)
        for event in listed(there, f"/api/v1/namespaces/{namespace}/events"):
            about = event["involvedObject"]
            self._events[about["kind"], about["name"]].add(event["reason"])
        self._pods = {pod["metadata"]["name"]: pod for pod in listed(there, f"/api/v1/namespaces/{namespace}/pods")}
        self._members = defaultdict[str, list[str]](list)
        for name, pod in self._pods.items():
            self._members[_group_of(pod)].append(name)
        found = listed(there, f"{JOBS}/namespaces/{namespace}/jobs")
        self._jobs = {job["metadata"]["name"]: job for job in found}

    def is_named(self, kind: str, name: str) -> bool:
        """Whether an Event of ours is about an object."""
        return bool(self._events[kind, name] - _EVENTS_OF_OTHERS)

    def is_settled(self, found: Hostile) -> bool:
        """Whether an object has met the fate that it must meet."""
        if found.fate is Fate.HARMLESS:
            return True
        if self.is_named(found.kind, found.name):
            return True
        return found.fate is Fate.DONE_OR_NAMED and self._is_done(found)

    def _is_done(self, found: Hostile) -> bool:
        if found.kind == "Pod":
            pod = self._pods.get(found.name)
            return pod is None or self._is_pod_settled(pod)
        if found.kind == "Job":
            job = self._jobs.get(found.name)
            return job is None or bool(job.get("status", {}).get("state"))
        made = [pod for name, pod in self._pods.items() if name.startswith(f"{found.name}-")]
        return all(self._is_pod_settled(pod) for pod in made)

    def _is_pod_settled(self, pod: Json) -> bool:
        name, group = pod["metadata"]["name"], _group_of(pod)
        if pod["spec"].get("nodeName") or self.is_named("Pod", name) or self.is_named("PodGroup", group):
            return True
        if group and _says_why(pod) and any(self.is_named("Pod", fellow) for fellow in self._members[group]):
            return True  # of a gang whose PodGroup is not there some pods have the Event, and all have the condition
        gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
        return bool(gates) and gates != ["volsched.io/queue-admission"]  # its owner holds it back


def _group_of(pod: Json) -> str:
    native = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "")
    return str(native or pod["metadata"].get("annotations", {}).get(GROUP_NAME, ""))


def _says_why(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


_EVENTS_OF_OTHERS: Final = frozenset(
    {"SuccessfulCreate", "ScalingReplicaSet", "WaitForFirstConsumer", "FailedBinding", "ProvisioningFailed"}
)


@dataclass(frozen=True, slots=True)
class Memory:
    """What the processes hold, by process: MiB, blocks that Python's allocator has given out, entries of each table."""

    resident: dict[str, float]
    blocks: dict[str, float]
    tables: dict[str, dict[str, float]]


def memory_limits() -> dict[str, float]:
    """Return the memory limit of each kind of process in the manifests, in MiB."""
    found = {}
    for kind in ("scheduler", "controllers"):
        text = (_MANIFESTS / "base" / kind / "deployment.yaml").read_text()
        deployment = next(each for each in yaml.safe_load_all(text) if each["kind"] == "Deployment")
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        found[kind] = float(parse(container["resources"]["limits"]["memory"]) / (1 << 20))
    return found


class Keeper:
    """Starts processes again that ended, as a kubelet does, and remembers them with their last words.

    It kills those whose memory was above the limit of the manifests, as the kernel does; `peaks` are the highest, in
    MiB, by kind of process.
    """

    def __init__(self, there: World) -> None:
        self.ended: list[str] = []
        self.peaks = dict.fromkeys(("scheduler", "controllers"), 0.0)
        self._limits = memory_limits()
        self._world = there
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep)
        self._thread.start()

    def close(self) -> None:
        """Look one last time, and start nothing any more."""
        self._is_over.set()
        self._thread.join()
        self.ended.extend(self._world.exits())

    def _keep(self) -> None:
        while not self._is_over.wait(0.5):
            self._watch_memory()
            for replica in (*self._world.schedulers, *self._world.managers):
                if replica.has_ended:
                    said = [line for line in replica.process.lines() if line.get("level") in ("error", "critical")]
                    words = str(said[-1].get("event", ""))[:200] if said else ""
                    status = replica.process.process.returncode
                    self.ended.append(f"{replica.process.log.name}: exit {status}: {words}")
                    self._world.restart(replica)

    def _watch_memory(self) -> None:
        for kind, replicas in (("scheduler", self._world.schedulers), ("controllers", self._world.managers)):
            for replica in replicas:
                with contextlib.suppress(OSError):  # it has just ended
                    peak = memory_mib(replica.pid, "VmHWM")
                    self.peaks[kind] = max(self.peaks[kind], peak)
                    if peak > self._limits[kind]:
                        self.ended.append(f"{kind}: {peak:.0f} MiB, more than its limit of {self._limits[kind]:.0f}")
                        os.kill(replica.pid, signal.SIGKILL)


def memory_of(there: World) -> Memory:
    """Look at each process."""
    resident, blocks, tables = {}, {}, {}
    for kind, replicas in (("scheduler", there.schedulers), ("controllers", there.managers)):
        for number, replica in enumerate(replicas):
            name = f"{kind} {number}"
            try:
                resident[name] = memory_mib(replica.pid)
                page = replica.process.page("/metrics")[1]
            except (OSError, AssertionError):  # it has ended, or does not answer: that is no memory that came back
                resident[name], page = math.inf, ""
            found = _BLOCKS.search(page)
            blocks[name] = float(found[1]) if found else math.inf
            tables[name] = {table: float(size) for table, size in _TABLE.findall(page)}
    return Memory(resident, blocks, tables)


def grown(before: Memory, after: Memory) -> list[str]:
    """Name the tables that did not come back."""
    return [
        f"{process}: {table} {before.tables[process].get(table, 0):.0f} -> {size:.0f}"
        for process, tables in after.tables.items()
        for table, size in tables.items()
        if not keeps_what_is_gone(table) and size > before.tables[process].get(table, 0) * MEMORY_RATIO + _SLACK
    ]


def _transitions(there: World) -> list[Any]:
    return [there.api.get(path)["spec"].get("leaseTransitions") for path in (LEASE, _CONTROLLERS_LEASE)]


def _wait(check: Callable[[], bool], patience: float, what: str) -> None:
    if not wait_until(check, patience):
        print(f"  did not come true in {patience:g} s: {what}", flush=True)


# --- the drill ------------------------------------------------------------------------------------------------------

_COMMANDS: Final = f"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: commands.bus.volcano.sh}}
spec:
  group: {COMMANDS.partition("/")[0]}
  scope: Namespaced
  names: {{kind: Command, plural: commands, singular: command, listKind: CommandList}}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"""


def furnish(there: World, settings: Settings, honest: str) -> list[str]:
    """Make nodes with devices and shared cards, and a queue for each team; return the names of the former."""
    there.control_plane.kubectl("apply", "-f", "-", stdin=_COMMANDS)
    names = there.nodes(settings.nodes, cpu="64", memory="256Gi", pods=250)
    there.nodes(2, prefix="cards", cpu="64", pods=250, **{f"{MGPU}-core": 800, f"{MGPU}-memory": 131072})
    devices = "/apis/resource.k8s.io/v1"
    rule = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    there.api.create(f"{devices}/deviceclasses", {"metadata": {"name": DRIVER}, "spec": {"selectors": [rule]}})
    for name in names:
        cards = [{"name": f"gpu-{n}", "attributes": {"index": {"int": n}, "model": {"string": "A"}}} for n in range(8)]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": cards}
        there.api.create(f"{devices}/resourceslices", {"metadata": {"name": f"{name}-gpu"}, "spec": spec})
    there.control_plane.create_namespace(VOLCANO)
    _make_template(there, honest)
    _make_queue(there, "honest", {"cpu": "1000", "memory": "4000Gi"}, honest)
    _make_queue(there, "hostile", {"cpu": "20", "memory": "400Gi"}, "")
    return names


def _make_template(there: World, namespace: str) -> None:
    """Make a template of claims for one device with a selector."""
    cel = {"expression": f'device.attributes["{DRIVER}"].model == "A"'}
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "selectors": [{"cel": cel}]}}
    path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates"
    there.api.create(path, {"metadata": {"name": "gpu"}, "spec": {"spec": {"devices": {"requests": [request]}}}})


def _make_queue(there: World, name: str, capability: Json, namespace: str) -> None:
    annotations = {"volcano.sh/card.quota": '{"A": 100}'}
    annotations |= {"volsched.io/allowed-namespaces": namespace} if namespace else {}
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"weight": 1, "capability": capability},
    }
    there.api.create(f"{GROUPS}/queues", body)


def _steady_job(there: World, namespace: str) -> str:
    """Start a Job of the honest team that goes on all the time; return its uid."""
    task = there.task("worker", 1) | {"template": there.template(cpu="100m")}
    made = there.job(namespace, "steady", [task], minAvailable=1, queue="honest")
    there.wait_bound(namespace, 1)
    return str(made["metadata"]["uid"])


def run(report: Report, settings: Settings) -> None:
    """Run the drill."""
    with world(_CONFIGURATION, feature_gates=GATES, api_flags=API_FLAGS) as there:
        honest = there.control_plane.create_namespace("honest")
        nodes = furnish(there, settings, honest)
        kept = ("--kept-bytes", str(settings.kept_mib << 20))
        there.populate(flags=(*_FLAGS, *kept, *settings.flags))
        there.schedulers[0].process.wait_for("everything is listed")
        target = Target(there.name, "honest", "steady", _steady_job(there, honest), "hostile", tuple(nodes))
        steady = set(there.pods(honest))
        team = HonestTeam(there, honest, "honest", settings.rate)
        forge_lease(there)
        with contextlib.closing(Keeper(there)) as keeper:
            with contextlib.closing(team):
                _drill(report, settings, there, team, target)
            crowds.run(report, there, settings.crowds)
        for kind, limit in memory_limits().items():
            report.figure(f"most memory of {kind}, MiB", keeper.peaks[kind])
            report.figure(f"limit of {kind} in the manifests, MiB", limit)
        _judge_lease(report, there)
        report.must("processes that ended", len(keeper.ended), "==", 0, tuple(keeper.ended))
        report.must("honest Jobs that were restarted", len(steady - set(there.pods(honest))), "==", 0)


_CONFIGURATION: Final = CONFIGURATION.replace("enqueue, allocate", "enqueue, reserve, allocate").replace(
    "  - name: gang\n", "  - name: gang\n  - name: overcommit\n"
)
"""Of all drills, with what keeps room for jobs: hostile ones must have none kept."""

_FLAGS: Final = ()
"""Leases as they ship: what hostile objects do must not cost the leader its Lease."""


def _drill(report: Report, settings: Settings, there: World, team: HonestTeam, target: Target) -> None:
    team.crowd(settings.replicas)  # a process keeps room for its busiest time: that is no part of what is measured
    team.work(min(10.0, settings.seconds / 4))  # nor is what is loaded at first use
    alone = [waited.seconds for waited in team.work(settings.seconds)]
    report.progress(f"alone: p99 {percentile(alone, 0.99):.2f} s of {len(alone)} pods, {len(team.lost)} without a node")
    memory = [_memory_at_rest(settings, there, team)]
    leaders = _transitions(there)

    waves = [
        Attack(there.control_plane.create_namespace(f"hostile-{number}")) for number in range(1, settings.waves + 1)
    ]
    beside: list[float] = []
    for number, attack in enumerate(waves):
        report.progress(f"wave {number + 1}")
        attacker = Attacker(target, settings.seed + number)
        beside += _attack(report, settings, there, team, attacker, attack)
        memory.append(memory_of(there))
        attack.unnamed = _unsettled(report, settings, there, attack)
        _judge_refused(report, there, number + 1, attack)
        team.rest()
        clean_up(there, attack, settings.patience)
        beside += [waited.seconds for waited in team.work(min(20.0, settings.seconds / 2))]
        memory.append(_memory_at_rest(settings, there, team))
    _judge(report, alone, beside, team.lost)
    _judge_objects(report, waves)
    _judge_memory(report, *memory)
    changed = sum(one != other for one, other in zip(leaders, _transitions(there), strict=True))
    report.must("leaders that changed", changed, "==", 0)


def _memory_at_rest(settings: Settings, there: World, team: HonestTeam) -> Memory:
    """Look at memory when what is remembered of gone objects has ended, which it does with the next change."""
    team.rest()
    time.sleep(settings.idle)
    there.api.patch("/api/v1/nodes/node-0", {"metadata": {"annotations": {"drill": f"{time.monotonic()}"}}})
    time.sleep(1.0)
    return memory_of(there)


def forge_lease(there: World) -> None:
    """Have a tenant say on a Lease of its own that another configuration is in force, and that it is the newest."""
    namespace = there.control_plane.create_namespace("forger")
    told = {
        "volsched.io/scheduler-names": there.name,
        "volsched.io/configuration": f"ConfigMap {namespace}/volsched-config",
        "volsched.io/configuration-hash": "0",
    }
    metadata = {"name": "forged", "labels": {"volsched.io/lease": "scheduler"}, "annotations": told}
    spec = {"holderIdentity": "forger", "renewTime": "2099-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    there.api.create(leases, {"metadata": metadata, "spec": spec})
    text = {"volsched.conf": "tiers: [] # forged"}
    data = {"metadata": {"name": "volsched-config"}, "data": text}
    there.api.create(f"/api/v1/namespaces/{namespace}/configmaps", data)


def _judge_lease(report: Report, there: World) -> None:
    """Judge which configuration the tools believe, beside that Lease."""
    done = run_volsched("queue", "list", "--kubeconfig", str(there.control_plane.kubeconfig), "-o", "json")
    believed = json.loads(done.stdout or "{}").get("configuration", "")
    report.must("configurations of a tenant that were believed", int("forger" in believed), "==", 0, (believed,))
    report.must("forged Leases that were named", int("forger/forged" in done.stderr), "==", 1, (done.stderr,))


def _attack(
    report: Report, settings: Settings, there: World, team: HonestTeam, attacker: Attacker, attack: Attack
) -> list[float]:
    """Send everything while the honest team works; return what its pods waited."""
    objects = _objects(attacker, settings)
    sending = threading.Thread(target=send, args=(there, attack, objects))
    flood = Flood([replica.port for replica in (*there.schedulers, *there.managers)], settings.connections).start()
    sending.start()
    waited = team.work(settings.seconds, lambda: attack.is_over)
    sending.join()
    flood.close()
    attack.floods.append(flood)
    report.progress(f"{len(attack.taken)} hostile objects taken, {attack.refused.total()} refused by the API server")
    spoil_results(there, attack)
    report.progress(f"{changes.grow(there, attack.namespace, settings.growing)} objects in use have grown")
    waited += team.work(settings.seconds / 2)
    seconds = [pod.seconds for pod in waited]
    report.progress(f"beside them: p99 {percentile(seconds, 0.99):.2f} s of {len(waited)} pods")
    slowest = sorted(waited, key=lambda pod: pod.seconds)[-_SLOWEST:]
    report.progress(f"slowest: {'; '.join(map(str, reversed(slowest)))}")
    return seconds


def _objects(attacker: Attacker, settings: Settings) -> Iterator[Hostile]:
    yield from attacker.large(settings.large)
    yield from attacker.rows(settings.replicas)
    yield from attacker.more(settings.objects)
    yield from attacker.of_administrators(max(1, settings.objects // 20))


def _unsettled(report: Report, settings: Settings, there: World, attack: Attack) -> list[Hostile]:
    """Wait until each object has met its fate; return those that have not."""
    left: list[Hostile] = []

    def all_settled() -> bool:
        register = Register(there, attack.namespace)
        left[:] = [found for found in attack.taken if not register.is_settled(found)]
        return not left

    _wait(all_settled, settings.patience, "each hostile object is named, or done with")
    report.progress(f"{len(left)} hostile objects of which nothing is said")
    return left


def _judge_refused(report: Report, there: World, wave: int, attack: Attack) -> None:
    """Judge for whose objects there was no memory: what is kept is bounded, and honest objects are not refused."""
    refused = [event for event in listed(there, "/api/v1/events") if event["reason"] == NO_MEMORY]
    spaces = Counter(event["involvedObject"].get("namespace", "") for event in refused)
    report.must(f"hostile objects refused for want of memory in wave {wave}", spaces[attack.namespace], ">=", 1)
    honest = tuple(space for space in spaces if not space.startswith("hostile-"))
    report.must(f"others that had objects refused in wave {wave}", len(honest), "==", 0, honest)


def _judge(report: Report, alone: Sequence[float], beside: Sequence[float], lost: Sequence[str]) -> None:
    report.figure("honest pods alone", len(alone))
    report.figure("honest pods beside hostile objects, and after", len(beside))
    report.figure("p50 of an honest pod's wait alone, seconds", percentile(alone, 0.5))
    report.figure("p50 of an honest pod's wait beside hostile objects, seconds", percentile(beside, 0.5))
    report.must("p99 of an honest pod's wait alone, seconds", percentile(alone, 0.99), "<", ALONE_SECONDS, is_time=True)
    report.must(
        "p99 of an honest pod's wait beside hostile objects, seconds",
        percentile(beside, 0.99),
        "<",
        HONEST_SECONDS,
        is_time=True,
    )
    report.must("honest pods that never got a node", len(lost), "==", 0, tuple(lost))


def _judge_objects(report: Report, waves: Sequence[Attack]) -> None:
    taken = [found for attack in waves for found in attack.taken]
    report.figure("hostile objects that the API server took", len(taken))
    report.figure("hostile objects that the API server refused", sum(attack.refused.total() for attack in waves))
    for kind, count in Counter(found.kind for found in taken).most_common():
        report.figure(f"taken: {kind}", count)
    _judge_floods(report, [flood for attack in waves for flood in attack.floods])
    unnamed = [found for attack in waves for found in attack.unnamed]
    told = tuple(f"{found.kind} {found.name}: {found.what}; must: {found.fate.value}" for found in unnamed)
    report.must("objects that must be named in an Event and are not", len(unnamed), "==", 0, told)


def _judge_floods(report: Report, floods: Sequence[Flood]) -> None:
    told = tuple(each for flood in floods for each in flood.unanswered)
    report.figure("probes beside idle connections", sum(flood.probes for flood in floods))
    report.must("probes beside idle connections without an answer", len(told), "==", 0, told[:_SLOWEST])
    slowest = max((flood.slowest for flood in floods), default=0.0)
    report.must("slowest probe beside idle connections, seconds", slowest, "<", PROBE_SECONDS, is_time=True)


def _judge_memory(report: Report, before: Memory, *later: Memory) -> None:
    """Judge what is in use by what was before, and pages by the first wave; `later` is in and after each wave, in turn.

    Pages that are used in part stay with the process: of them it must need no more, however many waves come.
    """
    peaks, remainders = later[::2], later[1::2]
    for name, mebibytes in before.resident.items():
        report.figure(f"memory of {name} before, MiB", mebibytes)
        report.figure(f"memory of {name} beside hostile objects, MiB", max(peak.resident[name] for peak in peaks))
        for number, rest in enumerate(remainders, 1):
            report.figure(f"memory of {name} after wave {number}, MiB", rest.resident[name])
    for name in before.resident:
        _judge_blocks(report, name, [memory.blocks[name] for memory in (before, *later)])
        _judge_pages(report, name, [rest.resident[name] for rest in remainders])
    for name, tables in remainders[-1].tables.items():
        entries = {table: int(size - before.tables[name].get(table, 0)) for table, size in tables.items()}
        most = sorted(entries.items(), key=lambda found: -found[1])[:_LARGEST]
        report.progress(f"{name} remembers more: " + ", ".join(f"{table} {more:,}" for table, more in most if more > 0))
    more = tuple(grown(before, remainders[-1]))
    report.must("tables that did not come back", len(more), "==", 0, more)


def _judge_blocks(report: Report, name: str, blocks: Sequence[float]) -> None:
    told = " -> ".join(f"{each:,.0f}" for each in blocks) + " blocks"
    what = f"memory of {name} that is in use after, as a part of before"
    report.must(what, blocks[-1] / blocks[0], "<=", MEMORY_RATIO, (told,))


def _judge_pages(report: Report, name: str, after_waves: Sequence[float]) -> None:
    if len(after_waves) > 1:
        what = f"memory of {name} after the last wave, as a part of after the first"
        report.must(what, after_waves[-1] / after_waves[0], "<=", MEMORY_RATIO)


def run_crowds(report: Report, sizes: crowds.Sizes) -> None:
    """Run the last part alone: crowds."""
    with world() as there:
        there.nodes(40, cpu="64", memory="256Gi", pods=250)
        crowds.run(report, there, sizes)
        ended = tuple(there.exits())
        report.must("processes that ended", len(ended), "==", 0, ended)


def _arguments() -> tuple[Settings, bool]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=1_000, help="beside those that did harm once (1000)")
    parser.add_argument("--seconds", type=float, default=120.0, help="that the honest team works alone (120)")
    parser.add_argument("--rate", type=float, default=3.0, help="pods, gangs or Jobs that it makes a second (3)")
    parser.add_argument("--nodes", type=int, default=40, help="in the cluster, of 8 devices each (40)")
    parser.add_argument("--replicas", type=int, default=4_000, help="of the largest hostile Job that may run (4000)")
    parser.add_argument(
        "--patience", type=float, default=180.0, help="seconds in which each object must be named (180)"
    )
    parser.add_argument(
        "--idle", type=float, default=IDLE_SECONDS, help="seconds of rest before memory is looked at (75)"
    )
    parser.add_argument("--kept-mib", type=int, default=64, help="that a process keeps of objects at most (64)")
    parser.add_argument("--seed", type=int, default=17, help="of the hostile objects (17)")
    parser.add_argument("--crowd", type=float, default=1.0, help="the part of the full size that crowds have (1)")
    parser.add_argument("--crowds-alone", action="store_true", help="crowds without the others")
    given = vars(parser.parse_args())
    alone, sizes = given.pop("crowds_alone"), crowds.Sizes().scaled(given.pop("crowd"))
    return Settings(**given, large=max(10, given["objects"] // 2), crowds=sizes), alone


def main() -> int:
    """Run the drill from the command line."""
    settings, crowds_alone = _arguments()
    report = Report("hostile", "what one tenant writes, or fills, harms nobody else")
    if crowds_alone:
        run_crowds(report, settings.crowds)
    else:
        run(report, settings)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
