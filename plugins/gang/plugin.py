"""gang: a job starts with its minimum of members (and of each role), or not at all (Volcano's plugin of that name)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from volsched.framework.outcome.groups import is_kept_out
from volsched.plugin import (
    PERMIT,
    Ballot,
    ConditionReason,
    JobInfo,
    JobOrder,
    JobPipelined,
    JobReady,
    JobStarving,
    JobValid,
    PodGroupCondition,
    Preemptable,
    Reclaimable,
    Registrar,
    Scope,
    Session,
    SessionClose,
    Step,
    TaskInfo,
    TaskStatus,
    Verdict,
    Vote,
    about_group,
    gang_message,
    never,
)

UNSCHEDULABLE, SCHEDULED = "Unschedulable", "Scheduled"
READY = PodGroupCondition(SCHEDULED, "True", "tasks in gang are ready to be scheduled", "")


class GangPlugin:
    """Judges whether a job is complete, ready, waiting or starving, and reports that on its PodGroup."""

    name: ClassVar[str] = "gang"

    def on_session_open(self, registrar: Registrar) -> None:
        """Register the gang's rules."""
        elastic = registrar.session.rules.elastic
        registrar.register(
            JobValid(incompleteness),
            JobOrder(_ready_last),
            JobReady(is_ready, for_each_pod=never),
            JobPipelined(_may_wait),
            JobStarving(_starves),
            Preemptable(lambda task, them: _may_go(task, them, whole=elastic.preempts_for(task))),
            Reclaimable(lambda task, them: _may_go(task, them, whole=elastic.reclaims_for(task))),
            SessionClose(partial(note_conditions, registrar.session)),
        )


def incompleteness(job: JobInfo) -> Verdict | None:
    """Return why the job has too few members that can work."""
    if not job.roles_valid():
        lacking = ", ".join(sorted(role for role, least in job.spec.min_roles.items() if _valid_in(job, role) < least))
        message = f'PodGroup "{job.key}" has not enough pods of role {lacking} for its minimum'
        return _incomplete("NotEnoughPodsOfTask", message)
    if job.valid_count < job.spec.min_available:
        message = f'PodGroup "{job.key}" has {job.valid_count} of the {job.spec.min_available} pods that it starts with'
        return _incomplete("NotEnoughTasks", message)
    return None


def _incomplete(reason: str, message: str) -> Verdict:
    shown_as = ConditionReason.GANG_INCOMPLETE
    return Verdict(Step.GANG, "gang", Scope.JOB, reason, message, resolvable=False, shown_as=shown_as)


def _valid_in(job: JobInfo, role: str) -> int:
    return sum(1 for task in job.tasks.values() if task.spec.role == role and task.status is not TaskStatus.FAILED)


def _ready_last(job: JobInfo) -> bool:
    return job.is_ready


def is_ready(job: JobInfo) -> bool:
    """True if the job and each of its roles has its minimum."""
    return job.is_ready and job.roles_ready()


def _may_wait(job: JobInfo) -> Ballot:
    return PERMIT if job.is_pipelined and job.roles_pipelined() else Ballot(Vote.REJECT)


def _starves(job: JobInfo) -> bool:
    return job.is_starving


def _may_go(task: TaskInfo, candidates: Sequence[TaskInfo], *, whole: bool) -> list[TaskInfo]:
    """Return candidates that leave their gang its minimum. All others, too, if gangs go as a whole first."""
    if not whole:
        return above_minimum(task, candidates)
    others = [victim for victim in candidates if victim.job is not task.job]
    return [*others, *above_minimum(task, [victim for victim in candidates if victim.job is task.job])]


def above_minimum(_: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
    """Candidates whose job keeps strictly more than its minimum, each counted as gone for the next."""
    left: dict[str, int] = {}
    chosen: list[TaskInfo] = []
    for victim in candidates:
        job = victim.job
        if job is None or job.is_native:  # a disruption mode states whether those go one by one
            chosen.append(victim)
            continue
        ready = left.setdefault(job.key, job.ready_count)
        if ready > job.spec.min_available:
            left[job.key] = ready - 1
            chosen.append(victim)
    return chosen


def note_conditions(session: Session) -> None:
    """Report on every PodGroup that changed whether its gang can start."""
    for job in sorted(session.cluster.queue_cache.dirty_jobs.values(), key=lambda job: job.key):
        if not job.spec.has_group or job.is_native or not job.tasks or _nobody_looked_at(session, job):
            continue
        if is_ready(job) and not is_kept_out(job):
            if READY not in job.conditions:
                session.record_event(about_group(job, "Normal", SCHEDULED, "pod group is ready"))
            session.refusals.set_conditions(
                job, (*(c for c in job.conditions if c.type not in (UNSCHEDULABLE, SCHEDULED)), READY)
            )
        elif not _only_waits_for_terminating(job):
            message = gang_message(job)
            session.refusals.cannot_start(job, PodGroupCondition(UNSCHEDULABLE, "True", "NotEnoughResources", message))


def _nobody_looked_at(session: Session, job: JobInfo) -> bool:
    """True if a job's queue does not exist (yet); the scheduler reports that after a moment."""
    return job.queue not in session.cluster.queues and job.refusal is None


def _only_waits_for_terminating(job: JobInfo) -> bool:
    """True if the gang is short only because members are terminating, and no pending member replaces them."""
    counts = job.counts
    leaving = sum(1 for t in job.tasks.values() if t.status is TaskStatus.RELEASING and t.node is not None)
    waiting = counts[TaskStatus.PENDING] + counts[TaskStatus.PIPELINED]
    return leaving > 0 and not waiting and job.ready_count + leaving >= job.spec.min_available
