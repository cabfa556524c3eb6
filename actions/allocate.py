"""allocate: give nodes to tasks that ask for something, queue by queue, gang by gang.

The best job of the best queue places what makes it ready, then everything goes back in line: a gang starts whole,
and what it wants beyond its minimum takes turns with the others, one task at a time.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from actions.job_order import Turns, considered, promote_all
from actions.placement import Attempt, place
from volsched.framework.session import Session
from volsched.model.job import NOT_PARKED, Hopeless, JobInfo
from volsched.model.queue import QueueInfo
from volsched.model.task import TaskInfo
from volsched.model.verdict import Scope, Verdict


class AllocateAction:
    """Place tasks on nodes."""

    name: ClassVar[str] = "allocate"

    def execute(self, session: Session) -> None:
        """Let queues take turns until no job is left that could go on."""
        if not session.configuration.has_enqueue:
            promote_all(session)
        attempts = _attempts(session)
        turns = Turns.of(session, [attempt.job for attempt in attempts.values()])
        while turns.queues:
            queue = turns.queues.pop()
            jobs = turns.jobs[queue.name]
            if not jobs:
                continue
            overused = session.overused(queue)
            if overused is not None:
                while jobs:
                    self._redeem_only(session, queue, attempts[jobs.pop().key], overused)
                continue
            job = jobs.pop()
            if self._go_on(session, queue, attempts[job.key]):
                jobs.push(job)
            turns.queues.push(queue)

    def _redeem_only(self, session: Session, queue: QueueInfo, attempt: Attempt, overused: Verdict) -> None:
        """A queue that has its due gets nothing more; what it was promised counts as held, and may be taken."""
        attempt.tasks = [task for task in attempt.tasks if session.was_promised_before(task)]
        if not attempt.tasks:
            session.refuse_job(attempt.job, overused)
        while attempt.tasks and self._go_on(session, queue, attempt):
            pass

    def _go_on(self, session: Session, queue: QueueInfo, attempt: Attempt) -> bool:
        """Place what makes the job ready; whether there is more to place."""
        attempt.moved = False
        statement = place(session, queue, attempt)
        if statement is not None:
            session.refuse_job(attempt.job, None)
            statement.commit(attempt.job)
        nothing_stands = not attempt.held if statement is None else not attempt.moved
        if nothing_stands and not _helped_by_placements(attempt.job):
            attempt.job.parked_at = session.cluster.relief
            attempt.job.hopeless_as = _hopeless_kind(session, attempt.job)
        return statement is not None and bool(attempt.tasks)


def _attempts(session: Session) -> dict[str, Attempt]:
    """Jobs with tasks to place, those left out that failed when the cluster was no fuller than now."""
    attempts: dict[str, Attempt] = {}
    promised = _promised(session)
    for job in considered(session, _worth_a_look(session), promised):
        tasks = [task for task in job.schedulable() if not task.best_effort] + promised.get(job, [])
        if tasks:
            attempts[job.key] = Attempt(job, session.in_order(tasks)[::-1])
    return attempts


def _worth_a_look(session: Session) -> list[JobInfo]:
    """Jobs that something may have helped since they failed.

    When all that a job waits for is room for one kind of pod, and there still is none, nothing has: thousands of jobs
    may wait for the same, and it is asked once. When nodes say something else of themselves, why there is none may have
    another reason, which is told.
    """
    cluster, relief = session.cluster, session.cluster.relief
    waiting = [job for job in cluster.waiting.values() if job.parked_at != relief]
    if session.promised():  # a promise that is not taken up leaves room to others
        return waiting
    hopeless: dict[Hopeless, bool] = {}
    found: list[JobInfo] = []
    for job in waiting:
        kind = job.hopeless_as
        if kind is None or job.parked_at == NOT_PARKED or not _is_still_of_kind(session, job, kind[0]):
            found.append(job)
            continue
        if kind not in hopeless:
            first = next(iter(job.waiting.values()))
            hopeless[kind] = kind == (kind[0], cluster.facts_version) and session.engine.hopeless(first)
        if hopeless[kind]:
            job.parked_at = relief
        else:
            found.append(job)
    return found


def _is_still_of_kind(session: Session, job: JobInfo, kind: Hashable) -> bool:
    """Whether all that a job waits to place is what it was, as its claims may say something else by now."""
    first = next(iter(job.waiting.values()))
    return kind == first.template.id or all(session.engine.kind(task) == kind for task in job.waiting.values())


def _hopeless_kind(session: Session, job: JobInfo) -> Hopeless | None:
    """The kind of all pods that a job waits to place, if it was nodes that had no room for it."""
    tasks = list(job.waiting.values())
    if not tasks:
        return None
    first = tasks[0]
    alike = all(task.template is first.template and task.nominated == "" for task in tasks)
    refused_by_nodes = any(task.refusal is not None and task.refusal.scope is Scope.NODE for task in tasks)
    if not (alike and refused_by_nodes and session.engine.hopeless(first)):
        return None
    kind = session.engine.kind(first)
    return (kind, session.cluster.facts_version) if _is_still_of_kind(session, job, kind) else None


def _promised(session: Session) -> dict[JobInfo, list[TaskInfo]]:
    """Tasks for which earlier sessions made room: they may find it free now."""
    found: dict[JobInfo, list[TaskInfo]] = {}
    for task in session.promised():
        if task.job is not None and not task.best_effort:
            found.setdefault(task.job, []).append(task)
    return found


def _helped_by_placements(job: JobInfo) -> bool:
    """Whether another pod's placement could let this job in: pod affinity and spread can be met that way."""
    return any(task.template.affinity or task.template.spread for task in job.waiting.values())
