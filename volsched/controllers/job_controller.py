"""From how a Volcano Job stands to what is to be written about it.

The order of the writes matters when the process ends between two of them: the status that counts a new version comes
before the pods of the old one are deleted, and what pods need is there before the PodGroup that lets them be made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import filterfalse, islice
from typing import Any, Final, TypeVar

import msgspec

from volsched.controllers import job_plugins, jobs, lifecycle, policies
from volsched.controllers.job_parts import NO_PARTS, JobParts
from volsched.controllers.job_pods import PodMaker
from volsched.controllers.lifecycle import FINISHED, WORKING, JobPod, Loss, Phase, Tally
from volsched.controllers.policies import TARGETED, JobAction
from volsched.controllers.roster import Roster
from volsched.controllers.waiting import NO_WAIT, Wait, about_plugins, about_wait, wait_of, with_wait
from volsched.controllers.writes import GROUP, JOB, POD, Condemn, Create, Delete, Patch, Write, merge_patch
from volsched.mirror.reading import seconds
from volsched.model import api
from volsched.model.plan import RecordEvent

Json = dict[str, Any]
T = TypeVar("T")

PODS_AT_ONCE: Final = 500
"""Pods that one look at a Job makes or deletes at most, as in Kubernetes' own Job controller: others have their turn in
between, a request that is refused stops it soon, and no more than that is in memory."""

_MAY_NOT_MAKE_SECRETS: Final = (
    "; the plugin ssh needs a right that volsched has only with the component ssh of its manifests"
)

_HISTORY: Final = 20
"""Phases that a Job's conditions remember."""


@dataclass(slots=True)
class JobView:
    """A Volcano Job as it stands.

    `job` is what is read of it, completed with defaults; `parts` is what its pods are made from, whatever fields their
    templates have, and `status` its status as the API server has it. `problem` states why it cannot be run, `too_large`
    that what it asks for is more than Kubernetes takes, `foreign` which scheduler of somebody else it names. `prepared`
    is a digest of what its plugins and volumes were last given. Of one that is not run nothing is kept but who it is.
    """

    job: api.Job
    parts: JobParts = NO_PARTS
    status: Json = field(default_factory=dict)
    problem: str = ""
    too_large: str = ""
    foreign: str = ""
    prepared: bytes = b""
    losses: dict[str, Loss] = field(default_factory=dict)
    command: str = ""


@dataclass(frozen=True, slots=True)
class JobSurroundings:
    """What belongs to a Job: its pods (a Roster, where there may be many), its PodGroup, PriorityClasses, its queue."""

    pods: Iterable[JobPod]
    group: api.PodGroup | None
    classes: Mapping[str, int]
    queue: str


@dataclass(slots=True)
class ReconcileResult:
    """What is to be written, in order, what is to be told, and when to look again (seconds since the epoch).

    `acted` states that an action was carried out, so that what led to it is over; `prepared` is a digest of what the
    Job's pods have been given once all is written; `room` is how many more pods could have been made or deleted: with
    none left there may be more to do.
    """

    room: int
    writes: list[Write] = field(default_factory=list)
    events: list[RecordEvent] = field(default_factory=list)
    wake_at: float | None = None
    acted: bool = False
    prepared: bytes | None = None

    def some(self, found: Iterable[T]) -> list[T]:
        """Return as many as there is room for."""
        taken = list(islice(found, self.room))
        self.room -= len(taken)
        return taken


def reconcile(view: JobView, around: JobSurroundings, now: float, pods_at_once: int = PODS_AT_ONCE) -> ReconcileResult:
    """Return what is to be written about a Job next; `now` is in seconds since the epoch."""
    job, outcome = view.job, ReconcileResult(pods_at_once)
    if job.metadata.deletion_timestamp is not None:
        return outcome
    refusal = _refusal(view)
    if refusal is not None:
        outcome.events.append(refusal)
        return outcome
    roster = Roster.of(job.metadata.name, around.pods)
    _delete(outcome, roster.owed())
    counted = roster.tally()
    phase = lifecycle.phase_of(job)
    if phase in FINISHED:
        _write_status(outcome, view, counted, phase, now)
        _stop(outcome, roster, around)
        _expire(outcome, job, now)
        return outcome
    action = _action(view, roster, around, phase, outcome, now)
    if action is not None:
        _act(outcome, view, roster, around, counted, action, now)
    elif phase in WORKING:
        _sync(outcome, view, roster, around, counted, now)
    else:
        _write_status(outcome, view, counted, lifecycle.next_phase(job, counted), now)
        _stop(outcome, roster, around, everything=phase is Phase.RESTARTING)
    return outcome


def failed_create(job: api.Job, why: str) -> RecordEvent:
    """Return the Event that states why something that a Job needs could not be made."""
    way_out = _MAY_NOT_MAKE_SECRETS if "ssh" in job.spec.plugins and "secrets is forbidden" in why else ""
    return _event(job, "Warning", "FailedCreate", f"something that the Job needs could not be made: {why}{way_out}")


def _refusal(view: JobView) -> RecordEvent | None:
    """Return the Event that states why a Job is not run, if it is not."""
    if view.problem:
        return _event(view.job, "Warning", "InvalidJob", f"{view.problem}; correct the Job, it is not run as it is")
    if view.foreign:
        message = (
            f"spec.schedulerName {view.foreign!r} is not one of those that these controllers look after; name one of "
            f"them, or start volsched with --scheduler-name={view.foreign} as well"
        )
        return _event(view.job, "Warning", "ForeignScheduler", message)
    if job_plugins.unsupported(view.job):
        return about_plugins(view.job)
    if view.too_large:
        return _event(view.job, "Warning", "JobTooLarge", f"{view.too_large}; it is not run as it is")
    return None


_STARTED: Final = (*lifecycle.STOPS_AS, "RestartJob")
_COMMANDS_OF: Final[Mapping[Phase, tuple[str, ...]]] = {
    Phase.PENDING: _STARTED,
    Phase.RUNNING: _STARTED,
    Phase.ABORTING: ("ResumeJob",),
    Phase.ABORTED: ("ResumeJob",),
}
"""What a Command may ask for in which phase."""

COMMANDS: Final = tuple(sorted({action for actions in _COMMANDS_OF.values() for action in actions}))
"""What a Command may ask for at all."""


# --- actions --------------------------------------------------------------------------------------------------------


def _action(
    view: JobView, roster: Roster, around: JobSurroundings, phase: Phase, outcome: ReconcileResult, now: float
) -> JobAction | None:
    """Return what a command or a policy asks for, if it means anything in this phase."""
    if view.command in _COMMANDS_OF.get(phase, ()):
        return JobAction(view.command, "CommandIssued")
    if phase not in WORKING:
        return None
    group_phase = around.group.status.phase if around.group is not None else ""
    decision = policies.decide(view.job, roster, view.losses.values(), group_phase, now)
    outcome.wake_at = decision.wake_at
    if decision.action is not None and decision.action.name in (*_STARTED, *TARGETED):
        return decision.action
    return None


def _act(
    outcome: ReconcileResult,
    view: JobView,
    roster: Roster,
    around: JobSurroundings,
    counted: Tally,
    action: JobAction,
    now: float,
) -> None:
    """Carry out an action: write the new phase first, then do away with pods."""
    job = view.job
    outcome.acted = True
    outcome.events.append(_event(job, "Normal", "ExecuteAction", _because(action)))
    retries = job.status.retry_count + 1
    if action.name in TARGETED:
        pods = [pod for pod in policies.targets(job, action, roster) if not pod.is_leaving]
        gives_up = retries >= (job.spec.max_retry or 0)
        phase = Phase.FAILED if gives_up else lifecycle.phase_of(job)
        _write_status(outcome, view, counted, phase, now, retries=retries)
        outcome.writes.append(Condemn(frozenset(pod.uid for pod in pods)))
        _delete(outcome, pods)
        return
    restarts = action.name in ("RestartJob", "ResumeJob")
    phase = Phase.RESTARTING if restarts else lifecycle.STOPS_AS[action.name]
    version = job.status.version + 1
    _write_status(outcome, view, counted, phase, now, version=version, retries=retries if restarts else retries - 1)
    _stop(outcome, roster, around, everything=restarts)


def _because(action: JobAction) -> str:
    about = f" of pod {action.pod}" if action.pod else f" of task {action.task}" if action.task else ""
    why = f" ({action.reason})" if action.reason else ""
    return f"{action.name} because of {action.event}{about}{why}"


def _stop(outcome: ReconcileResult, roster: Roster, around: JobSurroundings, *, everything: bool = False) -> None:
    """Delete the PodGroup and the pods: all of them, or those that have not finished."""
    _delete(outcome, roster.staying(finished=everything))
    if around.group is not None:
        meta = around.group.metadata
        outcome.writes.append(Delete(GROUP, meta.namespace, meta.name, meta.uid))


def _delete(outcome: ReconcileResult, pods: Iterable[JobPod]) -> None:
    outcome.writes += (Delete(POD, pod.namespace, pod.name, pod.uid) for pod in outcome.some(pods))


def _expire(outcome: ReconcileResult, job: api.Job, now: float) -> None:
    """Delete a finished Job once its time is over."""
    ttl = job.spec.ttl_seconds_after_finished
    finished_at = seconds(job.status.state.last_transition_time)
    if ttl is None or finished_at is None:
        return
    after = min(ttl, _FOREVER_SECONDS)
    if finished_at + after <= now:
        meta = job.metadata
        outcome.writes.append(Delete(JOB, meta.namespace, meta.name, meta.uid))
    else:
        outcome.wake_at = finished_at + after


_FOREVER_SECONDS: Final = 10**10
"""Some three hundred years, and still a number of seconds that can be added to a time."""


# --- keeping a Job going --------------------------------------------------------------------------------------------


def _sync(
    outcome: ReconcileResult, view: JobView, roster: Roster, around: JobSurroundings, counted: Tally, now: float
) -> None:
    """Bring about what a Job that works needs: its PodGroup, then its pods, then a status that states it."""
    job, group, maker = view.job, around.group, PodMaker(view.job, view.parts)
    phase = lifecycle.next_phase(job, counted)
    _write_status(outcome, view, counted, phase, now, wait=wait_of(group) if phase in WORKING else NO_WAIT)
    _prepare(outcome, view, maker)
    wanted = jobs.job_group(job, around.classes, around.queue)
    if group is None:
        meta = wanted.metadata
        outcome.writes.append(Create(GROUP, meta.namespace, meta.name, group_body(wanted), is_own=True))
        return
    outcome.writes += _group_changes(group, wanted)
    _delete(outcome, _surplus(job, roster))
    if group.status.phase not in ("", "Pending"):
        missing = outcome.some(_missing(job, roster, lifecycle.startable(job, counted)))
        outcome.writes += (maker.pod(member, group.metadata.name) for member in missing)


def _prepare(outcome: ReconcileResult, view: JobView, maker: PodMaker) -> None:
    """Make what pods need, unless the Job has it already."""
    preparations = tuple(maker.preparations())
    digest = hashlib.sha256()
    for made in preparations:
        digest.update(msgspec.json.encode((made.kind, made.body)))
    if digest.digest() != view.prepared:
        outcome.writes += preparations
        outcome.prepared = digest.digest()


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


def _surplus(job: api.Job, roster: Roster) -> Iterator[JobPod]:
    """Yield the pods that a Job does not want, or not any more."""
    wanted = {task.name: task.replicas for task in job.spec.tasks}
    for name in roster.tasks():
        there, replicas = roster.numbers(name), wanted.get(name, 0)
        if max(there) >= replicas:
            yield from (pod for number, pod in there.items() if number >= replicas and not pod.is_leaving)
    yield from (pod for pod in roster.strays().values() if not pod.is_leaving)


def _missing(job: api.Job, roster: Roster, startable: Container[str]) -> Iterator[jobs.WantedPod]:
    """Yield the pods that a Job wants and that are not there, of tasks that may start."""
    for task in job.spec.tasks:
        there = roster.numbers(task.name)
        if task.name not in startable:
            continue
        for number in filterfalse(there.__contains__, range(task.replicas)):
            member = jobs.WantedPod(task, number, jobs.pod_name(job, task, number))
            if member.name not in roster.strays():
                yield member


# --- status ---------------------------------------------------------------------------------------------------------


def _write_status(
    outcome: ReconcileResult,
    view: JobView,
    counted: Tally,
    phase: Phase,
    now: float,
    *,
    version: int | None = None,
    retries: int | None = None,
    wait: Wait = NO_WAIT,
) -> None:
    """Write a Job's status if it states something new, and tell why it waits when that is new."""
    job, known = view.job, view.status
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
            outcome.events.append(_event(job, kind, "JobFinished", f"the Job is {phase}: {_summary(counted)}"))
    if wait != (before.reason, before.message):
        words = {"reason": wait.reason or None, "message": wait.message or None}
        changed["state"] = {"phase": str(phase), **changed.get("state", {}), **words}
        if wait != NO_WAIT:
            outcome.events.append(about_wait(job, wait))
    if conditions != history:
        changed["conditions"] = conditions[-_HISTORY:]
    if not changed:
        return
    meta = job.metadata
    body = {"metadata": {"uid": meta.uid}, "status": changed}
    outcome.writes.append(Patch(JOB, meta.namespace, meta.name, body, subresource="status"))


def _summary(counted: Tally) -> str:
    return f"{counted.succeeded} pods succeeded, {counted.failed} failed"


def _event(job: api.Job, kind: str, reason: str, message: str) -> RecordEvent:
    meta = job.metadata
    return RecordEvent(
        JOB.name, JOB.group_version, meta.namespace, meta.name, meta.uid, kind, reason, message, "Reconciling"
    )
