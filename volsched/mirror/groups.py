"""PodGroups and jobs: which job a pod belongs to, and what its PodGroup states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from volsched.mirror import reading
from volsched.mirror.events import MirrorEvents
from volsched.mirror.kept import AnnotationReader
from volsched.mirror.native.groups import NativeGroups
from volsched.mirror.priorities import Priorities
from volsched.mirror.problems import NO_EFFECT, ReadingProblems
from volsched.mirror.settings import Arrival, MirrorSettings
from volsched.mirror.superseded_groups import SupersededGroups
from volsched.mirror.ungrouped_pods import UngroupedPods
from volsched.model import api, unserved
from volsched.model.changes import Deleted, GroupWriteFailed
from volsched.model.cluster import Cluster
from volsched.model.conditions import REMEMBERED
from volsched.model.generations import ClusterEvent
from volsched.model.job import LONE, GroupStatus, JobInfo, JobProperties
from volsched.model.pods.task import TaskInfo


class Groups:
    """The jobs of a cluster, made by PodGroups and by the pods that name them."""

    def __init__(
        self,
        cluster: Cluster,
        settings: MirrorSettings,
        problems: ReadingProblems,
        priorities: Priorities,
        arrival: Arrival,
        annotations: AnnotationReader,
        events: MirrorEvents,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._problems = problems
        self._priorities = priorities
        self._arrival = arrival
        self._annotations = annotations
        self._superseded_groups = SupersededGroups(cluster)
        self.passers_by = UngroupedPods(cluster, settings.default_queue, events)
        self.native = NativeGroups(cluster, settings, arrival, self._superseded_groups, annotations, self.passers_by)

    # -- jobs of pods -------------------------------------------------------------------------------------------------

    def job_of(self, task: TaskInfo, drop_task: Callable[[str], None]) -> JobInfo | None:
        """Return the job of a task, made by its first member. ``drop_task`` takes a uid."""
        if task.spec.scheduling_group:
            return self.native.job_of(task)
        if task.group:
            job = self._cluster.jobs.get(f"{task.namespace}/{task.group}") or self._new(task.namespace, task.group)
            if job.superseded:  # somebody is in it after all
                self._cluster.queue_cache.set_superseded(job, superseded=False)
            return job
        if not task.spec.is_managed:
            return None
        return self._lone(task, drop_task)

    def _lone(self, task: TaskInfo, drop_task: Callable[[str], None]) -> JobInfo:
        """Return the job of a pod that names no PodGroup: of one, or waiting for a PodGroup."""
        job = JobInfo(task.namespace, f"{LONE}{task.name}")
        earlier = self._cluster.jobs.get(job.key)
        if earlier is not None:  # a pod of that name was made again: the old one is gone
            for uid in list(earlier.tasks):
                drop_task(uid)
        job.uid = task.uid
        job.queue = self._settings.default_queue
        job.created = task.created
        job.priority = task.spec.pod_priority
        job.spec = JobProperties(implicit=self._settings.plain_pods)
        self._cluster.queue_cache.put_job(job)
        return job

    def _new(self, namespace: str, name: str) -> JobInfo:
        job = JobInfo(namespace, name)
        job.created = self._arrival.as_time()
        self._cluster.queue_cache.put_job(job)
        return job

    def drop_if_empty(self, job: JobInfo | None) -> None:
        """Forget a job that has neither pods nor a PodGroup."""
        if job is None or job.tasks:
            return
        self.passers_by.leave(job)
        if job.is_native:
            self.native.drop_if_empty(job)
        elif job.spec.has_group:
            self._superseded_groups.judge(job)
        elif job.key in self._cluster.jobs:
            self._cluster.queue_cache.remove_job(job)

    # -- PodGroups ----------------------------------------------------------------------------------------------------

    def put(self, group: api.PodGroup) -> None:
        """Take a PodGroup in."""
        meta = group.metadata
        job = self._cluster.jobs.get(f"{meta.namespace}/{meta.name}") or self._new(meta.namespace, meta.name)
        before = job.spec, job.queue
        is_new = not job.spec.has_group or job.spec.group_uid != meta.uid
        if is_new:
            job.created = reading.seconds(meta.creation_timestamp) or job.created
            job.reported, job.confirmed = None, True
        self._cluster.queue_cache.set_properties(job, self._read(group))
        self.passers_by.leave(job)
        job.priority = self._priorities.value(job.spec.priority_class)
        self._cluster.queue_cache.keep_job_queue(job, reading.conditions_of(group))
        self._cluster.queue_cache.set_job_queue(job, group.spec.queue or self._settings.default_queue)
        self._take_status(job, group)
        job.admitted_at = reading.admitted_at(group)
        if (job.spec, job.queue) != before:
            job.refusal = None
            self._warn(group)
            self._cluster.queue_cache.put_job(job)
        if is_new:
            self.passers_by.pod_placed(job, held=False)
        self._superseded_groups.judge(job)

    def _read(self, group: api.PodGroup) -> JobProperties:
        found = reading.group_spec(group, self._problems.reporter("PodGroup", group))
        return replace(found, annotations=self._annotations.of("PodGroup", group.metadata.annotations))

    def _warn(self, group: api.PodGroup) -> None:
        report = self._problems.reporter("PodGroup", group, NO_EFFECT)
        for wish in unserved.ignored_by(group):
            report(wish.field, wish.message)
        self._problems.report_labels("PodGroup", group)

    def drop(self, gone: Deleted) -> None:
        """Forget a PodGroup. Its pods stay."""
        job = self._cluster.jobs.get(f"{gone.namespace}/{gone.name}")
        if job is None or not job.spec.has_group:
            return
        self._cluster.queue_cache.set_properties(job, replace(job.spec, has_group=False, unserved=None))
        job.reported, job.confirmed = None, True
        self._cluster.queue_cache.set_phase(job, "")
        self._cluster.wake(ClusterEvent.JOB_CHANGED)
        self.drop_if_empty(job)

    def write_failed(self, change: GroupWriteFailed) -> None:
        """Have a status written again that was refused."""
        job = self._cluster.jobs.get(f"{change.namespace}/{change.name}")
        if job is not None:
            job.reported, job.confirmed = None, True
            if job.is_native:
                job.conditions = tuple(one for one in job.conditions if one.type in REMEMBERED)
            self._cluster.queue_cache.dirty_jobs[job.key] = job

    def _take_status(self, job: JobInfo, group: api.PodGroup) -> None:
        """Take a PodGroup's status in, unless it is older than one that we are still writing."""
        status = group.status
        shown = GroupStatus(status.phase, status.running, status.succeeded, status.failed, reading.conditions_of(group))
        if shown == job.reported:
            job.confirmed = True
        elif job.confirmed:
            job.reported = shown
            job.conditions = shown.conditions
            self._cluster.queue_cache.dirty_jobs[job.key] = job
        else:
            return
        self._cluster.queue_cache.set_phase(job, status.phase)
