"""From verdicts to words for users: Events, pod conditions and PodGroup events, made here and nowhere else.

Everything is told on change only: a task's or job's refusal is rendered when it became a different one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from volsched.model.job import JobInfo
from volsched.model.node import NodeInfo
from volsched.model.plan import Tell, WritePodCondition
from volsched.model.queue import QueueInfo
from volsched.model.status import TaskStatus
from volsched.model.task import TaskInfo
from volsched.model.verdict import BINDER, Step, Verdict, truncated

POD_GROUP_VERSION = "scheduling.volcano.sh/v1beta1"
QUEUE_VERSION = POD_GROUP_VERSION
UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
_STANDINGS: Final = tuple(status.name.capitalize() for status in TaskStatus)
_SILENT = (Step.GATED,)
_PATIENT = (UNSCHEDULABLE, "QueueClosed")
"""Why a PodGroup is not admitted that time alone may change, which is no cause for a warning (as in Volcano)."""


def refusal_of(task: TaskInfo) -> Verdict | None:
    """Why a task waits: its own refusal, else its job's."""
    if task.refusal is not None:
        return task.refusal
    return task.job.refusal if task.job is not None else None


def about_task(task: TaskInfo) -> Iterator[Tell | WritePodCondition]:
    """The Event and the condition of a pod that waits for a reason of its own; the API server words gates itself.

    A pod that only waits behind the gate of its queue stays SchedulingGated: autoscalers would bring nodes for one that
    is Unschedulable, and it is not nodes that it lacks.
    """
    verdict = task.refusal
    if verdict is None or verdict.step in _SILENT:
        return
    if not task.admission_gate:
        yield condition_of(task, verdict)
    yield Tell("Pod", "v1", task.namespace, task.name, task.uid, "Warning", verdict.reason, verdict.short_message())


def about_nomination(task: TaskInfo) -> WritePodCondition:
    """The condition of a pod whose nomination changed while the reason why it waits did not."""
    verdict = refusal_of(task)
    message = verdict.short_message() if verdict is not None else ""
    return WritePodCondition(task.uid, task.namespace, task.name, UNSCHEDULABLE, message, task.nominated)


def condition_of(task: TaskInfo, verdict: Verdict) -> WritePodCondition:
    """``PodScheduled=False``: Unschedulable, the only reason that autoscalers act on, unless the binding failed."""
    message = verdict.short_message()
    if verdict.plugin == BINDER:
        return WritePodCondition(task.uid, task.namespace, task.name, SCHEDULER_ERROR, message, task.nominated)
    return WritePodCondition(task.uid, task.namespace, task.name, UNSCHEDULABLE, message, task.nominated)


def about_job(job: JobInfo) -> Iterator[Tell | WritePodCondition]:
    """The Event on the PodGroup of a job that waits as a whole, and the conditions of its pods."""
    verdict = job.refusal
    if verdict is None:
        return
    if job.has_group:
        kind = "Normal" if verdict.step is Step.ENQUEUE and verdict.reason in _PATIENT else "Warning"
        yield about_group(job, kind, verdict.reason, verdict.short_message())
    for task in sorted(job.schedulable(), key=lambda t: t.key):
        if task.refusal is None:
            if not task.admission_gate:
                yield condition_of(task, verdict)
            if not job.has_group or verdict.tells_pods:
                message = verdict.short_message()
                yield Tell("Pod", "v1", task.namespace, task.name, task.uid, "Warning", verdict.reason, message)


def about_group(job: JobInfo, kind: str, reason: str, message: str) -> Tell:
    """An Event on a job's PodGroup; ``kind`` is Normal or Warning."""
    return Tell("PodGroup", POD_GROUP_VERSION, job.namespace, job.name, job.group_uid, kind, reason, message)


def about_queue(queue: QueueInfo, kind: str, reason: str, message: str) -> Tell:
    """An Event on a queue; ``kind`` is Normal or Warning."""
    return Tell("Queue", QUEUE_VERSION, "", queue.name, queue.uid, kind, reason, truncated(message))


def about_node(node: NodeInfo, kind: str, reason: str, message: str) -> Tell:
    """An Event on a node; ``kind`` is Normal or Warning."""
    return Tell("Node", "v1", "", node.name, node.facts.uid, kind, reason, truncated(message))


def about_victim(task: TaskInfo, message: str) -> Iterator[Tell]:
    """The Events of an eviction: on the pod that has to go, and on its PodGroup."""
    yield Tell("Pod", "v1", task.namespace, task.name, task.uid, "Normal", "Preempted", message, "Preempting")
    if task.job is not None and task.job.has_group:
        yield about_group(task.job, "Normal", "Evict", f'pod "{task.key}" is evicted: {message}')


def gang_message(job: JobInfo) -> str:
    """The message of the Unschedulable condition, in Volcano's words: how many are short, who stands where, and why.

    The first number is how many members the minimum lacks beside those that would have a node.
    """
    waiting = sorted(job.waiting.values(), key=lambda task: task.key)
    fitting = sum(1 for task in waiting if _would_fit(job, task))
    short = max(0, job.min_available - job.ready_count - fitting)
    text = f"{short}/{len(job.tasks)} tasks in gang unschedulable: pod group is not ready, "
    text += _counted((*zip(_STANDINGS, job.counts, strict=True), ("minAvailable", job.min_available)))
    pending = (("Schedulable", fitting), ("Unschedulable", job.counts[TaskStatus.PENDING] - fitting))
    if job.counts[TaskStatus.PENDING]:
        text += f"; Pending: {_counted(pending)}"
    return truncated(text + _origin(job, waiting))


def _would_fit(job: JobInfo, task: TaskInfo) -> bool:
    """Whether a waiting task found a place when its gang was last tried, and nothing was said against it since."""
    return task.uid in job.fitting and task.refusal is not None and task.refusal.step is Step.GANG


def _counted(amounts: Iterable[tuple[str, int]]) -> str:
    """Amounts as "2 Pending, 3 minAvailable", in the order of these words as texts, as Volcano has them."""
    return ", ".join(sorted([f"{amount} {name}" for name, amount in amounts if amount]))


def _origin(job: JobInfo, waiting: Sequence[TaskInfo]) -> str:
    """Say why at all: a member's own reason, else what keeps the whole job."""
    own = next((t for t in waiting if t.refusal is not None and t.refusal.step is not Step.GANG), None)
    if own is not None and own.refusal is not None:
        return f". Origin reason is {own.name}: {own.refusal.message}"
    return f". Origin reason is: {job.refusal.message}" if job.refusal is not None else ""
