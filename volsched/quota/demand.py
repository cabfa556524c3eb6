"""What jobs ask for beyond what they hold, per queue: the figures that quota plugins weigh admission and fairness by.

For each queue::

    waiting   how many tasks wait
    pending   what these request
    reserved  what admitted jobs may still take of their minResources (gated pods left out)
    elastic   what jobs hold beyond their minResources

Kept by job: a job is counted again when it changed and the figures are next read. ``above``: what jobs ask for
counts in every queue above theirs, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from volsched.framework.deprecated_names import former
from volsched.model.cluster import Cluster
from volsched.model.job import RUNNING, JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import levels
from volsched.model.status import TaskStatus
from volsched.model.values.resources import Resources, accumulate

DEMANDS = "framework.demand"
"""The name under which plugins share this account (``session.account(DEMANDS, QueueDemands)``)."""

DEMANDS_ABOVE = "framework.demand.above"
"""The same for ``session.account(DEMANDS_ABOVE, QueueDemands.with_above)``."""


@dataclass(slots=True)
class QueueDemand:
    """The sums of one queue, and how many jobs it has."""

    jobs: int = 0
    waiting: int = 0
    pending: dict[str, int] = field(default_factory=dict)
    reserved: dict[str, int] = field(default_factory=dict)
    elastic: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _JobDemand:
    """What one job adds to its queue, and to those in which that counts."""

    queues: tuple[str, ...]
    waiting: int
    pending: Mapping[str, int]
    reserved: Mapping[str, int]
    elastic: Mapping[str, int]


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
        """Return what a job adds now; None for one that is not counted."""
        raise NotImplementedError

    def add(self, key: str, share: Any, by: int) -> None:
        """Add what a job adds, or take it off (-1); ``key`` is that of the job."""
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

    def refresh(self) -> None:
        """Count jobs again that have changed."""
        for job in self._changed.values():
            self._take_off(job.key)
            share = self.share_of(job)
            if share is not None:
                self._shares[job.key] = share
                self.add(job.key, share, 1)
                self.version += 1
        self._changed.clear()

    def _take_off(self, key: str) -> None:
        share = self._shares.pop(key, None)
        if share is not None:
            self.add(key, share, -1)
            self.version += 1


class QueueDemands(JobSums):
    """The account; ``version`` changes when any figure may have."""

    def __init__(self, cluster: Cluster, *, above: bool = False) -> None:
        super().__init__(cluster)
        self._above = above
        self._tree = cluster.clocks.queue_tree_generation
        self._queues: dict[str, QueueDemand] = {}
        self._reserved: dict[str, int] = {}

    @classmethod
    def with_above(cls, cluster: Cluster) -> QueueDemands:
        """Make the account in which queues above count, too."""
        return cls(cluster, above=True)

    def queues(self) -> Mapping[str, QueueDemand]:
        """The sums of every queue that has a job."""
        self.refresh()
        return self._queues

    def reserved(self) -> Mapping[str, int]:
        """What admitted jobs of all queues may still take."""
        self.refresh()
        return self._reserved

    def refresh(self) -> None:
        """Count jobs again that have changed; all of them if queues are below others now."""
        if self._above and self._tree != self._cluster.clocks.queue_tree_generation:
            self._tree = self._cluster.clocks.queue_tree_generation
            self._changed.update(self._cluster.jobs)
        super().refresh()

    def share_of(self, job: JobInfo) -> _JobDemand | None:
        """Return what a job with a group adds; another one adds nothing."""
        if not (job.spec.has_group or job.spec.implicit):
            return None
        waiting = 0 if job.blocked else len(job.waiting)
        return _JobDemand(self._counted_in(job.queue), waiting, _pending(job), reserved_by(job), _elastic(job))

    def _counted_in(self, queue: str) -> tuple[str, ...]:
        queues = self._cluster.queues
        return levels(queues, queue) if self._above and queue in queues else (queue,)

    def add(self, key: str, share: _JobDemand, by: int) -> None:
        """Add what a job adds, or take it off."""
        accumulate(self._reserved, share.reserved, by)
        for name in share.queues:
            queue = self._queues.setdefault(name, QueueDemand())
            queue.jobs += by
            queue.waiting += by * share.waiting
            accumulate(queue.pending, share.pending, by)
            accumulate(queue.reserved, share.reserved, by)
            accumulate(queue.elastic, share.elastic, by)
            if not queue.jobs:
                del self._queues[name]


def _pending(job: JobInfo) -> dict[str, int]:
    found: dict[str, int] = {}
    if job.blocked:
        return found
    for task in job.waiting.values():
        accumulate(found, task.template.request, 1)
    return found


def reserved_by(job: JobInfo) -> Resources:
    """What an admitted job may still take of its minimum, its gated pods left out."""
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
