"""backfill: place tasks that ask for nothing, wherever the predicates let them; those of gangs are placed by allocate.

Each queue is drained before the next. A task whose job is not ready, as it waits for another role, takes its place in
this session only, and is bound should the job become ready.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from actions.of_volcano import PREDICATE_ERROR_CACHE
from actions.promises import choose, take
from actions.turns import Turns, considered
from volsched.framework.config.arguments import Argument
from volsched.framework.session import Session
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import Scope, Step, Verdict


class BackfillAction:
    """Place best-effort tasks."""

    name: ClassVar[str] = "backfill"
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (PREDICATE_ERROR_CACHE,)

    def execute(self, session: Session) -> None:
        """Go through queues and jobs in their order."""
        promised = session.nominations.by_job(lambda task: task.best_effort)
        found = considered(session, session.best_effort_jobs(), promised)
        waiting = {job.key: tasks for job in found if (tasks := _best_effort(job, promised.get(job, ())))}
        turns = Turns.of(session, [session.jobs[key] for key in waiting])
        while (queue := turns.next_queue(session)) is not None:
            for job in turns.rest_of(queue):
                with session.about(job):
                    for task in session.in_order(waiting[job.key]):
                        self._place(session, task)
                    _report_gang_waits(session, job)
                if session.is_long:
                    turns.put_back(queue)
                    break

    def _place(self, session: Session, task: TaskInfo) -> None:
        if task.spec.admission_gate:
            session.lift_gate(task)
            return
        refusal = session.before_nodes(task)
        if refusal is None:
            room = choose(session, task)
            if room is None:
                session.refuse_by_nodes(task, Step.BACKFILL)
                return
            statement = session.statement()
            refusal = take(session, statement, task, room)
            if refusal is None:
                session.stand_alone(statement, task)
        if refusal is not None:
            session.refuse(task, refusal)


def _best_effort(job: JobInfo, promised: Iterable[TaskInfo]) -> list[TaskInfo]:
    return [*(task for task in job.schedulable() if task.best_effort), *promised]


def _report_gang_waits(session: Session, job: JobInfo) -> None:
    if session.is_ready(job):
        return
    message = f'gang of PodGroup "{job.key}" waits: {job.spec.min_available} of its pods have to start together'
    verdict = Verdict(Step.GANG, "gang", Scope.JOB, "FailedScheduling", message)
    for task in job.tasks.values():
        if task.best_effort and task.node is not None and task.refusal is None:
            session.refuse(task, verdict)
