"""What each queue may hold, what it holds and who holds it: the scheduler's own accounts of a cluster, for people.

For each card of a queue, and likewise for cpu and memory::

    quota      what it may hold by its own object
    used       what pods hold that have a node, or have room made for them on one
    reserved   what jobs that were admitted may still take for their minimum
    headroom   with how much a new job that asks for this alone would be admitted now: quota - used - reserved, less
               what lists of cards need of it, bounded by ancestors that count; of cpu and memory, what jobs hold
               beyond their minimum (elastic) is headroom too

Nothing is followed: the accounts are made for this one look, and as they are after a restart of the scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from plugins.capacity_card.demands import Demands
from plugins.capacity_card.ledger import Account, Ledger
from plugins.capacity_card.limits import Limit
from plugins.capacity_card.matching import Matching
from plugins.capacity_card.minimum import Wanted
from plugins.capacity_card.plugin import ANCESTORS, SPARES_CPU, STRICT
from plugins.capacity_card.requests import Names
from plugins.capacity_card.series import idle_of
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.quantity import UNLIMITED
from volsched.model.queue import QueueInfo
from volsched.model.status import IS_CHOSEN
from volsched.model.task import TaskInfo


@dataclass(frozen=True, slots=True)
class Dimension:
    """Milli-cores, bytes or milli-cards."""

    quota: int = 0
    used: int = 0
    reserved: int = 0
    headroom: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say."""
        return not (self.quota or self.used or self.reserved)


@dataclass(frozen=True, slots=True)
class PodUse:
    """A pod on a node: which card it is charged for, and milli-cards of it; no name when it is charged for none."""

    pod: str
    node: str
    card: str
    amount: int


@dataclass(frozen=True, slots=True)
class JobUse:
    """What one job holds, has reserved, and what its pods without a node want."""

    name: str
    phase: str
    held: Account
    reserved: Wanted
    pending: Mapping[Names, int]
    pods: tuple[PodUse, ...]
    waiting: int

    @property
    def is_idle(self) -> bool:
        """Whether the job neither holds nor wants anything."""
        return not self.pods and not self.waiting and self.held.is_zero and self.reserved.is_empty


@dataclass(frozen=True, slots=True)
class QueueUse:
    """One queue. ``lists``: milli-cards reserved for any card of a list; ``jobs``: those in the queue itself."""

    queue: QueueInfo
    cpu: Dimension
    memory: Dimension
    cards: Mapping[str, Dimension]
    lists: Mapping[Names, int]
    jobs: tuple[JobUse, ...]


@dataclass(frozen=True, slots=True)
class CardUse:
    """One card in the whole cluster, in milli-cards. More ``quota`` than ``total`` is over-committed."""

    total: int
    idle: int
    quota: int
    used: int


@dataclass(frozen=True, slots=True)
class Usage:
    """All queues and all cards, by name."""

    queues: Mapping[str, QueueUse]
    cards: Mapping[str, CardUse]


def usage_of(cluster: Cluster, arguments: Mapping[str, Any]) -> Usage:
    """Return the accounts of all queues as the plugin counts with these arguments."""
    ledger = Ledger(
        cluster,
        spares_cpu=arguments[SPARES_CPU],
        is_strict=arguments[STRICT],
        is_hierarchical=arguments[ANCESTORS],
    )
    demands = Demands(cluster, ledger, spares_cpu=arguments[SPARES_CPU])
    reader = _Reader(cluster, ledger, demands)
    queues = {name: reader.queue(cluster.queues[name]) for name in sorted(cluster.queues)}
    return Usage(queues, dict(reader.cards(queues.values())))


class _Reader:
    def __init__(self, cluster: Cluster, ledger: Ledger, demands: Demands) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._demands = demands
        self._jobs: dict[str, list[JobInfo]] = {}
        for job in sorted(cluster.jobs.values(), key=lambda job: job.key):
            self._jobs.setdefault(job.queue, []).append(job)

    # -- queues -------------------------------------------------------------------------------------------------------

    def queue(self, queue: QueueInfo) -> QueueUse:
        chain = self._ledger.limits.chain(queue.name)
        own, held, sums = chain[0], self._ledger.account(queue.name), self._demands.of(queue.name)
        single = {names[0]: amount for names, amount in sums.reserved.items() if len(names) == 1}
        jobs = (self._job(job) for job in self._jobs.get(queue.name, ()))
        return QueueUse(
            queue,
            Dimension(own.cpu, held.cpu, sums.reserved_cpu, min(map(self._cpu_headroom, chain))),
            Dimension(own.memory, held.memory, sums.reserved_memory, min(map(self._memory_headroom, chain))),
            {
                card: Dimension(
                    own.card(card),
                    held.cards.get(card, 0),
                    single.get(card, 0),
                    min(self._card_headroom(limit, card) for limit in chain),
                )
                for card in sorted({*own.cards, *held.cards, *single})
            },
            {names: amount for names, amount in sorted(sums.reserved.items()) if len(names) > 1},
            tuple(job for job in jobs if not job.is_idle),
        )

    def _cpu_headroom(self, limit: Limit) -> int:
        sums = self._demands.of(limit.queue)
        held = self._ledger.account(limit.queue).cpu
        return _left(limit.cpu, held + sums.reserved_cpu - sums.elastic_cpu)

    def _memory_headroom(self, limit: Limit) -> int:
        sums = self._demands.of(limit.queue)
        held = self._ledger.account(limit.queue).memory
        return _left(limit.memory, held + sums.reserved_memory - sums.elastic_memory)

    def _card_headroom(self, limit: Limit, card: str) -> int:
        """How much of a card could still be had beside everything that is reserved, lists moved around if need be."""
        held, reserved = self._ledger.account(limit.queue).cards, self._demands.of(limit.queue).reserved
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
        placed = [task for task in job.tasks.values() if IS_CHOSEN[task.status]]
        return JobUse(
            job.key,
            job.phase,
            self._ledger.held(job),
            self._demands.reserved(job),
            self._demands.pending(job),
            tuple(sorted((self._pod(task) for task in placed), key=lambda use: use.pod)),
            len(job.waiting),
        )

    def _pod(self, task: TaskInfo) -> PodUse:
        seat = self._ledger.seat(task)
        node = task.node.name if task.node is not None else ""
        return PodUse(task.key, node, seat.card if seat else "", seat.amount if seat else 0)

    # -- cards --------------------------------------------------------------------------------------------------------

    def cards(self, queues: Iterable[QueueUse]) -> Iterator[tuple[str, CardUse]]:
        """Every card that a node offers, or a queue may hold or holds."""
        quotas, used, idle = Counter[str](), Counter[str](), Counter[str]()
        for use in queues:
            quotas.update(self._ledger.limits.quota(use.queue.name))
            used.update(self._ledger.own(use.queue.name).cards)
        catalogue = self._ledger.catalogue
        for node in self._cluster.rows:
            idle.update({card.name: idle_of(node, card) for card in catalogue.of(node).cards})
        for card in sorted({*catalogue.totals, *quotas, *used}):
            yield card, CardUse(catalogue.totals.get(card, 0), idle[card], quotas[card], used[card])


def _left(limit: int, taken: int) -> int:
    """What is left of a limit, nothing when it is exceeded."""
    return UNLIMITED if limit == UNLIMITED else max(0, limit - taken)
