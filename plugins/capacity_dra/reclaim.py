"""Allocated and deserved devices of queues, for ``volsched.quota.reclaim``.

A claim that several pods use is freed with the last of them, in a queue and in the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

from plugins.capacity_dra.demands import DeviceDemands
from plugins.capacity_dra.limits import ClaimLimits
from plugins.capacity_dra.quota import as_named
from plugins.capacity_dra.usage import ClaimUsage
from volsched.plugin import TaskInfo
from volsched.plugin.devices import Amount, Amounts, named_as
from volsched.plugin.quota import departing, total_of


class DeviceReclaimView:
    """Devices by class, and dimensions of their capacity."""

    def __init__(
        self,
        usage: ClaimUsage,
        demands: DeviceDemands,
        limits: ClaimLimits,
    ) -> None:
        self._usage = usage
        self._demands = demands
        self._limits = limits

    def levels(self, queue: str) -> Sequence[str]:
        """Return a queue, and in a hierarchy those above it."""
        return self._limits.levels(queue)

    def allocated(self, queue: str, key: Amount) -> Fraction:
        """Return how much of something a queue holds, under whichever name."""
        deserved_share = self._limits.of(queue).deserved_share
        held = as_named(self._usage.account(queue).used, deserved_share)
        return held.get(named_as(key, deserved_share), Fraction(0))

    def deserved(self, queue: str, key: Amount) -> Fraction | None:
        """Return how much of something a queue deserves."""
        deserved_share = self._limits.of(queue).deserved_share
        return deserved_share.get(named_as(key, deserved_share))

    def requested(self, task: TaskInfo) -> Amounts:
        """Return what a task's claims would count for in its queue, those left out that are used there already."""
        if not self._usage.concerns(task):
            return {}
        users = self._usage.account(task.queue).users
        asked = total_of(amounts for key, amounts in self._demands.of_task(task).items() if key not in users)
        return {key: amount for key, amount in self._limits.counted(asked).items() if amount}

    def holds(self, victim: TaskInfo, task: TaskInfo) -> Amounts:
        """Return the amounts that the cluster regains if a pod and all that leave with it are evicted."""
        return self._charges(key for key, count in self._uses(departing(victim)) if self._usage.users(key) <= count)

    def frees(self, queue: str, victims: Sequence[TaskInfo], task: TaskInfo) -> Amounts:
        """Return what a queue would hold less without victims."""
        users = self._usage.account(queue).users
        given = self._charges(key for key, count in self._uses(victims, queue) if users[key] <= count)
        return as_named(given, self._limits.of(queue).deserved_share)

    def _uses(self, victims: Iterable[TaskInfo], queue: str | None = None) -> Iterable[tuple[str, int]]:
        """Return the claims that victims use, those that count in a queue, and how many of them use each."""
        charges = filter(None, (self._usage.pod_charges.get(victim.uid) for victim in victims))
        counts = Counter(key for charge in charges if queue is None or queue in charge.levels for key in charge.claims)
        return counts.items()

    def _charges(self, keys: Iterable[str]) -> Amounts:
        return self._limits.counted(total_of(self._usage.charge(key) for key in keys))
