"""Volcano PodGroups that were made for pods of Kubernetes' own gangs.

Volcano's podgroup controller does not know ``schedulingGroup``: it makes a PodGroup for every pod of its scheduler
names and writes the name on the pod. Such a PodGroup has no members, since ``schedulingGroup`` decides. It is
superseded: it is not admitted, and its requests count nowhere.
"""

from __future__ import annotations

from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo


class SupersededGroups:
    """How many pods of native groups name each Volcano PodGroup, by ``namespace/name``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._named: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._named)

    def note(self, key: str, by: int) -> None:
        """Count a pod of a native group that names a Volcano PodGroup, or (-1) stop counting it."""
        left = self._named.get(key, 0) + by
        if left:
            self._named[key] = left
        else:
            self._named.pop(key, None)
        job = self._cluster.jobs.get(key)
        if job is not None:
            self.judge(job)

    def judge(self, job: JobInfo) -> None:
        """True if a Volcano PodGroup is superseded: it has no members, and pods that name it are in native groups."""
        if job.superseded or self._named:
            superseded = not job.tasks and job.key in self._named
            self._cluster.queue_cache.set_superseded(job, superseded=superseded)
