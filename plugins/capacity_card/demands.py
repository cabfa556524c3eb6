"""What jobs still want beyond what they hold: what admission weighs, and what is shown as request and inqueue.

For each job::

    minimum   once the pods of its minimum exist, the cheapest of them (see ``minimum``); before, what is declared:
              cards in its PodGroup's annotation, cpu and memory in minResources, none for a job with cards that are
              spared them (*ours*: while it has no pods and names no cards, those in minResources may be named by
              its pods, who are asked in turn). A pod whose cards are not known does not count as there.
    wanted    minimum less what the job holds: the cheapest of the pods that it lacks beside those that have started
    reserved  what is wanted by a job that is admitted, its gated pods left out; of what is declared no more than pods
              ask for, once it has any, and each missing one like the largest (*ours*)
    elastic   cpu and memory that its pods hold beyond the cheapest minimum of them

Cards that a job holds beyond its minimum are not elastic: they are not given back.

The sums are those of ``volsched.quota.demand``. When a job holds and has reserved less than before, jobs that were not
admitted are worth another look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from plugins.capacity_card.requests.minimum import RolePods, cheapest, need_of
from plugins.capacity_card.requests.requests import (
    Amounts,
    Dimension,
    JobRequest,
    Names,
    job_request_of,
    lists_of,
    resources_of,
)
from plugins.capacity_card.usage import CardUsage
from volsched.plugin import (
    CPU,
    HOLDS_ROOM,
    IS_CHOSEN,
    IS_READY,
    MEMORY,
    Cluster,
    ClusterEvent,
    FieldError,
    JobInfo,
    NodeInfo,
    PodTemplate,
    Resources,
    TaskInfo,
    TaskStatus,
)
from volsched.plugin.quota import JobDemand, JobDemands, total_of


@dataclass(frozen=True, slots=True)
class _CardDemand(JobDemand[Dimension]):
    """What one job adds to its queue. What it holds it keeps from others, as what is reserved."""

    held: Amounts

    @property
    def is_empty(self) -> bool:
        """True if it adds nothing."""
        return not (self.reserved or self.elastic or self.pending)

    def keeps_more_than(self, other: _CardDemand) -> bool:
        """True if it keeps more from others of cpu, of memory, or of cards of all lists together."""
        mine, theirs = self._kept(), other._kept()
        return mine[0] > theirs[0] or mine[1] > theirs[1] or mine[2] > theirs[2]

    def _kept(self) -> tuple[int, int, int]:
        held, reserved = self.held, self.reserved
        cpu = held.get(CPU, 0) + reserved.get(CPU, 0)
        memory = held.get(MEMORY, 0) + reserved.get(MEMORY, 0)
        return cpu, memory, sum(held.values()) + sum(reserved.values()) - cpu - memory


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
    def card_requests(self) -> dict[Dimension, int]:
        """Milli-cards that they want, by list."""
        found: dict[Dimension, int] = {}
        for kind in self.kinds:
            if kind.card_request is not None:
                found[kind.card_request.names] = (
                    found.get(kind.card_request.names, 0) + kind.count * kind.card_request.amount
                )
        return found


class CardDemands(JobDemands[Dimension]):
    """The sums of all queues. ``version`` changes with any of them."""

    def __init__(self, cluster: Cluster, usage: CardUsage, *, spares_cpu: bool) -> None:
        super().__init__(cluster, above=usage.limits.is_hierarchical)
        self._usage = usage
        self._spares_cpu = spares_cpu
        self._requests: dict[str, tuple[Mapping[str, str], JobRequest]] = {}
        self._faulty: dict[str, JobInfo] = {}
        self._cards = -1

    def levels(self, queue: str) -> tuple[str, ...]:
        """Return the queues in which what a job of a queue asks for counts, that queue first."""
        return self._usage.limits.levels(queue)

    def share(self, job: JobInfo) -> JobDemand[Dimension]:
        """Return what one job adds to its queue."""
        self.refresh()
        found: JobDemand[Dimension] | None = self._shares.get(job.key)
        return found if found is not None else _NOTHING

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Have the job counted again, but not for a task on its way from chosen to running."""
        stays = IS_CHOSEN[before] and IS_CHOSEN[task.status] and task.node is node_before
        if not (stays and HOLDS_ROOM[before] == HOLDS_ROOM[task.status]):
            super().task_moved(task, before, node_before)

    def task_ungated(self, task: TaskInfo, *, counts: bool) -> None:
        """Have the job counted again."""
        if task.job is not None:
            self.job_changed(task.job, gone=False)

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Have the job counted again, or no longer."""
        super().job_changed(job, gone=gone)
        if gone:
            self._requests.pop(job.key, None)
            self._faulty.pop(job.key, None)

    def refresh(self) -> None:
        """Count jobs again that have changed; all of them if cards are other resources now."""
        if self._cards != self._usage.catalogue.version:
            self._cards = self._usage.catalogue.version
            self._changed.update(self._cluster.jobs)
        super().refresh()

    def counted(self, before: _CardDemand | None, share: _CardDemand) -> None:
        """Have jobs that wait looked at again when one keeps less from them."""
        if before is not None and not before.is_empty and before.keeps_more_than(share):
            self._cluster.wake(ClusterEvent.DEMAND_CHANGED)

    def share_of(self, job: JobInfo) -> _CardDemand:
        """Return what a job adds."""
        self.request(job)  # reports faults of the request, also for jobs that count nothing
        waiting, held = self._waiting(job), self._usage.held.of(job)
        reserved = self._reserved_by(job, waiting) if job.keeps_room else {}
        pending = {} if job.blocked else waiting.card_requests
        return _CardDemand(self.levels(job.queue), 0, pending, reserved, self._elastic(job), dict(held))

    # -- one job ------------------------------------------------------------------------------------------------------

    def request(self, job: JobInfo) -> JobRequest:
        """Return what a job's PodGroup states that it wants in all."""
        known = self._requests.get(job.key)
        if known is not None and known[0] is job.spec.annotations:
            return known[1]
        found = job_request_of(job.spec.annotations)
        self._requests[job.key] = job.spec.annotations, found
        if found.errors and (known is None or known[1].errors != found.errors):
            self._faulty[job.key] = job
        return found

    def take_faults(self) -> list[tuple[JobInfo, str]]:
        """Return what is wrong in annotations of PodGroups. Each once, and again when it is something else."""
        self.refresh()
        found = [
            (job, "; ".join(map(str, self.request(job).errors)))
            for _, job in sorted(self._faulty.items())
            if job.spec.has_group
        ]
        self._faulty.clear()
        return found

    def wanted(self, job: JobInfo) -> dict[Dimension, int]:
        """Return what a job wants of its minimum beyond what it holds.

        Before all pods of it exist, what it declares.
        """
        waiting = self._waiting(job)
        need = need_of(job, waiting.started)
        if need.can_be_had(_by_role(waiting.kinds)):
            return cheapest(need, waiting.kinds)
        return self._declared(job)

    def _reserved_by(self, job: JobInfo, waiting: _WaitingPods) -> dict[Dimension, int]:
        """The same without its gated pods, which are as good as started, and with no more than its pods bear out."""
        need = need_of(job, waiting.started)
        if not need.can_be_had(_by_role(waiting.kinds)):
            return self._borne_out(job, waiting)
        if waiting.gated:
            need = need_of(job, waiting.started + _by_role(waiting.gated))
        return cheapest(need, waiting.others)

    def _waiting(self, job: JobInfo) -> _WaitingPods:
        started, with_roles = _started(job), job.judges_roles
        alike = Counter(
            [
                (task.ungated, not task.spec.gated, task.spec.role if with_roles else "", task.template)
                for task in job.waiting.values()
            ]
        )
        gated: list[RolePods] = []
        others: list[RolePods] = []
        for (ungated, without_gates, role, template), count in alike.items():
            if ungated:
                started[role] += count
                continue
            asked = self._usage.charges.card_request(template)
            if not isinstance(asked, FieldError):
                (others if without_gates else gated).append(
                    RolePods(role, self._usage.charges.of(template), asked, count)
                )
        return _WaitingPods(started, tuple(gated), tuple(others))

    def _declared(self, job: JobInfo) -> dict[Dimension, int]:
        """Return what a job's PodGroup states that it wants, less what it holds."""
        held = self._usage.held.of(job)
        return {
            **_beyond(self._declared_minimum(job, job.spec.min_resources), held),
            **_less(self.request(job).lists, lists_of(held)),
        }

    def _borne_out(self, job: JobInfo, waiting: _WaitingPods) -> dict[Dimension, int]:
        """What it declares: once it has pods, what these ask for, and the largest once more for each missing one."""
        left = _without(self._declared(job), waiting.gated)
        if not job.tasks:
            return left
        most = _beyond(self._declared_minimum(job, job.counted_minimum), self._usage.held.of(job))
        resources = {name: min(amount, most.get(name, 0)) for name, amount in resources_of(left).items()}
        return _without_zeros({**resources, **_at_most(lists_of(left), self._most_cards(job, waiting))})

    def _most_cards(self, job: JobInfo, waiting: _WaitingPods) -> int:
        """Milli-cards that the pods of a job without a node or a gate ask for, the missing ones like the largest."""
        asked = {template: self._usage.charges.card_request(template) for template in _templates(job)}
        largest = max((a.amount for a in asked.values() if a is not None and not isinstance(a, FieldError)), default=0)
        there = sum(kind.count * kind.card_request.amount for kind in waiting.others if kind.card_request is not None)
        return there + largest * max(0, job.spec.min_available - len(job.tasks))

    def _declared_minimum(self, job: JobInfo, least: Resources | None) -> Amounts:
        if least is None or (self._spares_cpu and self._has_cards(job)):
            return {}
        return resources_of(least)

    def _has_cards(self, job: JobInfo) -> bool:
        if self.request(job).lists:
            return True
        if job.tasks:
            return any(self._usage.charges.of(task.template).names for task in job.tasks.values())
        least = job.spec.min_resources or Resources.EMPTY
        return any(least.get(resource, 0) for resource in self._usage.catalogue.resources.values())

    def _elastic(self, job: JobInfo) -> Amounts:
        """Return what its pods hold of cpu and memory beyond the cheapest minimum of those that have started."""
        held = self._usage.held.of(job)
        if not held or job.placed_count + job.pipelined_count <= job.spec.min_available:
            return {}
        alike = Counter((task.spec.role, task.template) for task in job.tasks.values() if _holds(task))
        kinds = [
            RolePods(role, self._usage.charges.of(template), None, count) for (role, template), count in alike.items()
        ]
        return _beyond(resources_of(held), cheapest(need_of(job, Counter()), kinds))


_NOTHING: Final[JobDemand[Dimension]] = JobDemand((), 0, {}, {}, {})


def _started(job: JobInfo) -> Counter[str]:
    """Pods by role that hold room, were promised it, or are done; without roles that count, all are of one."""
    if not job.judges_roles:
        return Counter({"": job.ready_count + job.pipelined_count})
    return Counter(task.spec.role for task in job.tasks.values() if IS_READY[task.status] or IS_CHOSEN[task.status])


def _holds(task: TaskInfo) -> bool:
    return IS_CHOSEN[task.status] or (task.ungated and task.status is TaskStatus.PENDING)


def _templates(job: JobInfo) -> set[PodTemplate]:
    return {task.template for task in job.tasks.values() if not task.spec.gated}


def _at_most(cards: Mapping[Names, int], most: int) -> dict[Dimension, int]:
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


def _beyond(amounts: Amounts, held: Amounts) -> dict[Dimension, int]:
    """Return what amounts are beyond what is held, without zeros."""
    return {name: beyond for name, amount in amounts.items() if (beyond := amount - held.get(name, 0)) > 0}


def _without(wanted: Amounts, kinds: tuple[RolePods, ...]) -> dict[Dimension, int]:
    """Return what is left when some pods do not count."""
    of_kinds: list[Amounts] = []
    for kind in kinds:
        asked = kind.card_request
        cards: Amounts = {asked.names: asked.amount} if asked is not None else {}
        of_kinds.append({dim: kind.count * amount for dim, amount in {**kind.charge.resources, **cards}.items()})
    return _beyond(wanted, total_of(of_kinds))


def _without_zeros(amounts: Amounts) -> dict[Dimension, int]:
    return {dimension: amount for dimension, amount in amounts.items() if amount}


def _less(declared: Mapping[Names, int], asked: Mapping[Names, int]) -> dict[Dimension, int]:
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
