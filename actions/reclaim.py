"""reclaim: a queue below its deserved share takes room back from queues above theirs.

First a job's minimum, as a gang. Then task by task, as long as the queue holds no more than it deserves with the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from actions.of_volcano import PREDICATE_ERROR_CACHE
from actions.turns import Turns
from actions.victims.candidate_nodes import CandidateNodes, is_evictable
from actions.victims.search import (
    ARGUMENTS,
    KEEP_BUDGETS,
    LEAST_COST,
    VictimSearch,
    fits_in_queue,
    preemptors,
    starving,
)
from actions.victims.searched import note_searched
from volsched.framework.config.arguments import Argument
from volsched.framework.native.gangs import may_preempt
from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo


class ReclaimAction:
    """Evict pods of other queues."""

    name: ClassVar[str] = "reclaim"
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (*ARGUMENTS, PREDICATE_ERROR_CACHE)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._keeps_budgets = bool(arguments[KEEP_BUDGETS])
        self._least_cost = bool(arguments[LEAST_COST])
        self._candidate_nodes: CandidateNodes

    def execute(self, session: Session) -> None:
        """Let the best job of the best queue reclaim, then everything goes back in line."""
        jobs = starving(session, partial(_is_more_deserved, session))
        self._candidate_nodes = CandidateNodes(session)
        turns = Turns.of(session, jobs, partial(_place, session))
        left: dict[str, list[TaskInfo]] = {}  # of each job, last first
        while turns.queues:
            queue = turns.queues.pop()
            if not turns.jobs[queue.name]:
                continue
            job, has_more = turns.jobs[queue.name].pop(), False
            with session.about(job):
                has_more = self._reclaim(session, queue, job, left)
            if has_more:
                turns.jobs[queue.name].push(job)
            turns.queues.push(queue)
        note_searched(session, jobs)

    def _reclaim(self, session: Session, queue: QueueInfo, job: JobInfo, left: dict[str, list[TaskInfo]]) -> bool:
        """Take room for what a job starts with, or for one task more. Return True if there is more to be taken."""
        if job.key not in left:
            left[job.key] = preemptors(session, job)
        tasks = left[job.key]
        if session.is_starving(job):
            return self._reclaim_minimum(session, queue, job, tasks)
        return session.may_wait(job) and self._reclaim_one_more(session, queue, tasks)

    def _reclaim_minimum(self, session: Session, queue: QueueInfo, job: JobInfo, tasks: list[TaskInfo]) -> bool:
        """Take room for the tasks of a job as a gang. Return True if it has it, and more tasks."""
        statement = session.statement()
        while tasks and session.is_starving(job):
            self._take_room(session, statement, queue, tasks.pop())
        if not session.may_wait(job):
            statement.discard()
            return False
        statement.commit()
        return bool(tasks)

    def _reclaim_one_more(self, session: Session, queue: QueueInfo, tasks: list[TaskInfo]) -> bool:
        """Take room for the next task with which the queue has no more than its deserved share.

        Return True if there are more tasks.

        Tasks that are equal to one for which there is nothing to be had are passed over.
        """
        refused: set[int] = set()
        while tasks:
            task = tasks.pop()
            if task.template.id in refused:
                continue
            statement = session.statement()
            is_within_deserved = session.is_within_deserved(queue, task) and not _has_room(session, queue, task)
            if is_within_deserved and self._take_room(session, statement, queue, task, by_share=True):
                statement.commit()
                return bool(tasks)
            statement.discard()
            refused.add(task.template.id)
        return False

    def _take_room(
        self, session: Session, statement: Statement, queue: QueueInfo, task: TaskInfo, *, by_share: bool = False
    ) -> bool:
        search = self._search(session, statement, queue, task, by_share=by_share)
        if search.takes_free_slot():
            return True
        is_allowed = task.spec.preempts if task.job is None or task.job.spec.native is None else may_preempt(task.job)
        if not is_allowed or not session.may_preempt(queue, [task]):
            return False
        return search.succeed()

    def _search(
        self, session: Session, statement: Statement, queue: QueueInfo, task: TaskInfo, *, by_share: bool
    ) -> VictimSearch:
        queues = session.queues

        def is_candidate(victim: TaskInfo) -> bool:
            if victim.job is None or victim.job.queue == queue.name:
                return False
            owner = queues.get(victim.job.queue)
            return owner is not None and owner.spec.reclaimable and is_evictable(victim)

        return VictimSearch(
            session,
            statement,
            task,
            is_candidate,
            session.reclaimable_by_share if by_share else session.reclaimable,
            fits_in_queue(session, queue, task),
            needs_candidates=True,
            keeps_budgets=self._keeps_budgets,
            least_cost=self._least_cost,
            whole_gangs=session.reclaims_for(task),
            candidate_nodes=self._candidate_nodes,
            where=self._candidate_nodes.of_others(queue.name),
        )


def _has_room(session: Session, queue: QueueInfo, task: TaskInfo) -> bool:
    """True if a task can be placed without anybody going for it, or once those have gone who are leaving anyway."""
    return session.allocatable_refusal(queue, task) is None and session.engine.best(task) is not None


def _is_more_deserved(session: Session, job: JobInfo) -> bool:
    """True if a job waits to place a task with which its queue would hold no more than it deserves."""
    queue, asked = session.queues[job.queue], set[int]()
    for task in job.schedulable():
        if task.template.id not in asked and session.is_within_deserved(queue, task):
            return True
        asked.add(task.template.id)
    return False


def _place(session: Session, job: JobInfo) -> tuple[Any, ...]:
    """Return the place of a job in its queue.

    Of equal jobs those go last that have their minimum, if only as a promise.
    """
    *keys, created, name = session.job_key(job)
    return (*keys, not session.is_starving(job), created, name)
