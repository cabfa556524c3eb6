"""One state of a pod, read once: its properties, and its node and status at the API server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from sys import intern
from typing import NamedTuple

from volsched.mirror import reading
from volsched.mirror.kept import AnnotationReader
from volsched.mirror.priorities import Priorities
from volsched.mirror.settings import MirrorSettings
from volsched.model import api, labels
from volsched.model.annotations import bounded
from volsched.model.pods.task import PodProperties, TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.status import TaskStatus

FINISHED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)


class PodReading(NamedTuple):
    """The data that the mirror takes in of one state of a pod.

    ``group`` is the Volcano PodGroup that it names, ``node`` its node, empty without one. ``is_ungated``: Volcano's
    gate was removed. ``is_evicted``: a scheduler has decided to evict it.
    """

    template: PodTemplate
    spec: PodProperties
    group: str
    status: TaskStatus
    node: str
    nominated: str
    is_ungated: bool
    is_evicted: bool
    created: float | None
    resource_version: str

    @property
    def has_ended(self) -> bool:
        """True if the pod is being deleted, or has finished."""
        return self.spec.terminating or self.status in FINISHED

    def is_another(self, task: TaskInfo) -> bool:
        """True if the request of the pod differs from that of its task."""
        mine, its = self.spec, task.spec
        same_uses = mine.resource_claims == its.resource_claims and mine.workload == its.workload
        return self.template is not task.template or not same_uses


@dataclass(frozen=True, slots=True)
class PodReader:
    """Reads pods. ``intern`` returns the template of a pod; its second argument is that of a pod with a node."""

    settings: MirrorSettings
    annotations: AnnotationReader
    priorities: Priorities
    classes: Mapping[str, int]
    intern: Callable[[api.Pod, PodTemplate | None], PodTemplate]

    def read(self, pod: api.Pod, placed_as: PodTemplate | None = None) -> PodReading:
        """Return what a pod states. ``placed_as`` is the template of one that has a node already."""
        template, meta = self.intern(pod, placed_as), pod.metadata
        return PodReading(
            template=template,
            spec=self._properties(pod, template),
            group=reading.volcano_group_of(pod),
            status=reading.pod_status(pod),
            node=pod.spec.node_name,
            nominated=pod.status.nominated_node_name,
            is_ungated=reading.was_ungated(pod),
            is_evicted=reading.was_evicted(pod),
            created=reading.seconds(meta.creation_timestamp),
            resource_version=meta.resource_version,
        )

    def _properties(self, pod: api.Pod, template: PodTemplate) -> PodProperties:
        meta, spec = pod.metadata, pod.spec
        of_class = self.priorities.value(spec.priority_class_name)
        return PodProperties(
            labels=reading.shared(labels.kept(meta.labels)),
            annotations=self.annotations.of("Pod", bounded(meta.annotations)),
            role=reading.role_of(pod),
            containers=reading.container_names(pod) if template.container_amounts else (),
            scheduler=intern(spec.scheduler_name),
            is_managed=spec.scheduler_name in self.settings.scheduler_names,
            priority=reading.task_priority(pod, self.classes),
            pod_priority=of_class if spec.priority is None else spec.priority,
            priority_class=intern(spec.priority_class_name),
            preemptable=reading.is_preemptable(pod),
            preempts=spec.preemption_policy != "Never",
            pinned=reading.is_pinned(pod),
            gated=reading.gates_of(pod),
            admission_gate=reading.has_admission_gate(pod),
            terminating=meta.deletion_timestamp is not None,
            resource_claims=reading.resource_claims_of(pod),
            claim_names=reading.claim_names_of(pod),
            scheduling_group=reading.scheduling_group_of(pod),
            workload=reading.workload_of(pod),
            started=reading.seconds(pod.status.start_time) or 0.0,
            deadline=spec.active_deadline_seconds,
        )
