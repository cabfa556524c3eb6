"""Small clusters for tests and benches, in few words, and decided by the real scheduler.

cluster = a_cluster().node("gpu-1", cpu="64", **{"nvidia.com/gpu": 8}).queue("q")
cluster.job("etl", tasks=3, queue="q", cpu="4")
assert decide(cluster, CONFIGURATION).bindings == {"etl-0": "gpu-1", "etl-1": "gpu-1", "etl-2": "gpu-1"}
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Concatenate, ParamSpec

from volsched.framework.config.configuration import Configuration
from volsched.framework.engine.fast import Engine, FastEngine
from volsched.mirror.apply import Mirror
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Change, Put
from volsched.model.cluster import Cluster
from volsched.model.plan import Bind, Evict, PlanStep, StepRecorder
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus
from volsched.ports import CycleReport
from volsched.registry import load_profile, make
from volsched.scheduler import Scheduler
from volsched.simulation.manifests import decode

GROUP_NAME = "scheduling.k8s.io/group-name"
HOSTNAME = "kubernetes.io/hostname"
VOLCANO = "scheduling.volcano.sh/v1beta1"

Manifest = dict[str, Any]
_Given = ParamSpec("_Given")


class SteadyClock:
    """A clock for tests: the time of day is set, durations are real."""

    def __init__(self, now: float = 1_767_225_600.0) -> None:
        self.time = now

    def now(self) -> float:
        """Seconds since the epoch, as set."""
        return self.time

    def elapsed(self) -> float:
        """Seconds, monotonic."""
        return time.perf_counter()

    def cpu(self) -> float:
        """Return 0: nothing is over its budget."""
        return 0.0


def a_node(
    name: str,
    cpu: Any = "64",
    memory: Any = "256Gi",
    pods: Any = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **extended: Any,
) -> Manifest:
    """Return a node; ``extended`` resources by name."""
    allocatable = {k: str(v) for k, v in {"cpu": cpu, "memory": memory, "pods": pods, **extended}.items()}
    meta = {"labels": {HOSTNAME: name, **(labels or {})}, **_notes(annotations), **(metadata or {})}
    spec = {"taints": list(taints)} if taints else {}
    return _object("v1", "Node", name, meta, spec=spec, status={"allocatable": allocatable, "capacity": allocatable})


def a_namespace(name: str, **labels: str) -> Manifest:
    """Return a namespace with these labels."""
    return _object("v1", "Namespace", name, {"labels": labels})


def a_queue(
    name: str,
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """Return a queue."""
    body_status = {"status": dict(status)} if status else {}
    return _object(
        VOLCANO, "Queue", name, {**_notes(annotations), **(metadata or {})}, spec={"weight": 1, **spec}, **body_status
    )


def a_group(
    name: str,
    queue: str = "default",
    minimum: int = 1,
    phase: str = "Inqueue",
    created: str | None = None,
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """Return a PodGroup."""
    meta = {"namespace": "default", **_created(created), **_notes(annotations), **(metadata or {})}
    body = {"queue": queue, "minMember": minimum, **spec}
    return _object(VOLCANO, "PodGroup", name, meta, spec=body, status={"phase": phase, **(status or {})})


def a_native_group(
    name: str,
    minimum: int | None = None,
    created: str | None = None,
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    *,
    version: str = "v1alpha2",
    **spec: Any,
) -> Manifest:
    """Return a PodGroup of scheduling.k8s.io: a gang of so many, else a basic one."""
    meta = {"namespace": "default", **_created(created), **_notes(annotations), **(metadata or {})}
    policy = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    body = {"schedulingPolicy": policy, **spec}
    return _object(f"scheduling.k8s.io/{version}", "PodGroup", name, meta, spec=body, status=dict(status or {}))


def a_member(name: str, group: str, *, spec: Mapping[str, Any] | None = None, **pod: Any) -> Manifest:
    """Return a pod of a PodGroup of scheduling.k8s.io; all else as of ``a_pod``."""
    return a_pod(name, spec={"schedulingGroup": {"podGroupName": group}, **(spec or {})}, **pod)


def a_pod(  # noqa: PLR0913 - a pod has that many parts that tests are about
    name: str,
    group: str | None = None,
    on: str | None = None,
    phase: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    created: str | None = None,
    spec: Mapping[str, Any] | None = None,
    *,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **requests: Any,
) -> Manifest:
    """Return a pod of one container with ``requests``; with a node and no phase, it runs."""
    listed = {key: str(value) for key, value in requests.items()}
    meta = {
        "namespace": "default",
        "labels": dict(labels or {}),
        "annotations": {**({GROUP_NAME: group} if group else {}), **(annotations or {})},
        **_created(created),
        **(metadata or {}),
    }
    body = {
        "schedulerName": "volsched",
        "containers": [{"name": "main", "image": "none", "resources": {"requests": listed}}],
        **({"nodeName": on} if on else {}),
        **(spec or {}),
    }
    body_status = {"phase": phase or ("Running" if on else "Pending"), **(status or {})}
    return _object("v1", "Pod", name, meta, spec=body, status=body_status)


def _notes(annotations: Mapping[str, str] | None) -> dict[str, Any]:
    return {"annotations": dict(annotations)} if annotations else {}


def _created(at: str | None) -> dict[str, Any]:
    return {"creationTimestamp": at} if at else {}


def _object(version: str, kind: str, name: str, metadata: Mapping[str, Any], **rest: Any) -> Manifest:
    uid = f"{kind.lower()}-{metadata.get('namespace', '')}-{name}"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "uid": uid, **metadata}, **rest}


def _adding(
    make: Callable[_Given, Manifest],
) -> Callable[Concatenate[ClusterBuilder, _Given], ClusterBuilder]:
    """Return a method that adds what a function makes."""

    def add(cluster: ClusterBuilder, /, *args: _Given.args, **keywords: _Given.kwargs) -> ClusterBuilder:
        return cluster.add(make(*args, **keywords))

    add.__doc__ = make.__doc__
    return add


@dataclass(slots=True)
class ClusterBuilder:
    """Ordinary manifests under construction. ``changes`` are what an informer would send."""

    objects: list[Manifest] = field(default_factory=list)

    node = _adding(a_node)
    namespace = _adding(a_namespace)
    queue = _adding(a_queue)
    group = _adding(a_group)
    pod = _adding(a_pod)
    native_group = _adding(a_native_group)
    member = _adding(a_member)

    def job(
        self, name: str, tasks: int = 1, minimum: int | None = None, queue: str = "default", **pod: Any
    ) -> ClusterBuilder:
        """Add a PodGroup and its pending pods ``name-0`` and so on; by default all of them are the minimum."""
        self.group(name, queue, tasks if minimum is None else minimum)
        for index in range(tasks):
            self.pod(f"{name}-{index}", name, **pod)
        return self

    def add(self, manifest: Mapping[str, Any]) -> ClusterBuilder:
        """Add any manifest."""
        self.objects.append(dict(manifest))
        return self

    def changes(self) -> list[Change]:
        """Everything as changes of a mirror, in order."""
        return puts(*self.objects)


def put(manifest: Mapping[str, Any]) -> Put:
    """Return the change that an informer sends for a new or changed object of any kind."""
    return Put(decode(manifest))


def puts(*manifests: Mapping[str, Any]) -> list[Change]:
    """Return what an informer sends of several objects."""
    return [put(manifest) for manifest in manifests]


def a_cluster() -> ClusterBuilder:
    """Return an empty cluster."""
    return ClusterBuilder()


@dataclass(slots=True)
class Rig:
    """A scheduler on a mirror, with an executor that records."""

    mirror: Mirror
    scheduler: Scheduler
    recorder: StepRecorder
    clock: SteadyClock

    @property
    def cluster(self) -> Cluster:
        """Return the live state."""
        return self.mirror.cluster

    def cycle(self, *changes: Change) -> CycleDecision:
        """Apply changes, run one cycle, and return what it decided."""
        self.mirror.apply(changes)
        self.recorder.steps.clear()
        report = self.scheduler.cycle()
        return CycleDecision(list(self.recorder.steps), self.cluster, report)


@dataclass(slots=True)
class CycleDecision:
    """The steps of a cycle, and the cluster after it."""

    steps: list[PlanStep]
    cluster: Cluster
    report: CycleReport

    @property
    def bindings(self) -> dict[str, str]:
        """Node by name of pod (the namespace ``default`` is not shown)."""
        return {_short(s.namespace, s.name): s.node for s in self.steps if isinstance(s, Bind)}

    @property
    def evictions(self) -> list[str]:
        """Names of evicted pods."""
        return [_short(s.namespace, s.name) for s in self.steps if isinstance(s, Evict)]

    @property
    def waiting(self) -> dict[str, str]:
        """Return why each waiting pod waits: its own refusal's message, else its job's."""
        found = {}
        for task in self.cluster.tasks.values():
            if task.status is TaskStatus.PENDING and task.spec.is_managed:
                refusal = task.refusal or (task.job.refusal if task.job else None)
                found[_short(task.namespace, task.name)] = refusal.message if refusal else ""
        return found

    def task(self, name: str) -> TaskInfo:
        """Return a task by its pod's name."""
        return next(task for task in self.cluster.tasks.values() if name in (task.name, task.key))


def a_rig(
    cluster: ClusterBuilder,
    configuration: str,
    engine: Callable[[Cluster], Engine] = FastEngine,
    settings: MirrorSettings | None = None,
) -> Rig:
    """Return a scheduler with this configuration (YAML) on a cluster."""
    mirror = Mirror(settings)
    mirror.apply(cluster.changes())
    profile = make(_accepted(configuration))
    recorder, clock = StepRecorder(), SteadyClock()
    return Rig(mirror, Scheduler(mirror, profile, recorder, clock, engine), recorder, clock)


@cache
def _accepted(text: str) -> Configuration:
    """Read a text once. A test module has many rigs of one configuration."""
    return load_profile(text)[0].configuration


def decide(
    cluster: ClusterBuilder, configuration: str, engine: Callable[[Cluster], Engine] = FastEngine
) -> CycleDecision:
    """Run one cycle on a cluster."""
    return a_rig(cluster, configuration, engine).cycle()


def _short(namespace: str, name: str) -> str:
    return name if namespace == "default" else f"{namespace}/{name}"
