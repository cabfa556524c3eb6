"""The result of a simulation as the public, versioned JSON object of the contract."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol, TypeAlias

from volsched.controllers import jobs
from volsched.controllers.waiting import Wait
from volsched.framework import reporter
from volsched.framework.quota_report import RESERVATIONS, STRANDED_CARDS, QuotaTable
from volsched.framework.reports import QueueAmounts
from volsched.framework.session import Session
from volsched.mirror.apply import Mirror
from volsched.mirror.reading import GROUP_NAME
from volsched.model import api
from volsched.model.job import COMPLETED, INQUEUE, PENDING, RUNNING, JobInfo
from volsched.model.plan import RecordEvent
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import IS_ALLOCATED, TaskStatus
from volsched.model.values.quantity import format_amount
from volsched.model.values.resources import Resources
from volsched.model.verdict import Scope, Step, Verdict, truncated
from volsched.scheduler import Profile
from volsched.simulation.notes import notes_of
from volsched.simulation.runner import Simulation

API_VERSION: Final = "volsched.io/v1alpha1"
KIND: Final = "SimulationResult"

Json: TypeAlias = dict[str, Any]

_ROOT: Final = "root"
_TABLES: Final = {"cards": STRANDED_CARDS, "reservations": RESERVATIONS}
"""Fields of the result that are tables of plugins or actions, where these have rows."""

_WAITING: Final = (TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


class Looked(Protocol):
    """An in-memory cluster with the sessions that were run on it: a simulation, or a live cluster that is followed."""

    @property
    def mirror(self) -> Mirror:
        """Return the cluster as it is believed to be."""

    @property
    def profile(self) -> Profile:
        """Return the configuration in force."""

    @property
    def session(self) -> Session | None:
        """Return the last session, closed; None before the first."""


def result_of(simulation: Simulation) -> Json:
    """Return the whole result. Steps are in order; the Events of one cycle are ordered by object."""
    history = simulation.api_server.history
    bound = {f"{bind.namespace}/{bind.name}" for _, bind in history.binds}
    result: Json = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "cycles": simulation.cycles,
        "settled": simulation.settled,
        "binds": [
            {"cycle": cycle, "pod": f"{b.namespace}/{b.name}", "node": b.node, "annotations": dict(b.annotations)}
            for cycle, b in history.binds
        ],
        "pipelined": [{"cycle": cycle, "pod": pod, "node": node} for cycle, pod, node in simulation.pipelined],
        "evictions": [
            {"cycle": cycle, "pod": f"{e.namespace}/{e.name}", "action": e.action, "for": e.preemptor or None}
            for cycle, e in history.evictions
        ],
        "pods": _pods(simulation),
        "podGroups": _groups(simulation),
        "queues": _queues(simulation),
        "resourceClaims": _claims(simulation),
        "pending": _pending(simulation),
        "events": [
            {
                "cycle": cycle,
                "object": _object(event),
                "type": event.type,
                "reason": event.reason,
                "message": event.message,
            }
            for cycle, event in sorted(history.events, key=lambda told: (told[0], _object(told[1])))
        ],
    }
    for field, name in _TABLES.items():
        table = quota_table(simulation, name)
        if table is not None and table.rows:
            result[field] = table.objects()
    notes = notes_of(simulation)
    if notes:
        result["notes"] = notes
    if simulation.settings.scores:
        result["scores"] = {pod: _scores(found) for pod, found in simulation.scores.items() if pod in bound}
    return result


def quota_table(simulation: Simulation, name: str) -> QuotaTable | None:
    """Return a table of that name at the end, None if no plugin has it."""
    found = (table() for table in simulation.quota_tables)
    return next((table for table in found if table.name == name), None)


def _object(event: RecordEvent) -> str:
    return "/".join(part for part in (event.kind, event.namespace, event.name) if part)


def _scores(nodes: Mapping[str, Mapping[str, float]]) -> Json:
    return {node: {"total": sum(given.values()), "plugins": dict(given)} for node, given in nodes.items()}


# --- objects --------------------------------------------------------------------------------------------------------


def _pods(simulation: Simulation) -> Json:
    return {key: _pod(simulation, pod) for key, pod in simulation.api_server.pods.items()}


def _pod(simulation: Simulation, pod: api.Pod) -> Json:
    task = simulation.mirror.cluster.tasks.get(pod.metadata.uid)
    key = _group_key(task, pod.metadata.namespace, pod.metadata.annotations)
    found = simulation.api_server.groups.get(key) if key else None
    queue = _queue_of(simulation, found) if found is not None else None
    return {
        "phase": pod.status.phase,
        "node": pod.spec.node_name or None,
        "podGroup": key,
        "queue": native.queue if (native := _native_job(task)) is not None else queue,
    }


def _native_job(task: TaskInfo | None) -> JobInfo | None:
    """Return the job of a member of a PodGroup of scheduling.k8s.io."""
    job = task.job if task is not None else None
    return job if job is not None and job.spec.native is not None else None


def _group_key(task: TaskInfo | None, namespace: str, annotations: Mapping[str, str]) -> str | None:
    """Return the namespace and name of a pod's PodGroup of either kind, None without one."""
    job = _native_job(task)
    if job is not None and job.spec.native is not None:
        return job.spec.native.key
    group = annotations.get(GROUP_NAME)
    return f"{namespace}/{group}" if group else None


def _queue_of(simulation: Simulation, group: api.PodGroup) -> str:
    return group.spec.queue or simulation.settings.default_queue


def _groups(simulation: Simulation) -> Json:
    return {
        key: {
            "phase": group.status.phase or PENDING,
            "queue": _queue_of(simulation, group),
            "conditions": [
                {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message}
                for c in group.status.conditions
            ],
        }
        for key, group in simulation.api_server.groups.items()
    }


def _claims(simulation: Simulation) -> Json:
    found: Json = {}
    for claim in simulation.api_server.resource_claims.values():
        status, namespace = claim.status, claim.metadata.namespace
        devices = status.allocation.devices.results if status.allocation is not None else ()
        found[claim.key] = {
            "devices": [f"{device.driver}/{device.pool}/{device.device}" for device in devices],
            "reservedFor": sorted(f"{namespace}/{consumer.name}" for consumer in status.reserved_for),
        }
    return found


# --- queues ---------------------------------------------------------------------------------------------------------


def _queues(simulation: Simulation) -> Json:
    """Show each queue with those below it, in the terms of the quota plugins, else of resources."""
    queues = simulation.mirror.cluster.queues
    reserved = _reserved(simulation)
    amounts = {name: _amounts(simulation, queue, reserved) for name, queue in queues.items()}
    allocated: dict[str, Counter[str]] = {name: Counter() for name in queues}
    admitted: dict[str, Counter[str]] = {name: Counter() for name in queues}
    for queue in queues.values():
        for above in _self_and_above(queues, queue):
            allocated[above].update(amounts[queue.name].allocated)
            admitted[above].update(amounts[queue.name].inqueue)
    return {
        name: {
            "state": queue.spec.reported_state or "Open",
            "allocated": Resources(allocated[name]).human(),
            "inqueue": Resources(admitted[name]).human(),
            "capability": {r: format_amount(r, amount) for r, amount in sorted(amounts[name].capability.items())},
        }
        for name, queue in queues.items()
    }


def _amounts(simulation: Simulation, queue: QueueInfo, reserved: Mapping[str, Resources]) -> QueueAmounts:
    """Return used and reserved amounts of a queue's own jobs, and its limit."""
    given = [of_queue(queue) for of_queue in simulation.queue_amounts]
    if all(amounts.beside for amounts in given):
        given.append(QueueAmounts(queue.allocated, reserved.get(queue.name, Resources.EMPTY), queue.spec.capability))
    return QueueAmounts(
        dict(ChainMap(*(dict(amounts.allocated) for amounts in given))),
        dict(ChainMap(*(dict(amounts.inqueue) for amounts in given))),
        dict(ChainMap(*(dict(amounts.capability) for amounts in given))),
    )


def _reserved(simulation: Simulation) -> dict[str, Resources]:
    """Return the amounts that admitted jobs of each queue may still take of their minResources."""
    reserved: dict[str, Resources] = {}
    for job in simulation.mirror.cluster.jobs.values():
        if job.phase == INQUEUE and job.keeps_room and job.counted_minimum is not None:
            left = job.counted_minimum.minus(_held(job))
            reserved[job.queue] = reserved.get(job.queue, Resources.EMPTY).plus(left)
    return reserved


def _self_and_above(queues: Mapping[str, QueueInfo], queue: QueueInfo) -> Iterator[str]:
    """Yield a queue and its parents, each once. Every queue is below the root."""
    seen: dict[str, None] = {}
    name = queue.name
    while name in queues and name not in seen:
        seen[name] = None
        name = queues[name].spec.parent
    if _ROOT in queues:
        seen[_ROOT] = None
    return iter(seen)


def _held(job: JobInfo) -> Resources:
    held = Resources.EMPTY
    for task in job.tasks.values():
        if IS_ALLOCATED[task.status]:
            held = held.plus(task.template.request)
    return held


# --- who waits ------------------------------------------------------------------------------------------------------


def _pending(simulation: Simulation) -> list[Json]:
    """List every pod of ours without a node, every PodGroup without pods, and every Job that is not run, by name."""
    cluster = simulation.mirror.cluster
    waiting = [
        _waiting_pod(simulation, task)
        for task in cluster.tasks.values()
        if task.spec.is_managed and task.status in _WAITING and task.key in simulation.api_server.pods
    ]
    waiting += [
        _waiting_group(simulation, job)
        for job in cluster.jobs.values()
        if job.spec.has_group and not job.tasks and job.phase not in (RUNNING, COMPLETED)
    ]
    waiting += [_waiting_job(simulation, job, refusal) for job, refusal in simulation.api_server.jobs_not_run()]
    return sorted(waiting, key=lambda entry: (entry["pod"] or entry["podGroup"], entry["pod"] is None))


def waiting_refusal(simulation: Looked, of: TaskInfo | JobInfo) -> Verdict:
    """Return why a pod of ours without a node waits, or a PodGroup without pods."""
    if isinstance(of, TaskInfo):
        return reporter.refusal_of(of) or _unlooked(simulation, of)
    return of.refusal or _unadmitted(simulation, of) or _without_pods(of)


def _waiting_pod(simulation: Simulation, task: TaskInfo) -> Json:
    verdict = waiting_refusal(simulation, task)
    return {
        "pod": task.key,
        "podGroup": _group_key(task, task.namespace, task.spec.annotations),
        "queue": task.job.queue or None if task.job is not None else None,
        **_why(verdict),
    }


def _waiting_group(simulation: Simulation, job: JobInfo) -> Json:
    verdict = waiting_refusal(simulation, job)
    return {"pod": None, "podGroup": job.key, "queue": job.queue or None, **_why(verdict)}


def _waiting_job(simulation: Simulation, job: api.Job, refusal: Wait) -> Json:
    """Return the entry of a Volcano Job that is not run, by the PodGroup that it would have."""
    queue = job.spec.queue or simulation.settings.default_queue
    verdict = Verdict(Step.INVALID, "", Scope.JOB, refusal.reason, refusal.message)
    group = f"{job.metadata.namespace}/{jobs.group_name(job)}"
    return {"pod": None, "podGroup": group, "job": job.key, "queue": queue, **_why(verdict)}


def _why(verdict: Verdict) -> Json:
    return {
        "step": verdict.step.value,
        "plugin": verdict.plugin or None,
        "reason": verdict.reason,
        "message": truncated(verdict.message),
    }


def _unadmitted(simulation: Looked, job: JobInfo) -> Verdict | None:
    if job.phase not in ("", PENDING) or not simulation.profile.configuration.has_enqueue:
        return None
    message = f'PodGroup "{job.key}" has not been admitted yet'
    return Verdict(Step.ENQUEUE, "", Scope.JOB, "NotEnqueued", message)


def _without_pods(job: JobInfo) -> Verdict:
    message = f'PodGroup "{job.key}" has 0 of the {job.spec.min_available} pods that it starts with'
    return Verdict(Step.GANG, "", Scope.JOB, "NotEnoughTasks", message)


def _unlooked(simulation: Looked, task: TaskInfo) -> Verdict:
    """Return the verdict on a pod that was neither refused nor tried."""
    unadmitted = _unadmitted(simulation, task.job) if task.job is not None else None
    if unadmitted is not None:
        return unadmitted
    step = Step.BACKFILL if task.best_effort else Step.PREDICATE
    configured = ", ".join(simulation.profile.configuration.actions)
    message = f'no action has looked at pod "{task.key}" (configured: {configured})'
    return Verdict(step, "", Scope.POD, "NotConsidered", message)
