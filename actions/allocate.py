"""allocate: give nodes to tasks that ask for something, queue by queue, gang by gang.

The best job of the best queue places what makes it ready, then everything goes back in line: a gang starts whole,
and what it wants beyond its minimum takes turns with the others, one task at a time.

Four modules have the path of an ordinary pod; read them in this order::

    allocate    the turns of queues, and what becomes of a job when it had its turn
    turns       which jobs are looked at, in which order
    attempt     the tasks of one job, and what was learnt about them
    placement   places these tasks: as many as make the job ready, or none

They ask the session, its rules and its engine (``volsched.framework``), and change the cluster in a statement.

What few jobs need is wrapped around ``placement.place``, which knows nothing of it. An ordinary job passes through::

    repair.placing.beside_kept_room   keeps room for gangs that have lost pods
    Searches.place                    searches for a placement of a whole gang, if one by one does not make it ready
    domains.place_in_domain           chooses a rack for a group of Kubernetes
    placement.place

Off the path: ``promises`` (room that a node will have later), ``held_up`` (what jobs that wait are told) and
``unschedulable`` (when they are tried again).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from actions.attempt import Attempt, Place, tasks_of
from actions.gang_search.searches import ARGUMENTS as OF_SEARCHES
from actions.gang_search.searches import Searches
from actions.held_up import report_waiting
from actions.of_volcano import PREDICATE_ERROR_CACHE
from actions.repair.placing import beside_kept_room
from actions.repair.rooms import DEFAULT_TIMEOUT, REPAIR_TIMEOUT, LostRooms
from actions.turns import Turns, considered, promote_all
from actions.unschedulable import UnschedulableJobs
from volsched.framework.config.arguments import Argument
from volsched.framework.registration import Registrar
from volsched.framework.session import Session
from volsched.model.job import JobInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import Verdict


class AllocateAction:
    """Place tasks on nodes."""

    name: ClassVar[str] = "allocate"
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (
        Argument(
            REPAIR_TIMEOUT,
            "duration",
            DEFAULT_TIMEOUT,
            "How long the room of a pod is kept that a gang has lost; 0s: not at all.",
        ),
        *OF_SEARCHES,
        PREDICATE_ERROR_CACHE,
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        self._repair_timeout = arguments[REPAIR_TIMEOUT]

    def on_session_open(self, registrar: Registrar) -> None:
        """Keep the room of pods that gangs have lost since the last session."""
        rooms = LostRooms.of(registrar.session, self._repair_timeout)
        rooms.open(registrar.session)
        if rooms.kept:
            from actions.repair.registration import register  # noqa: PLC0415 - few sessions keep room

            register(registrar, rooms)

    def execute(self, session: Session) -> None:
        """Let queues take turns until no job is left that could go on; then try those whose search was put off."""
        if not session.configuration.has_enqueue:
            promote_all(session)
        searches = Searches(session, self._arguments)
        attempts = _attempts(session, [*UnschedulableJobs.of(session).to_try(session), *searches.take_put_off()])
        if not attempts:
            return
        searches.jobs = [attempt.job for attempt in attempts.values()]
        lost = LostRooms.of(session)
        with beside_kept_room(lost, searches.place) as place:
            allocation = _Allocation(session, attempts, place, lost)
            allocation.take_turns()
            searches.end(allocation.try_again)


def _attempts(session: Session, jobs: Iterable[JobInfo]) -> dict[str, Attempt]:
    """Return by key those of the jobs that have tasks to place, and those that were promised room: it may be free."""
    attempts: dict[str, Attempt] = {}
    promised = session.nominations.by_job(lambda task: not (task.best_effort or task.backing_off))
    for job in considered(session, jobs, promised):
        with session.about(job):
            if tasks := tasks_of(session, job, promised.get(job, ())):
                attempts[job.key] = Attempt(job, tasks)
    session.stats.job_attempts += len(attempts)
    return attempts


class _Allocation:
    """The turns of one session: its jobs by key, how they are placed, and the room that gangs have lost."""

    def __init__(self, session: Session, attempts: Mapping[str, Attempt], place: Place, lost: LostRooms) -> None:
        self._session = session
        self._attempts = attempts
        self._place = place
        self._lost = lost

    def take_turns(self) -> None:
        """Let queues take turns until no job is left that could go on."""
        session = self._session
        turns = Turns.of(session, [attempt.job for attempt in self._attempts.values()])
        turns.goes_before = self._lost.precedence()
        while (queue := turns.next_queue(session)) is not None:
            overused = session.overused(queue)
            if overused is not None:
                self._end_turns(queue, turns, overused)
                continue
            job, has_more = turns.next_job(queue), False
            with session.about(job):
                session.clear_refusal(job)
                has_more = self._go_on(queue, self._attempts[job.key])
            turns.put_back(queue, job if has_more else None)

    def _go_on(self, queue: QueueInfo, attempt: Attempt) -> bool:
        """Place what makes the job ready, and commit it. Return True if there is more to place."""
        session, job = self._session, attempt.job
        statement = self._place(session, queue, attempt)
        if statement is not None:
            session.clear_refusal(job)
            statement.commit(job)
            if attempt.tasks:
                return True
        report_waiting(session, queue, attempt, is_ready=statement is not None)
        if not attempt.has_room:
            UnschedulableJobs.of(session).add(session, job, placed=len(attempt.placed))
        return False

    def _end_turns(self, queue: QueueInfo, turns: Turns, overused: Verdict) -> None:
        """Give the jobs of an overused queue their last turn, one after the other."""
        for job in turns.rest_of(queue):
            with self._session.about(job):
                self._go_on_without_amounts(queue, self._attempts[job.key], overused)

    def _go_on_without_amounts(self, queue: QueueInfo, attempt: Attempt, overused: Verdict) -> None:
        """Place tasks of an overused queue that take nothing more of its share; refuse the rest.

        Promised tasks count already, and tasks that request only devices take nothing of a share, which is in amounts.
        """
        session = self._session
        if self._lost.has_room(attempt.job):
            self._go_on(queue, attempt)  # the queue held as much a moment ago
        wanted = len(attempt.tasks)
        attempt.tasks = [t for t in attempt.tasks if session.nominations.is_kept(t) or not t.template.request]
        is_held_up = len(attempt.tasks) < wanted
        while attempt.tasks and self._go_on(queue, attempt):
            pass
        if is_held_up:
            session.refuse_job(attempt.job, overused)

    def try_again(self, job: JobInfo) -> None:
        """Place a job for which no search could be made when it had its turn."""
        session = self._session
        attempt, queue = Attempt(job, tasks_of(session, job)), session.queues.get(job.queue)
        if queue is None or not attempt.tasks or session.overused(queue) is not None:
            return
        with session.about(job):
            while self._go_on(queue, attempt):
                pass
