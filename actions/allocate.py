"""allocate: give nodes to tasks that ask for something, queue by queue, gang by gang.

The best job of the best queue places what makes it ready, then everything goes back in line: a gang starts whole,
and what it wants beyond its minimum takes turns with the others, one task at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from actions.gang_search.searches import ARGUMENTS as OF_SEARCHES
from actions.gang_search.searches import PutOff, Searches
from actions.held_up import look_ahead
from actions.job_order import Turns, considered, promote_all
from actions.of_volcano import PREDICATE_ERROR_CACHE
from actions.placement import Attempt, place
from actions.retry import Retry
from volsched.framework.config.arguments import Argument
from volsched.framework.session import Session
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import Verdict


class AllocateAction:
    """Place tasks on nodes."""

    name: ClassVar[str] = "allocate"
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (PREDICATE_ERROR_CACHE, *OF_SEARCHES)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments

    def execute(self, session: Session) -> None:
        """Let queues take turns until no job is left that could go on."""
        if not session.configuration.has_enqueue:
            promote_all(session)
        searches = Searches(session, self._arguments, PutOff.of(session))
        attempts = _attempts(session, searches)
        if not attempts:
            return
        searches.namespaces = lambda: {attempt.job.namespace for attempt in attempts.values()}
        self._take_turns(session, attempts)
        for job in searches.in_turns():
            self._try_again(session, Attempt(job, _tasks_of(session, job), Retry.of(session), searches=searches))
        searches.end()

    def _take_turns(self, session: Session, attempts: Mapping[str, Attempt]) -> None:
        """Let queues take turns until no job is left that could go on."""
        turns = Turns.of(session, [attempt.job for attempt in attempts.values()])
        while turns.queues:
            queue = turns.next_queue(session)
            jobs = turns.jobs[queue.name]
            if not jobs:
                continue
            overused = session.rules.overused(queue)
            if overused is not None:
                while jobs:
                    with session.about(job := jobs.pop()):
                        self._go_on_with_its_due(session, queue, attempts[job.key], overused)
                continue
            job, has_more = jobs.pop(), False
            with session.about(job):
                session.refusals.refuse_job(job, None)
                has_more = self._go_on(session, queue, attempts[job.key])
            if has_more:
                jobs.push(job)
            turns.queues.push(queue)

    def _try_again(self, session: Session, attempt: Attempt) -> None:
        """Place a job for which no search could be made when it had its turn."""
        queue = session.cluster.queues.get(attempt.job.queue)
        if queue is None or not attempt.tasks or session.rules.overused(queue) is not None:
            return
        with session.about(attempt.job):
            while self._go_on(session, queue, attempt):
                pass

    def _go_on_with_its_due(self, session: Session, queue: QueueInfo, attempt: Attempt, overused: Verdict) -> None:
        """A queue that has its due gets nothing more of it; what it was promised counts as held, and may be taken.

        Pods that ask for devices alone take nothing of a due, which is in amounts.
        """
        wanted = len(attempt.tasks)
        attempt.tasks = [t for t in attempt.tasks if session.nominations.is_kept(t) or not t.template.request]
        is_held_up = len(attempt.tasks) < wanted
        while attempt.tasks and self._go_on(session, queue, attempt):
            pass
        if is_held_up:
            session.refusals.refuse_job(attempt.job, overused)

    def _go_on(self, session: Session, queue: QueueInfo, attempt: Attempt) -> bool:
        """Place what makes the job ready; whether there is more to place."""
        attempt.moved = False
        statement = place(session, queue, attempt)
        if statement is not None:
            session.refusals.refuse_job(attempt.job, None)
            statement.commit(attempt.job)
        if statement is None or not attempt.tasks:
            look_ahead(session, queue, attempt.job)
        nothing_stands = not attempt.held if statement is None else not attempt.moved
        if nothing_stands and not _helped_by_placements(attempt.job):
            attempt.retry.give_up(session, attempt.job, placed=len(attempt.job.fitting) if statement is None else 0)
        return statement is not None and bool(attempt.tasks)


def _tasks_of(session: Session, job: JobInfo) -> list[TaskInfo]:
    """What is to be placed of a job, last first."""
    return session.rules.in_order([task for task in job.schedulable() if not task.best_effort])[::-1]


def _attempts(session: Session, searches: Searches) -> dict[str, Attempt]:
    """Jobs with tasks to place, those left out that failed when the cluster was no fuller than now."""
    attempts: dict[str, Attempt] = {}
    retry = Retry.of(session)
    retry.begin()
    promised = _promised(session)
    jobs = retry.worth_a_look(session)
    if searches.put_off.jobs:
        jobs += searches.take_put_off()
    for job in considered(session, jobs, promised):
        tasks = [task for task in job.schedulable() if not task.best_effort] + promised.get(job, [])
        with session.about(job):
            if tasks:
                attempts[job.key] = Attempt(job, session.rules.in_order(tasks)[::-1], retry, searches=searches)
    session.job_attempts += len(attempts)
    return attempts


def _promised(session: Session) -> dict[JobInfo, list[TaskInfo]]:
    """Tasks for which earlier sessions made room: they may find it free now."""
    found: dict[JobInfo, list[TaskInfo]] = {}
    for task in session.nominations.tasks():
        if task.job is not None and not task.best_effort:
            found.setdefault(task.job, []).append(task)
    return found


def _helped_by_placements(job: JobInfo) -> bool:
    """Whether another pod's placement could let this job in: pod affinity and spread can be met that way."""
    return any(task.template.affinity or task.template.spread for task in job.waiting.values())
