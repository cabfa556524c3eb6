"""The actions of a Volcano Job's policies, after Volcano's docs/user-guide/how_to_use_job_policy.md.

A Job is judged by its present state, not by past events, so that a restart of the controllers loses nothing: a policy
applies to a failed pod of the Job's current version, or none does. But a state is no event: a pod is evicted once and
terminates for minutes. So no policy applies twice: each action starts a new version of the Job, whose pods alone count,
or states in the Job the pods that it was about (`Counted`). Only a pod that vanished at once leaves no trace; it comes
as a `Loss`. Timeouts count from when the state was seen, and, after a start of the controllers, from the times in the
objects (`pod_index.member_of`).

Policies are asked about pods with equal states, not about each pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from volsched.controllers.counted import NOTHING, Cause, Counted, Restart
from volsched.controllers.jobs import MAX_RETRY
from volsched.controllers.lifecycle import STOPS_AS, JobPod, Loss
from volsched.controllers.pod_index import EVICTED, FAILED, PENDING, RUNNING, SUCCEEDED, JobPodIndex, PodEvent
from volsched.model import api
from volsched.model.values.duration import seconds_of

TARGETED: Final = ("RestartTask", "RestartPod", "RestartPartition")
STARTED: Final = (*STOPS_AS, "RestartJob")
"""Actions that are about the whole Job."""

WITHOUT_NAME: Final = frozenset({"PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed"})
"""Events of a policy for `*`: failures and ends, but not pods that wait and run."""

_OF_PODS: Final = (FAILED, EVICTED, RUNNING, PENDING)


class Happening(NamedTuple):
    """A possible cause for a policy: the event, its pod, and its time (seconds since the epoch)."""

    event: str
    task: str = ""
    pod: str = ""
    number: int = 0
    exit_code: int = 0
    since: float = 0.0
    reason: str = ""
    """Why a pod failed, if not by its containers."""
    session: str = ""
    """The session of the scheduler that evicted it."""


Alike: TypeAlias = tuple[PodEvent, Mapping[str, JobPod]]
"""Pods that stand alike."""


@dataclass(frozen=True, slots=True)
class JobAction:
    """The action on a Job, the reason, and its task or pod (by name and by number)."""

    name: str
    event: str = ""
    task: str = ""
    pod: str = ""
    reason: str = ""
    number: int = 0
    session: str = ""

    def cause(self, group: str) -> Cause:
        """Return what it is for. `group` is the uid of the Job's PodGroup."""
        return Cause(self.session, group if self.event == "Unknown" else "")


@dataclass(frozen=True, slots=True)
class Decision:
    """The demand of a Job's policies: an action, or the time of the next look (seconds since the epoch), or neither."""

    action: JobAction | None = None
    wake_at: float | None = None


def decide(
    job: api.Job,
    pods: Iterable[JobPod],
    losses: Iterable[Loss],
    group_phase: str,
    now: float,
    counted: Counted = NOTHING,
    group_since: float | None = None,
) -> Decision:
    """Return what the policies of a completed Job demand now.

    `group_phase` is the phase of its PodGroup, empty when that was acted on, and `group_since` when it began;
    `counted` is what was counted as a retry.
    """
    rules, pod_index = _JobPolicies(job, counted), JobPodIndex.of(job.metadata.name, pods)
    wake_at: float | None = None
    for happening in _happenings(rules, pod_index, losses, group_phase, now, group_since):
        policy = rules.about(happening.event, happening.task, happening.exit_code)
        if policy is None or policy.action not in _of(happening):
            continue
        due = happening.since + timeout_of(policy)
        if due <= now:
            return Decision(_action(policy.action, happening))
        wake_at = due if wake_at is None else min(wake_at, due)
    return Decision(wake_at=wake_at)


def _of(happening: Happening) -> Collection[str]:
    """Return the target of an action: none for a task without a name."""
    return (*STARTED, *TARGETED) if happening.task else STARTED


def _action(name: str, found: Happening) -> JobAction:
    return JobAction(name, found.event, found.task, found.pod, found.reason, found.number, found.session)


def timeout_of(policy: api.LifecyclePolicy) -> float:
    """Return how many seconds a policy waits."""
    return seconds_of(policy.timeout or "") or 0.0


# --- policies -------------------------------------------------------------------------------------------------------


class _Policies:
    """The policies of one list, by what they are about. The first one counts."""

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

    def __init__(self, job: api.Job, counted: Counted) -> None:
        self.job = job
        self.counted = counted
        self._sessions = frozenset(counted.sessions)
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

    def wants(self, pod: JobPod | Loss) -> bool:
        """True if the Job wants a pod of this number. Pods beyond a smaller scale do not count."""
        return pod.number < self.replicas(pod.task)

    def is_settled(self, policy: api.LifecyclePolicy | None, pod: JobPod | Loss) -> bool:
        """True if an evicted pod needs nothing more: it goes, and its eviction was counted."""
        return policy is not None and policy.action == "RestartPod" and pod.session in self._sessions

    @property
    def version(self) -> int:
        """Return the version of the Job whose pods count."""
        return self.job.status.version


# --- what happens ---------------------------------------------------------------------------------------------------


def _happenings(
    rules: _JobPolicies,
    pod_index: JobPodIndex,
    losses: Iterable[Loss],
    group_phase: str,
    now: float,
    group_since: float | None,
) -> Iterator[Happening]:
    """Yield causes: of pods with equal states the first one that is due, else the next one."""
    current: dict[str, list[Alike]] = {}
    for pod_event, pods in pod_index.pod_events().items():
        if pod_event.version == rules.version:
            current.setdefault(pod_event.task, []).append((pod_event, pods))
    for _, alike in sorted(current.items()):
        yield from sorted(_of_pods(rules, pod_index, alike, now), key=lambda found: found.number)
    yield from _of_losses(rules, pod_index, losses)
    for task in rules.job.spec.tasks:
        yield from _of_task(rules, task, current.get(task.name, ()))
    if group_phase == "Unknown":
        yield Happening("Unknown", since=now if group_since is None else group_since)


def _of_losses(rules: _JobPolicies, pod_index: JobPodIndex, losses: Iterable[Loss]) -> Iterator[Happening]:
    """Yield the evictions of deleted pods. One that has been made again needs no restart of its own."""
    for loss in losses:
        policy = rules.about(EVICTED, loss.task)
        if policy is None or loss.version != rules.version or not rules.wants(loss) or not pod_index.is_in_order(loss):
            continue
        is_back = policy.action == "RestartPod" and loss.number in pod_index.numbers(loss.task)
        if not is_back and not rules.counted.covers(loss) and not rules.is_settled(policy, loss):
            yield Happening(EVICTED, loss.task, loss.name, loss.number, since=loss.since, session=loss.session)


def _of_pods(rules: _JobPolicies, pod_index: JobPodIndex, found: Iterable[Alike], now: float) -> Iterator[Happening]:
    for pod_event, pods in found:
        policy = (
            rules.about(pod_event.event, pod_event.task, pod_event.exit_code) if pod_event.event in _OF_PODS else None
        )
        if policy is None:
            continue
        timeout = timeout_of(policy)
        wanted = [pod for pod in pods.values() if rules.wants(pod) and pod_index.is_in_order(pod)]
        if pod_event.event == EVICTED:
            wanted = [pod for pod in wanted if not rules.is_settled(policy, pod)]
        since = _created if pod_event.event == PENDING else _since
        due = [pod for pod in wanted if since(pod) + timeout <= now]
        if wanted:
            pod = min(due, key=_number) if due else min(wanted, key=since)
            yield _happening(pod_event, pod, since(pod))


def _happening(pod_event: PodEvent, pod: JobPod, since: float) -> Happening:
    session = pod.session if pod_event.event == EVICTED else ""
    return Happening(pod_event.event, pod.task, pod.name, pod.number, pod_event.exit_code, since, pod.reason, session)


def _of_task(rules: _JobPolicies, task: api.TaskSpec, found: Sequence[Alike]) -> Iterator[Happening]:
    done = sum(len(pods) for pod_event, pods in found if pod_event.event == SUCCEEDED)
    if 0 < task.replicas <= done and rules.about("TaskCompleted", task.name):
        yield Happening("TaskCompleted", task.name, since=_last(found))
    if found and rules.about("TaskFailed", task.name):
        staying = [pod for _, pods in found for pod in pods.values() if not pod.is_finished and not pod.is_leaving]
        restarts = sum(pod.restarts for pod in staying)
        if restarts > (task.max_retry or MAX_RETRY):
            yield Happening("TaskFailed", task.name, since=_last(found))


def _last(found: Iterable[Alike]) -> float:
    return max(pod.since for _, pods in found for pod in pods.values())


_number: Final = attrgetter("number")
_since: Final = attrgetter("since")
_created: Final = attrgetter("created")
"""Since when a pod waits; for other events it is when it was first seen so."""


# --- whom it is about -----------------------------------------------------------------------------------------------


def restart_for(job: api.Job, action: JobAction, retry: int) -> Restart:
    """Return the pods that an action about one task, partition or pod deletes, at a retry of the Job."""
    if action.name == "RestartPod" and action.pod:
        return Restart(action.task, action.number, action.number, retry)
    size = partition_size(next((task for task in job.spec.tasks if task.name == action.task), None))
    if action.name == "RestartTask" or not action.pod or not size:
        return Restart(action.task, 0, None, retry)
    first = action.number // size * size
    return Restart(action.task, first, first + size - 1, retry)


def partition_size(task: api.TaskSpec | None) -> int:
    """Return how many pods of a task form a partition; 0 when it has none."""
    policy = task.partition_policy if task is not None else None
    return max(0, policy.partition_size) if policy is not None else 0
