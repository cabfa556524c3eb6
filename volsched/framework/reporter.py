"""Turns refusals and evictions into messages for users: Events, pod conditions and PodGroup conditions.

Only changes are reported: at the end of a session the refusals of tasks and jobs are compared with those reported last.
The reason of a waiting gang is in the conditions of all its pods, and in the Events of the first pods of each role.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from volsched.framework.native import gangs as native_gangs
from volsched.framework.redaction import within
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.plan import RecordEvent, WritePodCondition
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import TaskStatus
from volsched.model.verdict import ConditionReason, Step, Verdict, truncated

POD_GROUP_VERSION = "scheduling.volcano.sh/v1beta1"
QUEUE_VERSION = POD_GROUP_VERSION
UNSCHEDULABLE = "Unschedulable"
_STANDINGS: Final = tuple(status.name.capitalize() for status in TaskStatus)

EVENTS_FOR_EACH_ROLE: Final = 10
"""The number of pods of each role of a gang that get an Event about its reason. All pods get a condition."""

_KEPT: Final = (
    (ConditionReason.SCHEDULER_ERROR,),
    (ConditionReason.SCHEDULER_ERROR, ConditionReason.POD_GROUP_NOT_FOUND),
)
"""Reasons that conditions keep whatever the flag is: new nodes would not help these pods."""

_PATIENT = (UNSCHEDULABLE, "QueueClosed")
"""Reasons of a job that is not admitted whose Events are no warnings (as in Volcano)."""


def refusal_of(task: TaskInfo) -> Verdict | None:
    """Return the refusal of a task, else that of its job."""
    if task.refusal is not None:
        return task.refusal
    return task.job.refusal if task.job is not None else None


@dataclass(slots=True)
class _Reported:
    """The last report about a job and its pods.

    ``refusal`` is that of the PodGroup with this ``group_uid``. ``pods`` has the refusal of each waiting pod, and
    whether the pod had the gate of its queue. ``event_pods`` are the uids of the members that get the Event about a
    reason, by reason.
    """

    group_uid: str = ""
    refusal: Verdict | None = None
    pods: dict[TaskInfo, tuple[Verdict | None, bool]] = field(default_factory=dict)
    event_pods: dict[tuple[str, ...], set[str]] = field(default_factory=dict)


_NEVER: Final = None, False
"""The report of a pod before its first one."""


class Reporter(Observer):
    """Reports changed reasons of waiting jobs and pods, and remembers its reports until the job is gone.

    ``always_unschedulable``: conditions of pods state Unschedulable for every reason, except for a refused binding.
    """

    def __init__(self, cluster: Cluster, *, always_unschedulable: bool = False) -> None:
        self._cluster = cluster
        self._always_unschedulable = always_unschedulable
        self._reported: dict[str, _Reported] = {}
        cluster.observe(self)

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Drop the reports about a job that is gone."""
        if gone:
            self._reported.pop(job.key, None)

    def about_job(self, job: JobInfo) -> Iterator[RecordEvent | WritePodCondition]:
        """Yield changed reasons of a job, on its PodGroup, and of its pods, on each of them."""
        known = self._reported.get(job.key)
        if known is None:
            if job.refusal is None and not job.waiting:
                return
            known = self._reported[job.key] = _Reported()
        if (known.group_uid, known.refusal) != (job.spec.group_uid, job.refusal):
            known.group_uid, known.refusal = job.spec.group_uid, job.refusal
            yield from self._on_group(job)
        pods = known.pods
        for task in [task for task in pods if job.waiting.get(task.uid) is not task]:
            del pods[task]  # if its binding fails, or its pod asks for something else, why it waits is news
        waiting = ((task, _to_report(task)) for task in job.waiting.values() if task.spec.is_managed)
        news = [(task, now) for task, now in waiting if pods.get(task, _NEVER) != now]
        for task, now in sorted(news, key=lambda each: _by_number(each[0])):
            pods[task] = now
            yield from self._on_pod(job, task, now[0], known)

    def _on_pod(
        self, job: JobInfo, task: TaskInfo, verdict: Verdict | None, known: _Reported
    ) -> Iterator[RecordEvent | WritePodCondition]:
        """Yield the condition and the Event of a pod that waits.

        One that only waits behind the gate of its queue stays SchedulingGated, as the API server reports it.
        """
        if verdict is None:
            return
        message = message_within(self._cluster, task.namespace, verdict)
        if not task.spec.admission_gate:
            yield self._condition(task, verdict.condition_reason, message)
        if _has_event(job, task, verdict, known):
            yield RecordEvent("Pod", "v1", task.namespace, task.name, task.uid, "Warning", verdict.reason, message)

    def about_nomination(self, task: TaskInfo) -> WritePodCondition:
        """Return the condition of a pod whose nomination changed while the reason why it waits did not."""
        verdict = refusal_of(task)
        if verdict is None:
            return self._condition(task, ConditionReason.UNSCHEDULABLE, "")
        message = message_within(self._cluster, task.namespace, verdict)
        return self._condition(task, verdict.condition_reason, message)

    def _on_group(self, job: JobInfo) -> Iterator[RecordEvent]:
        """Yield the Event on the PodGroup of a job that waits as a whole."""
        verdict = job.refusal
        if verdict is not None and job.spec.has_group:
            kind = "Normal" if verdict.step is Step.ENQUEUE and verdict.reason in _PATIENT else "Warning"
            yield about_group(job, kind, verdict.reason, message_within(self._cluster, job.namespace, verdict))

    def _condition(self, task: TaskInfo, reason: ConditionReason, message: str) -> WritePodCondition:
        if self._always_unschedulable and reason not in _KEPT[bool(task.spec.scheduling_group)]:
            reason = ConditionReason.UNSCHEDULABLE
        return WritePodCondition(task.uid, task.namespace, task.name, reason.value, message, task.nominated)


def message_within(cluster: Cluster, namespace: str, verdict: Verdict) -> str:
    """Return the message of a refusal for an object of a namespace, redacted, and cut to the length of an Event."""
    return truncated(within(cluster, namespace, verdict.message))


def _to_report(task: TaskInfo) -> tuple[Verdict | None, bool]:
    """Return the refusal that a pod reports, and True if its queue's gate has a condition of its own."""
    return _refusal_to_report(task), task.spec.admission_gate


def _refusal_to_report(task: TaskInfo) -> Verdict | None:
    """Return the refusal that a pod reports, or None if the API server has words for it.

    Of refusals of its job, only those that stop the pod, too.
    """
    own = task.refusal
    if own is not None:
        return own if own.step is not Step.GATED else None
    if task.spec.gated or task.spec.terminating or task.backing_off or task.job is None:
        return None
    if native_gangs.is_incomplete(
        task.job.refusal
    ):  # reported of the group alone: no autoscaler is to make nodes for it
        return None
    return task.job.refusal


def _has_event(job: JobInfo, task: TaskInfo, verdict: Verdict, known: _Reported) -> bool:
    """True if a pod gets its own Event; in a gang, and for refusals of a whole job, only the first pods do."""
    if task.refusal is not None and job.spec.min_available <= 1:
        return True
    pods = known.event_pods.setdefault((task.spec.role, verdict.step, verdict.reason), set())
    if task.uid not in pods and len(pods) >= EVENTS_FOR_EACH_ROLE:
        pods.intersection_update(job.waiting)
    if len(pods) < EVENTS_FOR_EACH_ROLE:
        pods.add(task.uid)
    return task.uid in pods


def _by_number(task: TaskInfo) -> tuple[str, int, str]:
    """Return the pods of a role by the numbers at the end of their names."""
    number = task.name.rpartition("-")[2]
    return task.spec.role, int(number) if number.isdecimal() else 0, task.name


def about_group(job: JobInfo, kind: str, reason: str, message: str) -> RecordEvent:
    """Return an Event on a job's PodGroup. ``kind`` is Normal or Warning."""
    version = job.spec.native.version.name if job.spec.native is not None else POD_GROUP_VERSION
    return RecordEvent("PodGroup", version, job.namespace, job.group_name, job.spec.group_uid, kind, reason, message)


def about_queue(queue: QueueInfo, kind: str, reason: str, message: str) -> RecordEvent:
    """Return an Event on a queue. ``kind`` is Normal or Warning."""
    return RecordEvent("Queue", QUEUE_VERSION, "", queue.name, queue.spec.uid, kind, reason, truncated(message))


def about_node(node: NodeInfo, kind: str, reason: str, message: str) -> RecordEvent:
    """Return an Event on a node. ``kind`` is Normal or Warning."""
    return RecordEvent("Node", "v1", "", node.name, node.spec.uid, kind, reason, truncated(message))


def about_pod(task: TaskInfo, kind: str, reason: str, message: str) -> RecordEvent:
    """Return an Event on a pod. ``kind`` is Normal or Warning."""
    return RecordEvent("Pod", "v1", task.namespace, task.name, task.uid, kind, reason, truncated(message))


def about_victim(task: TaskInfo, message: str) -> Iterator[RecordEvent]:
    """Yield the Events of an eviction: on the pod that has to go, and on its PodGroup."""
    yield RecordEvent("Pod", "v1", task.namespace, task.name, task.uid, "Normal", "Preempted", message, "Preempting")
    if task.job is not None and task.job.spec.has_group:
        yield about_group(task.job, "Normal", "Evict", f'pod "{task.key}" is evicted: {message}')


def victim_words(preemptor: TaskInfo | None, victim: TaskInfo, reason: str) -> tuple[str, str]:
    """Return the text of a victim's Event and condition: if a native group needs the room, kube-scheduler's words.

    ``reason`` is the text for all other jobs, and ends the Event. *Ours*: the Event names the queue of a group of
    another namespace, where kube-scheduler has the uid of the PodGroup.
    """
    group = preemptor.job.spec.native if preemptor is not None and preemptor.job is not None else None
    if preemptor is None or group is None:
        return reason, reason
    which = group.uid if preemptor.namespace == victim.namespace else f'of queue "{preemptor.queue}"'
    message = f"Preempted by podgroup {which} on node cluster; {reason}"
    return message, f"{preemptor.spec.scheduler}: preempting to accommodate a higher priority podgroup"


def gang_message(job: JobInfo) -> str:
    """Return the message of the Unschedulable condition in Volcano's words: missing members, statuses, reason.

    The first number is the members that the minimum lacks beside those that would have a node.
    """
    waiting = sorted(job.waiting.values(), key=lambda task: task.key)
    fitting = sum(1 for task in waiting if _would_fit(job, task))
    short = max(0, job.spec.min_available - job.ready_count - fitting)
    text = f"{short}/{len(job.tasks)} tasks in gang unschedulable: pod group is not ready, "
    text += _counted((*zip(_STANDINGS, job.counts, strict=True), ("minAvailable", job.spec.min_available)))
    pending = (("Schedulable", fitting), ("Unschedulable", job.counts[TaskStatus.PENDING] - fitting))
    if job.counts[TaskStatus.PENDING]:
        text += f"; Pending: {_counted(pending)}"
    return truncated(text + _origin(job, waiting))


def _would_fit(job: JobInfo, task: TaskInfo) -> bool:
    """True if a waiting task found a node when its gang was last tried, and has not been refused since."""
    return task.uid in job.placed_in_last_try and task.refusal is not None and task.refusal.step is Step.GANG


def _counted(amounts: Iterable[tuple[str, int]]) -> str:
    """Return amounts as "2 Pending, 3 minAvailable", ordered by the words, as Volcano does."""
    return ", ".join(sorted([f"{amount} {name}" for name, amount in amounts if amount]))


def _origin(job: JobInfo, waiting: Sequence[TaskInfo]) -> str:
    """Return why at all: a member's own reason, else what keeps the whole job."""
    own = next((t for t in waiting if t.refusal is not None and t.refusal.step is not Step.GANG), None)
    if own is not None and own.refusal is not None:
        return f". Origin reason is {own.name}: {own.refusal.message}"
    return f". Origin reason is: {job.refusal.message}" if job.refusal is not None else ""
