"""What each queue may hold, what it holds and who holds it: the scheduler's own accounts of a cluster, for people.

For each card of a queue, and likewise for cpu and memory::

    quota      what it may hold by its own object
    used       what pods hold that have a node, or have room made for them on one
    reserved   what jobs that were admitted may still take for their minimum
    deserved   what it may take back from others, where it states any; guarantee: what is kept for it
    reclaimable  what others below their due could take back of what it holds
    headroom   with how much a new job that asks for this alone would be admitted now: quota - used - reserved, less
               what lists of cards need of it, bounded by ancestors that count; of cpu and memory, what jobs hold
               beyond their minimum (elastic) is headroom too

They are read of the accounts that the plugin decides by; who looks once has them made as after a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from plugins.capacity_card.accounts import QueueAccount
from plugins.capacity_card.cards.matching import Matching
from plugins.capacity_card.demands import CardDemands
from plugins.capacity_card.ledger import CardQuotaLedger
from plugins.capacity_card.quotas.limits import QueueLimit
from plugins.capacity_card.reclaim import CardReclaimView
from plugins.capacity_card.requests.minimum import RequestTotal
from plugins.capacity_card.series import by_list
from volsched.model.values.quantity import UNLIMITED
from volsched.plugin import CPU, MEMORY, Cluster, JobInfo, QueueInfo, TaskInfo
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


def usage_of(cluster: Cluster, ledger: CardQuotaLedger, demands: CardDemands, view: CardReclaimView) -> Usage:
    """Return what all queues may hold and hold, by these accounts."""
    reader = _UsageReader(cluster, ledger, demands, view)
    queues = {name: reader.queue(cluster.queues[name]) for name in sorted(cluster.queues)}
    return Usage(queues, dict(reader.cards(queues.values())), by_card=True)


class _UsageReader:
    def __init__(self, cluster: Cluster, ledger: CardQuotaLedger, demands: CardDemands, view: CardReclaimView) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._accounts = ledger.accounts
        self._demands = demands
        self._view = view
        self._jobs = jobs_by_queue(cluster)

    # -- queues -------------------------------------------------------------------------------------------------------

    def queue(self, queue: QueueInfo) -> QueueUse:
        chain = self._ledger.limits.chain(queue.name)
        own, held, sums = chain[0], self._accounts.account(queue.name), self._demands.of(queue.name)
        quota, reclaimable = self._ledger.limits.card_quota(queue.name), self._view.reclaimable(queue.name)
        deserved = quota.deserved or {}
        single = {names[0]: amount for names, amount in sums.reserved.items() if len(names) == 1}
        jobs = self._jobs.get(queue.name, ())
        return QueueUse(
            queue,
            Dimension(own.cpu, held.cpu, sums.reserved_cpu, min(map(self._cpu_headroom, chain))),
            Dimension(own.memory, held.memory, sums.reserved_memory, min(map(self._memory_headroom, chain))),
            {
                card: Dimension(
                    own.cards.get(card, own.other),
                    held.cards.get(card, 0),
                    single.get(card, 0),
                    min(self._card_headroom(limit, card) for limit in chain),
                    deserved.get(card),
                    quota.guarantee.get(card),
                    reclaimable.get(card, 0 if card in deserved else None),
                )
                for card in sorted({*own.cards, *held.cards, *single, *deserved})
            },
            {names: amount for names, amount in sorted(sums.reserved.items()) if len(names) > 1},
            JobUses(lambda: map(self._job, sorted(jobs, key=lambda job: job.key))),
        )

    def _cpu_headroom(self, limit: QueueLimit) -> int:
        sums = self._demands.of(limit.queue)
        held = self._accounts.account(limit.queue).cpu
        return _left(limit.cpu, held + sums.reserved_cpu - sums.elastic_cpu)

    def _memory_headroom(self, limit: QueueLimit) -> int:
        sums = self._demands.of(limit.queue)
        held = self._accounts.account(limit.queue).memory
        return _left(limit.memory, held + sums.reserved_memory - sums.elastic_memory)

    def _card_headroom(self, limit: QueueLimit, card: str) -> int:
        """How much of a card could still be had beside everything that is reserved, lists moved around if need be."""
        held, reserved = self._accounts.account(limit.queue).cards, self._demands.of(limit.queue).reserved
        if limit.card(card) == UNLIMITED:
            return UNLIMITED
        asked = {card, *(name for names in reserved for name in names)}
        matching = Matching({name: _left(limit.card(name), held.get(name, 0)) for name in asked})
        for names, amount in reserved.items():
            matching.add(names, amount)
        most = matching.room[card]
        return most - matching.add((card,), most)

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def _job(self, job: JobInfo) -> JobUse:
        return JobUse(
            job.key,
            job.phase,
            _of_account(self._accounts.held(job)),
            _of_total(self._demands.reserved(job)),
            by_list(self._demands.pending(job)),
            pods_of(job, self._pod),
            len(job.waiting),
        )

    def _pod(self, task: TaskInfo) -> PodUse:
        charged = self._ledger.charged(task)
        return PodUse(task.key, node_name(task), charged.card if charged else "", charged.amount if charged else 0)

    # -- cards --------------------------------------------------------------------------------------------------------

    def cards(self, queues: Iterable[QueueUse]) -> Iterator[tuple[str, CardUse]]:
        """Every card that a node offers, or a queue may hold or holds."""
        quotas, used, idle = Counter[str](), Counter[str](), Counter[str]()
        for use in queues:
            quotas.update(self._ledger.limits.quota(use.queue.name))
            used.update(self._accounts.own(use.queue.name).cards)
        catalogue = self._ledger.catalogue
        for node in self._cluster.rows:
            idle.update({card.name: idle_of(node, card) for card in catalogue.of(node).cards})
        for card in sorted({*catalogue.totals, *quotas, *used}):
            yield card, CardUse(catalogue.totals.get(card, 0), idle[card], used[card], quotas[card])


def _left(limit: int, taken: int) -> int:
    """What is left of a limit, nothing when it is exceeded."""
    return UNLIMITED if limit == UNLIMITED else max(0, limit - taken)


def _of_account(account: QueueAccount) -> dict[str, int]:
    return _without_zeros({CPU: account.cpu, MEMORY: account.memory, **account.cards})


def _of_total(wanted: RequestTotal) -> dict[str, int]:
    return _without_zeros({CPU: wanted.cpu, MEMORY: wanted.memory, **by_list(wanted.cards)})


def _without_zeros(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}
