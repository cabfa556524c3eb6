"""What an action knows of one job while it places the tasks of the job, and which tasks these are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import ConditionReason, Scope, Step, Verdict


@dataclass(slots=True)
class Attempt:
    """The tasks of a job that are left to place, last first, and what was tried in vain."""

    job: JobInfo
    tasks: list[TaskInfo]
    failed_roles: dict[str, ConditionReason] = field(default_factory=dict)
    """The roles that no node takes, with what they wait for."""
    has_room: bool = False
    """Whether anything of the job was placed in this turn, or keeps room until the session ends."""
    needed: TaskInfo | None = None
    """A task that no node takes and without which the gang cannot start."""
    placed: Sequence[TaskInfo] = ()
    """If the gang cannot start: the tasks that had a node."""
    found_room: Collection[str] = ()
    """The uids of these tasks, and of tasks that would have room later."""
    ended: str = ""
    """Why the search for a placement of the whole gang ended before it was through."""

    def role_refusal(self, task: TaskInfo) -> Verdict | None:
        """Return why a task is not tried: no node takes another one of its role. Idle members are tried."""
        role = task.spec.role
        if not role or role not in self.failed_roles or not is_busy(task):
            return None
        message = f'no node takes a task of role "{role}" of PodGroup "{self.job.key}"'
        shown_as = self.failed_roles[role]
        return Verdict(Step.PREDICATE, "predicates", Scope.JOB, "FailedScheduling", message, shown_as=shown_as)

    def fail(self, task: TaskInfo) -> None:
        """Note that no node takes a task, nor others of its role."""
        self.failed_roles[task.spec.role] = waits_for(task)
        if not self.can_still_start():
            self.needed = task

    def can_still_start(self) -> bool:
        """True if the gang can become ready although some role failed on all nodes (Volcano's rule).

        Idle members of such a role are still tried (*ours*: Volcano leaves them to backfill).
        """
        job, failed = self.job, self.failed_roles
        if job.spec.min_available == len(job.tasks):
            return False
        idle = Counter(task.spec.role for task in self.tasks if not is_busy(task) and task.spec.role in failed)
        if job.spec.min_roles and not job.judges_roles:
            left = sum(1 for task in job.waiting.values() if task.spec.role not in failed)
            return job.ready_count + left + idle.total() >= job.spec.min_available
        least = ((role, job.spec.min_roles.get(role, 0)) for role in failed)
        return all(not number or job.ready_in_role(role) + idle[role] >= number for role, number in least)


def tasks_of(session: Session, job: JobInfo, promised: Iterable[TaskInfo] = ()) -> list[TaskInfo]:
    """Return what is to be placed of a job, last first: idle pods alone are left to backfill."""
    waiting = [*job.schedulable(), *promised]
    if job.spec.min_available <= 1:
        waiting = [task for task in waiting if not task.best_effort]
    return last_first(session, waiting) if waiting else waiting


def last_first(session: Session, tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
    """Return tasks of one job, those last that are tried first: idle members come after all others.

    They fit wherever there is a slot, and what they could take from others of their gang is that slot.
    """
    ordered = session.in_order(tasks)[::-1]
    if len({task.template.id for task in ordered}) > 1:
        ordered.sort(key=is_busy)
    return ordered


def is_busy(task: TaskInfo) -> bool:
    """True if a task asks for anything beside a pod slot. One that does not is idle."""
    return not task.template.best_effort


def has_history(task: TaskInfo) -> bool:
    """True if a task is not as its equals are: room is being made for it, or it has or had the gate of its queue."""
    return bool(task.nominated or task.spec.admission_gate or task.ungated)


def waits_for(task: TaskInfo) -> ConditionReason:
    """Return what a pod that was refused waits for."""
    return task.refusal.condition_reason if task.refusal is not None else ConditionReason.UNSCHEDULABLE


Place: TypeAlias = Callable[[Session, QueueInfo, Attempt], Statement | None]
"""Places tasks of a job until it is ready. Returns what is to be committed, or None if the job cannot start now."""
