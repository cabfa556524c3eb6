"""What jobs still want beyond what they hold: what admission weighs, and what is shown as request and inqueue.

For each job::

    minimum   cards: what its PodGroup's annotation says until its pods exist, then what they ask for (*ours*: while
              fewer than minAvailable pods exist, the larger of the two for each list; a pod without a card changes
              nothing);
              cpu and memory: minResources, none for a job with cards that are spared them (*ours*: while it has no
              pods and says nothing of cards, those in minResources may be named by its pods, who are asked in turn)
    wanted    minimum less what the job holds
    reserved  what is wanted by a job that is admitted, its gated pods left out
    elastic   cpu and memory that it holds beyond its minimum

Counted anew for jobs that changed, when the figures are next read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from plugins.capacity_card.ledger import Account, Ledger
from plugins.capacity_card.requests import JobRequest, Names, Wish, job_request_of
from volsched.model.cluster import Cluster
from volsched.model.job import INQUEUE, RUNNING, JobInfo
from volsched.model.resources import CPU, MEMORY, Resources
from volsched.model.status import IS_ALLOCATED
from volsched.model.template import TaskTemplate


class Wanted(NamedTuple):
    """Milli-cores, bytes, and milli-cards by list of names."""

    cpu: int = 0
    memory: int = 0
    cards: Mapping[Names, int] = MappingProxyType({})

    @property
    def is_empty(self) -> bool:
        """Whether nothing is wanted."""
        return not (self.cpu or self.memory or any(self.cards.values()))


NOTHING: Final = Wanted()


@dataclass(slots=True)
class Sums:
    """What the jobs of one queue want and hold, added up."""

    reserved_cpu: int = 0
    reserved_memory: int = 0
    elastic_cpu: int = 0
    elastic_memory: int = 0
    reserved: Counter[Names] = field(default_factory=Counter)
    pending: Counter[Names] = field(default_factory=Counter)

    def include(self, other: Sums) -> None:
        """Add all of another queue's."""
        self.reserved_cpu += other.reserved_cpu
        self.reserved_memory += other.reserved_memory
        self.elastic_cpu += other.elastic_cpu
        self.elastic_memory += other.elastic_memory
        self.reserved.update(other.reserved)
        self.pending.update(other.pending)

    def add(self, share: _Share, by: int) -> None:
        """Add one job's share, or take it off."""
        self.reserved_cpu += by * share.reserved.cpu
        self.reserved_memory += by * share.reserved.memory
        self.elastic_cpu += by * share.elastic_cpu
        self.elastic_memory += by * share.elastic_memory
        _count(self.reserved, share.reserved.cards, by)
        _count(self.pending, share.pending, by)


class _Share(NamedTuple):
    """What one job adds to its queue."""

    queue: str
    reserved: Wanted
    elastic_cpu: int
    elastic_memory: int
    pending: Mapping[Names, int]


_NONE: Final = Sums()
_NO_CARDS: Final[Mapping[Names, int]] = MappingProxyType({})


class Demands:
    """The sums of all queues; ``version`` changes with any of them."""

    def __init__(self, cluster: Cluster, ledger: Ledger, *, spares_cpu: bool) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._spares_cpu = spares_cpu
        self._shares: dict[str, _Share] = {}
        self._sums: dict[str, Sums] = {}
        self._requests: dict[str, tuple[Mapping[str, str], JobRequest]] = {}
        self._faulty: dict[str, JobInfo] = {}
        self._cards = -1
        self.version = 0

    def own(self, queue: str) -> Sums:
        """The sums of the jobs of a queue itself."""
        self.catch_up()
        return self._sums.get(queue, _NONE)

    def reserved(self, job: JobInfo) -> Wanted:
        """What is reserved for one job."""
        self.catch_up()
        share = self._shares.get(job.key)
        return share.reserved if share is not None else NOTHING

    def pending(self, job: JobInfo) -> Mapping[Names, int]:
        """Milli-cards, by list of names, that pods of one job without a node want."""
        self.catch_up()
        share = self._shares.get(job.key)
        return share.pending if share is not None else {}

    def of(self, queue: str) -> Sums:
        """The sums of all jobs that count against a queue's limit: its own; in a hierarchy, those below it too."""
        limits = self._ledger.limits
        if not limits.is_hierarchical:
            return self.own(queue)
        self.catch_up()
        total = Sums()
        for name, sums in self._sums.items():
            if any(limit.queue == queue for limit in limits.chain(name)):
                total.include(sums)
        return total

    def catch_up(self) -> None:
        """Count the jobs anew that changed."""
        ledger, changed = self._ledger, self._ledger.changed_jobs
        if self._cards != ledger.catalogue.version:
            self._cards = ledger.catalogue.version
            changed.update(self._cluster.jobs)
        if not changed:
            return
        for key, job in changed.items():
            self._forget(key)
            if key in self._cluster.jobs:
                self.request(job)  # whatever becomes of the job, it is told what is wrong there
                self._count(job)
            else:
                self._requests.pop(key, None)
                self._faulty.pop(key, None)
        changed.clear()
        self.version += 1

    def _forget(self, key: str) -> None:
        share = self._shares.pop(key, None)
        if share is not None:
            self._sums[share.queue].add(share, -1)

    def _count(self, job: JobInfo) -> None:
        pending = self._pending(job)
        least_cpu, least_memory = self._minimum(job)
        held = self._ledger.held(job)
        share = _Share(
            job.queue,
            self._without_gated(job, self._wanted(job, pending)) if _is_admitted(job) else NOTHING,
            max(0, held.cpu - least_cpu),
            max(0, held.memory - least_memory),
            pending,
        )
        if share.reserved.is_empty and not (share.elastic_cpu or share.elastic_memory or share.pending):
            return
        self._shares[job.key] = share
        sums = self._sums.get(job.queue)
        if sums is None:
            sums = self._sums[job.queue] = Sums()
        sums.add(share, 1)

    # -- one job ------------------------------------------------------------------------------------------------------

    def request(self, job: JobInfo) -> JobRequest:
        """What a job's PodGroup says that it wants in all."""
        known = self._requests.get(job.key)
        if known is not None and known[0] is job.annotations:
            return known[1]
        found = job_request_of(job.annotations)
        self._requests[job.key] = job.annotations, found
        if found.errors and (known is None or known[1].errors != found.errors):
            self._faulty[job.key] = job
        return found

    def take_faults(self) -> list[tuple[JobInfo, str]]:
        """What is wrong in annotations of PodGroups; each once, and again when it is something else."""
        self.catch_up()
        found = [
            (job, "; ".join(map(str, self.request(job).errors)))
            for _, job in sorted(self._faulty.items())
            if job.has_group
        ]
        self._faulty.clear()
        return found

    def wanted(self, job: JobInfo) -> Wanted:
        """What a job wants of its minimum beyond what it holds."""
        return self._wanted(job, self._pending(job))

    def _wanted(self, job: JobInfo, pending: Mapping[Names, int]) -> Wanted:
        held = self._ledger.held(job)
        cpu, memory = self._minimum(job)
        return Wanted(max(0, cpu - held.cpu), max(0, memory - held.memory), self._wanted_cards(job, held, pending))

    def _minimum(self, job: JobInfo) -> tuple[int, int]:
        least = job.min_resources
        if least is None or (self._spares_cpu and self._has_cards(job)):
            return 0, 0
        return least.get(CPU, 0), least.get(MEMORY, 0)

    def _has_cards(self, job: JobInfo) -> bool:
        if self.request(job).wants:
            return True
        if job.tasks:
            return any(self._ledger.wants.of(task.template).names for task in job.tasks.values())
        least = job.min_resources or Resources.EMPTY
        return any(least.get(resource, 0) for resource in self._ledger.catalogue.resources.values())

    def _wanted_cards(self, job: JobInfo, held: Account, pending: Mapping[Names, int]) -> Mapping[Names, int]:
        if (pending or held.cards) and len(job.tasks) >= job.min_available:
            return pending
        said = self.request(job).wants
        if not said:
            return pending
        asked = Counter(pending)
        asked.update({(card,): amount for card, amount in held.cards.items()})
        return Counter(_less(said, asked)) + Counter(pending)

    def _pending(self, job: JobInfo) -> Mapping[Names, int]:
        """What pods without a node want, those aside that count as holding it."""
        if not job.waiting:
            return _NO_CARDS
        templates: dict[TaskTemplate, int] = {}
        for task in job.waiting.values():
            if not task.ungated:
                templates[task.template] = templates.get(task.template, 0) + 1
        found: dict[Names, int] = {}
        for template, count in templates.items():
            wish = self._wish(template)
            if wish is not None:
                found[wish.names] = found.get(wish.names, 0) + count * wish.amount
        return found

    def _wish(self, template: TaskTemplate) -> Wish | None:
        wish = self._ledger.wants.wish(template)
        return wish if isinstance(wish, Wish) else None

    def _without_gated(self, job: JobInfo, wanted: Wanted) -> Wanted:
        gated = [task for task in job.waiting.values() if task.gated]
        if not gated:
            return wanted
        cpu, memory, cards = wanted.cpu, wanted.memory, dict(wanted.cards)
        for task in gated:
            want, wish = self._ledger.wants.of(task.template), self._wish(task.template)
            cpu, memory = max(0, cpu - want.cpu), max(0, memory - want.memory)
            if wish is not None and wish.names in cards:
                cards[wish.names] = max(0, cards[wish.names] - wish.amount)
        return Wanted(cpu, memory, cards)


def _is_admitted(job: JobInfo) -> bool:
    """Whether a job's minimum is reserved: it was let in, or runs with its minimum of pods."""
    if job.phase == INQUEUE:
        return True
    return job.phase == RUNNING and _allocated(job) >= job.min_available


def _allocated(job: JobInfo) -> int:
    return sum(count for count, counts in zip(job.counts, IS_ALLOCATED, strict=True) if counts)


def _less(said: Mapping[Names, int], asked: Mapping[Names, int]) -> dict[Names, int]:
    """What is left of a job's own figures when what its pods ask for is taken off the lists that may have meant it."""
    left, rest = dict(said), dict(asked)
    for names, others in _matches(said, asked):
        taken = min(left[names], rest[others])
        left[names] -= taken
        rest[others] -= taken
    return {names: amount for names, amount in left.items() if amount}


def _matches(said: Mapping[Names, int], asked: Mapping[Names, int]) -> list[tuple[Names, Names]]:
    """Lists that have a card in common: equal ones first, then those with least choice."""
    pairs = [(names, others) for names in said for others in asked if not set(names).isdisjoint(others)]
    return sorted(pairs, key=lambda pair: (pair[0] != pair[1], len(pair[0]), *pair))


def _count(total: Counter[Names], amounts: Mapping[Names, int], by: int) -> None:
    for names, amount in amounts.items():
        total[names] += by * amount
        if not total[names]:
            del total[names]
