"""Decides the writes for a Volcano Job from its state.

The order of the writes matters if the process ends between two of them: the status that counts a new version comes
before the deletion of pods of the old one, and resources of pods exist before the PodGroup that lets them be made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, filterfalse, islice
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from volsched.controllers import counted, jobs, lifecycle, policies
from volsched.controllers.authors import OURS, Authorship
from volsched.controllers.counted import NOTHING, Counted
from volsched.controllers.job_parts import NO_PARTS, JobParts
from volsched.controllers.job_pods import PodMaker
from volsched.controllers.lifecycle import FINISHED, WORKING, JobPod, Loss, Losses, Phase, Tally
from volsched.controllers.pod_index import JobPodIndex
from volsched.controllers.policies import STARTED, TARGETED, JobAction
from volsched.controllers.waiting import NO_WAIT, Wait, about_refusal, about_wait, refused, wait_of, with_wait
from volsched.controllers.writes import GROUP, JOB, POD, Create, Delete, Patch, Write, merge_patch
from volsched.mirror.reading import seconds
from volsched.model import api, unserved
from volsched.model.plan import RecordEvent

Json = dict[str, Any]
T = TypeVar("T")

PODS_AT_ONCE: Final = 500
"""The most pods that one look at a Job makes or deletes, as in Kubernetes' own Job controller.

Others have their turn in between, a refused request stops it soon, and no more than that is in memory.
"""

_MAY_NOT_MAKE_SECRETS: Final = (
    "; the plugin ssh needs a right that volsched has only with the component ssh of its manifests"
)

_HISTORY: Final = 20
"""Phases that a Job's conditions remember."""


@dataclass(slots=True)
class JobView:
    """The state of a Volcano Job.

    * `job`: the read fields, with defaults; `parts`: the templates of its pods, with all fields.
    * `status`: its status at the API server.
    * `problem`: why it cannot be run; `too_large`: it requests more than Kubernetes takes; `foreign`: the other
      scheduler
    that it names. Of a Job that is not run only its identity is kept.
    * `counted`: the counted retries; `losses`: deleted pods that are still to be counted, by name.
    * `condemned`: pods that a counted retry is about, and that are not marked yet (`Store.condemn_some`).
    * `prepared`: a digest of the last resources of its plugins and volumes.
    * `command`: the requested Command; `obeyed`: the one that is being carried out.
    * `digest`: of all that was read of it but its status; empty for one that is to be read again.
    """

    job: api.Job
    parts: JobParts = NO_PARTS
    status: Json = field(default_factory=dict)
    problem: str = ""
    too_large: str = ""
    foreign: str = ""
    counted: Counted = NOTHING
    prepared: bytes = b""
    losses: Losses = field(default_factory=Losses, compare=False)
    condemned: Iterator[JobPod] = field(default_factory=lambda: iter(()), compare=False)
    command: str = ""
    obeyed: str = ""
    digest: bytes = b""

    def is_at(self, meta: api.ObjectMeta) -> bool:
        """True if this is what was read of an object of this uid and version."""
        mine = self.job.metadata
        is_same = (mine.uid, mine.resource_version) == (meta.uid, meta.resource_version)
        return is_same and bool(self.digest and mine.resource_version)

    def commands_after(self, version: int) -> tuple[str, str]:
        """Return `command` and `obeyed` of the Job at a version: the next one states that a Command was obeyed."""
        if not self.obeyed or version == self.job.status.version:
            return self.command, self.obeyed
        return "" if self.command == self.obeyed else self.command, ""

    def wants(self, pod: JobPod | Loss) -> bool:
        """True if the Job wants a pod of this task and number."""
        task = next((task for task in self.job.spec.tasks if task.name == pod.task), None)
        return task is not None and pod.number < task.replicas

    def is_open(self, loss: Loss) -> bool:
        """True if a policy may still apply to a deleted pod: no retry was counted for it."""
        is_current = loss.version >= self.job.status.version
        return is_current and self.wants(loss) and not self.counted.covers(loss)


@dataclass(frozen=True, slots=True)
class JobSurroundings:
    """The objects of a Job: its pods (a JobPodIndex if there may be many), its PodGroup, PriorityClasses, its queue.

    `group_since` is when its PodGroup was first seen in its phase (seconds since the epoch), if that is known, and
    `authors` states who wrote what of it. Of one that `is_group_refused` is only known who it is.
    """

    pods: Iterable[JobPod]
    group: api.PodGroup | None
    classes: Mapping[str, int]
    queue: str
    group_since: float | None = None
    authors: Authorship = OURS
    is_group_refused: bool = False


@dataclass(slots=True)
class ReconcileResult:
    """The writes in order, the Events, and the time of the next look (seconds since the epoch).

    `acted`: an action is carried out, by this `command`, if by one; `prepared`: a digest of the resources for pods once
    all is written; `room`: how many more pods could have been made or deleted: with none left there may be more to do.
    """

    room: int
    writes: list[Write] = field(default_factory=list)
    events: list[RecordEvent] = field(default_factory=list)
    wake_at: float | None = None
    acted: bool = False
    command: str = ""
    prepared: bytes | None = None

    def some(self, found: Iterable[T]) -> list[T]:
        """Return as many as there is room for."""
        taken = list(islice(found, self.room))
        self.room -= len(taken)
        return taken


def reconcile(view: JobView, around: JobSurroundings, now: float, pods_at_once: int = PODS_AT_ONCE) -> ReconcileResult:
    """Return what is to be written about a Job next. `now` is in seconds since the epoch."""
    job, outcome = view.job, ReconcileResult(pods_at_once)
    if job.metadata.deletion_timestamp is not None:
        return outcome
    refusal = _refusal(view)
    if refusal is not None:
        outcome.events.append(refusal)
        return outcome
    pod_index = JobPodIndex.of(job.metadata.name, around.pods)
    _delete(outcome, pod_index.owed())
    tally = pod_index.tally()
    phase = lifecycle.phase_of(job)
    if phase in FINISHED:
        _write_status(outcome, view, tally, phase, now)
        _stop(outcome, pod_index, around)
        _expire(outcome, job, now)
        return outcome
    action = _action(view, pod_index, around, phase, outcome, now)
    if action is not None:
        _act(outcome, view, pod_index, around, tally, action, now)
    elif phase in WORKING:
        _sync(outcome, view, pod_index, around, tally, now)
    else:
        _write_status(outcome, view, tally, lifecycle.next_phase(job, tally), now)
        _stop(outcome, pod_index, around, everything=phase is Phase.RESTARTING)
    return outcome


def failed_create(job: api.Job, why: str) -> RecordEvent:
    """Return the Event that states why something that a Job needs could not be made."""
    way_out = _MAY_NOT_MAKE_SECRETS if "ssh" in job.spec.plugins and "secrets is forbidden" in why else ""
    return _event(job, "Warning", "FailedCreate", f"something that the Job needs could not be made: {why}{way_out}")


def _refusal(view: JobView) -> RecordEvent | None:
    """Return the Event that states why a Job is not run, if it is not."""
    refusal = refused(view.job, view.problem)
    if refusal != NO_WAIT:
        return about_refusal(view.job, refusal)
    if view.foreign:
        message = (
            f"spec.schedulerName {view.foreign!r} is not one of those that these controllers look after; name one of "
            f"them, or start volsched with --scheduler-name={view.foreign} as well"
        )
        return _event(view.job, "Warning", "ForeignScheduler", message)
    if view.too_large:
        return _event(view.job, "Warning", "JobTooLarge", f"{view.too_large}; it is not run as it is")
    return None


_COMMANDS_OF: Final[Mapping[Phase, tuple[str, ...]]] = {
    Phase.PENDING: STARTED,
    Phase.RUNNING: STARTED,
    Phase.ABORTING: ("ResumeJob",),
    Phase.ABORTED: ("ResumeJob",),
}
"""The Commands that each phase allows."""

COMMANDS: Final = tuple(sorted({action for actions in _COMMANDS_OF.values() for action in actions}))
"""The Commands that are allowed at all."""


class Counting(NamedTuple):
    """The counts of an action: the retries of the Job so far, their causes, and the version of the Job."""

    retries: int
    counted: Counted
    version: int

    def status(self, known: Json) -> Json:
        """Return the fields of the status that state it. What else stands beside it stays."""
        resources = known.get(counted.FIELD)
        others = resources if isinstance(resources, Mapping) else {}
        return {
            "version": self.version,
            "retryCount": self.retries,
            counted.FIELD: {**others, counted.KEY: self.counted.text()},
        }


# --- actions --------------------------------------------------------------------------------------------------------


def _action(
    view: JobView, pod_index: JobPodIndex, around: JobSurroundings, phase: Phase, outcome: ReconcileResult, now: float
) -> JobAction | None:
    """Return what a command or a policy asks for, if it means anything in this phase."""
    if view.command in _COMMANDS_OF.get(phase, ()):
        outcome.command = view.command
        return JobAction(view.command, "CommandIssued")
    if phase not in WORKING:
        return None
    group_phase = _group_phase(view, around)
    decision = policies.decide(view.job, pod_index, view.losses, group_phase, now, view.counted, around.group_since)
    outcome.wake_at = decision.wake_at
    return decision.action


def _group_phase(view: JobView, around: JobSurroundings) -> str:
    """Return the phase of a Job's PodGroup; none for a terminating one, or for an Unknown one that was acted on."""
    group = around.group
    if group is None or group.metadata.deletion_timestamp is not None or group.metadata.uid == view.counted.group:
        return ""
    return group.status.phase


def _act(
    outcome: ReconcileResult,
    view: JobView,
    pod_index: JobPodIndex,
    around: JobSurroundings,
    tally: Tally,
    action: JobAction,
    now: float,
) -> None:
    """Carry out an action: write the new phase and the counts first, then delete pods.

    The pods of one Job that one session of the scheduler evicted are one retry.
    """
    job, uid = view.job, around.group.metadata.uid if around.group is not None else ""
    outcome.acted = True
    outcome.events.append(_event(job, "Normal", "ExecuteAction", _because(action)))
    retries = job.status.retry_count + (not action.session or action.session not in view.counted.sessions)
    known = view.counted.with_cause(action.cause(uid), chain(pod_index, view.losses))
    if action.name in TARGETED:
        restart = policies.restart_for(job, action, retries)
        gives_up = job.status.retry_count < retries >= (job.spec.max_retry or 0)
        phase = Phase.FAILED if gives_up else lifecycle.phase_of(job)
        known = known.with_restart(restart, pod_index)
        _write_status(outcome, view, tally, phase, now, action=Counting(retries, known, job.status.version))
        _delete(outcome, (pod for pod in restart.pods(pod_index) if not pod.is_leaving))
        return
    restarts = action.name in ("RestartJob", "ResumeJob")
    phase = Phase.RESTARTING if restarts else lifecycle.STOPS_AS[action.name]
    counting = Counting(retries if restarts else job.status.retry_count, known.of_version(), job.status.version + 1)
    _write_status(outcome, view, tally, phase, now, action=counting)
    _stop(outcome, pod_index, around, everything=restarts)


def _because(action: JobAction) -> str:
    about = f" of pod {action.pod}" if action.pod else f" of task {action.task}" if action.task else ""
    why = f" ({action.reason})" if action.reason else ""
    return f"{action.name} because of {action.event}{about}{why}"


def _stop(
    outcome: ReconcileResult, pod_index: JobPodIndex, around: JobSurroundings, *, everything: bool = False
) -> None:
    """Delete the PodGroup and the pods: all of them, or those that have not finished."""
    _delete(outcome, pod_index.staying(finished=everything))
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
"""Some three hundred years: a number of seconds that can still be added to a time."""


# --- keeping a Job going --------------------------------------------------------------------------------------------


def _sync(
    outcome: ReconcileResult, view: JobView, pod_index: JobPodIndex, around: JobSurroundings, tally: Tally, now: float
) -> None:
    """Make the objects of a running Job: its PodGroup, then its pods, then its status."""
    job, group, maker = view.job, around.group, PodMaker(view.job, view.parts)
    phase = lifecycle.next_phase(job, tally)
    _write_status(outcome, view, tally, phase, now, wait=wait_of(group) if phase in WORKING else NO_WAIT)
    _prepare(outcome, view, maker)
    wanted = jobs.job_group(job, around.classes, around.queue)
    if group is None:
        meta = wanted.metadata
        outcome.writes.append(Create(GROUP, meta.namespace, meta.name, group_body(wanted), is_own=True))
        outcome.events += _ignored(job)
        return
    if not around.is_group_refused:
        with_queue = not tally.running and around.authors.may_write("queue")
        outcome.writes += _group_changes(group, wanted, with_queue=with_queue)
    _delete(outcome, _surplus(job, pod_index))
    if group.status.phase not in ("", "Pending"):
        missing = outcome.some(_missing(job, pod_index, lifecycle.startable(job, tally)))
        outcome.writes += (maker.pod(member, group.metadata.name) for member in missing)


def _ignored(job: api.Job) -> Iterator[RecordEvent]:
    """Yield the Events that state what of a Job has no effect."""
    for wish in unserved.ignored_by(job):
        yield _event(job, "Warning", "NotSupported", f"{wish.field} has no effect: {wish.message}")


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
    """Return a PodGroup to create. Readers take a missing status for Pending."""
    body: Json = msgspec.to_builtins(msgspec.structs.replace(group, status=api.PodGroupStatus()))
    body["metadata"].pop("creationTimestamp", None)
    body["metadata"].pop("uid", None)
    return body | {"apiVersion": GROUP.group_version, "kind": GROUP.name}


_PLACEMENT: Final = ("networkTopology", "subGroupPolicy")


def _placement(spec: api.PodGroupSpec) -> Json:
    """Return the network topology and the subgroups of a PodGroup."""
    found: Json = msgspec.to_builtins(spec)
    return {name: found[name] for name in _PLACEMENT if name in found}


def _group_changes(group: api.PodGroup, wanted: api.PodGroup, *, with_queue: bool) -> Iterator[Patch]:
    """Yield the patch that updates a Job's PodGroup after a change of the Job.

    Another queue counts only while no pod runs (*ours*; Volcano's admission lets no Job change it).
    """
    spec = merge_patch(_spec_of(group), _spec_of(wanted))
    if with_queue and group.spec.queue and group.spec.queue != wanted.spec.queue:
        spec["queue"] = wanted.spec.queue
    if spec:
        meta = group.metadata
        yield Patch(GROUP, meta.namespace, meta.name, {"metadata": {"uid": meta.uid}, "spec": spec})


def _spec_of(group: api.PodGroup) -> Json:
    spec = group.spec
    return {
        "minMember": spec.min_member,
        "minTaskMember": spec.min_task_member,
        "priorityClassName": spec.priority_class_name,
        "minResources": spec.min_resources or {},
        **_placement(spec),
    }


def _surplus(job: api.Job, pod_index: JobPodIndex) -> Iterator[JobPod]:
    """Yield the pods that a Job does not want, or not any more."""
    wanted = {task.name: task.replicas for task in job.spec.tasks}
    for name in pod_index.tasks():
        there, replicas = pod_index.numbers(name), wanted.get(name, 0)
        if max(there) >= replicas:
            yield from (pod for number, pod in there.items() if number >= replicas and not pod.is_leaving)
    yield from (pod for pod in pod_index.strays().values() if not pod.is_leaving)


def _missing(job: api.Job, pod_index: JobPodIndex, startable: Container[str]) -> Iterator[jobs.WantedPod]:
    """Yield the missing pods of a Job, of tasks that may start."""
    for task in job.spec.tasks:
        there = pod_index.numbers(task.name)
        if task.name not in startable:
            continue
        for number in filterfalse(there.__contains__, range(task.replicas)):
            member = jobs.WantedPod(task, number, jobs.pod_name(job, task, number))
            if member.name not in pod_index.strays():
                yield member


# --- status ---------------------------------------------------------------------------------------------------------


def _write_status(
    outcome: ReconcileResult,
    view: JobView,
    tally: Tally,
    phase: Phase,
    now: float,
    *,
    action: Counting | None = None,
    wait: Wait = NO_WAIT,
) -> None:
    """Write a Job's status if it is new, and record why it waits if that is new.

    The counts of an action are written only into the very version of the object that it was decided by.
    """
    job, known = view.job, view.status
    status: Json = {
        "minAvailable": lifecycle.least_of(job.spec),
        "pending": tally.pending,
        "running": tally.running,
        "succeeded": tally.succeeded,
        "failed": tally.failed,
        "terminating": tally.terminating,
        "unknown": tally.unknown,
        "version": job.status.version,
        "retryCount": job.status.retry_count,
        "taskStatusCount": {task: {"phase": dict(phases)} for task, phases in tally.by_task},
        **(action.status(known) if action is not None else {}),
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
            outcome.events.append(_event(job, kind, "JobFinished", f"the Job is {phase}: {_summary(tally)}"))
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
    seen = {"resourceVersion": meta.resource_version} if action is not None and meta.resource_version else {}
    body = {"metadata": {"uid": meta.uid, **seen}, "status": changed}
    outcome.writes.append(Patch(JOB, meta.namespace, meta.name, body, subresource="status"))


def _summary(tally: Tally) -> str:
    return f"{tally.succeeded} pods succeeded, {tally.failed} failed"


def _event(job: api.Job, kind: str, reason: str, message: str) -> RecordEvent:
    meta = job.metadata
    return RecordEvent(
        JOB.name, JOB.group_version, meta.namespace, meta.name, meta.uid, kind, reason, message, "Reconciling"
    )
