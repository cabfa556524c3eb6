"""Pods as the mirror takes them in: tasks that come, change, are replaced, and go."""

from __future__ import annotations

from dataclasses import dataclass
from sys import intern
from typing import Final, NamedTuple

from volsched.mirror import reading
from volsched.mirror.groups import Groups
from volsched.mirror.kept import AnnotationReader
from volsched.mirror.nodes.unknown import UnknownNodes
from volsched.mirror.priorities import Priorities
from volsched.mirror.problems import ReadingProblems
from volsched.mirror.rejections import rejection_of
from volsched.mirror.retries import Retries
from volsched.mirror.settings import Arrival, MirrorSettings
from volsched.mirror.templates import Templates
from volsched.model import api, labels
from volsched.model.changes import Gone
from volsched.model.clocks import ClusterEvent
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo
from volsched.model.plan import RecordEvent
from volsched.model.pods.claim_use import ResourceClaimUse
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.status import TaskStatus
from volsched.model.values.bounded import Bounded
from volsched.model.verdict import Scope, Step, Verdict

ASSUMED: Final = (TaskStatus.BINDING, TaskStatus.BOUND)
_NOT_STARTED: Final = (TaskStatus.PENDING, TaskStatus.BOUND)
FINISHED: Final = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
_SAME_ROOM: Final = {TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING}


class _Placement(NamedTuple):
    """As what a pod was placed: what is written into it afterwards does not change what it counts as."""

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
    _priorities: Priorities
    _unknown_nodes: UnknownNodes
    _retries: Retries
    _rejections: Bounded[RecordEvent, None]
    _problems: ReadingProblems
    _annotations: AnnotationReader

    def put(self, pod: api.Pod) -> None:
        """Take a pod in, unless it is not ours and holds nothing."""
        uid = pod.metadata.uid
        task = self._cluster.tasks.get(uid)
        if task is None:
            if self._concerns_us(pod):
                self._add_pod(pod)
            return
        if task.resource_version and task.resource_version == pod.metadata.resource_version:
            return
        self._update_pod(task, pod)
        self._hear_of_start(uid)

    def _concerns_us(self, pod: api.Pod) -> bool:
        """Our own pods in any state, and others' that hold room."""
        if pod.spec.scheduler_name in self._settings.scheduler_names or reading.GROUP_NAME in pod.metadata.annotations:
            return True
        is_member = pod.spec.scheduling_group is not None  # finished ones count towards their group's minimum
        return bool(pod.spec.node_name) and (is_member or pod.status.phase not in ("Succeeded", "Failed"))

    def drop(self, gone: Gone) -> None:
        """Forget a pod."""
        task = self._cluster.tasks.get(gone.uid)
        if task is not None and task.node is not None:
            self._cluster.observers.tell_of_loss(task)
        self._drop_task(gone.uid)
        self._templates.sweep_sometimes()

    def _add_pod(self, pod: api.Pod, placed_as: _Placement | None = None) -> None:
        meta = pod.metadata
        template = self._templates.intern(pod, placed_as.template if placed_as is not None else None)
        task = TaskInfo(meta.uid, intern(meta.namespace), meta.name, template)
        task.sequence = self._arrival.next()
        created = reading.seconds(meta.creation_timestamp)
        task.created = created if created is not None else task.sequence * 1e-6
        task.scheduling_group = reading.scheduling_group_of(pod)
        task.group = placed_as.group if placed_as is not None else reading.volcano_group_of(pod)
        self._describe(task, pod)
        task.ungated = reading.was_ungated(pod)
        task.job = self._groups.job_of(task, self._drop_task)
        status, node = self._standing(task, pod)
        task.has_run = status not in _NOT_STARTED
        held = task.job is not None and task.job.placed_count > 0 and (placed_as is not None or not pod.spec.node_name)
        self._cluster.add_task(task, status, node)
        if task.scheduling_group:
            self._groups.native.joined(task)
        if task.job is not None:
            self._groups.passers_by.pod_placed(task.job, held=held)
        if task.gated and node is None:
            # what was reserved for it in its job's minimum is not, as long as it is gated
            self._cluster.wake(ClusterEvent.DEMAND_CHANGED)
        self._explain_gates(task)
        self._templates.sweep_sometimes()

    def _update_pod(self, task: TaskInfo, pod: api.Pod) -> None:
        placed_as = self._placed_as(task)
        template = self._templates.intern(pod, placed_as.template if placed_as is not None else None)
        labels_before, role_before = task.labels, task.role
        annotations_before = task.annotations
        gates_before = _gates_of(task)
        stated_before = (*gates_before, task.role, task.terminating)
        assumed = _stays_assumed(task, pod) or _stays_evicted(task, pod)
        self._note_rejection(task, pod)
        if template is not task.template or _kept_for_life(pod) != (task.resource_claims, task.workload):
            self._replace(task, pod)
            return
        self._describe(task, pod)
        if task.scheduling_group:
            self._groups.native.joined(task)
        if pod.spec.node_name and (task.annotations != annotations_before or task.bind_annotations):
            self._hear_annotations(task)
        self._hear_group(task, pod, reading.as_name(annotations_before.get(reading.GROUP_NAME, "")))
        if (*_gates_of(task), task.role, task.terminating) != stated_before:
            self._tell_members_changed(task, claims_changed=task.claim_names != gates_before[2])
        if task.labels != labels_before and task.node is not None:
            self._cluster.relabel(task, labels_before)
        elif (task.labels, task.role) != (labels_before, role_before) and task.job is not None:
            task.job.requeue()
        if assumed:
            return
        status, node = self._standing(task, pod)
        held = task.job is not None and task.job.placed_count > 0
        if (status, node) != (task.status, task.node):
            self._move(task, status, node)
        if task.job is not None and not (held and task.job.spec.has_group):
            self._groups.passers_by.pod_placed(task.job, held=held)
        self._retries.pod_changed(task)
        if gates_before != _gates_of(task) and task.job is not None:
            task.job.requeue()
            if gates_before[1] and not task.admission_gate:
                task.refusal = task.told = None  # what kept it from its queue is not in its condition
                self._hear_of_lifted_gate(task, pod)
            self._explain_gates(task)

    def _hear_of_start(self, uid: str) -> None:
        """Tell observers once that a pod runs which had not started when it was first seen."""
        task = self._cluster.tasks[uid]
        if task.status is TaskStatus.RUNNING and not task.has_run:
            task.has_run = True
            self._cluster.observers.tell_of_start(task)

    def _hear_group(self, task: TaskInfo, pod: api.Pod, before: str) -> None:
        """Put a pod into the Volcano PodGroup that it names now; one that has a node was placed in its own."""
        named = reading.volcano_group_of(pod)
        if named == task.group:
            return
        if not self._unknown_nodes.name_of(task):
            task.group = named
            self._leave(task)
            self._cluster.join(task, self._groups.job_of(task, self._drop_task))
        elif named != before:
            counts = f'in PodGroup "{task.group}", in which' if task.group else "by itself, as"
            report = self._problems.reporter(
                "Pod", pod, f"it counts {counts} it was placed, as long as it has its node"
            )
            message = f'names PodGroup "{named}" now' if named else "was removed"
            report(f"metadata.annotations[{reading.GROUP_NAME}]", message)

    def _note_rejection(self, task: TaskInfo, pod: api.Pod) -> None:
        found = rejection_of(task, pod)
        if found is not None:
            self._rejections[found] = None

    def _tell_members_changed(self, task: TaskInfo, *, claims_changed: bool) -> None:
        if claims_changed:
            self._cluster.queue_ledger.count_ungated_again(task)
        if task.job is not None:
            self._cluster.queue_ledger.members_changed(task.job)

    def _hear_of_lifted_gate(self, task: TaskInfo, pod: api.Pod) -> None:
        """Count a pod in its queue that the leader has let in while this process follows."""
        if reading.was_ungated(pod):
            self._cluster.queue_ledger.set_ungated(task, ungated=True)

    def _hear_annotations(self, task: TaskInfo) -> None:
        """Once the API server shows a pod on its node, what it shows counts, and no longer what the Binding carried."""
        task.bind_annotations = None
        if task.node is not None:
            self._cluster.annotated(task)

    def _replace(self, task: TaskInfo, pod: api.Pod) -> None:
        """The pod asks for something else now: take its task out and put a new one in, standing as before."""
        stays = _stays_assumed(task, pod) or _stays_evicted(task, pod)
        assumed_on = self._unknown_nodes.name_of(task) if stays else ""
        status, created = task.status, task.created
        placed_as = self._placed_as(task)
        self._drop_task(task.uid)
        self._add_pod(pod, placed_as)
        again = self._cluster.tasks[pod.metadata.uid]
        again.created, again.has_run, again.evicted = created, task.has_run, task.evicted or again.evicted
        if assumed_on:
            again.bind_annotations = task.bind_annotations
            self._cluster.move(again, status, self._unknown_nodes.node_for(again, assumed_on))

    def _placed_as(self, task: TaskInfo) -> _Placement | None:
        """As what a pod with a node was placed; None for one that waits."""
        return _Placement(task.template, task.group) if self._unknown_nodes.name_of(task) else None

    def _describe(self, task: TaskInfo, pod: api.Pod) -> None:
        """Everything of a pod that may change without changing what it asks for."""
        meta, spec = pod.metadata, pod.spec
        task.labels = reading.shared(labels.kept(meta.labels))
        self._problems.report_labels("Pod", pod)
        task.annotations = self._annotations.of("Pod", meta.annotations)
        task.role = reading.role_of(pod)
        task.containers = reading.container_names(pod) if task.template.container_amounts else ()
        task.scheduler = intern(spec.scheduler_name)
        task.ours = spec.scheduler_name in self._settings.scheduler_names
        task.pod_priority = self._priorities.value(spec.priority_class_name) if spec.priority is None else spec.priority
        task.priority = reading.task_priority(pod, self._cluster.priority_classes)
        if task.job is not None:
            task.job.highest = None
        task.priority_class = intern(spec.priority_class_name)
        was_preemptable, task.preemptable = task.preemptable, reading.is_preemptable(pod)
        if task.preemptable and not was_preemptable:
            self._cluster.wake(ClusterEvent.VICTIMS_CHANGED)
        task.pinned = reading.is_pinned(pod)
        task.preempts = spec.preemption_policy != "Never"
        task.gated = reading.gates_of(pod)
        task.admission_gate = reading.has_admission_gate(pod)
        task.terminating = meta.deletion_timestamp is not None
        task.evicted = reading.was_evicted(pod) or (task.evicted and task.status is TaskStatus.RELEASING)
        task.resource_claims, task.workload = _kept_for_life(pod)
        task.claim_names = reading.claim_names_of(pod)
        self._hear_nomination(task, pod.status.nominated_node_name)
        task.started = reading.seconds(pod.status.start_time) or 0.0
        task.deadline = spec.active_deadline_seconds
        task.resource_version = meta.resource_version

    def _hear_nomination(self, task: TaskInfo, node: str) -> None:
        """Take a pod's nomination from its status, unless that is older than what we have just decided."""
        if task.nomination_sent and node != task.nominated:
            return
        if node != task.nominated or task.nomination_sent:
            self._cluster.nominate(task, node, sent=False)

    def _standing(self, task: TaskInfo, pod: api.Pod) -> tuple[TaskStatus, NodeInfo | None]:
        """Status and node of a pod; a node that is not known yet is waited for."""
        status = reading.pod_status(pod)
        name = pod.spec.node_name
        self._unknown_nodes.leave(task.uid)
        if not name or status in FINISHED:
            return status, None
        return status, self._unknown_nodes.node_for(task, name)

    def _move(self, task: TaskInfo, status: TaskStatus, node: NodeInfo | None) -> None:
        if status is TaskStatus.FAILED and task.node is not None:
            self._cluster.observers.tell_of_loss(task)
        if node is task.node and {status, task.status} <= _SAME_ROOM:
            self._cluster.move_quietly(task, status)
        else:
            self._cluster.move(task, status, node)
        if status is not TaskStatus.PENDING:
            task.refusal = task.told = None

    def _drop_task(self, uid: str) -> None:
        task = self._cluster.tasks.get(uid)
        if task is None:
            return
        self._unknown_nodes.leave(uid)
        self._retries.forget(uid)
        job = task.job
        if task.scheduling_group:
            self._groups.native.leave(task)
        self._cluster.remove_task(task)
        self._groups.drop_if_empty(job)

    def _explain_gates(self, task: TaskInfo) -> None:
        if task.gated and task.ours and task.status is TaskStatus.PENDING:
            names = ", ".join(task.gated)
            task.refusal = Verdict(
                Step.GATED, "", Scope.POD, "SchedulingGated", f"scheduling is gated by {names}", resolvable=False
            )
        elif task.refusal is not None and task.refusal.step is Step.GATED:
            task.refusal = None

    def _leave(self, task: TaskInfo) -> None:
        job = task.job
        self._cluster.join(task, None)
        self._groups.drop_if_empty(job)


def _kept_for_life(pod: api.Pod) -> tuple[tuple[ResourceClaimUse, ...], str]:
    """What accounts are kept by beside the template: a pod that states something else there is another task."""
    return reading.resource_claims_of(pod), reading.workload_of(pod)


def _gates_of(task: TaskInfo) -> tuple[tuple[str, ...], bool, tuple[tuple[str, str | None], ...]]:
    """What keeps a pod from being tried, and which claims were made for it."""
    return task.gated, task.admission_gate, task.claim_names


def _stays_assumed(task: TaskInfo, pod: api.Pod) -> bool:
    """Whether a pod that the API server shows without a node is on its way to the one that we chose."""
    ended = pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed")
    return task.status in ASSUMED and not pod.spec.node_name and not ended


def _stays_evicted(task: TaskInfo, pod: api.Pod) -> bool:
    """Whether a pod that the API server does not show as being deleted is about to be, because we decided so.

    Its condition ``DisruptionTarget`` is written, and seen, first. Only a refusal takes the decision back.
    """
    ended = pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed")
    return task.status is TaskStatus.RELEASING and not task.terminating and not ended
