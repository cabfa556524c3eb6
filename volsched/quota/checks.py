"""Whether queues may take more: votes on jobs, headrooms for pods, and which limit refuses.

For each queue that counts for a job's queue (itself; in a hierarchy those above it, too), and for each dimension that
is asked for::

    admission   allocated + reserved - elastic + minimum <= limit
    placing     allocated + request <= bound

The limit is the bound of a placement as well, unless a plugin places by what queues deserve.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from volsched.framework.callbacks import ABSTAIN, NO_LIMIT, PERMIT, Ballot, Headroom, Vote
from volsched.model.job import JobInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import Shortfall, Step, Verdict
from volsched.quota.amounts import not_a_leaf, not_admitted

D = TypeVar("D", bound=Hashable)
N = TypeVar("N")

At: TypeAlias = Literal[Step.ENQUEUE, Step.ALLOCATABLE]
"""The step at which a queue refuses."""


class Exceeded(NamedTuple, Generic[D, N]):
    """One dimension in which a request would be above a limit."""

    dimension: D
    requested: N
    used: N
    limit: N


def exceeded(
    request: Mapping[D, N], used: Mapping[D, N], limit: Callable[[D], N | None], nothing: N
) -> list[Exceeded[D, N]]:
    """Return where a request beside what is used is above a limit; None is no limit, ``nothing`` the zero."""
    found = []
    for dimension, amount in request.items():
        most, have = limit(dimension), used.get(dimension, nothing)
        if most is not None and amount > nothing and have + amount > most:  # type: ignore[operator]  # N is a number
            found.append(Exceeded(dimension, amount, have, most))
    return found


class QueueQuotas(ABC, Generic[D]):
    """The checks of one plugin whose amounts are integers; a plugin states limits and what is used of them."""

    name: ClassVar[str]
    """The name of the plugin."""
    without_minimum: Ballot = ABSTAIN
    """The vote on a job that states no minimum."""

    @abstractmethod
    def levels(self, queue: str) -> Sequence[str]:
        """Return the queues whose limits count for a queue, itself first."""

    @abstractmethod
    def allocated(self, level: str) -> Mapping[D, int]:
        """Return what a queue, in a hierarchy with those below it, holds; promised room is held."""

    @abstractmethod
    def limit(self, level: str, dimension: D) -> int | None:
        """Return the most that a queue may hold; None is no limit."""

    @abstractmethod
    def committed(self, level: str, dimension: D) -> int:
        """Return what a queue holds and has reserved, without what its jobs hold beyond their minimum."""

    @abstractmethod
    def minimum(self, job: JobInfo) -> Mapping[D, int] | None:
        """Return what a job starts with; None if it states nothing."""

    @abstractmethod
    def request(self, template: PodTemplate) -> Mapping[D, int]:
        """Return what a pod is charged for; without zeros."""

    @abstractmethod
    def exceeds(self, queue: str, level: str, short: tuple[Shortfall, ...]) -> Verdict:
        """Return the refusal of a pod of a queue, as it is too much for a level."""

    def is_parent(self, queue: str) -> bool:
        """Return whether a queue has others below it, and so takes no work itself."""
        return False

    def closed(self, queue: str, step: At) -> Verdict | None:
        """Return why a queue takes no work at all."""
        return not_a_leaf(self.name, queue, step) if self.is_parent(queue) else None

    def bound(self, level: str, dimension: D) -> int | None:
        """Return the most that a queue may hold for a pod to be placed; the limit, unless a plugin overrides it."""
        return self.limit(level, dimension)

    def counted(self, level: str) -> Mapping[D, int]:
        """Return what counts against the bound of a queue; what it holds, unless a plugin overrides it."""
        return self.allocated(level)

    # -- answers ------------------------------------------------------------------------------------------------------

    def vote(self, job: JobInfo) -> Ballot:
        """Admit a job whose minimum fits into what its queue, and those above it, may have."""
        closed = self.closed(job.queue, Step.ENQUEUE)
        if closed is not None:
            return Ballot(Vote.REJECT, closed)
        least = self.minimum(job)
        if least is None:
            return self.without_minimum
        for level in self.levels(job.queue):
            used = {dimension: self.committed(level, dimension) for dimension in least}
            short = shortfalls(exceeded(least, used, partial(self.limit, level), 0))
            if short:
                return Ballot(Vote.REJECT, not_admitted(self.name, level, tuple(sorted(short, key=_by_name))))
        return PERMIT

    def headroom(self, queue: QueueInfo, template: PodTemplate) -> Headroom:
        """Return how many such pods a queue, and those above it, may take on, and why not even one."""
        closed = self.closed(queue.name, Step.ALLOCATABLE)
        if closed is not None:
            return Headroom(0, closed)
        request, count = self.request(template), NO_LIMIT
        for level in self.levels(queue.name):
            used = self.counted(level)
            for dimension, amount in request.items():
                most = self.bound(level, dimension)
                if most is not None:
                    count = min(count, (most - used.get(dimension, 0)) // amount)
        return Headroom(count) if count > 0 else Headroom(count, self.refusal(queue, template))

    def refusal(self, queue: QueueInfo, template: PodTemplate) -> Verdict | None:
        """Return why a queue, or one above it, may not take on a pod."""
        closed = self.closed(queue.name, Step.ALLOCATABLE)
        if closed is not None:
            return closed
        for level in self.levels(queue.name):
            short = self.beyond(level, self.request(template))
            if short:
                return self.exceeds(queue.name, level, short)
        return None

    def beyond(self, level: str, request: Mapping[D, int]) -> tuple[Shortfall, ...]:
        """Return where a request would take a queue above its bound."""
        return shortfalls(exceeded(request, self.counted(level), partial(self.bound, level), 0))


def shortfalls(short: Sequence[Exceeded[D, int]]) -> tuple[Shortfall, ...]:
    """Return the same as a refusal has it."""
    return tuple(Shortfall(str(each.dimension), each.requested, each.used, each.limit) for each in short)


def _by_name(short: Shortfall) -> str:
    return short.resource
