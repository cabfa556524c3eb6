"""For people who ask why a job waits: who holds the devices of its queue's quota, and whose quota could be larger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from plugins.capacity_dra.demands import DeviceDemands
from plugins.capacity_dra.ledger import ClaimLedger
from plugins.capacity_dra.limits import ClaimLimits
from plugins.capacity_dra.quota import as_named
from plugins.capacity_dra.suggestions import raised
from volsched.plugin import Cluster, JobInfo, Verdict
from volsched.plugin.devices import device_holdings
from volsched.plugin.quota import Consumer, Suggestion, queues_below, total_of


class DeviceExplainer:
    """Reads the accounts that the plugin decides by."""

    def __init__(self, cluster: Cluster, ledger: ClaimLedger, demands: DeviceDemands, limits: ClaimLimits) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._demands = demands
        self._limits = limits

    def holders(self, job: JobInfo, refusal: Verdict) -> Iterable[Consumer]:
        """Return what jobs of the queue that refused, in a hierarchy of those below it, hold of what is short."""
        self._ledger.catch_up()
        level = refusal.queue or job.queue
        shared = queues_below(self._cluster, level) if self._limits.checks_ancestors else [level]
        short = {item.resource for item in refusal.shortfalls}
        return device_holdings(self._cluster, self._ledger, shared, short, self._limits.limited(level))

    def remedies(self, job: JobInfo) -> Iterator[Suggestion]:
        """Yield a larger quota of what a job wants, of its queue and of those above that limit it."""
        self._ledger.catch_up()
        claims = {key: found for task in job.waiting.values() for key, found in self._demands.of_task(task).items()}
        asked = total_of((*claims.values(), self._demands.minimum(job)))
        for level in self._limits.levels(job.queue):
            for key, amount in sorted(as_named(asked, self._limits.limited(level)).items()):
                if self._limits.limit(key, level) is not None:
                    yield raised(level, key, amount)
