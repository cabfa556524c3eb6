"""The requests of jobs beyond their holdings, by queue: for admission and fair shares.

For each queue::

    waiting   how many tasks wait
    pending   what these request
    reserved  what admitted jobs may still take of their minResources (gated pods left out)
    elastic   what jobs hold beyond their minResources

Kept by job: a job is counted again when it changed and the figures are next read. ``above``: what jobs ask for
counts in every queue above theirs, too. ``JobDemands`` adds up amounts of any dimensions, ``QueueDemands`` requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic

from volsched.framework.deprecated_names import former
from volsched.framework.registration import Registrar
from volsched.model.cluster import Cluster
from volsched.model.job import RUNNING, JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import levels
from volsched.model.status import TaskStatus
from volsched.model.values.resources import Resources, accumulate
from volsched.quota.amounts import D

DEMANDS = "framework.demand"
"""The name under which plugins share this account (``session.account(DEMANDS, QueueDemands)``)."""

DEMANDS_ABOVE = "framework.demand.above"
"""The same for ``session.account(DEMANDS_ABOVE, QueueDemands.with_above)``."""


@dataclass(slots=True)
class QueueDemand(Generic[D]):
    """The sums of one queue, and how many jobs it has."""

    jobs: int = 0
    waiting: int = 0
    pending: dict[D, int] = field(default_factory=dict)
    reserved: dict[D, int] = field(default_factory=dict)
    elastic: dict[D, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobDemand(Generic[D]):
    """What one job adds to its queue, and to those in which that counts: ``queues``, its own first."""

    queues: tuple[str, ...]
    waiting: int
    pending: Mapping[D, int]
    reserved: Mapping[D, int]
    elastic: Mapping[D, int]


_NO_DEMAND: Final[QueueDemand[Any]] = QueueDemand()


class JobSums(Observer):
    """Sums by queue of what jobs add to them. A job is counted again if it changed, when sums are next read.

    ``version`` changes when any sum may have.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._shares: dict[str, Any] = {}
        self._changed: dict[str, JobInfo] = dict(cluster.jobs)
        self.version = 0

    def share_of(self, job: JobInfo) -> Any:
        """Return what a job adds now, or None for one that is not counted."""
        raise NotImplementedError

    def add(self, key: str, share: Any, by: int) -> None:
        """Add what a job adds, or take it off (-1). ``key`` is that of the job."""
        raise NotImplementedError

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Have the job counted again."""
        if task.job is not None:
            self.job_changed(task.job, gone=False)

    def run_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Have their job counted again."""
        super().run_allocated(tasks[:1])

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Have the job counted again, or no longer."""
        if gone:
            self._changed.pop(job.key, None)
            self._take_off(job.key)
        else:
            self._changed[job.key] = job

    def counted(self, before: Any, share: Any) -> None:
        """Take notice of what a job adds that was counted again, and of what it added before; None for nothing."""

    def refresh(self) -> None:
        """Count jobs again that have changed."""
        for job in self._changed.values():
            before, share = self._take_off(job.key), self.share_of(job)
            if share is not None:
                self._shares[job.key] = share
                self.add(job.key, share, 1)
                self.version += 1
            self.counted(before, share)
        self._changed.clear()

    def _take_off(self, key: str) -> Any:
        """Take off what a job adds, and return it."""
        share = self._shares.pop(key, None)
        if share is not None:
            self.add(key, share, -1)
            self.version += 1
        return share


class JobDemands(JobSums, Generic[D]):
    """The sums of what jobs ask for in the dimensions of one plugin (``share_of`` returns a ``JobDemand``)."""

    def __init__(self, cluster: Cluster, *, above: bool = False) -> None:
        super().__init__(cluster)
        self._above = above
        self._tree = cluster.generations.queue_tree
        self._queues: dict[str, QueueDemand[D]] = {}
        self._own: dict[str, QueueDemand[D]] = {}
        self._own_version = -1

    def queues(self) -> Mapping[str, QueueDemand[D]]:
        """Return the sums of every queue that has a job."""
        self.refresh()
        return self._queues

    def of(self, level: str) -> QueueDemand[D]:
        """Return the sums of one queue."""
        return self.queues().get(level, _NO_DEMAND)

    def own(self, queue: str) -> QueueDemand[D]:
        """Return the sums of the jobs of a queue itself, for reports. All are added again after any change."""
        if not self._above:
            return self.of(queue)
        self.refresh()
        if self._own_version != self.version:
            self._own_version = self.version
            self._own = {}
            for share in self._shares.values():
                _include(self._own.setdefault(share.queues[0], QueueDemand()), share, 1)
        return self._own.get(queue, _NO_DEMAND)

    def refresh(self) -> None:
        """Count jobs again that have changed; all of them if queues are below others now."""
        if self._above and self._tree != self._cluster.generations.queue_tree:
            self._tree = self._cluster.generations.queue_tree
            self._changed.update(self._cluster.jobs)
        super().refresh()

    def levels(self, queue: str) -> tuple[str, ...]:
        """Return the queues in which what a job of a queue asks for counts, that queue first."""
        queues = self._cluster.queues
        return levels(queues, queue) if self._above and queue in queues else (queue,)

    def add(self, key: str, share: JobDemand[D], by: int) -> None:
        """Add what a job adds, or take it off."""
        for name in share.queues:
            queue = self._queues.setdefault(name, QueueDemand())
            _include(queue, share, by)
            if not queue.jobs:
                del self._queues[name]


class QueueDemands(JobDemands[str]):
    """The account of requests. ``version`` changes when any figure may have."""

    def __init__(self, cluster: Cluster, *, above: bool = False) -> None:
        super().__init__(cluster, above=above)
        self._reserved: dict[str, int] = {}

    @classmethod
    def with_above(cls, cluster: Cluster) -> QueueDemands:
        """Make the account in which queues above count, too."""
        return cls(cluster, above=True)

    def reserved(self) -> Mapping[str, int]:
        """Return what admitted jobs of all queues may still take."""
        self.refresh()
        return self._reserved

    def add(self, key: str, share: JobDemand[str], by: int) -> None:
        """Add what a job adds, or take it off."""
        accumulate(self._reserved, share.reserved, by)
        super().add(key, share, by)

    def share_of(self, job: JobInfo) -> JobDemand[str] | None:
        """Return what a job with a group adds; another one adds nothing."""
        if not (job.spec.has_group or job.spec.implicit):
            return None
        waiting = 0 if job.blocked else len(job.waiting)
        return JobDemand(self.levels(job.queue), waiting, _pending(job), reserved_by(job), _elastic(job))


def demands_of(registrar: Registrar, *, above: bool) -> QueueDemands:
    """Return the account that plugins share; with ``above`` what jobs ask for counts in queues above theirs, too."""
    if above:
        return registrar.account(DEMANDS_ABOVE, QueueDemands.with_above)
    return registrar.account(DEMANDS, QueueDemands)


def committed(held: Mapping[D, int], sums: QueueDemand[D], dimensions: Iterable[D]) -> dict[D, int]:
    """Return what a queue holds and has reserved, beyond what its jobs could do without."""
    return {d: max(0, held.get(d, 0) + sums.reserved.get(d, 0) - sums.elastic.get(d, 0)) for d in dimensions}


def _include(queue: QueueDemand[D], share: JobDemand[D], by: int) -> None:
    queue.jobs += by
    queue.waiting += by * share.waiting
    if share.pending:
        accumulate(queue.pending, share.pending, by)
    if share.reserved:
        accumulate(queue.reserved, share.reserved, by)
    if share.elastic:
        accumulate(queue.elastic, share.elastic, by)


def _pending(job: JobInfo) -> dict[str, int]:
    found: dict[str, int] = {}
    if job.blocked:
        return found
    for task in job.waiting.values():
        accumulate(found, task.template.request, 1)
    return found


def reserved_by(job: JobInfo) -> Resources:
    """Return what an admitted job may still take of its minimum, its gated pods left out."""
    stated = job.spec.min_resources
    if stated is None or not job.keeps_room:
        return Resources.EMPTY
    least = job.counted_minimum or Resources.EMPTY
    for task in job.waiting.values():
        if task.spec.gated:
            stated = stated.minus(task.template.request)
    least = least.minimum(stated)
    return least.minus(job.allocated) if job.phase == RUNNING else least


def _elastic(job: JobInfo) -> Mapping[str, int]:
    held = Resources(job.allocated)
    return held.minus(job.spec.min_resources) if job.spec.min_resources is not None else held


if not TYPE_CHECKING:  # a type checker knows the present names alone
    __getattr__ = former(
        __name__,
        {"ACCOUNT_ABOVE": (":DEMANDS_ABOVE", "it is DEMANDS_ABOVE"), "ACCOUNT": (":DEMANDS", "it is DEMANDS")},
    )
