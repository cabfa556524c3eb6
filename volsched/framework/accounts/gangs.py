"""Who leaves together: a gang that would be left with fewer members than it works with goes as a whole.

A gang below its minimum holds what it has and gets nothing done, so taking one of its pods costs all of its work, and
gives back a part of what it holds.
"""

from __future__ import annotations

from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_CHOSEN


def departing(victim: TaskInfo) -> list[TaskInfo]:
    """Return everybody who goes if a victim does, it first."""
    job = victim.job
    if job is None or _goes_on_without(job, victim):
        return [victim]
    return [victim, *(task for task in job.tasks.values() if task is not victim and IS_CHOSEN[task.status])]


def _goes_on_without(job: JobInfo, victim: TaskInfo) -> bool:
    """Whether a job still has its minimum, and that of the victim's role, when a victim has gone."""
    if job.ready_count <= job.min_available:
        return False
    least = job.min_roles.get(victim.role, 0) if job.judges_roles else 0
    return not least or job.ready_in_role(victim.role) > least
