"""The life of a Volcano Job: which phase comes next, and what its policies ask for.

Phases, events and actions are those of Volcano's pkg/controllers/job and docs/user-guide/how_to_use_job_policy.md.

A Job is judged by how things stand, not by what was heard on the way, so that a restart of the controllers loses
nothing: a failed pod of the Job's current version has a policy that applies to it, or has none. Whatever a policy
starts either ends the phase in which policies count or does away with the pods that it was about, so none applies
twice. Only a pod that vanished at once leaves no trace; that comes as a `Loss`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from volsched.controllers.jobs import MAX_RETRY
from volsched.model import api
from volsched.model.duration import seconds_of


class Phase(StrEnum):
    """Where a Job stands."""

    PENDING = "Pending"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


WORKING: Final = frozenset({Phase.PENDING, Phase.RUNNING})
FINISHED: Final = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED})
"""Phases that a Job does not leave; `ttlSecondsAfterFinished` counts from them."""

ENDS_AS: Final = {
    Phase.ABORTING: Phase.ABORTED,
    Phase.COMPLETING: Phase.COMPLETED,
    Phase.TERMINATING: Phase.TERMINATED,
}
"""What a phase in which pods are being stopped ends as."""

STOPS_AS: Final = {
    "AbortJob": Phase.ABORTING,
    "CompleteJob": Phase.COMPLETING,
    "TerminateJob": Phase.TERMINATING,
}
"""Actions that stop the pods which are not finished, and the phase that they begin."""

TARGETED: Final = ("RestartTask", "RestartPod", "RestartPartition")

WITHOUT_NAME: Final = frozenset({"PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed"})
"""Events that a policy for `*` is about: what goes wrong or ends, and not that pods wait and run."""


class Member(NamedTuple):
    """One pod of a Job as it stands. Times are in seconds since the epoch."""

    uid: str
    namespace: str
    name: str
    task: str
    number: int
    version: int
    phase: str
    terminating: bool
    killed: bool
    """Whether it goes because a controller wants it to."""
    exit_code: int
    restarts: int
    created: float
    since: float
    """When it was first seen in its phase."""

    @property
    def is_finished(self) -> bool:
        """Whether it has ended by itself."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_leaving(self) -> bool:
        """Whether it is being deleted, or about to be."""
        return self.terminating or self.killed


class Loss(NamedTuple):
    """A pod of a Job that somebody else deleted, and that is gone."""

    name: str
    task: str
    number: int
    version: int
    since: float


class Happening(NamedTuple):
    """Something that a policy may be about: the event, whose, and since when."""

    event: str
    task: str = ""
    pod: str = ""
    exit_code: int = 0
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Action:
    """What to do with a Job, why, and about which task or pod."""

    name: str
    event: str = ""
    task: str = ""
    pod: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a Job's policies say: an action, or when to look again (seconds since the epoch), or neither."""

    action: Action | None = None
    wake_at: float | None = None


# --- policies -------------------------------------------------------------------------------------------------------


def decide(job: api.Job, pods: Sequence[Member], losses: Iterable[Loss], group_phase: str, now: float) -> Decision:
    """Return what the policies of a completed Job say about how things stand."""
    wake_at: float | None = None
    for happening in _happenings(job, pods, losses, group_phase, now):
        policy = _policy_for(job, happening)
        if policy is None:
            continue
        due = happening.since + (seconds_of(policy.timeout or "") or 0.0)
        if due <= now:
            return Decision(Action(policy.action, happening.event, happening.task, happening.pod))
        wake_at = due if wake_at is None else min(wake_at, due)
    return Decision(wake_at=wake_at)


def _happenings(
    job: api.Job, pods: Sequence[Member], losses: Iterable[Loss], group_phase: str, now: float
) -> Iterator[Happening]:
    current = [pod for pod in pods if pod.version == job.status.version]
    replicas = {task.name: task.replicas for task in job.spec.tasks}
    for pod in sorted(current, key=lambda pod: (pod.task, pod.number)):
        if pod.number < replicas.get(pod.task, 0):
            yield from _of_pod(pod)
    for loss in losses:
        if loss.version == job.status.version and loss.number < replicas.get(loss.task, 0):
            yield Happening("PodEvicted", loss.task, loss.name, since=loss.since)
    for task in job.spec.tasks:
        yield from _of_task(task, [pod for pod in current if pod.task == task.name])
    if group_phase == "Unknown":
        yield Happening("Unknown", since=now)


def _of_pod(pod: Member) -> Iterator[Happening]:
    if pod.killed or (pod.is_finished and (pod.terminating or pod.phase == "Succeeded")):
        return
    if pod.phase == "Failed":
        yield Happening("PodFailed", pod.task, pod.name, pod.exit_code, pod.since)
    elif pod.terminating:
        yield Happening("PodEvicted", pod.task, pod.name, since=pod.since)
    elif pod.phase == "Running":
        yield Happening("PodRunning", pod.task, pod.name, since=pod.since)
    else:
        yield Happening("PodPending", pod.task, pod.name, since=pod.created)


def _of_task(task: api.TaskSpec, pods: Sequence[Member]) -> Iterator[Happening]:
    if 0 < task.replicas <= sum(pod.phase == "Succeeded" and not pod.is_leaving for pod in pods):
        yield Happening("TaskCompleted", task.name, since=max(pod.since for pod in pods))
    restarts = sum(pod.restarts for pod in pods if not pod.is_finished)
    if restarts > (task.max_retry or MAX_RETRY):
        yield Happening("TaskFailed", task.name, since=max(pod.since for pod in pods))


def _policy_for(job: api.Job, happening: Happening) -> api.LifecyclePolicy | None:
    """Return the first policy that is about it; those of the task come before those of the Job."""
    of_task = next((task.policies for task in job.spec.tasks if task.name == happening.task), ())
    return next((policy for policy in (*of_task, *job.spec.policies) if _is_about(policy, happening)), None)


def _is_about(policy: api.LifecyclePolicy, happening: Happening) -> bool:
    events = (policy.event, *policy.events)
    if happening.event in events or ("*" in events and happening.event in WITHOUT_NAME):
        return True
    return policy.exit_code is not None and policy.exit_code == happening.exit_code != 0


def targets(job: api.Job, action: Action, pods: Sequence[Member]) -> list[Member]:
    """Return the pods that an action about one task, partition or pod does away with."""
    of_task = [pod for pod in pods if pod.task == action.task]
    if action.name == "RestartTask" or not action.pod:
        return of_task
    if action.name == "RestartPod":
        return [pod for pod in of_task if pod.name == action.pod]
    size = partition_size(next((task for task in job.spec.tasks if task.name == action.task), None))
    number = next((pod.number for pod in of_task if pod.name == action.pod), None)
    if not size or number is None:
        return of_task
    return [pod for pod in of_task if pod.number // size == number // size]


def partition_size(task: api.TaskSpec | None) -> int:
    """Return how many pods of a task form a partition; 0 when it has none."""
    policy = task.partition_policy if task is not None else None
    return max(0, policy.partition_size) if policy is not None else 0


# --- counts and phases ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tally:
    """How many pods of a Job stand how; those that terminate are counted as that alone."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    by_task: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()

    @property
    def alive(self) -> int:
        """Pods that still are to be stopped."""
        return self.pending + self.running + self.terminating + self.unknown

    def succeeded_of(self, task: str) -> int:
        """Return how many pods of one task have succeeded."""
        return dict(dict(self.by_task).get(task, ())).get("Succeeded", 0)


_FIELDS: Final = {"Pending": "pending", "Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


def tally(pods: Iterable[Member]) -> Tally:
    """Count the pods of a Job."""
    counts: Counter[str] = Counter()
    by_task: dict[str, Counter[str]] = {}
    for pod in pods:
        if pod.terminating:
            counts["terminating"] += 1
        else:
            counts[_FIELDS.get(pod.phase, "unknown")] += 1
            by_task.setdefault(pod.task, Counter())[pod.phase or "Unknown"] += 1
    shown = tuple((task, tuple(sorted(phases.items()))) for task, phases in sorted(by_task.items()))
    return Tally(**counts, by_task=shown)


def next_phase(job: api.Job, counted: Tally) -> Phase:
    """Return the phase that follows from the pods alone, without any action."""
    phase = phase_of(job)
    if phase is Phase.PENDING:
        started = counted.running + counted.succeeded + counted.failed
        return Phase.RUNNING if started and started >= (job.spec.min_available or 0) else phase
    if phase is Phase.RUNNING:
        return _after_running(job, counted)
    if phase in ENDS_AS:
        return phase if counted.alive else ENDS_AS[phase]
    if phase is Phase.RESTARTING:
        return _after_restarting(job, counted)
    return phase


def _after_running(job: api.Job, counted: Tally) -> Phase:
    spec = job.spec
    least, replicas = spec.min_available or 0, sum(task.replicas for task in spec.tasks)
    if replicas == 0:
        return Phase.RUNNING
    if spec.min_success is not None and counted.succeeded >= spec.min_success:
        return Phase.COMPLETED
    if counted.succeeded + counted.failed == replicas:
        return Phase.COMPLETED if _succeeded(job, counted) else Phase.FAILED
    return Phase.PENDING if counted.pending > replicas - least else Phase.RUNNING


def _succeeded(job: api.Job, counted: Tally) -> bool:
    """Say whether enough pods of a Job whose pods have all finished have succeeded.

    The minima of its tasks count unless the Job's own is less than their sum, as when it is given and theirs are not.
    """
    spec = job.spec
    least = spec.min_available or 0
    minima = {task.name: task.min_available or 0 for task in spec.tasks}
    if least >= sum(minima.values()) and any(counted.succeeded_of(task) < few for task, few in minima.items()):
        return False
    return counted.succeeded >= (least if spec.min_success is None else spec.min_success)


def _after_restarting(job: api.Job, counted: Tally) -> Phase:
    """Begin anew once the old pods are out of the way, or give up after too many tries."""
    if job.status.retry_count >= (job.spec.max_retry or 0):
        return Phase.FAILED
    if counted.alive > counted.terminating or counted.succeeded or counted.failed:
        return Phase.RESTARTING
    total = sum(task.replicas for task in job.spec.tasks)
    return Phase.PENDING if total - counted.terminating >= (job.spec.min_available or 0) else Phase.RESTARTING


def phase_of(job: api.Job) -> Phase:
    """Return the phase of a Job; one that nobody has written, or nobody knows, is Pending."""
    try:
        return Phase(job.status.state.phase)
    except ValueError:
        return Phase.PENDING


def may_start(job: api.Job, task: api.TaskSpec, counted: Tally) -> bool:
    """Say whether the tasks that this one depends on have come far enough for its pods to be made."""
    if task.depends_on is None or not task.depends_on.name:
        return True
    tasks = {found.name: found for found in job.spec.tasks}
    counts: dict[str, Any] = {name: dict(phases) for name, phases in counted.by_task}

    def is_up(name: str) -> bool:
        phases, wanted = counts.get(name, {}), tasks.get(name)
        least = (wanted.min_available if wanted is not None else None) or 0
        return bool(phases.get("Running", 0) + phases.get("Succeeded", 0) >= least)

    came = [is_up(name) for name in task.depends_on.name]
    return any(came) if task.depends_on.iteration == "any" else all(came)
