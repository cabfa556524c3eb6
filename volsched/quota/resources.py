"""Quotas by resource: what plugins that limit cpu, memory and all else that nodes offer have in common.

A plugin states the amounts of each queue (``QuotaAmounts``) and the words of its refusals. The checks are those of
``checks``; what a queue holds is counted by ``usage``, what its jobs reserve by ``demand``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from volsched.framework.dispatch.combining import Number
from volsched.framework.quota_report import Consumer, Dimension, Suggestion, Usage
from volsched.framework.reports import Report, SeriesFn
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.observers import Observer
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import ROOT, QueueInfo
from volsched.model.values.resources import CPU, MAX_AMOUNT, MEMORY, PODS, UNLIMITED
from volsched.model.values.series import Series
from volsched.model.verdict import Shortfall, Step, Verdict
from volsched.quota.amounts import Amounts, capability_of, not_admitted, share
from volsched.quota.checks import At, Exceeded, QueueQuotas
from volsched.quota.demand import QueueDemand, QueueDemands, committed
from volsched.quota.report import asked_of, held_of_quota, left, raises, sharing_limit, usage_by_resource
from volsched.quota.usage import QueueUsageObserver


@dataclass(frozen=True, slots=True)
class QuotaAmounts:
    """What one queue may have, deserves and is guaranteed, by resource.

    A resource that ``limit`` does not name is one that no queue has. ``capability`` limits what devices serve.
    """

    capability: Amounts
    limit: Amounts
    deserved: Mapping[str, Number]
    guarantee: Amounts

    @property
    def stated(self) -> Mapping[str, Number]:
        """What it deserves of the resources of which it states that; of cpu and memory 0 states nothing."""
        return {name: amount for name, amount in self.deserved.items() if amount or name not in (CPU, MEMORY)}

    @property
    def deserves_anything(self) -> bool:
        """True if it deserves any amount, pod slots aside; else it has what others leave."""
        return any(amount for name, amount in self.deserved.items() if name != PODS)


NO_AMOUNTS: Final = QuotaAmounts({}, {}, {}, {})


class ResourceQuotas(QueueQuotas[str, str, int], Observer):
    """The answers of one plugin, kept from one session to the next; ``refresh`` when a session opens."""

    def __init__(self, cluster: Cluster, usage: QueueUsageObserver, demand: QueueDemands) -> None:
        self._cluster = cluster
        self._usage = usage
        self._demand = demand
        self._changes = 0
        self._made_from: Hashable = None
        self._amounts: Mapping[str, QuotaAmounts] = {}
        self._shares: dict[str, tuple[int, Fraction]] = {}

    # -- what a plugin states -----------------------------------------------------------------------------------------

    @abstractmethod
    def state_amounts(self) -> Mapping[str, QuotaAmounts]:
        """Return what each queue may have and deserves in the present cluster."""

    @abstractmethod
    def exceeds(self, queue: str, level: str, short: tuple[Shortfall, ...]) -> Verdict:
        """Return the refusal of a pod of a queue that exceeds the limit of a level."""

    def made_from(self) -> Hashable:
        """Return the inputs of the amounts. A change computes them again."""
        cluster = self._cluster
        return self._changes, tuple(cluster.node_cache.totals), cluster.columns.left_to_devices

    def follows(self, template: PodTemplate) -> bool:
        """Return that moves of tasks do not matter here: ``usage`` and ``demand`` follow them."""
        return False

    def queue_changed(self, queue: QueueInfo, *, gone: bool) -> None:
        """Compute the amounts again at the next ``refresh``."""
        self._changes += 1

    def refresh(self) -> bool:
        """Compute the amounts again if their inputs changed. Return True in that case."""
        self._usage.refresh()
        made_from = self.made_from()
        if made_from == self._made_from:
            return False
        self._made_from = made_from
        self._amounts = self.state_amounts()
        self._shares.clear()
        return True

    # -- amounts ------------------------------------------------------------------------------------------------------

    def amounts(self, queue: str) -> QuotaAmounts:
        """Return the amounts of a queue. An unknown queue has none."""
        return self._amounts.get(queue, NO_AMOUNTS)

    def limit(self, level: str, dimension: str) -> int:
        """Return how much a queue may have of a resource. The total of a resource that devices serve is unknown."""
        amounts = self.amounts(level)
        if self._cluster.is_left_to_devices(dimension):
            return amounts.capability.get(dimension, UNLIMITED)
        return amounts.limit.get(dimension, 0)

    def deserved(self, level: str) -> Mapping[str, Number]:
        """Return what a queue deserves."""
        return self.amounts(level).deserved

    # -- what is used -------------------------------------------------------------------------------------------------

    def levels(self, queue: str) -> Sequence[str]:
        """Return a queue, and in a hierarchy those above it, the root last."""
        return self._usage.levels(queue)

    def ancestors(self, queue: str) -> tuple[str, ...]:
        """Return the queues above a queue, its parent first, without the root."""
        return tuple(level for level in self.levels(queue)[1:] if level != ROOT)

    def apart(self, queue: str, other: str) -> tuple[str, ...]:
        """Return the queues in which a queue counts and another one does not, the queue itself first."""
        theirs = self.levels(other)
        return tuple(level for level in self.levels(queue) if level not in theirs)

    def allocated(self, level: str) -> Mapping[str, int]:
        """Return what a queue, in a hierarchy with those below it, holds and was promised; pod slots too."""
        return self._usage.by(level)

    def committed(self, level: str, minimum: Iterable[str]) -> dict[str, int]:
        """Return what a queue holds and has reserved, beyond what its jobs could do without."""
        return committed(self.allocated(level), self._sums(level), minimum)

    def _sums(self, level: str) -> QueueDemand[str]:
        return self._demand.of(level)

    def minimum(self, job: JobInfo, level: str) -> Mapping[str, int] | None:
        """Return the minResources of a job."""
        return job.spec.min_resources

    def request(self, pod: PodTemplate, level: str) -> Mapping[str, int]:
        """Return what a pod requests."""
        return pod.request

    def refused(self, queue: str, level: str, short: Sequence[Exceeded], step: At) -> Verdict:
        """Return the refusal of work of a queue, as it is too much for a level."""
        amounts = tuple(Shortfall(*each) for each in short)
        if step is Step.ENQUEUE:
            return not_admitted(self.name, level, tuple(sorted(amounts, key=lambda each: each.resource)))
        return self.exceeds(queue, level, amounts)

    # -- order --------------------------------------------------------------------------------------------------------

    def share(self, level: str) -> Fraction:
        """Return the largest part of what it deserves that a queue holds; kept while it holds the same."""
        known, version = self._shares.get(level), self._usage.version(level)
        if known is not None and known[0] == version:
            return known[1]
        found = self.share_now(level)
        self._shares[level] = version, found
        return found

    def share_now(self, level: str) -> Fraction:
        """Return the share, worked out anew."""
        return share(self.allocated(level), self.deserved(level))

    # -- reports ------------------------------------------------------------------------------------------------------

    def report(self, metrics: Mapping[Series, SeriesFn]) -> Report:
        """Return what the plugin reports."""
        return Report(metrics=metrics, usage=self.usage, consumers=self.consumers, suggestions=self.suggestions)

    def usage(self) -> Usage:
        """Return what all queues may have and hold."""
        return usage_by_resource(self._cluster, self.dimensions)

    def dimensions(self, queue: QueueInfo) -> dict[str, Dimension]:
        """Return what a queue may have, deserves, holds and has left, of all that it or its jobs name."""
        name, (deserved, guarantee) = queue.name, self.displayed(queue)
        held, reserved = self.allocated(name), self._sums(name).reserved
        named = {*capability_of(queue), *deserved, *guarantee, *held, *reserved} - {PODS}
        return {
            resource: Dimension(
                _limited(self.limit(name, resource)),
                held.get(resource, 0),
                reserved.get(resource, 0),
                self.headroom_of(name, resource),
                deserved.get(resource),
                guarantee.get(resource),
            )
            for resource in sorted(named)
        }

    def displayed(self, queue: QueueInfo) -> tuple[Amounts, Amounts]:
        """Return what a queue deserves and is guaranteed in whole amounts."""
        amounts = self.amounts(queue.name)
        return {name: int(amount) for name, amount in amounts.deserved.items()}, amounts.guarantee

    def headroom_of(self, queue: str, resource: str) -> int | None:
        """Return how much more of a resource a queue would be admitted with, or None without a limit."""
        return _limited(min(self._headroom_of(level, resource) for level in self.levels(queue)))

    def _headroom_of(self, level: str, resource: str) -> int:
        most = self.limit(level, resource)
        return left(most, self.committed(level, (resource,))[resource]) if most < MAX_AMOUNT else UNLIMITED

    def consumers(self, job: JobInfo, refusal: Verdict) -> Iterable[Consumer]:
        """Return what jobs of the queue that refused, in a hierarchy of those below it, hold of what is short."""
        queues = sharing_limit(self._cluster, job, refusal, in_tree=self._usage.is_in_tree)
        return held_of_quota(self.usage(), queues, job, refusal)

    def suggestions(self, job: JobInfo) -> Iterator[Suggestion]:
        """Yield a larger capability of the queue and of those above it, and what else the plugin names of each."""
        asked = asked_of(job)
        for level in self.levels(job.queue):
            if queue := self._cluster.queues.get(level):
                yield from raises(queue, "capability", sorted(capability_of(queue).keys() & asked))
                yield from self.suggestions_for(queue)

    def suggestions_for(self, queue: QueueInfo) -> Iterator[Suggestion]:
        """Yield what else could be changed in one queue."""
        yield from ()


def _limited(amount: int) -> int | None:
    return amount if amount < MAX_AMOUNT else None
