"""What queues hold and may hold of devices, for people and for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from fractions import Fraction
from typing import Final

from plugins.capacity_dra.device_quotas import DeviceQuotaRules
from plugins.capacity_dra.quota import Quota, as_named
from plugins.capacity_dra.suggestions import raised
from volsched.plugin import Cluster, JobInfo, Numbers, QueueAmounts, QueueInfo, Report, Series, Verdict, as_float
from volsched.plugin.devices import COUNT, Amount, Amounts, device_holdings, milli, named_as
from volsched.plugin.quota import (
    CachedNumbers,
    Consumer,
    QuotaRow,
    QuotaTable,
    Suggestion,
    Value,
    reclaimable_of,
    sharing_limit,
    total_of,
)

_LABELS: Final = ("queue_name", "device_class", "dimension")
CAPACITY: Final = Series("volcano_queue_dra_capacity", "The queue's quota of devices, or of their capacity", _LABELS)
DESERVED: Final = Series("volcano_queue_dra_deserved", "What it deserves of it, and may reclaim", _LABELS)
GUARANTEE: Final = Series("volcano_queue_dra_guarantee", "What it is guaranteed of it", _LABELS)
RECLAIMABLE: Final = Series("volsched_queue_dra_reclaimable", "What others could reclaim of what it holds", _LABELS)
ALLOCATED: Final = Series("volcano_queue_dra_allocated", "What pods of the queue, and below it, hold of it", _LABELS)
INQUEUE: Final = Series("volcano_queue_dra_inqueue", "What is reserved for jobs that were admitted", _LABELS)


class DeviceReport:
    """The figures, worked out from the accounts that the plugin decides by when they are asked for."""

    def __init__(self, cluster: Cluster, rules: DeviceQuotaRules) -> None:
        self._cluster = cluster
        self._rules = rules
        self._usage = rules.usage
        self._limits = rules.limits
        self._made = CachedNumbers()

    def rule(self) -> Report:
        """Return all that the plugin reports."""
        return Report(
            metrics={
                CAPACITY: lambda: self.numbers("capacity", lambda quota: quota.limits),
                DESERVED: lambda: self.numbers("deserved", lambda quota: quota.deserved),
                GUARANTEE: lambda: self.numbers("guarantee", lambda quota: quota.guarantee),
                RECLAIMABLE: self.reclaimable,
                ALLOCATED: self.allocations,
                INQUEUE: self.inqueue,
            },
            table=self.table,
            amounts=self.amounts,
            consumers=self.consumers,
            suggestions=self.suggestions,
        )

    def consumers(self, job: JobInfo, refusal: Verdict) -> Iterable[Consumer]:
        """Return what jobs of the queue that refused, in a hierarchy of those below it, hold of what is short."""
        queues = sharing_limit(self._cluster, job, refusal, in_tree=self._limits.checks_ancestors)
        short = {item.resource for item in refusal.shortfalls}
        limited = self._limits.limited(refusal.queue or job.queue)
        return device_holdings(self._cluster, self._usage, queues, short, limited)

    def suggestions(self, job: JobInfo) -> Iterator[Suggestion]:
        """Yield a larger quota of what a job wants, of its queue and of those above that limit it."""
        claims = {
            key: found for task in job.waiting.values() for key, found in self._rules.demands.of_task(task).items()
        }
        asked = total_of((*claims.values(), self._rules.demands.minimum(job)))
        for level in self._limits.levels(job.queue):
            for key, amount in sorted(as_named(asked, self._limits.limited(level)).items()):
                if self._limits.limit(key, level) is not None:
                    yield raised(level, key, amount)

    def amounts(self, queue: QueueInfo) -> QueueAmounts:
        """Return what a queue's own pods hold and have reserved, and what the queue may hold."""
        held = dict(self._usage.account(queue.name).used)
        for child in self._limits.tree.below(queue.name):
            for key, amount in self._usage.account(child).used.items():
                held[key] = held.get(key, Fraction(0)) - amount
        reserved = self._rules.reservations.of(queue.name).shown
        limits = self._limits.of(queue.name).limits
        return QueueAmounts(self._shown(held), self._shown(reserved), self._shown(limits), beside=True)

    def table(self) -> QuotaTable:
        """Return what queues may hold, hold, have reserved and have left of each class and dimension."""
        rows = [row for name in sorted(self._cluster.queues) for row in self._rows(name)]
        figures = ("quota", "deserved", "guarantee", "used", "reserved", "reclaimable", "headroom")
        return QuotaTable("devices", "Devices", ("queue", "deviceClass", "dimension"), figures, rows)

    def _rows(self, queue: str) -> Iterator[QuotaRow]:
        quota, reclaimable = self._limits.of(queue), self._beyond_deserved(queue)
        held = as_named(self._usage.account(queue).used, quota.limits)
        reserved = as_named(self._rules.reserved(queue), quota.limits)
        for key in sorted(self._limits.counted({**quota.limits, **quota.deserved_share, **held, **reserved})):
            left = [rest for level in self._limits.levels(queue) if (rest := self._rest(level, key)) is not None]
            figures = {
                "quota": self._limits.own_limit(key, quota),
                "deserved": quota.deserved_share.get(key),
                "guarantee": quota.guarantee.get(key),
                "used": held.get(key, Fraction(0)),
                "reserved": reserved.get(key, Fraction(0)),
                "reclaimable": reclaimable.get(key, Fraction(0) if key in quota.deserved_share else None),
                "headroom": min(left, default=None),
            }
            shown = {name: None if amount is None else _value(key, amount) for name, amount in figures.items()}
            yield QuotaRow((queue, key.device_class, key.dimension or "count"), shown)

    def _rest(self, level: str, key: Amount) -> Fraction | None:
        """Return how much more of an amount a queue may have, or None without limit."""
        limited = self._limits.limited(level)
        named = named_as(key, limited)
        limit = self._limits.limit(named, level)
        if limit is None:
            return None
        return max(Fraction(0), limit - self._rules.committed(level, {}).get(named, Fraction(0)))

    def _shown(self, amounts: Amounts) -> dict[str, int]:
        return {key.key: milli(amount) for key, amount in self._limits.counted(amounts).items()}

    def numbers(self, name: str, part: Callable[[Quota], Amounts]) -> Numbers:
        """Return a part of what all queues state."""
        state = tuple((name, queue.version) for name, queue in self._cluster.queues.items())
        return self._numbers(name, state, lambda queue: part(self._limits.of(queue)))

    def allocations(self) -> Numbers:
        """Return what all queues hold, and zero for what they may hold."""
        state = (self._usage.version, tuple(self._cluster.queues))
        return self._numbers("allocated", state, self._held)

    def _held(self, queue: str) -> Amounts:
        return {**dict.fromkeys(self._limits.of(queue).limits, Fraction(0)), **self._usage.account(queue).used}

    def reclaimable(self) -> Numbers:
        """Return what others could reclaim in all queues, where any states what it deserves."""
        state = (self._usage.version, tuple((name, queue.version) for name, queue in self._cluster.queues.items()))
        return self._numbers("reclaimable", state, self._beyond_deserved)

    def _beyond_deserved(self, queue: str) -> Amounts:
        return reclaimable_of(self._cluster, self._rules.view, queue, self._limits.deserved_amounts)

    def inqueue(self) -> Numbers:
        """Return what is reserved in all queues."""
        self._rules.reservations.refresh()
        state = (self._rules.reservations.version, tuple(self._cluster.queues))
        return self._numbers("inqueue", state, self._rules.reserved)

    def _numbers(self, name: str, state: Hashable, of_queue: Callable[[str], Amounts]) -> Numbers:
        """Make the numbers of a series again when what they were made from has changed."""

        def made() -> Numbers:
            return {
                (queue, key.device_class, key.dimension or "count"): as_float(amount)
                for queue in self._cluster.queues
                for key, amount in self._limits.counted(of_queue(queue)).items()
            }

        return self._made.get(name, state, made)


def _value(key: Amount, amount: Fraction) -> Value:
    """Return so many devices as a number, so much capacity as a quantity."""
    return int(amount) if key.dimension == COUNT and amount.denominator == 1 else key.quantity(amount)
