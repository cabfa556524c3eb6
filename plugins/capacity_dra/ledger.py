"""What queues hold of devices, as quotas of devices mind it, and whether a job is about to hold some.

A pod counts from the moment a node is chosen for it (promised room included) until it is evicted, finishes or is
undone; one whose gate was lifted counts from then on.
"""

from __future__ import annotations

from fractions import Fraction

from volsched.framework.dra.accounts import DeviceAccounts
from volsched.model.announced import announced_by
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.status import IS_CHOSEN, TaskStatus
from volsched.model.task import TaskInfo


class Ledger(DeviceAccounts):
    """Follows the cluster. Ask ``catch_up`` before reading, so that changes of claims are in."""

    def __init__(self, cluster: Cluster, *, with_admin: bool) -> None:
        super().__init__(cluster, counts=IS_CHOSEN, with_admin=with_admin)

    def task_ungated(self, task: TaskInfo, *, counts: bool) -> None:
        """Charge a pod whose gate was lifted, and that has no node yet, and uncharge it."""
        if not counts:
            self._rise(task.uid)
        elif task.uid not in self.seated and self._is_due(task):
            self._sit(task)

    def _is_due(self, task: TaskInfo) -> bool:
        waits = task.ungated and task.status is TaskStatus.PENDING and task.job is not None
        return super()._is_due(task) or (waits and self.concerns(task))

    def awaits_devices(self, job: JobInfo) -> bool:
        """Say whether any pod of a job wants devices, as far as pods are there or its PodGroup tells of them."""
        return (
            any(self.concerns(task) for task in job.tasks.values())
            or bool(announced_by(job.annotations).roles)
            or bool(self.promised_extended(job))
        )

    def promised_extended(self, job: JobInfo) -> dict[str, Fraction]:
        """Return what a PodGroup without pods asks of classes, by extended resources that no node offers itself."""
        if job.tasks or job.min_resources is None:
            return {}
        devices = self._cluster.devices
        found: dict[str, Fraction] = {}
        for resource, amount in job.min_resources.items():
            name = devices.class_for(resource) if devices.classes else None
            if name is not None and not self.is_offered(resource):
                found[name] = found.get(name, Fraction(0)) + Fraction(amount, 1000)
        return found

    def is_offered(self, resource: str) -> bool:
        """Say whether any node offers an extended resource itself."""
        column, totals = self._cluster.columns.find(resource), self._cluster.totals
        return column is not None and column < len(totals) and totals[column] > 0
