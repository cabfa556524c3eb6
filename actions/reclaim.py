"""reclaim: a queue below its due takes room back from queues above theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from actions.job_order import Turns
from actions.of_volcano import PREDICATE_ERROR_CACHE
from actions.retry import note_searched
from actions.victims.candidate_nodes import CandidateNodes, can_go
from actions.victims.search import (
    ARGUMENTS,
    KEEP_BUDGETS,
    LEAST_COST,
    VictimSearch,
    preemptors,
    starving,
    takes_on,
)
from volsched.framework.config.arguments import Argument
from volsched.framework.native.gangs import may_preempt
from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import TaskStatus


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
        jobs = starving(session, session.rules.elastic.is_due)
        self._candidate_nodes = CandidateNodes(session)
        turns = Turns.of(session, jobs)
        while turns.queues:
            queue = turns.queues.pop()
            if not turns.jobs[queue.name]:
                continue
            with session.about(job := turns.jobs[queue.name].pop()):
                self._reclaim(session, queue, job)
            turns.queues.push(queue)
        note_searched(session, jobs)

    def _reclaim(self, session: Session, queue: QueueInfo, job: JobInfo) -> None:
        statement = session.statement()
        tasks = preemptors(session, job)
        while tasks and session.rules.is_starving(job):
            self._take_room(session, statement, queue, tasks.pop())
        if session.rules.is_pipelined(job):
            statement.commit()
            self._reclaim_more(session, queue, job, tasks)
        else:
            statement.discard()

    def _reclaim_more(self, session: Session, queue: QueueInfo, job: JobInfo, tasks: list[TaskInfo]) -> None:
        """Go on task by task beyond a job's minimum, as long as its queue is below its due."""
        while tasks and session.rules.elastic.is_due(job):
            statement = session.statement()
            if not self._take_room(session, statement, queue, tasks.pop()):
                return
            statement.commit()

    def _take_room(self, session: Session, statement: Statement, queue: QueueInfo, task: TaskInfo) -> bool:
        is_allowed = task.preempts if task.job is None or task.job.native is None else may_preempt(task.job)
        if not is_allowed or not session.may_preempt(queue, [task]):
            return False
        return self._search(session, statement, queue, task).succeed()

    def _search(self, session: Session, statement: Statement, queue: QueueInfo, task: TaskInfo) -> VictimSearch:
        queues = session.cluster.queues

        def may_go(victim: TaskInfo) -> bool:
            if victim.status is not TaskStatus.RUNNING or victim.job is None or victim.job.queue == queue.name:
                return False
            owner = queues.get(victim.job.queue)
            return owner is not None and owner.reclaimable and can_go(victim)

        return VictimSearch(
            session,
            statement,
            task,
            may_go,
            session.rules.reclaimable,
            takes_on(session, queue, task),
            needs_candidates=True,
            keeps_budgets=self._keeps_budgets,
            least_cost=self._least_cost,
            whole=session.rules.elastic.reclaims_for(task),
            candidate_nodes=self._candidate_nodes,
            where=self._candidate_nodes.of_others(queue.name),
        )
