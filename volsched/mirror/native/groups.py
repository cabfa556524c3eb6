"""Jobs of Kubernetes' own gangs: their pods, their PodGroups, and their queues.

``schedulingGroup`` decides about membership, whatever annotations state. Groups are distinguished by namespace and
name, not by uid, as in kube-scheduler. Pods wait while their PodGroup does not exist.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from volsched.mirror.kept import AnnotationReader
from volsched.mirror.native.queues import NativeQueues
from volsched.mirror.native.reading import conditions_of, group_of
from volsched.mirror.reading import GROUP_NAME, as_name
from volsched.mirror.settings import Arrival, MirrorSettings
from volsched.mirror.superseded_groups import SupersededGroups
from volsched.mirror.ungrouped_pods import UngroupedPods
from volsched.model.api.native_groups import KIND, PodGroup
from volsched.model.changes import Deleted, KindServed
from volsched.model.cluster import Cluster
from volsched.model.conditions import REMEMBERED
from volsched.model.generations import ClusterEvent
from volsched.model.job import (
    COMPLETED,
    NATIVE,
    NO_GROUP,
    PENDING,
    JobInfo,
    JobProperties,
    PodGroupCondition,
    shown_as,
    with_condition,
)
from volsched.model.native_group import NativeGroup
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_FINISHED

_TICKS: Final = 1_000_000


class NativeGroups:
    """The jobs that PodGroups of scheduling.k8s.io make, and pods that name one."""

    def __init__(
        self,
        cluster: Cluster,
        settings: MirrorSettings,
        arrival: Arrival,
        superseded_groups: SupersededGroups,
        annotations: AnnotationReader,
        passers_by: UngroupedPods,
    ) -> None:
        self._passers_by = passers_by
        self._cluster = cluster
        self._arrival = arrival
        self._superseded_groups = superseded_groups
        self._annotations = annotations
        self._queues = NativeQueues(cluster, settings.default_queue, passers_by.follows_job)
        self._named: dict[str, str] = {}
        self.put_workload = self._queues.put_workload
        self.drop_workload = self._queues.drop_workload
        self.put_namespace = self._queues.put_namespace
        self.drop_namespace = self._queues.drop_namespace

    def __len__(self) -> int:
        return len(self._named) + len(self._queues)

    # -- members ------------------------------------------------------------------------------------------------------

    def job_of(self, task: TaskInfo) -> JobInfo:
        """Return the job of a task that names a group, made by its first member."""
        job = self._job(task.namespace, task.spec.scheduling_group)
        if not job.tasks:
            job.created = _age(job.spec.native, task)
        return job

    def joined(self, task: TaskInfo) -> None:
        """Take in the properties of a member: when it came, and after each change."""
        job = task.job
        if job is None:
            return
        self._name_volcanos(task.uid, _volcanos(task))
        self._queues.note_member(task, job)
        self._set_priority(job)
        if job.phase == COMPLETED and not IS_FINISHED[task.status]:  # it has to be admitted again
            self._cluster.queue_cache.set_phase(job, PENDING)

    def leave(self, task: TaskInfo) -> None:
        """Take note that a member goes."""
        self._name_volcanos(task.uid, "")
        if task.job is not None:
            self._queues.forget_member(task, task.job)

    def _name_volcanos(self, uid: str, key: str) -> None:
        """Note which Volcano PodGroup a member names besides."""
        before = self._named.pop(uid, "")
        if key:
            self._named[uid] = key
        if key != before:
            for changed, by in ((before, -1), (key, 1)):
                if changed:
                    self._superseded_groups.note(changed, by)

    def drop_if_empty(self, job: JobInfo) -> None:
        """Forget a job that has neither pods nor a PodGroup."""
        if not job.tasks and not job.spec.has_group and job.key in self._cluster.jobs:
            self._cluster.native_jobs.pop(job.key, None)
            self._cluster.queue_cache.remove_job(job)

    def _job(self, namespace: str, name: str) -> JobInfo:
        known = self._cluster.jobs.get(f"{namespace}/{NATIVE}{name}")
        if known is not None:
            return known
        job = JobInfo(namespace, f"{NATIVE}{name}")
        job.created = self._arrival.as_time()
        self._cluster.native_jobs[job.key] = job
        self._queues.settle(job)
        self._cluster.queue_cache.put_job(job)
        return job

    # -- PodGroups ----------------------------------------------------------------------------------------------------

    def put(self, found: PodGroup) -> None:
        """Take a PodGroup in."""
        annotations = self._annotations.of(KIND, found.metadata.annotations)
        group, shown = msgspec.structs.replace(group_of(found), annotations=annotations), conditions_of(found)
        job = self._job(group.namespace, group.name)
        before = job.spec.native
        if before is None or before.uid != group.uid:
            self._begin(job, group, shown)
        spec = job.spec
        self._describe(job, group, shown)
        self._cluster.queue_cache.properties_changed(job, spec)
        self._passers_by.leave(job)
        self._cluster.queue_cache.keep_job_queue(job, shown)
        self._set_priority(job)
        self._queues.settle(job)
        if before != group:
            job.refusal = None
            self._cluster.queue_cache.put_job(job)
        if before is None:
            self._passers_by.pod_placed(job, held=False)
        self._cluster.queue_cache.dirty_jobs[job.key] = job

    def _begin(self, job: JobInfo, group: NativeGroup, shown: tuple[PodGroupCondition, ...]) -> None:
        """Forget what was stated of another PodGroup of the name."""
        first = min(job.tasks.values(), key=lambda task: task.sequence, default=None)
        job.created = _age(group, first)
        job.refusal = None
        job.conditions = shown
        job.reported = shown_as(job.conditions)

    def _describe(self, job: JobInfo, group: NativeGroup, shown: tuple[PodGroupCondition, ...]) -> None:
        job.spec = JobProperties(
            has_group=True,
            group_uid=group.uid,
            owner=group.owner,
            min_available=group.min_count,
            min_resources=job.spec.min_resources,
            priority_class=group.priority_class,
            labels=group.labels,
            annotations=group.annotations,
            native=group,
        )
        self._take_conditions(job, shown)

    def _take_conditions(self, job: JobInfo, shown: tuple[PodGroupCondition, ...]) -> None:
        """Take in a PodGroup. Its reservation is remembered here, as the watch may be behind."""
        known = job.reported.conditions if job.reported is not None else ()
        for condition in shown:
            if condition.type not in REMEMBERED:
                job.conditions = with_condition(job.conditions, condition)
                known = with_condition(known, condition)
        job.reported = shown_as(known)

    def drop(self, gone: Deleted) -> None:
        """Forget a PodGroup. Its pods stay, and wait for another one of its name."""
        job = self._cluster.jobs.get(f"{gone.namespace}/{NATIVE}{gone.name}")
        if job is None or not job.spec.has_group:
            return
        job.spec = replace(NO_GROUP, group_uid=job.spec.group_uid)
        job.conditions, job.reported = (), None
        self._queues.settle(job)
        self._cluster.queue_cache.set_phase(job, "")
        self._cluster.wake(ClusterEvent.JOB_CHANGED)
        self._cluster.queue_cache.dirty_jobs[job.key] = job
        self.drop_if_empty(job)

    def served(self, change: KindServed) -> None:
        """Take in whether the API server serves PodGroups: pods that wait for one get another message then."""
        self._cluster.native_served = change.group_version
        self._cluster.queue_cache.dirty_jobs.update(self._cluster.native_jobs)

    def _set_priority(self, job: JobInfo) -> None:
        group = job.spec.native
        own = group.priority if group is not None else None
        job.priority = job.highest_pod_priority if own is None else own


def _age(group: NativeGroup | None, first: TaskInfo | None) -> float:
    """Return the age of a group: its creation; of groups made in the same second, that of its first pod."""
    made = group.created if group is not None else None
    if made is None:
        return first.created if first is not None else 0.0
    return made + (first.sequence % _TICKS if first is not None else _TICKS) / _TICKS


def _volcanos(task: TaskInfo) -> str:
    """Return the Volcano PodGroup that a pod of a native group names by annotation; empty for none."""
    name = as_name(task.spec.annotations.get(GROUP_NAME, ""))
    return f"{task.namespace}/{name}" if name else ""
