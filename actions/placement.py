"""Placing the tasks of one job: as many as make it ready, or none.

The rules are those of Volcano's allocate: a task that its queue may not take on is passed over; after a task that no
node takes, it is asked whether the gang can still become ready; a role that failed on all nodes is not tried again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice

from actions.domains import settle_domain
from actions.gang_search.searches import Searches
from actions.held_up import also_waits, waits_for, what_holds_up
from actions.job_order import is_busy, last_first
from actions.promises import choose, take
from actions.retry import FailedRoles, Retry, has_history
from volsched.framework.native.gangs import WAITS_FOR_GROUP
from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import IS_READY, TaskStatus
from volsched.model.verdict import ConditionReason, Scope, Step, Verdict


@dataclass(slots=True)
class Attempt:
    """What one session knows of one job: the tasks that are left, last first, and what was tried in vain."""

    job: JobInfo
    tasks: list[TaskInfo]
    retry: Retry
    failed_roles: FailedRoles = field(default_factory=FailedRoles)
    moved: bool = False
    """Whether anything of the job found a place."""
    held: bool = False
    """Whether the job keeps room in this session without being committed."""
    given_up: bool = False
    """Whether the gang cannot start with what is left to try."""
    one_by_one: PodTemplate | None = None
    """Tasks of this template could not be placed in one go."""
    ended: str = ""
    """Why the search for a placement of the whole gang ended before it was through."""
    failed: TaskInfo | None = None
    """The task that was tried last and that no node takes."""
    searches: Searches | None = None
    """The searches of the session for a placement of a whole gang; none are made without."""


def tasks_of(job: JobInfo) -> list[TaskInfo]:
    """Return what is to be placed of a job: idle pods alone are left to backfill."""
    waiting = job.schedulable()
    return list(waiting) if job.spec.min_available > 1 else [task for task in waiting if not task.best_effort]


def place(session: Session, queue: QueueInfo, attempt: Attempt) -> Statement | None:
    """Place tasks until the job is ready; a statement to commit, or None when nothing of the job stands.

    A job that can only wait for room being freed keeps that room until the session ends. Where tasks one by one do not
    make the gang ready, a placement for all of it is searched for.
    """
    job = attempt.job
    statement = session.statement()
    settle_domain(session, queue, job, attempt.tasks)
    attempt.given_up = False
    while attempt.tasks and not attempt.given_up:
        if _place_run(session, queue, statement, attempt) or _place_next(session, queue, statement, attempt):
            attempt.moved = True
            if session.rules.is_ready(job):
                break
    if session.rules.is_ready(job):
        return statement
    job.shortage = attempt.ended = ""
    placed = [operation.task for operation in statement.operations if operation.kind == "allocate"]
    found_room = {operation.task.uid for operation in statement.operations}
    attempt.held = session.rules.is_pipelined(job)
    if attempt.held:
        _report_who_waits(session, attempt, placed, found_room)
        statement.hold()
        return None
    statement.discard()
    found = _search(session, queue, attempt, placed)
    if found is None:
        _report_who_waits(session, attempt, placed, found_room)
    return found


def _search(session: Session, queue: QueueInfo, attempt: Attempt, placed: Sequence[TaskInfo]) -> Statement | None:
    """Search for a placement of the whole gang; what is left of the job is tried one by one again."""
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
    found, attempt.ended = searches.find(queue, job, session.rules.in_order(tasks), placed)
    if found is not None:
        attempt.tasks = last_first(session, tasks_of(job))
        attempt.failed_roles, attempt.moved = FailedRoles(), True
    return found


def _place_next(session: Session, queue: QueueInfo, statement: Statement, attempt: Attempt) -> bool:
    """Try the next task; whether it found a place."""
    task = attempt.tasks.pop()
    refusal = _queue_refusal(session, queue, task)
    if refusal is not None:
        session.refusals.refuse_task(task, refusal)
    elif task.spec.admission_gate:
        session.lift_gate(task)
    elif task.spec.role and task.spec.role in attempt.failed_roles and is_busy(task):
        session.refusals.refuse_task(task, _same_role(task, attempt.failed_roles.reason(task.spec.role)))
    elif _place_one(session, statement, attempt.retry, task):
        return True
    else:
        attempt.failed = task
        attempt.failed_roles.add(task.spec.role, waits_for(task))
        attempt.given_up = not can_still_start(attempt)
    return False


def _place_run(session: Session, queue: QueueInfo, statement: Statement, attempt: Attempt) -> bool:
    """Place as many of the next tasks as are equal and can be placed in one go; whether there were any."""
    tasks = attempt.tasks
    first = tasks[-1]
    if first.template is attempt.one_by_one or attempt.retry.refusal_of_equal(session, first) is not None:
        return False
    run = _equal_tasks(tasks, session.batch_size(queue, first)) if first.spec.role not in attempt.failed_roles else []
    placed = statement.allocate_run(run, session.engine.run(run)) if len(run) > 1 else 0
    if not placed:
        attempt.one_by_one = first.template
        return False
    del tasks[-placed:]
    return True


def _equal_tasks(tasks: Sequence[TaskInfo], most: int) -> list[TaskInfo]:
    """The next tasks, last first, that differ in nothing but who they are."""
    first = tasks[-1]
    template, role, pending = first.template, first.spec.role, TaskStatus.PENDING
    run: list[TaskInfo] = []
    for task in islice(reversed(tasks), max(0, most)):
        if task.template is not template or task.spec.role != role or task.status is not pending:
            break
        if has_history(task):
            break
        run.append(task)
    return run


def _queue_refusal(session: Session, queue: QueueInfo, task: TaskInfo) -> Verdict | None:
    """Why the queue may not take a task on; the room that the task itself was promised does not count against it."""
    refusal = session.allocatable_refusal(queue, task)
    if refusal is None or not session.nominations.is_kept(task):
        return refusal
    session.nominations.release(task)
    refusal = session.allocatable_refusal(queue, task)
    if refusal is not None:
        session.nominations.give_up(task)
    return refusal


def _place_one(session: Session, statement: Statement, retry: Retry, task: TaskInfo) -> bool:
    session.nominations.release(task)
    refusal = session.rules.pre_refusal(task)
    if refusal is not None:
        session.refusals.refuse_task(task, refusal)
        return False
    known = retry.refusal_of_equal(session, task)
    if known is not None:
        session.refusals.refuse_task(task, known)
        return False
    found = choose(session, task)
    if found is None:
        session.refuse_by_nodes(task, Step.PREDICATE)
        retry.note_refused(session, task)
        return False
    refusal = take(session, statement, task, found)
    if refusal is not None:
        session.refusals.refuse_task(task, refusal)
        return False
    return True


def can_still_start(attempt: Attempt) -> bool:
    """Whether the gang can become ready although some role failed on all nodes (Volcano's rule).

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


def _same_role(task: TaskInfo, found: ConditionReason) -> Verdict:
    message = f'no node takes a task of role "{task.spec.role}" of PodGroup "{task.job.key if task.job else ""}"'
    return Verdict(Step.PREDICATE, "predicates", Scope.JOB, "FailedScheduling", message, shown_as=found)


def _report_who_waits(
    session: Session, attempt: Attempt, placed: Sequence[TaskInfo], found_room: Collection[str]
) -> None:
    """Members that found a place wait for their gang: report that, and for what.

    ``found_room`` has the uids of all that found a place, now or once others have left.
    """
    job = attempt.job
    job.fitting = frozenset(task.uid for task in placed)
    others = [t for t in job.waiting.values() if t.refusal is not None and t.refusal.step is not Step.GANG]
    if found_room:
        others = [t for t in others if t.uid not in found_room]
    held_up = what_holds_up(job)
    explained = [t for t in others if waits_for(t) is held_up] or others
    origin = min(explained, key=lambda t: t.key).refusal if explained else None
    for task in [*placed, *attempt.tasks]:
        session.refusals.refuse_task(task, _gang_waits(job, len(placed), origin, held_up, attempt.ended))
    if origin is not None and held_up is not ConditionReason.UNSCHEDULABLE:
        for task in others:
            also_waits(session, task, f"its gang waits for another, too: {origin.message}", held_up)


def _gang_waits(job: JobInfo, placed: int, origin: Verdict | None, held_up: ConditionReason, ended: str) -> Verdict:
    if job.is_native:
        return Verdict(Step.GANG, "gang", Scope.JOB, "FailedScheduling", WAITS_FOR_GROUP, shown_as=held_up)
    ready = sum(1 for task in job.tasks.values() if IS_READY[task.status] and task.uid not in job.fitting)
    message = (
        f'gang of PodGroup "{job.key}" waits: {job.spec.min_available} of its {len(job.tasks)} pods have to start '
        f"together, {ready + placed} could now"
    )
    if origin is not None:
        message += f"; the others: {origin.message}"
    if ended:
        message = f"{message.removesuffix('.')}; {ended}"
    return Verdict(Step.GANG, "gang", Scope.JOB, "FailedScheduling", message, shown_as=held_up)
