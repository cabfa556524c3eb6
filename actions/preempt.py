"""preempt: inside a queue, jobs of higher priority take room from jobs of lower priority.

First between the jobs of one queue, as a gang: what was evicted stands only when the job then has room for its minimum
on the way. Then inside one job, task by task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from actions.of_volcano import OF_PREEMPT
from actions.victims.candidate_nodes import CandidateNodes, is_evictable, nodes_of
from actions.victims.cost import running_of
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
from actions.victims.spare import spare
from volsched.framework.config.arguments import Argument
from volsched.framework.dispatch.ordering import Heap
from volsched.framework.native.gangs import may_preempt
from volsched.framework.native.topology import Topology
from volsched.framework.rules import JobPipelined
from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo


class PreemptAction:
    """Evict less important pods of the same queue."""

    name: ClassVar[str] = "preempt"
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (*ARGUMENTS, *OF_PREEMPT)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._keeps_budgets = bool(arguments[KEEP_BUDGETS])
        self._least_cost = bool(arguments[LEAST_COST])
        self._candidate_nodes: CandidateNodes

    def execute(self, session: Session) -> None:
        """Go through the queues in order."""
        jobs = starving(session)
        self._candidate_nodes = CandidateNodes(session)
        queues: dict[str, list[JobInfo]] = {}
        for job in jobs:
            queues.setdefault(job.queue, []).append(job)
        for queue in sorted((session.queues[name] for name in queues), key=session.queue_key):
            self._between_jobs(session, queue, queues[queue.name])
            for job in sorted(queues[queue.name], key=session.job_key):
                with session.about(job):
                    if not job.is_native:  # members of a group do not make room for one another
                        self._within_job(session, queue, job)
        note_searched(session, jobs)

    def _between_jobs(self, session: Session, queue: QueueInfo, jobs: list[JobInfo]) -> None:
        heap = Heap(session.job_key, jobs)
        tasks = {job.key: preemptors(session, job) for job in jobs}
        while heap:
            job, has_more = heap.pop(), False
            with session.about(job):
                has_more = self._make_room(session, queue, job, tasks[job.key])
            if has_more:
                heap.push(job)

    def _make_room(self, session: Session, queue: QueueInfo, job: JobInfo, tasks: list[TaskInfo]) -> bool:
        """Make room for a job's tasks as a gang. Return True if there is more to be made."""
        if not may_preempt(job):
            return False
        if not self._finds_domain(session, queue, job, tasks):
            return False
        statement = session.statement()
        made = self._feed(session, statement, queue, job, tasks)
        if not _can_start(session, job):
            statement.discard()
            return False
        if job.is_native:
            spare(session, statement, queue)
        statement.commit()
        return made

    def _finds_domain(self, session: Session, queue: QueueInfo, job: JobInfo, tasks: list[TaskInfo]) -> bool:
        """Pin a group with a topology key to the domain where the fewest have to go for it.

        Return True if there is one.
        """
        topology = Topology.of(session)
        if job.spec.native is None or not job.spec.native.topology_key or topology.is_settled(job):
            return True
        found = [(self._count_victims(session, queue, job, tasks, value), value) for value in topology.candidates(job)]
        best = min(((counts, value) for counts, value in found if counts is not None), default=None)
        if best is not None:
            topology.pin(job, best[1])
        return best is not None

    def _count_victims(
        self, session: Session, queue: QueueInfo, job: JobInfo, tasks: list[TaskInfo], value: str
    ) -> tuple[int, int] | None:
        """Return how many would go for a group in a domain, and run.

        None when it cannot have what it starts with there.
        """
        Topology.of(session).pin(job, value)
        with session.without_requeue():
            trial = session.statement()
            self._feed(session, trial, queue, job, list(tasks))
            victims = [operation.task for operation in trial.operations if operation.kind == "evict"]
            is_pipelined = session.may_wait(job)
            trial.discard()  # victims run again
        return (len(victims), running_of(victims)) if is_pipelined else None

    def _feed(
        self, session: Session, statement: Statement, queue: QueueInfo, job: JobInfo, tasks: list[TaskInfo]
    ) -> bool:
        """Make room for a job's tasks until it starves no more. Return True if the last one that was tried got some."""
        made = False
        while tasks and session.is_starving(job):
            task = tasks.pop()
            made = (task.spec.preempts or job.is_native) and self._search(
                session, statement, queue, task, inside=False
            ).succeed()
        return made

    def _within_job(self, session: Session, queue: QueueInfo, job: JobInfo) -> None:
        tasks = preemptors(session, job)
        alone = not nodes_of(job) and not session.nominations.tasks()
        while tasks:
            task = tasks.pop()
            if alone and session.engine.best(task) is None:
                return  # no pod of the job could go, and no room is being freed either
            statement = session.statement()
            if not task.spec.preempts or not self._search(session, statement, queue, task, inside=True).succeed():
                return
            if task.nominated or any(operation.kind != "pipeline" for operation in statement.operations):
                statement.commit()
            else:
                statement.hold()  # no pod goes for it, and its gang may not start

    def _search(
        self, session: Session, statement: Statement, queue: QueueInfo, task: TaskInfo, *, inside: bool
    ) -> VictimSearch:
        job = task.job

        def is_candidate(victim: TaskInfo) -> bool:
            if victim.job is None or (victim.job is job) != inside or victim.job.queue != queue.name:
                return False
            return is_evictable(victim)

        return VictimSearch(
            session,
            statement,
            task,
            is_candidate,
            session.preemptable,
            fits_in_queue(session, queue, task),
            keeps_budgets=self._keeps_budgets,
            least_cost=self._least_cost,
            quiet=inside,
            whole_gangs=not inside and session.preempts_for(task),
            candidate_nodes=self._candidate_nodes,
            where=nodes_of(job) if inside and job is not None else self._candidate_nodes.of_queue(queue.name),
        )


def _can_start(session: Session, job: JobInfo) -> bool:
    """True if a job has, or was promised, what it starts with.

    Members that ask for nothing count as if they had room (as with Volcano), but not where they were tried in vain.
    """
    if not session.may_wait(job):
        return False
    tried_in_vain = any(task.best_effort and task.spec.preempts for task in job.schedulable())
    return not (tried_in_vain and job.is_starving and session.has_rule(JobPipelined))
