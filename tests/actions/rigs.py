"""Rigs with small plugins of the test's own beside those of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from volsched.framework.config.configuration import PluginOption
from volsched.framework.registration import Registrar
from volsched.framework.rules import Allocatable, PrePredicate, QueueOrder
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Change, Deleted
from volsched.model.plan import Bind, RecordEvent, WriteGroupStatus, WritePodCondition
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import TaskStatus
from volsched.model.verdict import Scope, Step, Verdict
from volsched.testing.builders import ClusterBuilder, CycleDecision, Rig, a_rig, put
from volsched.testing.recount import faults, leftovers

GANG = "priority gang"
NODES = "predicates nodeorder"


def conf(actions: str, *tiers: str) -> str:
    """A configuration: actions, and a text of plugin names for each tier."""
    lines = [f'actions: "{actions}"', "tiers:"]
    for tier in tiers or (GANG, NODES):
        lines += ["- plugins:", *(f"  - name: {name}" for name in tier.split())]
    return "\n".join(lines)


class Plug:
    """A plugin that registers what it is given."""

    name = "test"

    def __init__(self, register: Callable[[Registrar], object]) -> None:
        self._register = register

    def on_session_open(self, registrar: Registrar) -> None:
        self._register(registrar)


def rig(
    cluster: ClusterBuilder,
    configuration: str,
    *registers: Callable[[Registrar], object],
    settings: MirrorSettings | None = None,
) -> Rig:
    """A scheduler whose first tier begins with these plugins."""
    made = a_rig(cluster, configuration, settings=settings)
    mine = tuple((PluginOption(Plug.name), Plug(register)) for register in registers)
    profile = made.scheduler.profile
    if mine:
        first, *others = profile.plugins
        made.scheduler.profile = replace(profile, plugins=((*mine, *first), *others))
    return made


def cycle(on: Rig, *changes: Change) -> CycleDecision:
    """Run a cycle; whatever it did, the accounts are right and nothing of the session is left."""
    decision = on.cycle(*changes)
    assert faults(on.cluster) == []
    assert leftovers(on.cluster) == []
    return decision


def decide(cluster: ClusterBuilder, configuration: str, *registers: Callable[[Registrar], object]) -> CycleDecision:
    return cycle(rig(cluster, configuration, *registers))


def order_of(decision: CycleDecision) -> list[str]:
    """Names of the pods that were bound, in order."""
    return [step.name for step in decision.steps if isinstance(step, Bind)]


def phases(decision: CycleDecision) -> dict[str, str]:
    """Phase of every PodGroup."""
    return {job.name: job.phase for job in decision.cluster.jobs.values() if job.spec.has_group}


def events(decision: CycleDecision) -> list[tuple[str, str, str]]:
    """Object, reason and message of every Event."""
    return [(f"{s.kind}/{s.name}", s.reason, s.message) for s in decision.steps if isinstance(s, RecordEvent)]


def no(why: str = "no", step: Step = Step.ALLOCATABLE) -> Verdict:
    return Verdict(step, "test", Scope.QUEUE, "No", why)


def least_allocated_first(registrar: Registrar) -> None:
    """Queues that hold less go first: what a fairness plugin does, in short."""
    registrar.register(QueueOrder(lambda queue: queue.allocated.get("cpu", 0)))


def quota(limits: Mapping[str, int]) -> Callable[[Registrar], None]:
    """Queues may hold so many milli-cores."""

    def refuse(queue: QueueInfo, task: TaskInfo) -> Verdict | None:
        limit = limits.get(queue.name)
        total = queue.allocated.get("cpu", 0) + task.template.request.get("cpu", 0)
        return no(f"quota of {queue.name}") if limit is not None and total > limit else None

    return lambda registrar: registrar.register(Allocatable(refuse))


class Tries:
    """Counts how often each task is tried."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, registrar: Registrar) -> None:
        registrar.register(PrePredicate(lambda task: self.names.append(task.name)))

    def take(self) -> list[str]:
        taken, self.names = self.names, []
        return taken


# -- what the API server would say next -------------------------------------------------------------------------------


def echo(on: Rig, given: ClusterBuilder, decision: CycleDecision) -> list[Change]:
    """What the watch shows of a decision's writes: bound pods run, statuses and conditions are as written."""
    objects = {(o["kind"], o["metadata"]["name"]): o for o in given.objects}
    changed: list[dict[str, Any]] = []
    for step in decision.steps:
        match step:
            case Bind():
                pod = objects["Pod", step.name]
                changed.append({**pod, "spec": {**pod["spec"], "nodeName": step.node}, "status": {"phase": "Running"}})
            case WriteGroupStatus():
                changed.append({**objects["PodGroup", step.name], "status": _status(step)})
            case WritePodCondition():
                pod = objects["Pod", step.name]
                condition = {"type": "PodScheduled", "status": "False", "reason": step.reason, "message": step.message}
                changed.append({**pod, "status": {**pod["status"], "conditions": [condition]}})
    found: list[Change] = []
    for item in changed:
        key = item["kind"], item["metadata"]["name"]
        version = int(objects[key]["metadata"].get("resourceVersion", 0)) + 1
        item["metadata"] = {**item["metadata"], "resourceVersion": str(version)}
        objects[key] = item
        found.append(put(item))
    given.objects[:] = list(objects.values())
    return found


def _status(step: WriteGroupStatus) -> dict[str, Any]:
    conditions = [
        {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message} for c in step.conditions
    ]
    counts = {"running": step.running, "succeeded": step.succeeded, "failed": step.failed}
    return {"phase": step.phase, "conditions": conditions, **counts}


def finished(on: Rig, name: str) -> Change:
    """A pod has run and is done."""
    return put(_shown(on, name, "Succeeded"))


def gone(on: Rig, name: str) -> Change:
    return Deleted("Pod", "default", name, _task(on, name).uid)


def leaving(name: str, on: str, **requests: str) -> dict[str, Any]:
    """A pod that is being deleted."""
    meta = {"name": name, "namespace": "default", "uid": name, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    containers = [{"name": "c", "resources": {"requests": requests}}]
    spec = {"nodeName": on, "schedulerName": "default-scheduler", "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Running"}}


def _task(on: Rig, name: str) -> TaskInfo:
    return next(task for task in on.cluster.tasks.values() if task.name == name)


def _shown(on: Rig, name: str, phase: str) -> dict[str, Any]:
    task = _task(on, name)
    node = task.node.name if task.node is not None else "gone"
    meta = {
        "name": name,
        "namespace": "default",
        "uid": task.uid,
        "annotations": dict(task.spec.annotations),
        "labels": dict(task.spec.labels),
    }
    spec = {"nodeName": node, "schedulerName": task.spec.scheduler, "containers": []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": phase}}


def statuses(on: Rig, names: Sequence[str]) -> list[TaskStatus]:
    return [_task(on, name).status for name in names]
