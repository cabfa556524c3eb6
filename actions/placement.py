"""Placing the tasks of one job: as many as make it ready, or none.

The rules are those of Volcano's allocate: a task that its queue may not take on is passed over; after a task that no
node takes, it is asked whether the gang can still become ready; a role that failed on all nodes is not tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from actions.attempt import Attempt, has_history
from actions.promises import promise_later
from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import TaskStatus


def place(session: Session, queue: QueueInfo, attempt: Attempt) -> Statement | None:
    """Place tasks until the job is ready. Return what is to be committed, or None if the job cannot start now.

    A job that can only wait for room being freed keeps that room until the session ends.
    """
    job, has_placed = attempt.job, False
    statement = session.statement()
    attempt.needed, attempt.placed = None, ()
    while attempt.tasks and attempt.needed is None:
        if _place_next(session, queue, statement, attempt):
            has_placed = True
            if session.is_ready(job):
                break
    if not session.is_ready(job):
        _end_without_start(session, statement, attempt)
        return None
    attempt.has_room = has_placed
    return statement


def _end_without_start(session: Session, statement: Statement, attempt: Attempt) -> None:
    """Keep the room of a gang that may wait for more, or take its tasks off their nodes. Note what had room."""
    job = attempt.job
    job.shortage = attempt.ended = ""
    attempt.placed = [operation.task for operation in statement.operations if operation.kind == "allocate"]
    attempt.found_room = {operation.task.uid for operation in statement.operations}
    attempt.has_room = session.may_wait(job)
    if attempt.has_room:
        statement.hold()
    else:
        statement.discard()


def _place_next(session: Session, queue: QueueInfo, statement: Statement, attempt: Attempt) -> bool:
    """Try the next task, with as many of its equals as can be placed in the same step.

    Return True if it found a place.
    """
    task = attempt.tasks[-1]
    quota = session.quota(queue, task)
    if quota.refusal is not None:
        session.refuse(task, quota.refusal)
    elif task.spec.admission_gate:
        session.lift_gate(task)
    elif (refusal := attempt.role_refusal(task)) is not None:
        session.refuse(task, refusal)
    else:
        count = _place_on_nodes(session, statement, _step(session, attempt, quota.batch))
        del attempt.tasks[-(count or 1) :]
        if not count:
            attempt.fail(task)
        return count > 0
    attempt.tasks.pop()
    return False


def _step(session: Session, attempt: Attempt, most: int) -> list[TaskInfo]:
    """Return the next task, and the equal ones after it that are placed in the same step: so many at most."""
    first = attempt.tasks[-1]
    step, template, role, pending = [first], first.template, first.spec.role, TaskStatus.PENDING
    if most > 1:
        most = 1 if role in attempt.failed_roles or has_history(first) else min(most, session.together(first))
    for task in islice(reversed(attempt.tasks), 1, max(1, most)):
        if task.template is not template or task.spec.role != role or task.status is not pending:
            break
        if has_history(task):
            break
        step.append(task)
    return step


def _place_on_nodes(session: Session, statement: Statement, tasks: Sequence[TaskInfo]) -> int:
    """Put equal tasks on nodes, or promise the first one room. Return how many found a place."""
    task = tasks[0]
    refusal = session.before_nodes(task)
    if refusal is None:
        count, refusal = statement.place(tasks, session.places(tasks))
        if count:
            return count
    if refusal is None:
        return promise_later(session, statement, task)
    session.refuse(task, refusal)
    return 0
