"""The quotas, holdings and consumers of each queue, from the accounts of the scheduler.

For each card of a queue, and likewise for cpu and memory::

    quota      what it may hold by its own object
    used       what pods hold that have a node, or have room made for them on one
    reserved   what jobs that were admitted may still take for their minimum
    deserved   what it may take back from others, where it states any; guarantee: what is kept for it
    reclaimable  what others below their deserved share could take back of what it holds
    headroom   with how much a new job that asks for this alone would be admitted now: quota - used - reserved, less
               what lists of cards need of it, bounded by ancestors that count; of cpu and memory, what jobs hold
               beyond their minimum (elastic) is headroom too

They are read of the accounts that the plugin decides by; who looks once has them made as after a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from plugins.capacity_card.card_quotas import CardRules
from plugins.capacity_card.cards.matching import Matching
from plugins.capacity_card.demands import CardDemands
from plugins.capacity_card.quotas.limits import QueueLimit
from plugins.capacity_card.reclaim import CardReclaimView
from plugins.capacity_card.requests.requests import RESOURCES, by_text, cards_of, lists_of, resources_of
from plugins.capacity_card.usage import CardUsage
from volsched.model.values.quantity import UNLIMITED
from volsched.plugin import CPU, MEMORY, Cluster, JobInfo, QueueAmounts, QueueInfo, TaskInfo
from volsched.plugin.cards import idle_of
from volsched.plugin.quota import (
    CardUse,
    Dimension,
    JobUse,
    JobUses,
    PodUse,
    QueueUse,
    Usage,
    jobs_by_queue,
    node_name,
    pods_of,
)


class CardReport:
    """Reads the accounts that the plugin decides by."""

    def __init__(
        self,
        cluster: Cluster,
        usage: CardUsage,
        demands: CardDemands,
        rules: CardRules,
        view: CardReclaimView,
    ) -> None:
        self._cluster = cluster
        self._usage = usage
        self._demands = demands
        self._rules = rules
        self._view = view

    def usage(self) -> Usage:
        """Return what all queues may hold and hold."""
        jobs = jobs_by_queue(self._cluster)
        queues = {
            name: self._queue(self._cluster.queues[name], jobs.get(name, ())) for name in sorted(self._cluster.queues)
        }
        return Usage(queues, dict(self._cards(queues.values())), by_card=True)

    def amounts(self, queue: QueueInfo) -> QueueAmounts:
        """Return what the jobs of a queue hold and have reserved, and what the queue may hold, cards by name."""
        held, reserved = self._usage.held.own.of(queue.name), self._demands.own(queue.name).reserved
        may_hold = {**by_text(resources_of(queue.spec.capability)), **self._usage.limits.quota(queue.name)}
        unset = dict.fromkeys(RESOURCES, 0)
        return QueueAmounts(by_text({**unset, **held}), by_text({**unset, **reserved}), may_hold)

    # -- queues -------------------------------------------------------------------------------------------------------

    def _queue(self, queue: QueueInfo, jobs: Iterable[JobInfo]) -> QueueUse:
        levels = self._rules.levels(queue.name)
        own, held, reserved = levels[0], self._rules.allocated(levels[0]), self._demands.of(queue.name).reserved
        quota, reclaimable = self._usage.limits.card_quota(queue.name), self._view.reclaimable(queue.name)
        deserved = quota.deserved or {}

        def resource(name: str) -> Dimension:
            headroom = min(self._headroom(level, name) for level in levels)
            return Dimension(own.amounts[name], held.get(name, 0), reserved.get(name, 0), headroom)

        def card(name: str) -> Dimension:
            return Dimension(
                own.amounts.get((name,), own.other),
                held.get((name,), 0),
                reserved.get((name,), 0),
                min(self._card_headroom(level, name) for level in levels),
                deserved.get(name),
                quota.guarantee.get(name),
                reclaimable.get((name,), 0 if name in deserved else None),
            )

        return QueueUse(
            queue,
            resource(CPU),
            resource(MEMORY),
            {
                name: card(name)
                for name in sorted(
                    {name for of in (own.amounts, held, reserved) for name in cards_of(of)} | deserved.keys()
                )
            },
            {names: amount for names, amount in sorted(lists_of(reserved).items()) if len(names) > 1},
            JobUses(lambda: map(self._job_use, sorted(jobs, key=lambda job: job.key))),
        )

    def _headroom(self, level: QueueLimit, resource: str) -> int:
        """Return how much of cpu or memory a job would be admitted with."""
        return _left(level.of(resource), self._rules.committed(level, (resource,))[resource])

    def _card_headroom(self, level: QueueLimit, card: str) -> int:
        """How much of a card could still be had beside everything that is reserved, lists moved around if need be."""
        held, reserved = self._rules.allocated(level), lists_of(self._demands.of(level.queue).reserved)
        if level.of((card,)) == UNLIMITED:
            return UNLIMITED
        asked = {card, *(name for names in reserved for name in names)}
        matching = Matching({name: _left(level.of((name,)), held.get((name,), 0)) for name in asked})
        for names, amount in reserved.items():
            matching.add(names, amount)
        most = matching.room[card]
        return most - matching.add((card,), most)

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def _job_use(self, job: JobInfo) -> JobUse:
        """Return what a job uses and waits for."""
        share, pods = self._demands.share(job), pods_of(job, self._pod)
        held, reserved, pending = map(by_text, (self._usage.held.of(job), share.reserved, share.pending))
        return JobUse(job.key, job.phase, held, reserved, pending, pods, len(job.waiting))

    def _pod(self, task: TaskInfo) -> PodUse:
        charged = self._usage.charged(task)
        return PodUse(task.key, node_name(task), charged.card if charged else "", charged.amount if charged else 0)

    # -- cards --------------------------------------------------------------------------------------------------------

    def _cards(self, queues: Iterable[QueueUse]) -> Iterator[tuple[str, CardUse]]:
        """Yield every card that a node offers, or a queue may hold or holds."""
        quotas, used, idle = Counter[str](), Counter[str](), Counter[str]()
        for use in queues:
            quotas.update(self._usage.limits.quota(use.queue.name))
            used.update(cards_of(self._usage.held.own.of(use.queue.name)))
        catalogue = self._usage.catalogue
        for node in self._cluster.rows:
            idle.update({card.name: idle_of(node, card) for card in catalogue.of(node).cards})
        for card in sorted({*catalogue.totals, *quotas, *used}):
            yield card, CardUse(catalogue.totals.get(card, 0), idle[card], used[card], quotas[card])


def _left(limit: int, taken: int) -> int:
    """Return what is left of a limit, nothing when it is exceeded."""
    return UNLIMITED if limit == UNLIMITED else max(0, limit - taken)
