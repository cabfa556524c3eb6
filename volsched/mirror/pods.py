"""Pods as the mirror takes them in: tasks that come, change, are replaced, and go."""

from __future__ import annotations

from dataclasses import dataclass
from sys import intern
from typing import Final, NamedTuple

from volsched.mirror import reading
from volsched.mirror.binding_backoffs import BindingBackoffs
from volsched.mirror.events import MirrorEvents
from volsched.mirror.groups import Groups
from volsched.mirror.nodes import UnknownNodes
from volsched.mirror.pod_reading import FINISHED, PodReader, PodReading
from volsched.mirror.problems import ReadingProblems
from volsched.mirror.rejections import rejection_of
from volsched.mirror.settings import Arrival, MirrorSettings
from volsched.mirror.templates import Templates
from volsched.model import api
from volsched.model.changes import Deleted
from volsched.model.cluster import Cluster
from volsched.model.generations import ClusterEvent
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import PodProperties, TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.status import TaskStatus
from volsched.model.verdict import Scope, Step, Verdict

ASSUMED: Final = (TaskStatus.BINDING, TaskStatus.BOUND)
_NOT_STARTED: Final = (TaskStatus.PENDING, TaskStatus.BOUND)
_SAME_ROOM: Final = {TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING}


class _Placement(NamedTuple):
    """The properties with which a pod was placed. Later changes do not alter its usage."""

    template: PodTemplate
    group: str


@dataclass(slots=True)
class Pods:
    """The tasks of a cluster."""

    _cluster: Cluster
    _settings: MirrorSettings
    _arrival: Arrival
    _templates: Templates
    _groups: Groups
    _reader: PodReader
    _unknown_nodes: UnknownNodes
    _binding_backoffs: BindingBackoffs
    _events: MirrorEvents
    _problems: ReadingProblems

    def put(self, pod: api.Pod) -> None:
        """Take a pod in, unless it is not ours and holds nothing: read it, compare, apply the changes."""
        uid = pod.metadata.uid
        task = self._cluster.tasks.get(uid)
        if task is None:
            if self._concerns_us(pod):
                self._add(pod, self._read(pod))
            return
        if task.resource_version and task.resource_version == pod.metadata.resource_version:
            return
        placed_as = self._placed_as(task)
        found = self._read(pod, placed_as)
        self._note_rejection(task, pod)
        if found.is_another(task):
            self._replace(task, pod, found, placed_as)
        else:
            self._update(task, pod, found)
        self._hear_of_start(uid)

    def _read(self, pod: api.Pod, placed_as: _Placement | None = None) -> PodReading:
        self._problems.report_labels("Pod", pod)
        return self._reader.read(pod, placed_as.template if placed_as is not None else None)

    def _concerns_us(self, pod: api.Pod) -> bool:
        """Our own pods in any state, and others' that hold room."""
        if pod.spec.scheduler_name in self._settings.scheduler_names or reading.GROUP_NAME in pod.metadata.annotations:
            return True
        is_member = pod.spec.scheduling_group is not None  # finished ones count towards their group's minimum
        return bool(pod.spec.node_name) and (is_member or pod.status.phase not in ("Succeeded", "Failed"))

    def drop(self, gone: Deleted) -> None:
        """Forget a pod."""
        task = self._cluster.tasks.get(gone.uid)
        if task is not None and task.node is not None:
            self._cluster.observers.notify_lost(task)
        self._drop_task(gone.uid)
        self._templates.sweep_sometimes()

    def _add(self, pod: api.Pod, found: PodReading, placed_as: _Placement | None = None) -> TaskInfo:
        meta = pod.metadata
        task = TaskInfo(meta.uid, intern(meta.namespace), meta.name, found.template, spec=found.spec)
        task.sequence = self._arrival.next()
        task.created = found.created if found.created is not None else task.sequence * 1e-6
        task.group = placed_as.group if placed_as is not None else found.group
        self._take_decisions(task, found)
        task.ungated = found.is_ungated
        task.job = self._groups.job_of(task, self._drop_task)
        status, node = self._status_and_node(task, found)
        task.has_run = status not in _NOT_STARTED
        held = placed_as is not None or (task.job is not None and task.job.placed_count > 0 and not found.node)
        self._cluster.add_task(task, status, node)
        if task.spec.scheduling_group:
            self._groups.native.joined(task)
        if task.job is not None:
            self._groups.passers_by.pod_placed(task.job, held=held)
        if task.spec.gated and node is None:
            # what was reserved for it in its job's minimum is not, as long as it is gated
            self._cluster.wake(ClusterEvent.DEMAND_CHANGED)
        self._explain_gates(task)
        self._templates.sweep_sometimes()
        return task

    def _update(self, task: TaskInfo, pod: api.Pod, found: PodReading) -> None:
        """Apply another state of a pod to its task. Our decisions about it stay until they are shown."""
        is_decided = _stays_assumed(task, found) or _stays_evicted(task, found)
        before, task.spec = task.spec, found.spec
        self._take_decisions(task, found)
        if task.spec != before:
            self._priority_changed(task, before)
        if task.spec.scheduling_group:
            self._groups.native.joined(task)
        if found.node and (task.spec.annotations != before.annotations or task.bind_annotations):
            self._hear_annotations(task)
        self._hear_group(task, pod, found.group, reading.as_name(before.annotations.get(reading.GROUP_NAME, "")))
        if task.spec != before:
            self._member_changed(task, before)
        if not is_decided:
            self._stand(task, found)
            self._hear_of_gates(task, before, found)

    def _take_decisions(self, task: TaskInfo, found: PodReading) -> None:
        """Take over what schedulers have decided about a pod."""
        task.resource_version = found.resource_version
        task.evicted = found.is_evicted or (task.evicted and task.status is TaskStatus.RELEASING)
        self._hear_nomination(task, found.nominated)

    def _priority_changed(self, task: TaskInfo, before: PodProperties) -> None:
        """Compute the priority of the job again, and search for victims among pods that may be evicted now."""
        if task.job is not None:
            task.job.highest = None
        if task.spec.preemptable and not before.preemptable:
            self._cluster.wake(ClusterEvent.VICTIMS_CHANGED)

    def _member_changed(self, task: TaskInfo, before: PodProperties) -> None:
        """Tell of what a member states otherwise. Jobs are tried again for it."""
        now = task.spec
        if now.claim_names != before.claim_names:
            self._cluster.queue_cache.count_ungated_again(task)
        if task.job is not None and _membership_of(now) != _membership_of(before):
            self._cluster.queue_cache.members_changed(task.job)
        if now.labels != before.labels and task.node is not None:
            self._cluster.relabel(task, before)
        elif (now.labels, now.role) != (before.labels, before.role) and task.job is not None:
            task.job.requeue()

    def _stand(self, task: TaskInfo, found: PodReading) -> None:
        """Move a task to where its pod is shown."""
        status, node = self._status_and_node(task, found)
        held = task.job is not None and task.job.placed_count > 0
        if (status, node) != (task.status, task.node):
            self._move(task, status, node)
        if task.job is not None and not (held and task.job.spec.has_group):
            self._groups.passers_by.pod_placed(task.job, held=held)
        self._binding_backoffs.pod_changed(task)

    def _hear_of_gates(self, task: TaskInfo, before: PodProperties, found: PodReading) -> None:
        """Retry a pod whose gates or claims changed. An ungated one counts in its queue."""
        if task.job is None or _gates_of(task.spec) == _gates_of(before):
            return
        task.job.requeue()
        if before.admission_gate and not task.spec.admission_gate:
            task.refusal = None  # what kept it from its queue is not in its condition
            if found.is_ungated:  # the leader has let it in while this process follows
                self._cluster.queue_cache.set_ungated(task, ungated=True)
        self._explain_gates(task)

    def _hear_of_start(self, uid: str) -> None:
        """Tell observers once that a pod runs which had not started when it was first seen."""
        task = self._cluster.tasks[uid]
        if task.status is TaskStatus.RUNNING and not task.has_run:
            task.has_run = True
            self._cluster.observers.notify_started(task)

    def _hear_group(self, task: TaskInfo, pod: api.Pod, named: str, before: str) -> None:
        """Put a pod into the Volcano PodGroup that it names now. A pod with a node stays in its own."""
        if named == task.group:
            return
        if not self._unknown_nodes.name_of(task):
            task.group = named
            self._leave(task)
            self._cluster.join(task, self._groups.job_of(task, self._drop_task))
        elif named != before and named != reading.generated_group_name(pod):
            counts = f'in PodGroup "{task.group}", in which' if task.group else "by itself, as"
            report = self._problems.reporter(
                "Pod", pod, f"it counts {counts} it was placed, as long as it has its node"
            )
            message = f'names PodGroup "{named}" now' if named else "was removed"
            report(f"metadata.annotations[{reading.GROUP_NAME}]", message)

    def _note_rejection(self, task: TaskInfo, pod: api.Pod) -> None:
        found = rejection_of(task, pod)
        if found is not None:
            self._events.record(found)

    def _hear_annotations(self, task: TaskInfo) -> None:
        """Count what the API server shows of a pod on its node, instead of what the Binding carried."""
        task.bind_annotations = None
        if task.node is not None:
            self._cluster.annotated(task)

    def _replace(self, task: TaskInfo, pod: api.Pod, found: PodReading, placed_as: _Placement | None) -> None:
        """Replace the task of a pod whose request changed by a new one with the same status and node."""
        stays = _stays_assumed(task, found) or _stays_evicted(task, found)
        assumed_on = self._unknown_nodes.name_of(task) if stays else ""
        status, job = task.status, task.job
        self._drop_task(task.uid, leaves_job=False)
        again = self._add(pod, found, placed_as)
        if job is not None and job.spec.group_uid and again.job is not job:
            self._groups.drop_if_empty(job)
        again.created, again.has_run, again.evicted = task.created, task.has_run, task.evicted or again.evicted
        if assumed_on:
            again.bind_annotations = task.bind_annotations
            self._cluster.move(again, status, self._unknown_nodes.node_for(again, assumed_on))

    def _placed_as(self, task: TaskInfo) -> _Placement | None:
        """As what a pod with a node was placed; None for one that waits."""
        return _Placement(task.template, task.group) if self._unknown_nodes.name_of(task) else None

    def _hear_nomination(self, task: TaskInfo, node: str) -> None:
        """Take a pod's nomination from its status, unless that is older than our last decision."""
        if task.nomination_sent and node != task.nominated:
            return
        if node != task.nominated or task.nomination_sent:
            self._cluster.nominate(task, node, sent=False)

    def _status_and_node(self, task: TaskInfo, found: PodReading) -> tuple[TaskStatus, NodeInfo | None]:
        """Status and node of a pod. A node that is not known yet is waited for."""
        self._unknown_nodes.leave(task.uid)
        if not found.node or found.status in FINISHED:
            return found.status, None
        return found.status, self._unknown_nodes.node_for(task, found.node)

    def _move(self, task: TaskInfo, status: TaskStatus, node: NodeInfo | None) -> None:
        if status is TaskStatus.FAILED and task.node is not None:
            self._cluster.observers.notify_lost(task)
        if node is task.node and {status, task.status} <= _SAME_ROOM:
            self._cluster.move_quietly(task, status)
        else:
            self._cluster.move(task, status, node)
        if status is not TaskStatus.PENDING:
            task.refusal = None

    def _drop_task(self, uid: str, *, leaves_job: bool = True) -> None:
        """Forget a task, and its job with it unless the pod stays there."""
        task = self._cluster.tasks.get(uid)
        if task is None:
            return
        self._unknown_nodes.leave(uid)
        self._binding_backoffs.forget(uid)
        job = task.job
        if task.spec.scheduling_group:
            self._groups.native.leave(task)
        self._cluster.remove_task(task)
        if leaves_job or job is None or not job.spec.group_uid:
            self._groups.drop_if_empty(job)

    def _explain_gates(self, task: TaskInfo) -> None:
        if task.spec.gated and task.spec.is_managed and task.status is TaskStatus.PENDING:
            names = ", ".join(task.spec.gated)
            task.refusal = Verdict(
                Step.GATED, "", Scope.POD, "SchedulingGated", f"scheduling is gated by {names}", resolvable=False
            )
        elif task.refusal is not None and task.refusal.step is Step.GATED:
            task.refusal = None

    def _leave(self, task: TaskInfo) -> None:
        job = task.job
        self._cluster.join(task, None)
        self._groups.drop_if_empty(job)


def _gates_of(spec: PodProperties) -> tuple[object, ...]:
    """Return the gates of a pod and the claims that were made for it."""
    return spec.gated, spec.admission_gate, spec.claim_names


def _membership_of(spec: PodProperties) -> tuple[object, ...]:
    """Return the properties of a pod that accounts about its job read."""
    return (*_gates_of(spec), spec.role, spec.terminating)


def _stays_assumed(task: TaskInfo, found: PodReading) -> bool:
    """True if a pod without a node at the API server is being bound to the one that we chose."""
    return task.status in ASSUMED and not found.node and not found.has_ended


def _stays_evicted(task: TaskInfo, found: PodReading) -> bool:
    """True if we have decided to evict a pod that the API server does not show as terminating.

    Its condition ``DisruptionTarget`` is written, and seen, first. Only a refusal takes the decision back.
    """
    return task.status is TaskStatus.RELEASING and not task.spec.terminating and not found.has_ended
