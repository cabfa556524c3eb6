"""What queues hold of devices, as quotas of devices mind it, and the jobs that are about to hold some.

A pod counts from the moment a node is chosen for it (promised room included) until it is evicted, finishes or is
undone.
"""

from __future__ import annotations

from typing import Final

from volsched.framework.dra.accounts import DeviceAccounts
from volsched.model.cluster import Cluster
from volsched.model.job import INQUEUE, JobInfo
from volsched.model.status import IS_ALLOCATED, TaskStatus

COUNTS: Final = tuple(IS_ALLOCATED[status] or status is TaskStatus.PIPELINED for status in TaskStatus)
"""Indexed by status: the pod's claims count in its queue."""


class Ledger(DeviceAccounts):
    """Follows the cluster. Ask ``catch_up`` before reading, so that changes of claims are in."""

    def __init__(self, cluster: Cluster, *, with_admin: bool) -> None:
        self.admitted: dict[str, JobInfo] = {}
        """Jobs that are admitted and have pods with claims."""
        super().__init__(cluster, counts=COUNTS, with_admin=with_admin)

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Follow a job into another queue, and into and out of admission."""
        super().job_changed(job, gone=gone)
        if not gone and job.phase == INQUEUE and any(self.concerns(task) for task in job.tasks.values()):
            self.admitted[job.key] = job
        else:
            self.admitted.pop(job.key, None)

    def _read_classes(self) -> None:
        super()._read_classes()
        for job in self._cluster.jobs.values():
            self.job_changed(job, gone=False)
