"""The devices of queues as quotas count them, and whether a job will hold some.

A pod counts from the moment a node is chosen for it (promised room included) until it is evicted, finishes or is
undone; one whose gate was lifted counts from then on. Until devices are chosen for its extended resources they count as
many as it asks for, where no node offers the resource itself.
"""

from __future__ import annotations

from fractions import Fraction

from volsched.plugin import IS_CHOSEN, Cluster, JobInfo, TaskInfo, TaskStatus
from volsched.plugin.devices import (
    Amount,
    Amounts,
    DeviceAccounts,
    Pairs,
    announced_by,
    from_devices,
    pending_claim_uid,
)


class ClaimUsage(DeviceAccounts):
    """The devices that the pods of queues hold, lifted gates included. Each answer is up to date."""

    def __init__(self, cluster: Cluster, *, with_admin: bool) -> None:
        self._ungated: dict[str, TaskInfo] = {}
        """Pods that count and have no node, by the key of the claim for extended resources that is not made yet."""
        self._offered: dict[str, bool] = {}
        """Whether nodes offer what such pods ask for themselves, as it was when they were counted."""
        super().__init__(cluster, counts=IS_CHOSEN, with_admin=with_admin)

    def task_ungated(self, task: TaskInfo, *, counts: bool) -> None:
        """Charge a pod whose gate was lifted, and that has no node yet, and uncharge it."""
        if not counts:
            self._uncharge_pod(task.uid)
        elif task.uid not in self._pod_charges and self._is_due(task):
            self._charge_pod(task)

    def _refresh(self) -> None:
        """Take in changes of queues, claims and of what nodes offer."""
        if any(self.is_offered(resource) != offered for resource, offered in self._offered.items()):
            self._rebuild()
        super()._refresh()

    def _rebuild(self) -> None:
        self._ungated.clear()
        self._offered.clear()
        super()._rebuild()

    def _charge_pod(self, task: TaskInfo) -> None:
        if task.status is TaskStatus.PENDING:
            self._ungated[pending_claim_uid(task.uid)] = task
            self._offered |= {resource: self.is_offered(resource) for resource, _ in self._from_devices(task)}
        super()._charge_pod(task)

    def _uncharge_pod(self, uid: str) -> None:
        super()._uncharge_pod(uid)
        self._ungated.pop(pending_claim_uid(uid), None)

    def _is_known(self, key: str) -> bool:
        return key in self._ungated or super()._is_known(key)

    def _read(self, key: str) -> Amounts:
        found = super()._read(key)
        task = self._ungated.get(key)
        return self.of_extended(task) if task is not None and not found else found

    def of_extended(self, task: TaskInfo) -> dict[Amount, Fraction]:
        """Return what a pod's extended resources count for where only devices have them: no node offers any itself."""
        found: dict[Amount, Fraction] = {}
        for resource, device_class in self._from_devices(task):
            if not self.is_offered(resource):
                amount = Amount(device_class)
                found[amount] = found.get(amount, Fraction(0)) + Fraction(task.template.request[resource], 1000)
        return found

    def _from_devices(self, task: TaskInfo) -> Pairs:
        return from_devices(task.template, self._cluster.devices)

    def _is_due(self, task: TaskInfo) -> bool:
        waits = task.ungated and task.status is TaskStatus.PENDING and task.job is not None
        return super()._is_due(task) or (waits and self.concerns(task))

    def awaits_devices(self, job: JobInfo) -> bool:
        """Return whether a job wants devices, by its pods or by the annotation of its PodGroup."""
        return (
            any(self.concerns(task) for task in job.tasks.values())
            or bool(announced_by(job.spec.annotations).roles)
            or bool(self.promised_extended(job))
        )

    def promised_extended(self, job: JobInfo) -> dict[str, Fraction]:
        """Return what a PodGroup without pods asks of classes, by extended resources that no node offers itself."""
        if job.tasks or job.spec.min_resources is None:
            return {}
        devices = self._cluster.devices
        found: dict[str, Fraction] = {}
        for resource, amount in job.spec.min_resources.items():
            name = devices.class_for(resource) if devices.classes else None
            if name is not None and not self.is_offered(resource):
                found[name] = found.get(name, Fraction(0)) + Fraction(amount, 1000)
        return found

    def is_offered(self, resource: str) -> bool:
        """Return whether any node offers an extended resource itself."""
        column, totals = self._cluster.columns.find(resource), self._cluster.node_cache.totals
        return column is not None and column < len(totals) and totals[column] > 0
