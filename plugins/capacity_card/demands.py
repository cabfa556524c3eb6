"""What jobs still want beyond what they hold: what admission weighs, and what is shown as request and inqueue.

For each job::

    minimum   once the pods of its minimum exist, the cheapest of them (see ``minimum``); before, what is declared:
              cards in its PodGroup's annotation, cpu and memory in minResources, none for a job with cards that are
              spared them (*ours*: while it has no pods and names no cards, those in minResources may be named by
              its pods, who are asked in turn). A pod whose cards nobody can tell does not count as there.
    wanted    minimum less what the job holds: the cheapest of the pods that it lacks beside those that have started
    reserved  what is wanted by a job that is admitted, its gated pods left out; of what is declared no more than pods
              ask for, once it has any, and each missing one like the largest (*ours*)
    elastic   cpu and memory that its pods hold beyond the cheapest minimum of them

Cards that a job holds beyond its minimum are not elastic: nobody gives them back.

Counted again for jobs that changed, when the figures are next read. When a job then holds and has reserved less than
before, jobs that were not admitted are worth another look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from plugins.capacity_card.ledger import CardQuotaLedger
from plugins.capacity_card.requests.minimum import NOTHING, RequestTotal, RolePods, cheapest, need_of
from plugins.capacity_card.requests.requests import JobRequest, Names, job_request_of
from volsched.plugin import (
    CPU,
    IS_CHOSEN,
    IS_READY,
    MEMORY,
    Cluster,
    ClusterEvent,
    FieldError,
    JobInfo,
    PodTemplate,
    Resources,
    TaskInfo,
    TaskStatus,
)


@dataclass(slots=True)
class QueueSums:
    """What the jobs of one queue want and hold, added up."""

    reserved_cpu: int = 0
    reserved_memory: int = 0
    elastic_cpu: int = 0
    elastic_memory: int = 0
    reserved: Counter[Names] = field(default_factory=Counter)
    pending: Counter[Names] = field(default_factory=Counter)

    def include(self, other: QueueSums) -> None:
        """Add all of another queue's."""
        self.reserved_cpu += other.reserved_cpu
        self.reserved_memory += other.reserved_memory
        self.elastic_cpu += other.elastic_cpu
        self.elastic_memory += other.elastic_memory
        self.reserved.update(other.reserved)
        self.pending.update(other.pending)

    def add(self, share: _JobShare, by: int) -> None:
        """Add one job's share, or take it off."""
        self.reserved_cpu += by * share.reserved.cpu
        self.reserved_memory += by * share.reserved.memory
        self.elastic_cpu += by * share.elastic_cpu
        self.elastic_memory += by * share.elastic_memory
        _count(self.reserved, share.reserved.cards, by)
        _count(self.pending, share.pending, by)


class Promised(NamedTuple):
    """Milli-cores, bytes and milli-cards that a job holds or has reserved."""

    cpu: int
    memory: int
    cards: int

    def is_less_than(self, other: Promised) -> bool:
        """Whether it is less of anything."""
        return any(mine < theirs for mine, theirs in zip(self, other, strict=True))


class _JobShare(NamedTuple):
    """What one job adds to its queue; ``promised`` is what it keeps from others."""

    queue: str
    reserved: RequestTotal
    elastic_cpu: int
    elastic_memory: int
    pending: Mapping[Names, int]
    promised: Promised

    @property
    def is_empty(self) -> bool:
        """Whether it adds nothing."""
        return self.reserved.is_empty and not (self.elastic_cpu or self.elastic_memory or self.pending)


@dataclass(frozen=True, slots=True)
class _WaitingPods:
    """The pods of a job without a node that state what they want, alike ones together: those with gates, the others.

    ``started`` are pods by role that have started, or are about to: they count as holding what they want.
    """

    started: Counter[str]
    gated: tuple[RolePods, ...]
    others: tuple[RolePods, ...]

    @property
    def kinds(self) -> tuple[RolePods, ...]:
        """All of them."""
        return self.gated + self.others

    @property
    def card_requests(self) -> dict[Names, int]:
        """Milli-cards that they want, by list."""
        found: dict[Names, int] = {}
        for kind in self.kinds:
            if kind.card_request is not None:
                found[kind.card_request.names] = (
                    found.get(kind.card_request.names, 0) + kind.count * kind.card_request.amount
                )
        return found


_NONE: Final = QueueSums()


class CardDemands:
    """The sums of all queues; ``version`` changes with any of them."""

    def __init__(self, cluster: Cluster, ledger: CardQuotaLedger, *, spares_cpu: bool) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._accounts = ledger.accounts
        self._spares_cpu = spares_cpu
        self._shares: dict[str, _JobShare] = {}
        self._sums: dict[str, QueueSums] = {}
        self._requests: dict[str, tuple[Mapping[str, str], JobRequest]] = {}
        self._faulty: dict[str, JobInfo] = {}
        self._cards = -1
        self.version = 0

    def own(self, queue: str) -> QueueSums:
        """The sums of the jobs of a queue itself."""
        self.catch_up()
        return self._sums.get(queue, _NONE)

    def reserved(self, job: JobInfo) -> RequestTotal:
        """What is reserved for one job."""
        self.catch_up()
        share = self._shares.get(job.key)
        return share.reserved if share is not None else NOTHING

    def pending(self, job: JobInfo) -> Mapping[Names, int]:
        """Milli-cards, by list of names, that pods of one job without a node want."""
        self.catch_up()
        share = self._shares.get(job.key)
        return share.pending if share is not None else {}

    def of(self, queue: str) -> QueueSums:
        """The sums of all jobs that count against a queue's limit: its own; in a hierarchy, those below it too."""
        limits = self._ledger.limits
        if not limits.is_hierarchical:
            return self.own(queue)
        self.catch_up()
        total = QueueSums()
        for name, sums in self._sums.items():
            if any(limit.queue == queue for limit in limits.chain(name)):
                total.include(sums)
        return total

    def catch_up(self) -> None:
        """Count the jobs again that changed."""
        ledger, changed = self._ledger, self._ledger.changed_jobs
        if self._cards != ledger.catalogue.version:
            self._cards = ledger.catalogue.version
            changed.update(self._cluster.jobs)
        if not changed:
            return
        for key, job in changed.items():
            before = self._forget(key)
            if key in self._cluster.jobs:
                self.request(job)  # whatever becomes of the job, it is told what is wrong there
                promised = self._count(job)
                if before is not None and promised.is_less_than(before.promised):
                    self._cluster.wake(ClusterEvent.DEMAND_CHANGED)
            else:
                self._requests.pop(key, None)
                self._faulty.pop(key, None)
        changed.clear()
        self.version += 1

    def _forget(self, key: str) -> _JobShare | None:
        share = self._shares.pop(key, None)
        if share is not None:
            self._sums[share.queue].add(share, -1)
        return share

    def _count(self, job: JobInfo) -> Promised:
        share = self._share(job)
        if not share.is_empty:
            self._shares[job.key] = share
            sums = self._sums.get(job.queue)
            if sums is None:
                sums = self._sums[job.queue] = QueueSums()
            sums.add(share, 1)
        return share.promised

    def _share(self, job: JobInfo) -> _JobShare:
        waiting, held = self._waiting(job), self._accounts.held(job)
        reserved = self._reserved(job, waiting) if job.keeps_room else NOTHING
        minimum = self._least_held(job)
        cards = sum(held.cards.values()) + sum(reserved.cards.values())
        return _JobShare(
            job.queue,
            reserved,
            max(0, held.cpu - minimum.cpu),
            max(0, held.memory - minimum.memory),
            {} if job.blocked else waiting.card_requests,
            Promised(held.cpu + reserved.cpu, held.memory + reserved.memory, cards),
        )

    # -- one job ------------------------------------------------------------------------------------------------------

    def request(self, job: JobInfo) -> JobRequest:
        """What a job's PodGroup states that it wants in all."""
        known = self._requests.get(job.key)
        if known is not None and known[0] is job.spec.annotations:
            return known[1]
        found = job_request_of(job.spec.annotations)
        self._requests[job.key] = job.spec.annotations, found
        if found.errors and (known is None or known[1].errors != found.errors):
            self._faulty[job.key] = job
        return found

    def take_faults(self) -> list[tuple[JobInfo, str]]:
        """What is wrong in annotations of PodGroups; each once, and again when it is something else."""
        self.catch_up()
        found = [
            (job, "; ".join(map(str, self.request(job).errors)))
            for _, job in sorted(self._faulty.items())
            if job.spec.has_group
        ]
        self._faulty.clear()
        return found

    def wanted(self, job: JobInfo) -> RequestTotal:
        """What a job wants of its minimum beyond what it holds; before all pods of it exist, what it declares."""
        waiting = self._waiting(job)
        need = need_of(job, waiting.started)
        if need.can_be_had(_by_role(waiting.kinds)):
            return cheapest(need, waiting.kinds)
        return self._declared(job)

    def _reserved(self, job: JobInfo, waiting: _WaitingPods) -> RequestTotal:
        """The same without its gated pods, which are as good as started, and with no more than its pods bear out."""
        if not need_of(job, waiting.started).can_be_had(_by_role(waiting.kinds)):
            return self._borne_out(job, waiting)
        need = need_of(job, waiting.started + _by_role(waiting.gated))
        return cheapest(need, waiting.others)

    def _waiting(self, job: JobInfo) -> _WaitingPods:
        started, with_roles = _started(job), job.judges_roles
        alike: Counter[tuple[bool, str, PodTemplate]] = Counter()
        for task in job.waiting.values():
            role = task.spec.role if with_roles else ""
            if task.ungated:
                started[role] += 1
            else:
                alike[bool(task.spec.gated), role, task.template] += 1
        gated: list[RolePods] = []
        others: list[RolePods] = []
        for (is_gated, role, template), count in alike.items():
            asked = self._ledger.charges.card_request(template)
            if not isinstance(asked, FieldError):
                (gated if is_gated else others).append(RolePods(role, self._ledger.charges.of(template), asked, count))
        return _WaitingPods(started, tuple(gated), tuple(others))

    def _declared(self, job: JobInfo) -> RequestTotal:
        """What a job's PodGroup states that it wants, less what it holds."""
        held = self._accounts.held(job)
        cpu, memory = self._declared_minimum(job, job.spec.min_resources)
        cards = _less(self.request(job).lists, {(card,): amount for card, amount in held.cards.items()})
        return RequestTotal(max(0, cpu - held.cpu), max(0, memory - held.memory), cards)

    def _borne_out(self, job: JobInfo, waiting: _WaitingPods) -> RequestTotal:
        """What it declares: once it has pods, what these ask for, and the largest once more for each missing one."""
        left = _without(self._declared(job), waiting.gated)
        if not job.tasks:
            return left
        held = self._accounts.held(job)
        cpu, memory = self._declared_minimum(job, job.counted_minimum)
        return RequestTotal(
            min(left.cpu, max(0, cpu - held.cpu)),
            min(left.memory, max(0, memory - held.memory)),
            _at_most(left.cards, self._most_cards(job, waiting)),
        )

    def _most_cards(self, job: JobInfo, waiting: _WaitingPods) -> int:
        """Milli-cards that the pods of a job without a node or a gate ask for, the missing ones like the largest."""
        asked = {template: self._ledger.charges.card_request(template) for template in _templates(job)}
        largest = max((a.amount for a in asked.values() if a is not None and not isinstance(a, FieldError)), default=0)
        there = sum(kind.count * kind.card_request.amount for kind in waiting.others if kind.card_request is not None)
        return there + largest * max(0, job.spec.min_available - len(job.tasks))

    def _declared_minimum(self, job: JobInfo, least: Resources | None) -> tuple[int, int]:
        if least is None or (self._spares_cpu and self._has_cards(job)):
            return 0, 0
        return least.get(CPU, 0), least.get(MEMORY, 0)

    def _has_cards(self, job: JobInfo) -> bool:
        if self.request(job).lists:
            return True
        if job.tasks:
            return any(self._ledger.charges.of(task.template).names for task in job.tasks.values())
        least = job.spec.min_resources or Resources.EMPTY
        return any(least.get(resource, 0) for resource in self._ledger.catalogue.resources.values())

    def _least_held(self, job: JobInfo) -> RequestTotal:
        """What the cheapest minimum of those pods holds that have started; all of it when they are no more."""
        held = self._accounts.held(job)
        if not (held.cpu or held.memory) or job.placed_count + job.pipelined_count <= job.spec.min_available:
            return RequestTotal(held.cpu, held.memory)
        alike = Counter((task.spec.role, task.template) for task in job.tasks.values() if _holds(task))
        kinds = [
            RolePods(role, self._ledger.charges.of(template), None, count) for (role, template), count in alike.items()
        ]
        return cheapest(need_of(job, Counter()), kinds)


def _started(job: JobInfo) -> Counter[str]:
    """Pods by role that hold room, were promised it, or are done; without roles that count, all are of one."""
    if not job.judges_roles:
        return Counter({"": job.ready_count + job.pipelined_count})
    return Counter(task.spec.role for task in job.tasks.values() if IS_READY[task.status] or IS_CHOSEN[task.status])


def _holds(task: TaskInfo) -> bool:
    return IS_CHOSEN[task.status] or (task.ungated and task.status is TaskStatus.PENDING)


def _templates(job: JobInfo) -> set[PodTemplate]:
    return {task.template for task in job.tasks.values() if not task.spec.gated}


def _at_most(cards: Mapping[Names, int], most: int) -> dict[Names, int]:
    """Return so many milli-cards of some lists and no more, the first lists first."""
    found: dict[Names, int] = {}
    for names, amount in sorted(cards.items()):
        found[names] = min(amount, most)
        most -= found[names]
    return {names: amount for names, amount in found.items() if amount}


def _by_role(kinds: tuple[RolePods, ...]) -> Counter[str]:
    found: Counter[str] = Counter()
    for kind in kinds:
        found[kind.role] += kind.count
    return found


def _without(wanted: RequestTotal, kinds: tuple[RolePods, ...]) -> RequestTotal:
    """What is left when some pods do not count."""
    cpu, memory, cards = wanted.cpu, wanted.memory, dict(wanted.cards)
    for kind in kinds:
        cpu, memory = max(0, cpu - kind.count * kind.charge.cpu), max(0, memory - kind.count * kind.charge.memory)
        if kind.card_request is not None and kind.card_request.names in cards:
            cards[kind.card_request.names] = max(
                0, cards[kind.card_request.names] - kind.count * kind.card_request.amount
            )
    return RequestTotal(cpu, memory, cards)


def _less(declared: Mapping[Names, int], asked: Mapping[Names, int]) -> dict[Names, int]:
    """What is left of a job's own figures when what its pods ask for is taken off the lists that may have meant it."""
    left, rest = dict(declared), dict(asked)
    for names, others in _matches(declared, asked):
        taken = min(left[names], rest[others])
        left[names] -= taken
        rest[others] -= taken
    return {names: amount for names, amount in left.items() if amount}


def _matches(declared: Mapping[Names, int], asked: Mapping[Names, int]) -> list[tuple[Names, Names]]:
    """Lists that have a card in common: equal ones first, then those with least choice."""
    pairs = [(names, others) for names in declared for others in asked if not set(names).isdisjoint(others)]
    return sorted(pairs, key=lambda pair: (pair[0] != pair[1], len(pair[0]), *pair))


def _count(total: Counter[Names], amounts: Mapping[Names, int], by: int) -> None:
    for names, amount in amounts.items():
        total[names] += by * amount
        if not total[names]:
            del total[names]
