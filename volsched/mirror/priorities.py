"""PriorityClasses, and the priorities of PodGroups and pods that name one."""

from __future__ import annotations

from volsched.model import api
from volsched.model.changes import Deleted
from volsched.model.cluster import Cluster


class Priorities:
    """The values of PriorityClasses. Where a class is unknown or not named the default one counts."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._default = ""

    def value(self, name: str) -> int:
        """Return the value of a class."""
        return self._cluster.priority_classes.get(name, self._cluster.default_priority)

    def put(self, found: api.PriorityClass) -> None:
        """Take a PriorityClass in."""
        self._cluster.priority_classes[found.metadata.name] = found.value
        if found.global_default:
            self._cluster.default_priority = found.value
            self._default = found.metadata.name
        elif self._default == found.metadata.name:
            self._forget_default()
        self._count_jobs_again()

    def drop(self, gone: Deleted) -> None:
        """Forget a PriorityClass."""
        self._cluster.priority_classes.pop(gone.name, None)
        if gone.name == self._default:
            self._forget_default()
        self._count_jobs_again()

    def _forget_default(self) -> None:
        self._cluster.default_priority, self._default = 0, ""

    def _count_jobs_again(self) -> None:
        for job in self._cluster.jobs.values():
            if job.spec.has_group and not job.is_native:
                job.priority = self.value(job.spec.priority_class)
