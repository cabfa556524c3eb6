"""The consumers of the devices that a job waits for, if no node has enough of them left."""

from __future__ import annotations

from collections.abc import Iterator

from volsched.plugin import IS_CHOSEN, Cluster, JobInfo, TaskInfo, Verdict
from volsched.plugin.devices import NO_DEVICES, Amount, DeviceAccounts, device_holdings, from_devices, of_spec
from volsched.plugin.quota import Consumer


class DeviceHolders:
    """Counts on request: quotas are another plugin's, and may be in force or not."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def of(self, job: JobInfo, refusal: Verdict) -> Iterator[Consumer]:
        """Yield the amounts that jobs of all queues hold of a job's DeviceClasses."""
        if NO_DEVICES not in refusal.message:
            return
        classes = {name for task in job.waiting.values() for name in self._classes(task)}
        accounts = DeviceAccounts(self._cluster, counts=IS_CHOSEN)
        keys = {Amount(name).key for name in classes}
        yield from device_holdings(self._cluster, accounts, self._cluster.queues, keys)

    def _classes(self, task: TaskInfo) -> Iterator[str]:
        """Yield the classes that a pod's claims ask for, those to be made from templates included."""
        devices = self._cluster.devices
        yield from (name for _, name in from_devices(task.template, devices))
        for use, key in task.claims_by_entry():
            claim = devices.claims.get(key)
            spec = claim.spec if claim is not None else devices.templates.get(f"{task.namespace}/{use.template}")
            if spec is not None:
                yield from (key.device_class for key in of_spec(spec))
