"""From how a Volcano Job stands to what is to be written about it.

The order of the writes matters when the process ends between two of them: the status that counts a new version comes
before the pods of the old one are deleted, and what pods need is there before the PodGroup that lets them be made.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from volsched.cache.reading import seconds
from volsched.controllers import job_plugins, jobs, lifecycle
from volsched.controllers.lifecycle import FINISHED, WORKING, Action, Loss, Member, Phase, Tally
from volsched.controllers.owners import owner_reference
from volsched.controllers.waiting import NO_WAIT, Wait, about_wait, wait_of, with_wait
from volsched.controllers.writes import CLAIM, GROUP, JOB, POD, Create, Delete, Patch, Write, merge_patch
from volsched.model import api
from volsched.model.plan import Tell

Json = dict[str, Any]

_MAY_NOT_MAKE_SECRETS: Final = (
    "; the plugin ssh needs a right that volsched has only with the component ssh of its manifests"
)

_HISTORY: Final = 20
"""Phases that a Job's conditions remember."""


@dataclass(slots=True)
class JobView:
    """A Volcano Job as it stands.

    `raw` is the object as the API server has it (pods are made from it, whatever fields their templates have), `job`
    what is read of it, completed with defaults. `problem` says why it cannot be run, `foreign` which scheduler of
    somebody else it names; `prepared` is what its plugins and volumes were last given.
    """

    raw: Json
    job: api.Job
    problem: str = ""
    foreign: str = ""
    prepared: tuple[Create, ...] = ()
    losses: list[Loss] = field(default_factory=list)
    command: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What belongs to a Job: its pods, its PodGroup if there is one, values of PriorityClasses, and its queue."""

    pods: Sequence[Member]
    group: api.PodGroup | None
    classes: Mapping[str, int]
    queue: str


@dataclass(slots=True)
class Outcome:
    """What is to be written, in order, what is to be told, and when to look again (seconds since the epoch).

    `acted` says that an action was carried out, so that what led to it is over; `killed` are the pods that go by it;
    `prepared` is what the Job's pods have been given once all is written.
    """

    writes: list[Write] = field(default_factory=list)
    tells: list[Tell] = field(default_factory=list)
    wake_at: float | None = None
    acted: bool = False
    killed: set[str] = field(default_factory=set)
    prepared: tuple[Create, ...] | None = None


def reconcile(view: JobView, around: Surroundings, now: float) -> Outcome:
    """Return what is to be written about a Job; `now` is in seconds since the epoch."""
    job, outcome = view.job, Outcome()
    if job.metadata.deletion_timestamp is not None:
        return outcome
    refusal = _refusal(view)
    if refusal is not None:
        outcome.tells.append(refusal)
        return outcome
    counted = lifecycle.tally(around.pods)
    phase = lifecycle.phase_of(job)
    if phase in FINISHED:
        _write_status(outcome, view, counted, phase, now)
        _stop(outcome, around)
        _expire(outcome, job, now)
        return outcome
    action = _action(view, around, phase, outcome, now)
    if action is not None:
        _act(outcome, view, around, counted, action, now)
    elif phase in WORKING:
        _sync(outcome, view, around, counted, now)
    else:
        _write_status(outcome, view, counted, lifecycle.next_phase(job, counted), now)
        _stop(outcome, around, everything=phase is Phase.RESTARTING)
    return outcome


def failed_create(job: api.Job, why: str) -> Tell:
    """Return the Event that says why something that a Job needs could not be made."""
    way_out = _MAY_NOT_MAKE_SECRETS if "ssh" in job.spec.plugins and "secrets is forbidden" in why else ""
    return _tell(job, "Warning", "FailedCreate", f"something that the Job needs could not be made: {why}{way_out}")


def _refusal(view: JobView) -> Tell | None:
    """Return the Event that says why a Job is not run, if it is not."""
    if view.problem:
        return _tell(view.job, "Warning", "InvalidJob", f"{view.problem}; correct the Job, it is not run as it is")
    if view.foreign:
        message = (
            f"spec.schedulerName {view.foreign!r} is not one of those that these controllers look after; name one of "
            f"them, or start volsched with --scheduler-name={view.foreign} as well"
        )
        return _tell(view.job, "Warning", "ForeignScheduler", message)
    missing = job_plugins.unsupported(view.job)
    if missing:
        known = ", ".join(job_plugins.PLAYED)
        message = (
            f"spec.plugins: {', '.join(missing)}: volsched plays only {known}; take "
            f"{'it' if len(missing) == 1 else 'them'} out, or run Volcano's own controllers"
        )
        return _tell(view.job, "Warning", "UnsupportedPlugin", message)
    return None


_STARTED: Final = (*lifecycle.STOPS_AS, "RestartJob")
_COMMANDS_OF: Final[Mapping[Phase, tuple[str, ...]]] = {
    Phase.PENDING: _STARTED,
    Phase.RUNNING: _STARTED,
    Phase.ABORTING: ("ResumeJob",),
    Phase.ABORTED: ("ResumeJob",),
}
"""What a Command may ask for in which phase."""


# --- actions --------------------------------------------------------------------------------------------------------


def _action(view: JobView, around: Surroundings, phase: Phase, outcome: Outcome, now: float) -> Action | None:
    """Return what a command or a policy asks for, if it means anything in this phase."""
    if view.command in _COMMANDS_OF.get(phase, ()):
        return Action(view.command, "CommandIssued")
    if phase not in WORKING:
        return None
    group_phase = around.group.status.phase if around.group is not None else ""
    decision = lifecycle.decide(view.job, around.pods, view.losses, group_phase, now)
    outcome.wake_at = decision.wake_at
    if decision.action is not None and decision.action.name in (*_STARTED, *lifecycle.TARGETED):
        return decision.action
    return None


def _act(outcome: Outcome, view: JobView, around: Surroundings, counted: Tally, action: Action, now: float) -> None:
    """Carry out an action: write the new phase first, then do away with pods."""
    job = view.job
    outcome.acted = True
    outcome.tells.append(_tell(job, "Normal", "ExecuteAction", _because(action)))
    retries = job.status.retry_count + 1
    if action.name in lifecycle.TARGETED:
        pods = lifecycle.targets(job, action, around.pods)
        gives_up = retries >= (job.spec.max_retry or 0)
        phase = Phase.FAILED if gives_up else lifecycle.phase_of(job)
        _write_status(outcome, view, counted, phase, now, retries=retries)
        outcome.writes += _deletions(pods)
        outcome.killed = {pod.uid for pod in pods}
        return
    restarts = action.name in ("RestartJob", "ResumeJob")
    phase = Phase.RESTARTING if restarts else lifecycle.STOPS_AS[action.name]
    version = job.status.version + 1
    _write_status(outcome, view, counted, phase, now, version=version, retries=retries if restarts else retries - 1)
    _stop(outcome, around, everything=restarts)


def _because(action: Action) -> str:
    about = f" of pod {action.pod}" if action.pod else f" of task {action.task}" if action.task else ""
    return f"{action.name} because of {action.event}{about}"


def _stop(outcome: Outcome, around: Surroundings, *, everything: bool = False) -> None:
    """Delete the PodGroup and the pods: all of them, or those that have not finished."""
    outcome.writes += _deletions([pod for pod in around.pods if everything or not pod.is_finished])
    if around.group is not None:
        meta = around.group.metadata
        outcome.writes.append(Delete(GROUP, meta.namespace, meta.name, meta.uid))


def _deletions(pods: Sequence[Member]) -> Iterator[Delete]:
    for pod in pods:
        if not pod.is_leaving:
            yield Delete(POD, pod.namespace, pod.name, pod.uid)


def _expire(outcome: Outcome, job: api.Job, now: float) -> None:
    """Delete a finished Job once its time is over."""
    after = job.spec.ttl_seconds_after_finished
    finished_at = seconds(job.status.state.last_transition_time)
    if after is None or finished_at is None:
        return
    if finished_at + after <= now:
        meta = job.metadata
        outcome.writes.append(Delete(JOB, meta.namespace, meta.name, meta.uid))
    else:
        outcome.wake_at = finished_at + after


# --- keeping a Job going --------------------------------------------------------------------------------------------


def _sync(outcome: Outcome, view: JobView, around: Surroundings, counted: Tally, now: float) -> None:
    """Bring about what a Job that works needs: its PodGroup, then its pods, then a status that says so."""
    job, group = view.job, around.group
    phase = lifecycle.next_phase(job, counted)
    _write_status(outcome, view, counted, phase, now, wait=wait_of(group) if phase in WORKING else NO_WAIT)
    prepared = tuple(_preparations(view))
    if prepared != view.prepared:
        outcome.writes += prepared
        outcome.prepared = prepared
    wanted = jobs.job_group(job, around.classes, around.queue)
    if group is None:
        outcome.writes.append(Create(GROUP, wanted.metadata.namespace, wanted.metadata.name, group_body(wanted)))
        return
    outcome.writes += _group_changes(group, wanted)
    outcome.writes += _pod_changes(view, around, counted, group)


def _preparations(view: JobView) -> Iterator[Create]:
    """Yield what the pods of a Job need: the claims that it brings, and what its plugins make."""
    job = view.job
    owner = msgspec.to_builtins(owner_reference(job))
    for shared in jobs.shared_volumes(job):
        if shared.is_own:
            spec = view.raw["spec"]["volumes"][shared.place]["volumeClaim"]
            meta = {"name": shared.claim, "namespace": job.metadata.namespace, "ownerReferences": [owner]}
            body = {"apiVersion": CLAIM.group_version, "kind": CLAIM.name, "metadata": meta, "spec": spec}
            yield Create(CLAIM, job.metadata.namespace, shared.claim, body, is_own=True)
    yield from job_plugins.companions(job, view.raw)


def group_body(group: api.PodGroup) -> Json:
    """Return a PodGroup as it is created; who reads its status takes none for Pending."""
    body: Json = msgspec.to_builtins(msgspec.structs.replace(group, status=api.PodGroupStatus()))
    body["metadata"].pop("creationTimestamp", None)
    body["metadata"].pop("uid", None)
    return body | {"apiVersion": GROUP.group_version, "kind": GROUP.name}


def _group_changes(group: api.PodGroup, wanted: api.PodGroup) -> Iterator[Patch]:
    """Yield the patch that brings a Job's PodGroup up to date when the Job was scaled or given another priority."""
    spec = merge_patch(_minima(group), _minima(wanted))
    if spec:
        meta = group.metadata
        yield Patch(GROUP, meta.namespace, meta.name, {"metadata": {"uid": meta.uid}, "spec": spec})


def _minima(group: api.PodGroup) -> Json:
    spec = group.spec
    return {
        "minMember": spec.min_member,
        "minTaskMember": spec.min_task_member,
        "priorityClassName": spec.priority_class_name,
        "minResources": spec.min_resources or {},
    }


def _pod_changes(view: JobView, around: Surroundings, counted: Tally, group: api.PodGroup) -> Iterator[Write]:
    """Yield the deletion of pods that the Job does not want (any more), and the pods that are missing."""
    job = view.job
    there = {pod.name: pod for pod in around.pods}
    wanted = {member.name: member for member in jobs.members(job)}
    yield from _deletions([pod for name, pod in there.items() if name not in wanted])
    if group.status.phase in ("", "Pending"):
        return
    for member in wanted.values():
        if member.name not in there and lifecycle.may_start(job, member.task, counted):
            yield Create(POD, job.metadata.namespace, member.name, pod_body(view, member, group.metadata.name))


def pod_body(view: JobView, member: jobs.Member, group: str) -> Json:
    """Return a pod of a Job as it is created: its template with all that is in it, and what makes it a member."""
    job = view.job
    place = next(number for number, task in enumerate(job.spec.tasks) if task.name == member.task.name)
    template = copy.deepcopy(view.raw["spec"]["tasks"][place].get("template") or {})
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    spec["schedulerName"] = spec.get("schedulerName") or job.spec.scheduler_name
    if job.spec.priority_class_name:
        spec["priorityClassName"] = spec.get("priorityClassName") or job.spec.priority_class_name
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    _mount(job, spec)
    job_plugins.equip(job, view.raw, member, spec)
    return {
        "apiVersion": POD.group_version,
        "kind": POD.name,
        "metadata": {
            "name": member.name,
            "namespace": job.metadata.namespace,
            "labels": {**(meta.get("labels") or {}), **jobs.pod_labels(job, member)},
            "annotations": {**(meta.get("annotations") or {}), **jobs.pod_annotations(job, member, group)},
            "ownerReferences": [msgspec.to_builtins(owner_reference(job))],
        },
        "spec": spec,
    }


def _mount(job: api.Job, spec: Json) -> None:
    """Give a pod the volumes that all pods of its Job share."""
    shared = list(jobs.shared_volumes(job))
    if not shared:
        return
    claims = [{"name": one.volume, "persistentVolumeClaim": {"claimName": one.claim}} for one in shared]
    spec["volumes"] = [*(spec.get("volumes") or ()), *claims]
    mounts = [{"name": one.volume, "mountPath": one.mount_path} for one in shared]
    for container in spec.get("containers") or ():
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounts]


# --- status ---------------------------------------------------------------------------------------------------------


def _write_status(
    outcome: Outcome,
    view: JobView,
    counted: Tally,
    phase: Phase,
    now: float,
    *,
    version: int | None = None,
    retries: int | None = None,
    wait: Wait = NO_WAIT,
) -> None:
    """Write a Job's status if it says something new, and tell why it waits when that is new."""
    job, known = view.job, view.raw.get("status") or {}
    status: Json = {
        "minAvailable": job.spec.min_available or 0,
        "pending": counted.pending,
        "running": counted.running,
        "succeeded": counted.succeeded,
        "failed": counted.failed,
        "terminating": counted.terminating,
        "unknown": counted.unknown,
        "version": job.status.version if version is None else version,
        "retryCount": job.status.retry_count if retries is None else retries,
        "taskStatusCount": {task: {"phase": dict(phases)} for task, phases in counted.by_task},
    }
    changed = merge_patch({name: known[name] for name in status if name in known}, status)
    before, stamp = job.status.state, datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    history = known.get("conditions") or []
    conditions = with_wait(history, wait, stamp)
    if phase != before.phase:
        changed["state"] = {"phase": str(phase), "lastTransitionTime": stamp}
        conditions = with_wait([*history, {"status": str(phase), "lastTransitionTime": stamp}], wait, stamp)
        if phase in FINISHED:
            kind = "Normal" if phase is Phase.COMPLETED else "Warning"
            outcome.tells.append(_tell(job, kind, "JobFinished", f"the Job is {phase}: {_summary(counted)}"))
    if wait != (before.reason, before.message):
        words = {"reason": wait.reason or None, "message": wait.message or None}
        changed["state"] = {"phase": str(phase), **changed.get("state", {}), **words}
        if wait != NO_WAIT:
            outcome.tells.append(about_wait(job, wait))
    if conditions != history:
        changed["conditions"] = conditions[-_HISTORY:]
    if not changed:
        return
    meta = job.metadata
    body = {"metadata": {"uid": meta.uid}, "status": changed}
    outcome.writes.append(Patch(JOB, meta.namespace, meta.name, body, subresource="status"))


def _summary(counted: Tally) -> str:
    return f"{counted.succeeded} pods succeeded, {counted.failed} failed"


def _tell(job: api.Job, kind: str, reason: str, message: str) -> Tell:
    meta = job.metadata
    return Tell(JOB.name, JOB.group_version, meta.namespace, meta.name, meta.uid, kind, reason, message, "Reconciling")
