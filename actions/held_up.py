"""What pods that were tried wait for: room on nodes, or something that more nodes would not bring.

Autoscalers make nodes for pods whose condition is Unschedulable (`ConditionReason`). So a pod that lacks room states
that only if with more nodes it would run: not when something else keeps its gang from starting, and not when its queue
would not take it on.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actions.attempt import Attempt, waits_for
from volsched.framework.native.gangs import WAITS_FOR_GROUP
from volsched.framework.session import Session
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import IS_READY
from volsched.model.verdict import ConditionReason, Scope, Step, Verdict


def also_waits(session: Session, task: TaskInfo, why: str, found: ConditionReason) -> None:
    """Report what else a pod waits for that lacks room.

    It no longer speaks for others that lack room: those may lack nothing else (``Scope.JOB``).
    """
    own = task.refusal
    if own is not None and own.condition_reason is ConditionReason.UNSCHEDULABLE:
        message = f"{own.message.removesuffix('.')}; {why}"
        session.refuse(task, msgspec.structs.replace(own, message=message, scope=Scope.JOB, shown_as=found))


def what_holds_up(job: JobInfo) -> ConditionReason:
    """Return what a gang waits for: room, if it could start once members that lack only room have it."""
    kept = [t for t in job.waiting.values() if t.refusal is not None and t.refusal.step is not Step.GANG]
    kept = [task for task in kept if waits_for(task) is not ConditionReason.UNSCHEDULABLE]
    if kept and job.placed_in_last_try:
        kept = [task for task in kept if task.uid not in job.placed_in_last_try]
    if not kept or _enough_without(job, kept):
        return ConditionReason.UNSCHEDULABLE
    found = waits_for(min(kept, key=lambda task: task.key))
    return found if found is not ConditionReason.SCHEDULING_GATED else ConditionReason.GANG_INCOMPLETE


def _enough_without(job: JobInfo, kept: Sequence[TaskInfo]) -> bool:
    """True if a gang and its roles have their minimum, without members that are kept from starting."""
    if job.valid_count - len(kept) < job.spec.min_available:
        return False
    return job.roles_valid({task.uid for task in kept})


def report_waiting(session: Session, queue: QueueInfo, attempt: Attempt, *, is_ready: bool) -> None:
    """Report what the pods of a job wait for that were not placed in its turn."""
    if not is_ready:
        _report_gang(session, attempt)
    _look_ahead(session, queue, attempt.job)


def _report_gang(session: Session, attempt: Attempt) -> None:
    """Report that members that found a place, or were not tried, wait for their gang, and for what it waits."""
    job, placed, found_room = attempt.job, attempt.placed, attempt.found_room
    job.placed_in_last_try = frozenset(task.uid for task in placed)
    others = [t for t in job.waiting.values() if t.refusal is not None and t.refusal.step is not Step.GANG]
    if found_room:
        others = [t for t in others if t.uid not in found_room]
    held_up = what_holds_up(job)
    explained = [t for t in others if waits_for(t) is held_up] or others
    origin = min(explained, key=lambda t: t.key).refusal if explained else None
    for task in [*placed, *attempt.tasks]:
        session.refuse(task, _gang_waits(job, len(placed), origin, held_up, attempt.ended))
    if origin is not None and held_up is not ConditionReason.UNSCHEDULABLE:
        for task in others:
            also_waits(session, task, f"its gang waits for another, too: {origin.message}", held_up)


def _gang_waits(job: JobInfo, placed: int, origin: Verdict | None, held_up: ConditionReason, ended: str) -> Verdict:
    if job.is_native:
        return Verdict(Step.GANG, "gang", Scope.JOB, "FailedScheduling", WAITS_FOR_GROUP, shown_as=held_up)
    ready = sum(1 for task in job.tasks.values() if IS_READY[task.status] and task.uid not in job.placed_in_last_try)
    message = (
        f'gang of PodGroup "{job.key}" waits: {job.spec.min_available} of its {len(job.tasks)} pods have to start '
        f"together, {ready + placed} could now"
    )
    if origin is not None:
        message += f"; the others: {origin.message}"
    if ended:
        message = f"{message.removesuffix('.')}; {ended}"
    return Verdict(Step.GANG, "gang", Scope.JOB, "FailedScheduling", message, shown_as=held_up)


def _look_ahead(session: Session, queue: QueueInfo, job: JobInfo) -> None:
    """Report which of the pods that lack room their queue would not take on if they had it.

    Of equal pods the quota tells beforehand how many it stands; pods that differ are refused by it when they are tried.
    """
    lacking = [task for task in job.schedulable() if _lacks_room(task)]
    if not lacking or any(task.template is not lacking[0].template for task in lacking):
        return
    headrooms = session.headrooms(queue, lacking[0])
    most = max(0, min(each.count for each in headrooms)) if headrooms else len(lacking)
    if most >= len(lacking):
        return
    beyond = session.in_order(lacking)[most:] if most >= job.spec.min_available - job.ready_count else lacking
    why = f'and queue "{queue.name}" may take on {most} such pod{"s" if most != 1 else ""} only'
    for task in beyond:
        also_waits(session, task, why, ConditionReason.QUOTA_EXCEEDED)


def _lacks_room(task: TaskInfo) -> bool:
    return not task.nominated and task.refusal is not None and waits_for(task) is ConditionReason.UNSCHEDULABLE
