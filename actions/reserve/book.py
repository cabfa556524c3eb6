"""The book of promises: which nodes are held for which jobs, in the order in which that was promised.

It lives as long as the configuration. What is not derivable from the cluster, the nodes and the order, stands in the
PodGroups' conditions, from which a new book is made.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final

from actions.reserve.durations import declared, end_of
from actions.reserve.words import kept_from
from volsched.framework.columns.views import NodeFacts
from volsched.model.clocks import ClusterEvent
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.reservation import promise_of
from volsched.model.status import ON_NODE, TaskStatus
from volsched.model.verdict import Verdict

_STALE: Final = -1


@dataclass(slots=True, eq=False)
class Reservation:
    """Nodes that are held for a job.

    ``at``: when the first promise was made, ``first``: the start that it named. ``start``: the one that is thought of
    now. ``said``: that in the condition. None: not known. ``uid`` is that of the PodGroup: another one of the same name
    was promised nothing. ``stale``: something changed that may move the start. ``fullest`` is how much is in use on the
    fullest of the nodes. ``tried_at`` is the requeue generation in which the job was last tried. ``priority``: with
    which it holds its nodes.
    """

    job: JobInfo
    uid: str
    at: float
    nodes: tuple[str, ...]
    start: float | None = None
    first: float | None = None
    said: float | None = None
    said_nodes: tuple[str, ...] = ()
    priority: int = 0
    stale: bool = True
    fullest: int = 0
    tried_at: int = _STALE
    signature: Hashable = None


@dataclass(slots=True)
class Settings:
    """What durations count for: ``overestimate`` multiplies what is declared, ``default`` is for who says nothing."""

    overestimate: float
    default: float


class Book(Observer):
    """All reservations."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._settings = settings
        self.now = 0.0
        self.version = 0
        self.is_trying = False
        """Whether tasks are moved only to find something out."""
        self.kept: dict[str, Reservation] = {}
        self._placed: dict[str, float] = {}
        self._restore()

    def _restore(self) -> None:
        """Take up what PodGroups say that they were promised; what names a node that is gone counts for nothing."""
        found = [(promise_of(job), job) for job in self._cluster.jobs.values() if job.waiting]
        for promise, job in sorted(((p, j) for p, j in found if p), key=lambda each: (each[0].at, each[1].key)):
            if all(name in self._cluster.nodes for name in promise.nodes):
                self.put(Reservation(
                    job, job.group_uid, promise.at, promise.nodes, promise.start, promise.start, promise.start,
                    promise.nodes,
                ))  # fmt: skip

    # -- what is held -------------------------------------------------------------------------------------------------

    def put(self, reservation: Reservation) -> None:
        """Hold nodes for a job."""
        self.kept[reservation.job.key] = reservation
        self.changed()

    def drop(self, reservation: Reservation) -> None:
        """Hold a job's nodes no longer."""
        del self.kept[reservation.job.key]
        self.changed()

    def changed(self) -> None:
        """Have everybody asked again who may go where."""
        self.version += 1
        self._cluster.wake(ClusterEvent.NODE_CHANGED)

    def taken_from(self, job: JobInfo) -> set[str]:
        """Return the nodes that are held for others."""
        return {name for r in self.kept.values() if r.job is not job for name in r.nodes}

    # -- who may go where ---------------------------------------------------------------------------------------------

    def closed_to(self, task: TaskInfo) -> tuple[str, ...] | None:
        """Return whose nodes a task may not have; None when there are none."""
        found = tuple(key for key, r in self.kept.items() if not self._may_enter(task, r))
        return found or None

    def _may_enter(self, task: TaskInfo, reservation: Reservation) -> bool:
        if task.job is reservation.job or task.eviction_priority > reservation.priority:
            return True
        if reservation.start is None:
            return False
        duration = declared(task, self._settings.default)
        return duration is not None and self.now + duration * self._settings.overestimate <= reservation.start

    def refusal(self, task: TaskInfo, node: NodeFacts) -> Verdict | None:
        """Why a task may not go on a node that is held."""
        for key in self.closed_to(task) or ():
            if node.name in self.kept[key].nodes:
                return kept_from(self.kept[key], self.now)
        return None

    # -- when pods end ------------------------------------------------------------------------------------------------

    def end(self, task: TaskInfo) -> float:
        """Return when a pod on a node is thought to end, in seconds since the epoch; infinite: nobody said."""
        if task.status is TaskStatus.RELEASING:
            return self.now
        duration = declared(task, self._settings.default)
        if duration is None:
            return math.inf
        start = max(task.started, self._placed.get(task.uid, 0.0)) or self.now
        return end_of(start, duration * self._settings.overestimate, self.now)

    def next_start(self) -> float | None:
        """Return when the first reservation is to start that has not, in seconds since the epoch."""
        return min((r.start for r in self.kept.values() if r.start is not None and r.start > self.now), default=None)

    # -- following ----------------------------------------------------------------------------------------------------

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Note when a pod got its node, and whose start that may move."""
        if self.is_trying:
            return
        if task.node is not None and ON_NODE[task.status]:
            self._placed.setdefault(task.uid, self.now)
        elif task.node is None:
            self._placed.pop(task.uid, None)
        for reservation in self.kept.values():
            for node in (node_before, task.node):
                if node is not None and (node.name in reservation.nodes or self._is_emptier(node, reservation)):
                    reservation.stale = True

    def node_changed(self, node: NodeInfo, before: object) -> None:
        """A node that is new or another one may do better."""
        for reservation in self.kept.values():
            reservation.stale = True

    def node_removed(self, node: NodeInfo) -> None:
        """A promise on a node that breaks is moved at once."""
        for reservation in self.kept.values():
            reservation.stale = True

    def _is_emptier(self, node: NodeInfo, reservation: Reservation) -> bool:
        member = next(iter(reservation.job.waiting.values()), None)
        return member is not None and _use(node, member) < reservation.fullest

    def idle(self) -> Iterator[tuple[str, int]]:
        """Yield what is free on nodes that are held, by resource."""
        names = {name for r in self.kept.values() for name in r.nodes}
        for node in (self._cluster.nodes[name] for name in names if name in self._cluster.nodes):
            for resource in self._cluster.columns.names:
                if amount := max(0, node.idle_of(resource)):
                    yield resource, amount


def _use(node: NodeInfo, member: TaskInfo) -> int:
    """Return how much is in use of what a member asks most of, as parts of the node go."""
    charge = max(member.charge, key=lambda each: each[1] / max(1, node.allocatable[each[0]]), default=None)
    return node.used[charge[0]] - node.releasing[charge[0]] if charge is not None else 0
