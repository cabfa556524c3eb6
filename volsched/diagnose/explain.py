"""Explains why something waits, in the order of users' questions: reason, shortage, order, consumers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from volsched.controllers.waiting import NO_WAIT
from volsched.diagnose.ends import annotations_of, expected_end, holds_since
from volsched.diagnose.queries import (
    figures_of,
    jobs_in_order,
    quantities,
    refusal_of_job,
    since,
    usage_of,
    waiting_jobs,
)
from volsched.diagnose.records import (
    KINDS,
    Explanation,
    Gang,
    Holder,
    NodeLine,
    QueuePosition,
    Short,
    Subject,
    WaitingPod,
)
from volsched.diagnose.workload_names import WorkloadName, is_called, workload_of
from volsched.framework.engine.fast import FastEngine
from volsched.framework.quota_report import Consumer
from volsched.framework.validation import Fault
from volsched.model import api
from volsched.model.errors import nearest, shortened
from volsched.model.job import NATIVE, JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.owners import controller_of
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_CHOSEN, IS_FINISHED
from volsched.model.values.quantity import format_amount
from volsched.model.verdict import Step, Verdict
from volsched.quota.report import asked_of, held_of_queue, held_of_quota
from volsched.simulation.manifests import subject_of
from volsched.simulation.result import Looked, waiting_refusal
from volsched.simulation.runner import Simulation
from volsched.validation.deadlocks import deadlock_faults
from volsched.validation.jobs import dependency_faults

MOST_HOLDERS: Final = 10
MOST_NAMES: Final = 3
OF_QUOTA: Final = (Step.ENQUEUE, Step.OVERUSED, Step.ALLOCATABLE)
"""The steps at which limits of queues refuse jobs."""

_SORTED_LAST: Final = ""

_LONGEST_REASON: Final = 600
"""The longest text of a kubelet about a failed pod."""


class NotFoundError(LookupError):
    """There is no such object. The text names those that may have been meant."""


class UnknownKindError(NotFoundError):
    """No job is of a workload of this kind."""


@dataclass(frozen=True, slots=True)
class AskedAbout:
    """The subject of a question: a job, and one of its pods if the question names it."""

    job: JobInfo
    pod: TaskInfo | None = None

    @property
    def waiting(self) -> list[TaskInfo]:
        """Return the pods in question that have no node, by name."""
        tasks = [self.pod] if self.pod is not None else list(self.job.waiting.values())
        return sorted(
            (task for task in tasks if task.uid in self.job.waiting and task.spec.is_managed), key=lambda task: task.key
        )


def explain(simulation: Simulation, subject: Subject, *, nodes: bool = False) -> Explanation:
    """Explain an object in a run that was made; ``nodes`` adds a line for each group of nodes with its refusal.

    Raises NotFoundError.
    """
    if subject.kind == "queue":
        return _queue(simulation, subject)
    answer = not_run(simulation, subject) or _without_pods(simulation, subject) or _gone(simulation, subject)
    if answer is not None:
        return answer
    found = find(simulation, subject)
    answer = _explanation(simulation, subject, found, nodes=nodes)
    warnings = tuple(_deadlocks(simulation, found.job, waits=answer.state == "waits"))
    return msgspec.structs.replace(answer, warnings=warnings, workload=workload_of(found.job).name)


def _explanation(simulation: Simulation, subject: Subject, found: AskedAbout, *, nodes: bool) -> Explanation:
    if _is_over(found):
        return Explanation(subject, "finished", _end_of(simulation, subject, found), queue=found.job.queue)
    if not found.waiting and (found.job.tasks or found.job.phase not in ("", "Pending", "Inqueue")):
        return _scheduled(simulation, subject, found)
    answer = explain_waiting(simulation, subject, found, nodes=nodes)
    return msgspec.structs.replace(answer, reported=_reported(simulation, found))


def _deadlocks(simulation: Simulation, job: JobInfo, *, waits: bool) -> Iterator[str]:
    """Yield why a waiting job never starts, or none after a roll-out, from the objects of its workloads."""
    api_server = simulation.api_server
    pods = (api_server.pods[task.key] for task in job.tasks.values() if task.key in api_server.pods)
    first = api_server.groups.get(job.key) or next(pods, None)
    owners = api_server.owners_of(first) if first is not None else ()
    for owner in owners:
        fault = next(_blocking(owner), None) if waits or isinstance(owner, api.Deployment) else None
        if fault is not None:
            yield f"{subject_of(owner)}: {fault.field}: {fault.message}"
            return


def _blocking(owner: api.ApiObject) -> Iterator[Fault]:
    """Yield why pods of a workload are never made, or never start."""
    yield from deadlock_faults(owner)
    if isinstance(owner, api.Job):
        yield from dependency_faults(owner)


def find(simulation: Simulation, subject: Subject) -> AskedAbout:
    """Return the job that a pod, PodGroup or workload stands for. Raises NotFoundError."""
    cluster, key = simulation.mirror.cluster, f"{subject.namespace}/{subject.name}"
    if subject.kind == "pod":
        task = next((task for task in cluster.tasks.values() if task.key == key), None)
        if task is not None and task.job is not None:
            return AskedAbout(task.job, task)
        pod = simulation.api_server.pods.get(key)
        if pod is not None and (task is not None or pod.spec.scheduler_name not in simulation.settings.scheduler_names):
            raise NotFoundError(_of_another(subject, pod.spec.scheduler_name))
        raise NotFoundError(_absent(subject, (task.key for task in cluster.tasks.values())))
    if subject.kind not in ("podgroup", "job"):
        return AskedAbout(_job_of_workload(cluster.jobs.values(), subject))
    job = _group_of(simulation, subject) if subject.kind == "podgroup" else _job_of(simulation, subject)
    if job is None:
        raise NotFoundError(_absent(subject, _names_of_jobs(simulation) if subject.kind == "job" else cluster.jobs))
    return AskedAbout(job)


def _job_of_workload(jobs: Collection[JobInfo], subject: Subject) -> JobInfo:
    """Return the job of a workload of any kind: one that waits before others, then the newest.

    Raises NotFoundError, and UnknownKindError if no workload is of the kind.
    """
    within = [job for job in jobs if job.namespace == subject.namespace]
    found = [job for job in within if is_called(job, subject.kind, subject.name)]
    if found:
        return max(found, key=lambda job: (bool(job.waiting), job.created, job.key))
    kinds = {*KINDS, *(workload_of(job).name.partition("/")[0].lower() for job in jobs)}
    if subject.kind not in kinds:
        meant = nearest(subject.kind, kinds)
        hint = f"did you mean {meant}?" if meant else f"there are {', '.join(sorted(kinds))}"
        raise UnknownKindError(f"no pods are of a workload of kind {subject.kind!r}; {hint}")
    named = (workload_of(job).name.partition("/") for job in within)
    hint = _hint(subject, (f"{subject.namespace}/{name}" for kind, _, name in named if kind.lower() == subject.kind))
    raise NotFoundError(f"there is no job of {_called(subject)}: it has neither pods nor a PodGroup{hint}")


def _group_of(simulation: Simulation, subject: Subject) -> JobInfo | None:
    """Return the job of a PodGroup: Volcano's, else Kubernetes' own, which lists call ``group/NAME``."""
    jobs = simulation.mirror.cluster.jobs
    names = (subject.name, f"{NATIVE}{subject.name}")
    return next((jobs[key] for name in names if (key := f"{subject.namespace}/{name}") in jobs), None)


def _job_of(simulation: Simulation, subject: Subject) -> JobInfo | None:
    """Return the PodGroup of a Job (Volcano's or Kubernetes'), or that of its pods."""
    jobs = simulation.mirror.cluster.jobs
    for group in simulation.api_server.groups.values():
        if _belongs(group, subject):
            return jobs.get(group.key)
    for task in simulation.mirror.cluster.tasks.values():
        pod = simulation.api_server.pods.get(task.key)
        if pod is not None and _belongs(pod, subject):
            return task.job
    return None


def not_run(simulation: Simulation, subject: Subject) -> Explanation | None:
    """Explain a Volcano Job whose pods are not made; None for others."""
    key = f"{subject.namespace}/{subject.name}"
    found = (known for known in simulation.api_server.jobs_not_run() if known[0].key == key)
    job, refusal = next(found, (None, NO_WAIT)) if subject.kind == "job" else (None, NO_WAIT)
    if job is None:
        return None
    return Explanation(
        subject,
        "waits",
        f"{_called(subject)} is not run, and has no PodGroup.",
        Step.INVALID.value,
        reason=refusal.reason,
        message=refusal.message,
        queue=job.spec.queue or simulation.settings.default_queue,
    )


def _without_pods(simulation: Simulation, subject: Subject) -> Explanation | None:
    """Explain a Job that is there and has neither pods nor a PodGroup; None for any other. Raises NotFoundError."""
    job = _jobs(simulation).get(f"{subject.namespace}/{subject.name}") if subject.kind == "job" else None
    if job is None or _job_of(simulation, subject) is not None:
        return None
    scheduler = job.spec.scheduler_name if isinstance(job, api.Job) else job.spec.template.spec.scheduler_name
    of_none = "" if isinstance(job, api.Job) else api.DEFAULT_SCHEDULER
    if (scheduler or of_none) not in ("", *simulation.settings.scheduler_names):
        raise NotFoundError(_of_another(subject, scheduler or of_none))
    return Explanation(subject, "idle", f"{_called(subject)} does not wait: it has no pods to place.")


def _gone(simulation: Simulation, subject: Subject) -> Explanation | None:
    """Explain a pod that was being deleted when the run began, and is gone by now; None for any other."""
    key = f"{subject.namespace}/{subject.name}"
    if subject.kind != "pod" or key in simulation.api_server.pods:
        return None
    leaving = any(
        pod.key == key and pod.metadata.deletion_timestamp for pod in simulation.api_server.inventory.of(api.Pod)
    )
    return Explanation(subject, "finished", f"{_called(subject)} is being deleted.") if leaving else None


def _jobs(simulation: Simulation) -> Mapping[str, api.Job | api.BatchJob]:
    """Return the Jobs of the input, Volcano's before those of Kubernetes, by namespace and name."""
    inventory = simulation.api_server.inventory
    jobs: dict[str, api.Job | api.BatchJob] = {job.key: job for job in inventory.of(api.BatchJob)}
    return jobs | {job.key: job for job in inventory.of(api.Job)}


def _names_of_jobs(simulation: Simulation) -> Iterator[str]:
    """Yield the namespaces and names of all known Jobs: those of the input, and owners of objects."""
    yield from _jobs(simulation)
    api_server = simulation.api_server
    for found in (*api_server.groups.values(), *api_server.pods.values()):
        owner = controller_of(found.metadata)
        if owner is not None and owner.kind == "Job":
            yield f"{owner.namespace}/{owner.name}"


def _belongs(found: api.ApiObject, subject: Subject) -> bool:
    owner = controller_of(found.metadata)
    return owner is not None and (owner.kind, owner.name, found.metadata.namespace) == (
        "Job",
        subject.name,
        subject.namespace,
    )


def _absent(subject: Subject, keys: Iterable[str]) -> str:
    return f"there is no {_called(subject)}{_hint(subject, keys)}"


def _hint(subject: Subject, keys: Iterable[str]) -> str:
    """Return the object that may have been meant, as the end of a sentence."""
    known = {key.partition("/")[2]: key for key in keys}
    meant = nearest(subject.name, known)
    return f"; did you mean {known[meant]}?" if meant else ""


def _of_another(subject: Subject, scheduler: str) -> str:
    return (
        f"{_called(subject)} is placed by the scheduler {scheduler!r}, which is not explained here; "
        f"--scheduler-name {scheduler} explains it"
    )


def _called(subject: Subject) -> str:
    return (
        f"{subject.kind} {subject.namespace}/{subject.name}" if subject.namespace else f"{subject.kind} {subject.name}"
    )


# --- what does not wait ---------------------------------------------------------------------------------------------


def _is_over(found: AskedAbout) -> bool:
    tasks = [found.pod] if found.pod is not None else list(found.job.tasks.values())
    return bool(tasks) and all(IS_FINISHED[task.status] for task in tasks)


def _end_of(simulation: Simulation, subject: Subject, found: AskedAbout) -> str:
    """Return that something is over, with the reason of a failed pod, as when its kubelet refused it."""
    pod = simulation.api_server.pods.get(found.pod.key) if found.pod is not None else None
    if pod is None or pod.status.phase != "Failed" or not pod.status.reason:
        return f"{_called(subject)} is over."
    why = ": ".join(filter(None, (pod.status.reason, shortened(pod.status.message, _LONGEST_REASON))))
    return f'{_called(subject)} has failed on node "{pod.spec.node_name}": {why}'


def _scheduled(simulation: Simulation, subject: Subject, found: AskedAbout) -> Explanation:
    tasks = [found.pod] if found.pod is not None else sorted(found.job.tasks.values(), key=lambda task: task.key)
    placed = {task.key: task.node.name for task in tasks if task.node is not None}
    bound = {f"{bind.namespace}/{bind.name}" for _, bind in simulation.api_server.history.binds}
    now = sum(key in bound for key in placed)
    where = ", ".join(sorted(set(placed.values()))[:MOST_NAMES])
    starts = f"{now} of its pods start in the next session" if now else "it has its nodes"
    sentence = (
        f"{_called(subject)} is scheduled: {starts} ({where})." if where else f"{_called(subject)} does not wait."
    )
    return Explanation(subject, "scheduled", sentence, queue=found.job.queue, gang=_gang(found.job), placed=placed)


def _queue(simulation: Simulation, subject: Subject) -> Explanation:
    use = usage_of(simulation).queues.get(subject.name)
    if use is None:
        raise NotFoundError(_absent(subject, (f"/{name}" for name in simulation.mirror.cluster.queues)))
    jobs = tuple(job for job in waiting_jobs(simulation) if job.queue == subject.name)
    state = use.queue.spec.reported_state or "Open"
    count = f"{len(jobs)} job{'s wait' if len(jobs) != 1 else ' waits'}"
    sentence = f"Queue {subject.name} is {state}; {count if jobs else 'nobody waits'} in it."
    most = Counter((job.step, job.reason) for job in jobs).most_common(1)
    step, reason = most[0][0] if most else ("", "")
    return Explanation(
        subject,
        "waits" if jobs else "idle",
        sentence,
        step,
        reason=reason,
        message=next((job.message for job in jobs if (job.step, job.reason) == (step, reason)), ""),
        queue=subject.name,
        quota=figures_of(use),
        holders=_largest(
            simulation, held_of_queue(use, [name for name, dimension in use.dimensions if dimension.used])
        ),
        jobs=jobs,
    )


# --- what waits -----------------------------------------------------------------------------------------------------


def explain_waiting(simulation: Looked, subject: Subject, found: AskedAbout, *, nodes: bool) -> Explanation:
    """Explain a job that waits, or one of its pods, by the last session; ``nodes`` as for ``explain``.

    What the cluster reports of it so far (``reported``) is left out.
    """
    job, verdict = found.job, refusal_of(simulation, found)
    use = usage_of(simulation).queues.get(job.queue)
    return Explanation(
        subject,
        "waits",
        _sentence(subject, found, verdict),
        verdict.step.value,
        verdict.plugin,
        verdict.reason,
        verdict.message,
        _short(simulation, found, verdict),
        _gang(job),
        job.queue,
        figures_of(use) if use is not None else (),
        _place(simulation, job),
        since(job),
        holders=_largest(simulation, held_for(simulation, found, verdict)),
        pods=tuple(_pods(simulation, found)),
        nodes=node_lines(simulation, found) if nodes else (),
    )


def refusal_of(simulation: Looked, found: AskedAbout) -> Verdict:
    """Return why a job waits, or one of its pods."""
    return waiting_refusal(simulation, found.pod) if found.pod else refusal_of_job(simulation, found.job)


def _sentence(subject: Subject, found: AskedAbout, verdict: Verdict) -> str:
    where = f'step "{verdict.step.value}"' + (f" (plugin {verdict.plugin})" if verdict.plugin else "")
    job = found.job
    if found.pod is None and len(job.tasks) > 1:
        count = f": {len(found.waiting)} of {len(job.tasks)} pods have no node"
    else:
        count = ""
    return f"{_called(subject)} waits at {where} in queue {job.queue or '-'}{count}."


def _gang(job: JobInfo) -> Gang | None:
    if job.spec.min_available <= 1 and len(job.tasks) <= 1:
        return None
    shortage = "" if job.is_ready else job.shortage
    return Gang(job.spec.min_available, job.ready_count, len(job.waiting), len(job.tasks), shortage)


def _short(simulation: Looked, found: AskedAbout, verdict: Verdict) -> tuple[Short, ...]:
    """Return the shortages: those of the verdict; for room on nodes, the total of each resource."""
    told = [Short(verdict.scope.value, **item.human(), name=verdict.queue) for item in verdict.shortfalls]
    if told or verdict.step in OF_QUOTA or not found.waiting:
        return tuple(told)
    rows = []
    for name, amount in sorted(asked_of(found.job).items()):
        limit, used = _on_nodes(simulation, name)
        if used + amount > limit:
            texts = (str(format_amount(name, value)) for value in (amount, used, limit))
            rows.append(Short("nodes", name, *texts))
    return tuple(rows)


def _on_nodes(simulation: Looked, resource: str) -> tuple[int, int]:
    """Return how much of a resource all nodes offer, and how much of it is taken."""
    rows = simulation.mirror.cluster.rows
    offered = sum(node.allocatable_of(resource) for node in rows)
    used = sum(node.used_of(resource) for node in rows)
    return offered, used


def _place(simulation: Looked, job: JobInfo) -> QueuePosition | None:
    order = jobs_in_order(simulation, job.queue).get(job.queue, [])
    if job not in order:
        return None
    place = order.index(job)
    before: Counter[str] = Counter()
    for other in order[:place]:
        before.update(asked_of(other))
    return QueuePosition(job.queue, place + 1, len(order), place, quantities(before))


def _reported(simulation: Simulation, found: AskedAbout) -> str:
    """Return the cluster's report about the first pod in question: the condition that was written before."""
    keys = {task.key for task in found.waiting[:1]}
    for pod in simulation.api_server.inventory.of(api.Pod):
        if pod.key in keys:
            return next((c.message for c in pod.status.conditions if c.type == "PodScheduled"), "")
    return ""


def _pods(simulation: Looked, found: AskedAbout) -> Iterator[WaitingPod]:
    if found.pod is not None:
        return
    for task in found.waiting:
        verdict = waiting_refusal(simulation, task)
        yield WaitingPod(task.key, verdict.step.value, verdict.reason, verdict.message)


# --- who holds it ---------------------------------------------------------------------------------------------------


def held_for(simulation: Looked, found: AskedAbout, verdict: Verdict) -> list[Consumer]:
    """Return what jobs hold of the short amounts: by the refusing plugin's accounts, else on the nodes."""
    if verdict.step is Step.GATED:
        return []
    session = simulation.session
    asked = session.reported_by(verdict.plugin, lambda report: report.consumers) if session is not None else None
    held = list(asked(found.job, verdict)) if asked is not None else []
    if not held and verdict.step in OF_QUOTA:
        held = list(held_of_quota(usage_of(simulation), (found.job.queue,), found.job, verdict))
    return held or list(_held_on_nodes(simulation, found, verdict))


def _held_on_nodes(simulation: Looked, found: AskedAbout, verdict: Verdict) -> Iterator[Consumer]:
    """Yield what jobs with pods on nodes hold of what is short there."""
    scarce = [item.resource for item in _short(simulation, found, verdict)] or _lacked(simulation, found)
    held: dict[tuple[str, str, str], list[int]] = {}
    for task in simulation.mirror.cluster.tasks.values():
        if IS_CHOSEN[task.status] and task.job is not None:
            for name in scarce:
                if amount := task.template.request.get(name, 0):
                    held.setdefault((task.job.key, task.job.queue, name), []).append(amount)
    for (job, queue, name), amounts in held.items():
        yield Consumer(job, queue, name, sum(amounts), str(format_amount(name, sum(amounts))), len(amounts))


def _lacked(simulation: Looked, found: AskedAbout) -> list[str]:
    """Return the shortages on nodes that refuse for nothing else."""
    session = simulation.session
    if session is None or not isinstance(session.engine, FastEngine):
        return sorted(asked_of(found.job))
    unlike = {id(task.template): task for task in found.waiting}
    refusals = (each for task in unlike.values() for each in _refusals(session.engine, task))
    return sorted({name for each in refusals for name in each.lacking})


def _largest(simulation: Looked, held: Iterable[Consumer]) -> tuple[Holder, ...]:
    """Return the largest consumers. First those with reserved amounts: they keep others out and hold nothing."""
    ordered = sorted(held, key=lambda one: (one.resource, not one.reserved, -one.amount, one.job))[:MOST_HOLDERS]
    jobs = simulation.mirror.cluster.jobs
    return tuple(
        Holder(
            one.job, one.queue, one.resource, one.text, one.pods, one.reserved, *_workload(jobs.get(one.job)),
            *_times(simulation, jobs.get(one.job)),
        )
        for one in ordered
    )  # fmt: skip


def _times(simulation: Looked, job: JobInfo | None) -> tuple[float | None, float | None]:
    """Return since when a job holds room, and when it is expected to end; None for what is not known."""
    if job is None:
        return None, None
    now = simulation.session.now if simulation.session is not None else 0.0
    return holds_since(job), expected_end(job, annotations_of(simulation.mirror.cluster, job.queue), now)


def _workload(job: JobInfo | None) -> WorkloadName:
    """Return the workload of a job. Nothing of what a plugin names that is no job."""
    return workload_of(job) if job is not None else WorkloadName("")


# --- nodes ----------------------------------------------------------------------------------------------------------


def node_lines(simulation: Looked, found: AskedAbout) -> tuple[NodeLine, ...]:
    """Return for every node why the first waiting pod in question cannot go there, equal refusals together."""
    session = simulation.session
    if session is None or not found.waiting or not isinstance(session.engine, FastEngine):
        return ()
    grouped: dict[str, list[str]] = {}
    for each in _refusals(session.engine, found.waiting[0]):
        grouped.setdefault(each.text, []).append(each.node)
    lines = [NodeLine(len(names), tuple(names[:MOST_NAMES]), refusal) for refusal, names in grouped.items()]
    return tuple(sorted(lines, key=lambda line: (line.refusal == _SORTED_LAST, -line.count, line.refusal)))


def roomless_nodes(simulation: Looked, task: TaskInfo) -> Iterator[NodeInfo]:
    """Yield the nodes that refuse a pod for want of room alone, and those with room."""
    session = simulation.session
    if session is None or not isinstance(session.engine, FastEngine):
        return
    rows = simulation.mirror.cluster.rows
    yield from (
        node for node, refusal in zip(rows, _refusals(session.engine, task), strict=True) if not refusal.message
    )


@dataclass(frozen=True, slots=True)
class _NodeRefusal:
    """Why a node refuses a pod: a predicate's message, else the shortage. Neither if it has room."""

    node: str
    message: str
    lacking: tuple[str, ...]

    @property
    def text(self) -> str:
        return self.message or ", ".join(f"Insufficient {name}" for name in self.lacking)


def _refusals(engine: FastEngine, task: TaskInfo) -> Iterator[_NodeRefusal]:
    engine.nodes.properties.refresh()
    engine.nodes.columns.refresh()
    predicates = [predicate for predicate in engine.callbacks.predicates if predicate.applies_to_task(task)]
    lacking = _lacking(engine, task)
    for row, node in enumerate(engine.cluster.rows):
        verdict = next((found for p in predicates if (found := p.ask(task, node)) is not None), None)
        if verdict is not None:
            yield _NodeRefusal(node.name, verdict.message, ())
        else:
            yield _NodeRefusal(node.name, "", tuple(lacking.get(row, ())))


def _lacking(engine: FastEngine, task: TaskInfo) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    rows = np.arange(len(engine.cluster.rows))
    for column, amount in engine.cluster.columns.request(task.template):
        short = engine.nodes.columns.future_idle(column, rows) < amount
        for row in np.flatnonzero(short & ~engine.nodes.columns.left_to_devices(column, rows)):
            names = engine.cluster.columns.names_of(task.template, column)
            found.setdefault(int(row), []).extend(names)
    return found
