"""priority: order jobs and tasks by their priority classes (Volcano's plugin of that name)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from volsched.plugin import JobInfo, JobOrder, JobStarving, Preemptable, Registrar, TaskInfo, TaskOrder


class PriorityPlugin:
    """Higher value first. Victims are strictly lower."""

    name: ClassVar[str] = "priority"

    def on_session_open(self, registrar: Registrar) -> None:
        """Register orders and votes."""
        registrar.register(
            TaskOrder(_task_key),
            JobOrder(_job_key),
            Preemptable(less_important),
            JobStarving(_wants_more),
        )


def _task_key(task: TaskInfo) -> int:
    return -task.spec.priority


def _job_key(job: JobInfo) -> int:
    return -job.priority


def _wants_more(job: JobInfo) -> bool:
    return job.ready_count + job.pipelined_count < len(job.tasks)


def less_important(task: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
    """Return candidates of jobs with a lower priority; in the task's own job, those with a lower task priority."""
    return [victim for victim in candidates if _is_less(victim, task)]


def _is_less(victim: TaskInfo, task: TaskInfo) -> bool:
    if victim.job is task.job:
        return victim.spec.priority < task.spec.priority
    return victim.victim_priority < task.eviction_priority
