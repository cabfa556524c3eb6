"""Whether queues may take more: votes on jobs, headrooms for pods, and which limit refuses.

For each queue that counts for a job's queue (itself; in a hierarchy those above it, too), and for each dimension that
is asked for::

    admission   committed + minimum <= limit     committed: allocated + reserved - elastic
    placing     counted + request <= bound       counted: allocated; bound: the limit, unless a plugin overrides them

A dimension is what a plugin counts by: a resource, a card, or a DeviceClass with a dimension of its capacity. A level
is what it asks for limits and amounts by: the name of a queue, or the limit of one itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from volsched.framework.callbacks import ABSTAIN, NO_LIMIT, PERMIT, Ballot, Headroom, Vote
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import Step, Verdict
from volsched.quota.amounts import D, N, not_a_leaf

L = TypeVar("L")

At: TypeAlias = Literal[Step.ENQUEUE, Step.ALLOCATABLE]
"""The step at which a queue refuses."""


class Exceeded(NamedTuple):
    """One dimension in which a request would be above a limit."""

    dimension: Any
    requested: Any
    used: Any
    limit: Any

    @property
    def total(self) -> Any:
        """Return what it would come to."""
        return self.used + self.requested


def exceeded(request: Mapping[D, N], used: Mapping[D, N], limit: Callable[[D], N | None]) -> tuple[Exceeded, ...]:
    """Return where a request beside what is used is above a limit (None: no limit). An amount of 0 never is."""
    found = []
    for dimension, amount in request.items():
        most = limit(dimension) if amount > 0 else None
        if most is not None and used.get(dimension, 0) + amount > most:
            found.append(Exceeded(dimension, amount, used.get(dimension, type(amount)(0)), most))
    return tuple(found)


class LeafQueues:
    """The check of a plugin that limits nothing, but has work in queues without any below them alone."""

    name: ClassVar[str]
    """The name of the plugin."""

    def is_parent(self, queue: str) -> bool:
        """Return whether a queue has others below it, and so takes no work itself."""
        return False

    def closed(self, queue: str, step: At) -> Verdict | None:
        """Return why a queue takes no work at all."""
        return not_a_leaf(self.name, queue, step) if self.is_parent(queue) else None

    def vote(self, job: JobInfo) -> Ballot:
        """Reject a job whose queue takes no work."""
        closed = self.closed(job.queue, Step.ENQUEUE)
        return ABSTAIN if closed is None else Ballot(Vote.REJECT, closed)

    def headroom(self, queue: QueueInfo, template: PodTemplate) -> Headroom:
        """Return that a queue may take on any number of pods, or none."""
        closed = self.closed(queue.name, Step.ALLOCATABLE)
        return Headroom(NO_LIMIT) if closed is None else Headroom(0, closed)


class QueueQuotas(LeafQueues, ABC, Generic[L, D, N]):
    """The checks of one plugin. A plugin states what is requested, what is used, and the limits."""

    without_minimum: Ballot = ABSTAIN
    """The vote on a job that states no minimum."""
    admission: Ballot = PERMIT
    """The vote on a job that fits."""

    # -- what a plugin states -----------------------------------------------------------------------------------------

    @abstractmethod
    def levels(self, queue: str) -> Sequence[L]:
        """Return the queues whose limits count for a queue, itself first."""

    @abstractmethod
    def limit(self, level: L, dimension: D) -> N | None:
        """Return the most that a queue may hold; None is no limit."""

    @abstractmethod
    def allocated(self, level: L) -> Mapping[D, N]:
        """Return what a queue, in a hierarchy with those below it, holds. Promised room is held."""

    @abstractmethod
    def committed(self, level: L, minimum: Mapping[D, N]) -> Mapping[D, N]:
        """Return what a queue holds and has reserved of all that a minimum names, without what is elastic."""

    @abstractmethod
    def minimum(self, job: JobInfo, level: L) -> Mapping[D, N] | None:
        """Return what a job starts with, as it counts in a queue, or None if it states nothing."""

    @abstractmethod
    def request(self, pod: Any, level: L) -> Mapping[D, N]:
        """Return what a pod (its template, or a task) counts for in a queue; without zeros."""

    @abstractmethod
    def refused(self, queue: str, level: L, short: Sequence[Exceeded], step: At) -> Verdict:
        """Return the refusal of work of a queue, as it is too much for a level."""

    def bound(self, level: L, dimension: D) -> N | None:
        """Return the most that a queue may hold for a pod to be placed; None is no limit."""
        return self.limit(level, dimension)

    def counted(self, level: L) -> Mapping[D, N]:
        """Return what counts against the bound of a queue."""
        return self.allocated(level)

    # -- answers ------------------------------------------------------------------------------------------------------

    def vote(self, job: JobInfo) -> Ballot:
        """Admit a job whose minimum fits into what its queue, and those above it, may have."""
        ballot = super().vote(job)
        if ballot.vote is Vote.REJECT:
            return ballot
        for level in self.levels(job.queue):
            least = self.minimum(job, level)
            if least is None:
                return self.without_minimum
            refusal = self.not_admitted(job.queue, level, least)
            if refusal is not None:
                return Ballot(Vote.REJECT, refusal)
        return self.admission

    def not_admitted(self, queue: str, level: L, minimum: Mapping[D, N]) -> Verdict | None:
        """Return why a level cannot commit a minimum to a job of a queue."""
        short = exceeded(minimum, self.committed(level, minimum), partial(self.limit, level))
        return self.refused(queue, level, short, Step.ENQUEUE) if short else None

    def headroom(self, queue: QueueInfo, template: PodTemplate) -> Headroom:
        """Return how many such pods a queue, and those above it, may take on, and why not even one."""
        found = super().headroom(queue, template)
        if found.refusal is not None:
            return found
        count = self.room(self.levels(queue.name), template)
        return Headroom(count) if count > 0 else Headroom(count, self.refusal(queue, template))

    def room(self, levels: Sequence[L], template: PodTemplate) -> int:
        """Return how many such pods some levels have room for."""
        count = NO_LIMIT
        for level in levels:
            used = self.counted(level)
            for dimension, amount in self.request(template, level).items():
                most = self.bound(level, dimension)
                if most is not None:
                    count = min(count, int((most - used.get(dimension, 0)) // amount))
        return count

    def refusal(self, queue: QueueInfo, pod: Any) -> Verdict | None:
        """Return why a queue, or one above it, may not take on a pod (its template, or a task)."""
        closed = self.closed(queue.name, Step.ALLOCATABLE)
        if closed is not None:
            return closed
        for level in self.levels(queue.name):
            short = self.beyond(level, self.request(pod, level))
            if short:
                return self.refused(queue.name, level, short, Step.ALLOCATABLE)
        return None

    def beyond(self, level: L, request: Mapping[D, N]) -> tuple[Exceeded, ...]:
        """Return where a request would take a queue above its bound."""
        return exceeded(request, self.counted(level), partial(self.bound, level))

    def overcharged(self, queue: str, level: L, charge: Mapping[D, N]) -> Verdict | None:
        """Return the refusal of a charge that was just made, if it took a level above its limit."""
        used = self.allocated(level)
        before = {dimension: used.get(dimension, 0) - amount for dimension, amount in charge.items()}
        short = exceeded(charge, before, partial(self.limit, level))
        return self.refused(queue, level, short, Step.ALLOCATABLE) if short else None

    def deallocate(self, task: TaskInfo) -> None:
        """Do nothing: what a queue holds follows the moves of tasks."""
