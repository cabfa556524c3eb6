"""Gangs that are evicted as a whole: those that would keep fewer members than their minimum.

A gang below its minimum holds amounts and makes no progress, so evicting one of its pods costs all of its work and
frees only a part. A native group states itself whether it goes as a whole (``disruptionMode``); otherwise its pods go
one by one.
"""

from __future__ import annotations

from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_CHOSEN


def unit_of(victim: TaskInfo) -> list[TaskInfo]:
    """Return the pods that must be evicted with a victim, it first: all of a native group that goes as a whole."""
    group = victim.job.spec.native if victim.job is not None else None
    return _all_with(victim) if group is not None and group.goes_whole else [victim]


def departing(victim: TaskInfo) -> list[TaskInfo]:
    """Return the pods that leave with a victim, the victim first."""
    job = victim.job
    if job is not None and job.spec.native is not None:
        return unit_of(victim)
    if job is None or _goes_on_without(job, victim):
        return [victim]
    return _all_with(victim)


def _all_with(victim: TaskInfo) -> list[TaskInfo]:
    members = victim.job.tasks.values() if victim.job is not None else ()
    return [victim, *(task for task in members if task is not victim and IS_CHOSEN[task.status])]


def _goes_on_without(job: JobInfo, victim: TaskInfo) -> bool:
    """True if a job keeps its minimum, and that of the victim's role, after an eviction."""
    if job.ready_count <= job.spec.min_available:
        return False
    least = job.spec.min_roles.get(victim.spec.role, 0) if job.judges_roles else 0
    return not least or job.ready_in_role(victim.spec.role) > least
