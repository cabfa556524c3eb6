"""What pods that were tried wait for: room on nodes, or something that more nodes would not bring.

Autoscalers make nodes for pods whose condition is Unschedulable (`ConditionReason`). So a pod that lacks room states
that only if with more nodes it would run: not when something else keeps its gang from starting, and not when its queue
would not take it on.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from volsched.framework.session import Session
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import ConditionReason, Scope, Step


def waits_for(task: TaskInfo) -> ConditionReason:
    """What a pod that was refused waits for."""
    return task.refusal.condition_reason if task.refusal is not None else ConditionReason.UNSCHEDULABLE


def also_waits(session: Session, task: TaskInfo, why: str, found: ConditionReason) -> None:
    """Report what else a pod waits for that lacks room.

    It no longer speaks for others that lack room: those may lack nothing else (``Scope.JOB``).
    """
    own = task.refusal
    if own is not None and own.condition_reason is ConditionReason.UNSCHEDULABLE:
        message = f"{own.message.removesuffix('.')}; {why}"
        session.refusals.refuse_task(
            task, msgspec.structs.replace(own, message=message, scope=Scope.JOB, shown_as=found)
        )


def what_holds_up(job: JobInfo) -> ConditionReason:
    """What a gang waits for: room on nodes, if it could start once those have it that lack nothing else."""
    kept = [t for t in job.waiting.values() if t.refusal is not None and t.refusal.step is not Step.GANG]
    kept = [task for task in kept if waits_for(task) is not ConditionReason.UNSCHEDULABLE]
    if kept and job.fitting:
        kept = [task for task in kept if task.uid not in job.fitting]
    if not kept or _enough_without(job, kept):
        return ConditionReason.UNSCHEDULABLE
    found = waits_for(min(kept, key=lambda task: task.key))
    return found if found is not ConditionReason.SCHEDULING_GATED else ConditionReason.GANG_INCOMPLETE


def _enough_without(job: JobInfo, kept: Sequence[TaskInfo]) -> bool:
    """Whether a gang has its minimum of members, and each role its own, beside those that are kept from starting."""
    if job.valid_count - len(kept) < job.spec.min_available:
        return False
    return job.roles_valid({task.uid for task in kept})


def look_ahead(session: Session, queue: QueueInfo, job: JobInfo) -> None:
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
    beyond = session.rules.in_order(lacking)[most:] if most >= job.spec.min_available - job.ready_count else lacking
    why = f'and queue "{queue.name}" may take on {most} such pod{"s" if most != 1 else ""} only'
    for task in beyond:
        also_waits(session, task, why, ConditionReason.QUOTA_EXCEEDED)


def _lacks_room(task: TaskInfo) -> bool:
    return not task.nominated and task.refusal is not None and waits_for(task) is ConditionReason.UNSCHEDULABLE
