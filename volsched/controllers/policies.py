"""What the policies of a Volcano Job ask for, after Volcano's docs/user-guide/how_to_use_job_policy.md.

A Job is judged by how things stand, not by what was heard on the way, so that a restart of the controllers loses
nothing: a failed pod of the Job's current version has a policy that applies to it, or has none. Whatever a policy
starts either ends the phase in which policies count or does away with the pods that it was about, so none applies
twice. Only a pod that vanished at once leaves no trace; that comes as a `Loss`.

Policies are asked about pods that stand alike, not about each pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from volsched.controllers.jobs import MAX_RETRY
from volsched.controllers.lifecycle import JobPod, Loss
from volsched.controllers.roster import EVICTED, FAILED, PENDING, RUNNING, SUCCEEDED, PodEvent, Roster
from volsched.model import api
from volsched.model.values.duration import seconds_of

TARGETED: Final = ("RestartTask", "RestartPod", "RestartPartition")

WITHOUT_NAME: Final = frozenset({"PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed"})
"""Events that a policy for `*` is about: what goes wrong or ends, and not that pods wait and run."""

_OF_PODS: Final = (FAILED, EVICTED, RUNNING, PENDING)


class Happening(NamedTuple):
    """Something that a policy may be about: the event, whose, and since when (seconds since the epoch)."""

    event: str
    task: str = ""
    pod: str = ""
    number: int = 0
    exit_code: int = 0
    since: float = 0.0
    reason: str = ""
    """Why a pod failed, if not by its containers."""


Alike: TypeAlias = tuple[PodEvent, Mapping[str, JobPod]]
"""Pods that stand alike."""


@dataclass(frozen=True, slots=True)
class JobAction:
    """What to do with a Job, why, and about which task or pod."""

    name: str
    event: str = ""
    task: str = ""
    pod: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a Job's policies demand: an action, or when to look again (seconds since the epoch), or neither."""

    action: JobAction | None = None
    wake_at: float | None = None


def decide(job: api.Job, pods: Iterable[JobPod], losses: Iterable[Loss], group_phase: str, now: float) -> Decision:
    """Return what the policies of a completed Job demand as things stand."""
    rules, roster = _JobPolicies(job), Roster.of(job.metadata.name, pods)
    wake_at: float | None = None
    for happening in _happenings(rules, roster, losses, group_phase, now):
        policy = rules.about(happening.event, happening.task, happening.exit_code)
        if policy is None:
            continue
        due = happening.since + timeout_of(policy)
        if due <= now:
            return Decision(_action(policy.action, happening))
        wake_at = due if wake_at is None else min(wake_at, due)
    return Decision(wake_at=wake_at)


def _action(name: str, happening: Happening) -> JobAction:
    return JobAction(name, happening.event, happening.task, happening.pod, happening.reason)


def timeout_of(policy: api.LifecyclePolicy) -> float:
    """Return how many seconds a policy waits."""
    return seconds_of(policy.timeout or "") or 0.0


# --- policies -------------------------------------------------------------------------------------------------------


class _Policies:
    """The policies of one list, by what they are about; the first one counts."""

    def __init__(self, policies: Iterable[api.LifecyclePolicy]) -> None:
        self._events: dict[str, tuple[int, api.LifecyclePolicy]] = {}
        self._codes: dict[int, tuple[int, api.LifecyclePolicy]] = {}
        for place, policy in enumerate(policies):
            for event in (policy.event, *policy.events):
                self._events.setdefault(event, (place, policy))
            if policy.exit_code:
                self._codes.setdefault(policy.exit_code, (place, policy))

    def about(self, event: str, exit_code: int) -> api.LifecyclePolicy | None:
        """Return the first policy that is about an event."""
        found = [self._events.get(event), self._codes.get(exit_code)]
        if event in WITHOUT_NAME:
            found.append(self._events.get("*"))
        return min((policy for policy in found if policy is not None), key=lambda f: f[0], default=(0, None))[1]


class _JobPolicies:
    """The policies of a Job and of its tasks; those of the task come before those of the Job."""

    def __init__(self, job: api.Job) -> None:
        self.job = job
        self.tasks = {task.name: task for task in reversed(job.spec.tasks)}
        self._of_job = _Policies(job.spec.policies)
        self._of_tasks: dict[str, _Policies] = {}

    def about(self, event: str, task: str = "", exit_code: int = 0) -> api.LifecyclePolicy | None:
        """Return the policy that is about an event, if there is one."""
        return self._of_task(task).about(event, exit_code) or self._of_job.about(event, exit_code)

    def _of_task(self, name: str) -> _Policies:
        if name not in self._of_tasks:
            task = self.tasks.get(name)
            self._of_tasks[name] = _Policies(task.policies if task is not None else ())
        return self._of_tasks[name]

    def replicas(self, task: str) -> int:
        """Return how many pods of a task the Job wants."""
        found = self.tasks.get(task)
        return found.replicas if found is not None else 0

    @property
    def version(self) -> int:
        """The version of the Job whose pods count."""
        return self.job.status.version


# --- what happens ---------------------------------------------------------------------------------------------------


def _happenings(
    rules: _JobPolicies, roster: Roster, losses: Iterable[Loss], group_phase: str, now: float
) -> Iterator[Happening]:
    """Yield what policies are about: of pods that stand alike the first one that is due, else the next one."""
    current: dict[str, list[Alike]] = {}
    for standing, pods in roster.standings().items():
        if standing.version == rules.version:
            current.setdefault(standing.task, []).append((standing, pods))
    for _, alike in sorted(current.items()):
        yield from sorted(_of_pods(rules, alike, now), key=lambda found: found.number)
    for loss in losses:
        if loss.version == rules.version and loss.number < rules.replicas(loss.task):
            yield Happening(EVICTED, loss.task, loss.name, loss.number, since=loss.since)
    for task in rules.job.spec.tasks:
        yield from _of_task(rules, task, current.get(task.name, ()))
    if group_phase == "Unknown":
        yield Happening("Unknown", since=now)


def _of_pods(rules: _JobPolicies, found: Iterable[Alike], now: float) -> Iterator[Happening]:
    for standing, pods in found:
        policy = rules.about(standing.event, standing.task, standing.exit_code) if standing.event in _OF_PODS else None
        if policy is None:
            continue
        timeout, replicas = timeout_of(policy), rules.replicas(standing.task)
        wanted = [pod for pod in pods.values() if pod.number < replicas]
        since = _created if standing.event == PENDING else _since
        due = [pod for pod in wanted if since(pod) + timeout <= now]
        if wanted:
            pod = min(due, key=_number) if due else min(wanted, key=since)
            yield Happening(standing.event, pod.task, pod.name, pod.number, standing.exit_code, since(pod), pod.reason)


def _of_task(rules: _JobPolicies, task: api.TaskSpec, found: Sequence[Alike]) -> Iterator[Happening]:
    done = sum(len(pods) for standing, pods in found if standing.event == SUCCEEDED)
    if 0 < task.replicas <= done and rules.about("TaskCompleted", task.name):
        yield Happening("TaskCompleted", task.name, since=_last(found))
    if found and rules.about("TaskFailed", task.name):
        restarts = sum(pod.restarts for _, pods in found for pod in pods.values() if not pod.is_finished)
        if restarts > (task.max_retry or MAX_RETRY):
            yield Happening("TaskFailed", task.name, since=_last(found))


def _last(found: Iterable[Alike]) -> float:
    return max(pod.since for _, pods in found for pod in pods.values())


_number: Final = attrgetter("number")
_since: Final = attrgetter("since")
_created: Final = attrgetter("created")
"""Since when a pod waits; for other events it is when it was first seen so."""


# --- whom it is about -----------------------------------------------------------------------------------------------


def targets(job: api.Job, action: JobAction, pods: Iterable[JobPod]) -> list[JobPod]:
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
