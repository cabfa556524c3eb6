"""Which queue goes first, who is admitted, and who is placed.

A queue is asked about itself, and over a hierarchy about every queue above it. Amounts are compared for the resources
that are asked for only. The rules are those of Volcano's plugin of this name; differences are marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from plugins.capacity.refusals import At, Short, exceeds, no_place, not_a_leaf, not_let_in
from plugins.capacity.standing import NO_DEMAND, QueueDues
from volsched.model.values.resources import UNLIMITED
from volsched.plugin import (
    ABSTAIN,
    MAX_AMOUNT,
    NO_LIMIT,
    PERMIT,
    PODS,
    Ballot,
    Cluster,
    Headroom,
    JobInfo,
    PodTemplate,
    QueueInfo,
    Report,
    Series,
    SeriesFn,
    Shortfall,
    Step,
    Verdict,
    Vote,
)
from volsched.plugin.quota import (
    Consumer,
    Dimension,
    QueueDemands,
    Suggestion,
    Usage,
    asked_of,
    capability_of,
    held_of_quota,
    left,
    queues_below,
    raises,
    usage_by_resource,
)

Amounts = Mapping[str, int]
Place = tuple[Fraction, bool]
"""The share of a queue, and whether it deserves nothing: those that do go first among equal shares."""


class CapacityRules:
    """The answers."""

    def __init__(self, cluster: Cluster, standing: QueueDues, demand: QueueDemands) -> None:
        self._cluster = cluster
        self._standing = standing
        self._demand = demand

    def report(self, metrics: Mapping[Series, SeriesFn]) -> Report:
        """Return what is reported."""
        return Report(metrics=metrics, usage=self.usage, consumers=self.holders, suggestions=self.remedies)

    def usage(self) -> Usage:
        """Return what all queues may have and hold, for people."""
        return usage_by_resource(self._cluster, self.dimensions)

    def holders(self, job: JobInfo, refusal: Verdict) -> Iterable[Consumer]:
        """Return what jobs of the queue that refused, and of those below it, hold of what it has too little of."""
        level = refusal.queue or job.queue
        shared = queues_below(self._cluster, level) if len(self._standing.levels(job.queue)) > 1 else [level]
        return held_of_quota(self.usage(), shared, job, refusal)

    def remedies(self, job: JobInfo) -> Iterator[Suggestion]:
        """Yield a larger capability of the queue and of those above it, and more that it may reclaim."""
        asked = asked_of(job).keys()
        for level in self._standing.levels(job.queue):
            if queue := self._cluster.queues.get(level):
                yield from raises(queue, "capability", sorted(capability_of(queue).keys() & asked))
        if own := self._cluster.queues.get(job.queue):
            yield from raises(own, "deserved", sorted(own.deserved.keys() & asked))

    def dimensions(self, queue: QueueInfo) -> dict[str, Dimension]:
        """Return what a queue may have, deserves, holds and has left, of what it or its jobs name."""
        due, sums = self._standing.due(queue.name), self._demand.queues().get(queue.name, NO_DEMAND)
        held, capability = self._standing.held.by(queue.name), capability_of(queue)
        names = {*capability, *due.deserved, *due.guarantee, *held, *sums.reserved} - {PODS}
        return {
            name: Dimension(
                _limited(self._standing.limit(queue.name, name)),
                held.get(name, 0),
                sums.reserved.get(name, 0),
                _limited(min(self._headroom(level, name) for level in self._standing.levels(queue.name))),
                due.deserved.get(name),
                due.guarantee.get(name),
            )
            for name in sorted(names)
        }

    def _headroom(self, level: str, name: str) -> int:
        most = self._standing.limit(level, name)
        return left(most, self._taken(level, name)) if most < MAX_AMOUNT else UNLIMITED

    def _taken(self, level: str, name: str) -> int:
        """Return what a queue holds or has reserved, beyond what its jobs could do without."""
        held, sums = self._standing.held.by(level), self._demand.queues().get(level, NO_DEMAND)
        return max(0, held.get(name, 0) + sums.reserved.get(name, 0) - sums.elastic.get(name, 0))

    # -- order --------------------------------------------------------------------------------------------------------

    def order(self, queue: QueueInfo) -> tuple[int, tuple[tuple[object, ...], ...]]:
        """Higher priority first, then the smaller part of its due: of queues above, where two part, then their own.

        Where queues above are equal the older one goes first (*ours*), so that the order has no circles.
        """
        above = self._standing.ancestors(queue.name)[::-1]
        path = [(*self._place(name), *self._age(name)) for name in (*above, queue.name)]
        return -queue.priority, tuple(path)

    def _place(self, queue: str) -> Place:
        return self._standing.share(queue), not self._standing.due(queue).deserves_anything

    def _age(self, queue: str) -> tuple[float, str]:
        return self._cluster.queues[queue].created, queue

    # -- admission and placing ----------------------------------------------------------------------------------------

    def vote(self, job: JobInfo) -> Ballot:
        """Admit a job whose minimum fits into what its queue, and those above it, may have."""
        barred = self._barred(job.queue, Step.ENQUEUE)
        if barred is not None:
            return Ballot(Vote.REJECT, barred)
        least = job.min_resources
        if least is None:
            return ABSTAIN
        for level in self._standing.levels(job.queue):
            short = self._short(level, least, {name: self._taken(level, name) for name in least})
            if short:
                return Ballot(Vote.REJECT, not_let_in(level, short))
        return PERMIT

    def refusal(self, queue: QueueInfo, template: PodTemplate) -> Verdict | None:
        """Report that a task would take its queue, or one above it, beyond what that may have."""
        barred = self._barred(queue.name, Step.ALLOCATABLE)
        if barred is not None:
            return barred
        request = template.request
        for level in self._standing.levels(queue.name):
            short = self._short(level, request, self._standing.held.by(level))
            if short:
                return exceeds(queue.name, level, short)
        return None

    def headroom(self, queue: QueueInfo, template: PodTemplate) -> Headroom:
        """Return how many such tasks a queue, and those above it, may take on, and why not even one."""
        barred = self._barred(queue.name, Step.ALLOCATABLE)
        if barred is not None:
            return Headroom(0, barred)
        standing, count = self._standing, NO_LIMIT
        for level in standing.levels(queue.name):
            held = standing.held.by(level)
            for name, amount in template.request.items():
                count = min(count, (standing.limit(level, name) - held.get(name, 0)) // amount)
        return Headroom(count) if count > 0 else Headroom(count, self.refusal(queue, template))

    def _barred(self, queue: str, step: At) -> Verdict | None:
        """Report that a queue takes no work at all; *ours*: others go on, where Volcano's plugin stops them all."""
        if self._standing.has_children(queue):
            return not_a_leaf(queue, step)
        why = self._standing.lost.get(queue)
        return no_place(queue, why, step) if why else None

    def _short(self, level: str, request: Amounts, taken: Amounts) -> Short:
        """Return what a queue has too little of, for a request beside what is taken."""
        found = []
        for name, amount in sorted(request.items()):
            most = self._standing.limit(level, name)
            if amount and taken.get(name, 0) + amount > most:
                found.append(Shortfall(name, amount, taken.get(name, 0), most))
        return tuple(found)


def _limited(amount: int) -> int | None:
    return amount if amount < MAX_AMOUNT else None
