"""Placing the tasks of one job: as many as make it ready, or none.

The rules are those of Volcano's allocate: a task that its queue may not take on is passed over; after a task that no
node takes, it is asked whether the gang can still become ready; a role that failed on all nodes is not tried again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from actions.attempt import Attempt
from actions.domains import settle_domain
from actions.held_up import report_gang, same_role, waits_for
from actions.promises import promise
from actions.retry import FailedRoles, Retry, has_history
from actions.turns import is_busy, last_first
from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import TaskStatus
from volsched.model.verdict import Step


def tasks_of(job: JobInfo) -> list[TaskInfo]:
    """Return what is to be placed of a job: idle pods alone are left to backfill."""
    waiting = job.schedulable()
    return list(waiting) if job.spec.min_available > 1 else [task for task in waiting if not task.best_effort]


def place(session: Session, queue: QueueInfo, attempt: Attempt) -> Statement | None:
    """Place tasks until the job is ready. A statement to commit, or None when nothing of the job stands.

    A job that can only wait for room being freed keeps that room until the session ends. Where tasks one by one do not
    make the gang ready, a placement for all of it is searched for.
    """
    job = attempt.job
    statement = session.statement()
    if job.is_native:
        settle_domain(session, queue, job, attempt.tasks)
    attempt.given_up = False
    while attempt.tasks and not attempt.given_up:
        if _place_next(session, queue, statement, attempt):
            attempt.moved = True
            if session.is_ready(job):
                break
    if session.is_ready(job):
        return statement
    job.shortage = attempt.ended = ""
    placed = [operation.task for operation in statement.operations if operation.kind == "allocate"]
    found_room = {operation.task.uid for operation in statement.operations}
    attempt.held = session.may_wait(job)
    if attempt.held:
        report_gang(session, job, placed, attempt.tasks, found_room, attempt.ended)
        statement.hold()
        return None
    statement.discard()
    found = _search(session, queue, attempt, placed)
    if found is None:
        report_gang(session, job, placed, attempt.tasks, found_room, attempt.ended)
    return found


def _search(session: Session, queue: QueueInfo, attempt: Attempt, placed: Sequence[TaskInfo]) -> Statement | None:
    """Search for a placement of the whole gang. What is left of the job is tried one by one again."""
    job = attempt.job
    searches, failed = attempt.searches, attempt.failed
    if searches is None:
        return None
    if not placed and failed is not None and attempt.given_up:
        template = failed.template
        if not (template.affinity or template.spread):  # it is needed, and has no node though no member is anywhere
            searches.hopeless += len(job.tasks) > 1
            return None
    if session.nominations.held and any(session.nominations.is_kept(task) for task in job.tasks.values()):
        return None
    tasks = [task for task in job.schedulable() if not (task.best_effort or task.spec.admission_gate)]
    found, attempt.ended = searches.find(queue, job, session.in_order(tasks), placed)
    if found is not None:
        attempt.tasks = last_first(session, tasks_of(job))
        attempt.failed_roles, attempt.moved = FailedRoles(), True
    return found


def _place_next(session: Session, queue: QueueInfo, statement: Statement, attempt: Attempt) -> bool:
    """Try the next task, with as many of its equals as can be placed in the same step.

    Return True if it found a place.
    """
    task = attempt.tasks[-1]
    headroom = session.quota(queue, task)
    if headroom.refusal is not None:
        session.refuse(task, headroom.refusal)
    elif task.spec.admission_gate:
        session.lift_gate(task)
    elif task.spec.role and task.spec.role in attempt.failed_roles and is_busy(task):
        session.refuse(task, same_role(task, attempt.failed_roles.reason(task.spec.role)))
    else:
        return _place_equal(session, statement, attempt, headroom.batch)
    attempt.tasks.pop()
    return False


def _place_equal(session: Session, statement: Statement, attempt: Attempt, most: int) -> bool:
    """Place the next task, and at most so many with it that are equal. Return True if it found a place."""
    task = attempt.tasks[-1]
    if most > 1:
        most = 1 if task.spec.role in attempt.failed_roles else min(most, session.together(task))
    count = _place_on_nodes(session, statement, attempt.retry, _equal_tasks(attempt.tasks, most))
    del attempt.tasks[-(count or 1) :]
    if not count:
        attempt.failed = task
        attempt.failed_roles.add(task.spec.role, waits_for(task))
        attempt.given_up = not can_still_start(attempt)
    return count > 0


def _equal_tasks(tasks: Sequence[TaskInfo], most: int) -> list[TaskInfo]:
    """Return the next task, and those after it that differ in nothing but who they are."""
    first = tasks[-1]
    run = [first]
    if most < 2 or has_history(first):
        return run
    template, role, pending = first.template, first.spec.role, TaskStatus.PENDING
    for task in islice(reversed(tasks), 1, most):
        if task.template is not template or task.spec.role != role or task.status is not pending:
            break
        if has_history(task):
            break
        run.append(task)
    return run


def _place_on_nodes(session: Session, statement: Statement, retry: Retry, tasks: Sequence[TaskInfo]) -> int:
    """Put equal tasks on nodes, or promise the first one room; how many found a place."""
    task = tasks[0]
    session.nominations.release(task)
    refusal = session.pre_refusal(task) or retry.refusal_of_equal(session, task)
    if refusal is None:
        count, refusal = statement.place(tasks, session.places(tasks))
        if count:
            return count
    if refusal is None:
        node = session.later(task)
        if node is None:
            session.refuse_by_nodes(task, Step.PREDICATE)
            retry.note_refused(session, task)
            return 0
        refusal = promise(session, statement, task, node)
    if refusal is not None:
        session.refuse(task, refusal)
        return 0
    return 1


def can_still_start(attempt: Attempt) -> bool:
    """True if the gang can become ready although some role failed on all nodes (Volcano's rule).

    Idle members of such a role are still tried (*ours*: Volcano leaves them to backfill).
    """
    job, failed = attempt.job, attempt.failed_roles
    if job.spec.min_available == len(job.tasks):
        return False
    idle = Counter(task.spec.role for task in attempt.tasks if not is_busy(task) and task.spec.role in failed)
    if job.spec.min_roles and not job.judges_roles:
        left = sum(1 for task in job.waiting.values() if task.spec.role not in failed)
        return job.ready_count + left + idle.total() >= job.spec.min_available
    least = ((role, job.spec.min_roles.get(role, 0)) for role in failed)
    return all(not number or job.ready_in_role(role) + idle[role] >= number for role, number in least)
