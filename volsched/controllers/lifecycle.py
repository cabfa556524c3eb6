"""The life of a Volcano Job: its next phase, and the tasks that may start.

Phases are those of Volcano's pkg/controllers/job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from volsched.model import api


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
"""Phases that a Job does not leave. `ttlSecondsAfterFinished` counts from them."""

ENDS_AS: Final = {
    Phase.ABORTING: Phase.ABORTED,
    Phase.COMPLETING: Phase.COMPLETED,
    Phase.TERMINATING: Phase.TERMINATED,
}
"""The final phase of each phase in which pods are being stopped."""

STOPS_AS: Final = {
    "AbortJob": Phase.ABORTING,
    "CompleteJob": Phase.COMPLETING,
    "TerminateJob": Phase.TERMINATING,
}
"""Actions that stop the pods which are not finished, and the phase that they begin."""


ENDED: Final = ("Succeeded", "Failed")
"""Phases of pods that have ended by themselves."""


class JobPod(NamedTuple):
    """One pod of a Job as it is. Times are in seconds since the epoch."""

    uid: str
    namespace: str
    name: str
    task: str
    number: int
    version: int
    phase: str
    terminating: bool
    killed: bool
    """True if a controller wants to delete it."""
    exit_code: int
    restarts: int
    created: float
    since: float
    """When it was first seen in its phase, or terminating; if that began earlier, its own times count."""
    reason: str = ""
    """Why it failed, apart from its containers: it was evicted, or its node refused it."""
    retry: int = 0
    """The number of the Job's retries when it was made."""
    session: str = ""
    """The session of the scheduler that evicted it."""
    evicted: bool = False
    """True if its deletion began before it had ended."""

    @property
    def is_finished(self) -> bool:
        """True if it has ended by itself."""
        return self.phase in ENDED

    @property
    def is_leaving(self) -> bool:
        """True if it is terminating, or about to be."""
        return self.terminating or self.killed


class Loss(NamedTuple):
    """A deleted pod of a Job that others deleted."""

    name: str
    task: str
    number: int
    version: int
    since: float
    retry: int = 0
    session: str = ""


MOST_LOSSES: Final = 100
"""The most deleted pods of a task that are remembered: a policy acts on the first ones, and all pods are made again."""


class Losses:
    """The deleted pods of a Job that are still to be counted, by name: the first ones of each task."""

    def __init__(self, losses: Iterable[Loss] = ()) -> None:
        self._losses: dict[str, Loss] = {}
        self._of_task: Counter[str] = Counter()
        for loss in losses:
            self.put(loss)

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._losses.values())

    def __len__(self) -> int:
        return len(self._losses)

    def put(self, loss: Loss) -> None:
        """Remember a deleted pod, unless there are so many of its task already."""
        self.drop(loss.name)
        if self._of_task[loss.task] < MOST_LOSSES:
            self._losses[loss.name] = loss
            self._of_task[loss.task] += 1

    def drop(self, name: str) -> None:
        """Forget a deleted pod."""
        loss = self._losses.pop(name, None)
        if loss is not None:
            self._of_task[loss.task] -= 1


# --- the first gang ---------------------------------------------------------------------------------------------------


def depends(task: api.TaskSpec) -> bool:
    """Return whether the pods of a task are made only once others run."""
    return task.depends_on is not None and bool(task.depends_on.name)


def first_tasks(spec: api.JobSpec) -> tuple[api.TaskSpec, ...]:
    """Return the tasks of a completed Job whose pods start together: all, if the Job states its minimum.

    Else those that depend on no other: pods that are made later cannot be waited for (*ours*; Volcano waits for ever).
    """
    if spec.min_available is not None:
        return spec.tasks
    return tuple(task for task in spec.tasks if not depends(task))


def least_of(spec: api.JobSpec) -> int:
    """Return with how many pods a completed Job starts."""
    if spec.min_available is not None:
        return spec.min_available
    return sum(task.min_available or 0 for task in first_tasks(spec))


# --- counts and phases ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of a Job's pods by phase. Terminating ones, or those about to be, count only as that."""

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

    def of_tasks(self) -> dict[str, dict[str, int]]:
        """Return how many pods of each task are in which phase."""
        return {task: dict(phases) for task, phases in self.by_task}


FIELDS: Final = {"Pending": "pending", "Running": "running", "Succeeded": "succeeded", "Failed": "failed"}
"""Phases of pods, and the fields that count them."""


def next_phase(job: api.Job, counted: Tally) -> Phase:
    """Return the phase that follows from the pods alone, without any action."""
    phase = phase_of(job)
    if phase is Phase.PENDING:
        started = counted.running + counted.succeeded + counted.failed
        return Phase.RUNNING if started and started >= least_of(job.spec) else phase
    if phase is Phase.RUNNING:
        return _after_running(job, counted)
    if phase in ENDS_AS:
        return phase if counted.alive else ENDS_AS[phase]
    if phase is Phase.RESTARTING:
        return _after_restarting(job, counted)
    return phase


def _after_running(job: api.Job, counted: Tally) -> Phase:
    spec = job.spec
    least, replicas = least_of(spec), sum(task.replicas for task in spec.tasks)
    if replicas == 0:
        return Phase.RUNNING
    if spec.min_success is not None and counted.succeeded >= spec.min_success:
        return Phase.COMPLETED
    if counted.succeeded + counted.failed == replicas:
        return Phase.COMPLETED if _succeeded(job, counted) else Phase.FAILED
    return Phase.PENDING if counted.pending > replicas - least else Phase.RUNNING


def _succeeded(job: api.Job, counted: Tally) -> bool:
    """Return whether enough pods of a Job whose pods have all finished have succeeded.

    The minima of its tasks count unless the Job's own is less than their sum, as when it is given and theirs are not.
    """
    spec = job.spec
    minima = {task.name: task.min_available or 0 for task in spec.tasks}
    least = sum(minima.values()) if spec.min_available is None else spec.min_available
    of_tasks = counted.of_tasks()
    done = {task: of_tasks.get(task, {}).get("Succeeded", 0) for task in minima}
    if least >= sum(minima.values()) and any(done[task] < few for task, few in minima.items()):
        return False
    return counted.succeeded >= (least if spec.min_success is None else spec.min_success)


def _after_restarting(job: api.Job, counted: Tally) -> Phase:
    """Start again once the old pods are gone, or give up after too many tries."""
    if job.status.retry_count >= (job.spec.max_retry or 0):
        return Phase.FAILED
    if counted.alive > counted.terminating or counted.succeeded or counted.failed:
        return Phase.RESTARTING
    total = sum(task.replicas for task in job.spec.tasks)
    return Phase.PENDING if total - counted.terminating >= least_of(job.spec) else Phase.RESTARTING


def phase_of(job: api.Job) -> Phase:
    """Return the phase of a Job. An absent or unknown one is Pending."""
    try:
        return Phase(job.status.state.phase)
    except ValueError:
        return Phase.PENDING


def startable(job: api.Job, counted: Tally) -> frozenset[str]:
    """Return the tasks whose dependencies have come far enough for their pods to be made."""
    least = {task.name: task.min_available or 0 for task in job.spec.tasks}
    counts = counted.of_tasks()

    def is_up(name: str) -> bool:
        phases = counts.get(name, {})
        return phases.get("Running", 0) + phases.get("Succeeded", 0) >= least.get(name, 0)

    return frozenset(task.name for task in job.spec.tasks if _may_start(task, is_up))


def _may_start(task: api.TaskSpec, is_up: Callable[[str], bool]) -> bool:
    if task.depends_on is None or not depends(task):
        return True
    came = (is_up(name) for name in task.depends_on.name)
    return any(came) if task.depends_on.iteration == "any" else all(came)
