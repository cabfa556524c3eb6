"""The queue of a native group, as the API has none: an annotation states it.

The first that names one decides: the PodGroup, its Workload, its pods if they agree, the namespace; else it is the
default queue. Pods are asked since the user of a Job reaches nothing else: its controller copies no annotations. Where
a group has pods that came with a node and no PodGroup, another one decides (``mirror.ungrouped_pods``).
"""

from __future__ import annotations

from collections.abc import Callable

from volsched.mirror.reading import as_name
from volsched.model import api
from volsched.model.changes import Deleted
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.native_group import QUEUE_NAME
from volsched.model.pods.task import TaskInfo


class NativeQueues:
    """The queues that Workloads, pods and namespaces name, and the resulting queue of each native group."""

    def __init__(self, cluster: Cluster, default: str, is_elsewhere: Callable[[JobInfo], bool]) -> None:
        self._cluster = cluster
        self._default = default
        self._is_elsewhere = is_elsewhere
        self._workloads: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}
        self._members: dict[str, str] = {}
        self._counts: dict[str, dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self._workloads) + len(self._namespaces) + len(self._members)

    # -- who names one ------------------------------------------------------------------------------------------------

    def note_member(self, task: TaskInfo, job: JobInfo) -> None:
        """Take note of the queue that a member names."""
        named, before = as_name(task.spec.annotations.get(QUEUE_NAME, "")), self._members.get(task.uid, "")
        if named == before:
            return
        self._count(job, before, -1)
        self._count(job, named, 1)
        if named:
            self._members[task.uid] = named
        else:
            del self._members[task.uid]
        self.settle(job)

    def forget_member(self, task: TaskInfo, job: JobInfo) -> None:
        """Take note that a member goes."""
        named = self._members.pop(task.uid, "")
        if named:
            self._count(job, named, -1)
            self.settle(job)

    def _count(self, job: JobInfo, queue: str, by: int) -> None:
        if not queue:
            return
        counts = self._counts.setdefault(job.key, {})
        counts[queue] = counts.get(queue, 0) + by
        if not counts[queue]:
            del counts[queue]
        if not counts:
            del self._counts[job.key]

    def put_workload(self, workload: api.ApiObject) -> None:
        """Take note of the queue that a Workload names."""
        meta = workload.metadata
        self._name(self._workloads, workload.key, as_name(meta.annotations.get(QUEUE_NAME, "")), meta.namespace)

    def drop_workload(self, gone: Deleted) -> None:
        """Forget a Workload."""
        self._name(self._workloads, f"{gone.namespace}/{gone.name}", "", gone.namespace)

    def put_namespace(self, namespace: api.ApiObject) -> None:
        """Take note of the queue that a namespace names."""
        meta = namespace.metadata
        self._name(self._namespaces, meta.name, as_name(meta.annotations.get(QUEUE_NAME, "")), meta.name)

    def drop_namespace(self, gone: Deleted) -> None:
        """Forget a namespace."""
        self._name(self._namespaces, gone.name, "", gone.name)

    def _name(self, known: dict[str, str], key: str, queue: str, namespace: str) -> None:
        if known.get(key, "") == queue:
            return
        if queue:
            known[key] = queue
        else:
            del known[key]
        for job in self._cluster.native_jobs.values():
            if job.namespace == namespace:
                self.settle(job)

    # -- which one follows --------------------------------------------------------------------------------------------

    def settle(self, job: JobInfo) -> None:
        """Move a group to the queue that is named now, once it holds nothing in the present one."""
        group = job.spec.native
        of_members = sorted(self._counts.get(job.key, ()))
        named = self._named_by(job) or next(iter(of_members), "") or self._namespaces.get(job.namespace, "")
        job.fault = group.fault if group is not None else ""
        if len(of_members) > 1 and not self._named_by(job):
            job.fault = job.fault or f'its pods name different queues: "{of_members[0]}" and "{of_members[1]}"'
        before = job.queue
        if not self._is_elsewhere(job):
            self._cluster.queue_cache.set_job_queue(job, named or self._default)
        if job.queue != before:
            job.requeue()
        self._cluster.queue_cache.dirty_jobs[job.key] = job

    def _named_by(self, job: JobInfo) -> str:
        """Return the queue that the group or its Workload names."""
        group = job.spec.native
        if group is None:
            return ""
        return group.queue or self._workloads.get(f"{group.namespace}/{group.workload}", "")
