"""The condition of a native PodGroup: whether it was placed, why not, and its reservation.

Types, reasons and messages are kube-scheduler's, since controllers and ``kubectl get`` read them. The condition goes to
True once and never back. A group that lacks members reports nothing, so that autoscalers make no nodes for it. *Ours*:
the condition ``Reserved`` (``volsched.model.held_nodes``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from volsched.framework.native import gangs as native_gangs
from volsched.framework.redaction import within
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo, PodGroupCondition, shown_as, with_condition
from volsched.model.native_group import NativeGroup
from volsched.model.plan import WriteNativeStatus
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_FINISHED
from volsched.model.verdict import ConditionReason, Scope, Step, Verdict

SCHEDULED: Final = "Scheduled"
_NOT_FEASIBLE: Final = "placements are available, first placement status: pod group is unschedulable"
_NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
_NEVER: Final = "not eligible due to preemptionPolicy=Never."
_SEARCHED: Final = (" preemption: ", " reclaim: ")
"""The beginning of the text that a search for victims adds to a refusal (see ``actions.victims.search``)."""

_WITHOUT_MESSAGE: Final = (Step.NO_PODGROUP, Step.GATED)


def write_of(cluster: Cluster, job: JobInfo) -> Iterator[WriteNativeStatus]:
    """Return the write of a group's conditions if they are new. They count as written from here on."""
    group = job.spec.native
    if group is None or not any(task.spec.is_managed for task in job.tasks.values()):
        return
    stated, wanted = _stated_condition(job, group), _condition_of(job, group)
    if wanted is not None:
        wanted = replace(wanted, message=within(cluster, job.namespace, wanted.message))
    if wanted is not None and (stated is None or stated.status != "True"):
        job.conditions = with_condition(job.conditions, wanted)
    known = job.reported.conditions if job.reported is not None else ()
    if set(job.conditions) == set(known):
        return
    job.reported = shown_as(job.conditions)
    yield WriteNativeStatus(group.uid, group.namespace, group.name, group.version.name, job.conditions)


def _stated_condition(job: JobInfo, group: NativeGroup) -> PodGroupCondition | None:
    return next((condition for condition in job.conditions if condition.type == group.version.condition), None)


def _condition_of(job: JobInfo, group: NativeGroup) -> PodGroupCondition | None:
    """Return the condition of a group; None leaves it as it is."""
    if job.is_ready and _has_placed(job):
        return PodGroupCondition(group.version.condition, "True", SCHEDULED, "")
    verdict = job.refusal
    if verdict is not None and (native_gangs.is_incomplete(verdict) or verdict.step in _WITHOUT_MESSAGE):
        return None
    if verdict is None:
        return _of_members(job, group)
    message = verdict.short_message()
    if verdict.condition_reason is ConditionReason.SCHEDULER_ERROR:
        return PodGroupCondition(group.version.condition, "False", ConditionReason.SCHEDULER_ERROR.value, message)
    return PodGroupCondition(group.version.condition, "False", ConditionReason.UNSCHEDULABLE.value, message)


def _has_placed(job: JobInfo) -> bool:
    return any(task.node is not None or IS_FINISHED[task.status] for task in job.tasks.values())


def _of_members(job: JobInfo, group: NativeGroup) -> PodGroupCondition | None:
    """Return the condition from its pods: refused by their queue, else that no placement was found."""
    refused = [task for task in job.schedulable() if task.refusal is not None]
    if not refused:
        return None
    of_queue = [task.refusal for task in refused if task.refusal is not None and task.refusal.scope is Scope.QUEUE]
    message = _queues_words(of_queue) or _not_feasible(job, refused)
    return PodGroupCondition(group.version.condition, "False", ConditionReason.UNSCHEDULABLE.value, message)


def _queues_words(refusals: list[Verdict]) -> str:
    return refusals[0].short_message() if refusals else ""


def _not_feasible(job: JobInfo, refused: list[TaskInfo]) -> str:
    message = f"0/{max(1, job.placements)} {_NOT_FEASIBLE}"
    if any(task.nominated for task in job.tasks.values()):
        return message  # victims are leaving
    if not all(task.spec.preempts for task in refused):
        return f"{message}, {_NEVER}"
    searched = any(words in task.refusal.message for task in refused if task.refusal for words in _SEARCHED)
    return f"{message}, {_NO_VICTIMS}" if searched else message
