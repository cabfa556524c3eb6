"""The book of reservations: which nodes are held for which jobs, in the order in which reservations were made.

It lives as long as the configuration. What is not derivable from the cluster, the nodes and the order, stands in the
PodGroups' conditions, from which a new book is made.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from actions.reserve.pauses import Pauses
from actions.reserve.trust import Trust
from actions.reserve.words import kept_from
from volsched.framework.columns.views import NodePropertiesView
from volsched.model.clocks import ClusterEvent
from volsched.model.cluster import Cluster
from volsched.model.durations import annotated, declared, end_of
from volsched.model.held_nodes import pause_of, stated_reservation_of
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_FINISHED, ON_NODE, TaskStatus
from volsched.model.verdict import Verdict

Amounts: TypeAlias = Mapping[int, int]
"""How much of each resource, by column."""

Request: TypeAlias = Sequence[tuple[int, int]]
"""What a pod asks for: (column, amount)."""

RUNS: Final = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)
"""Pods that hold a node and may be over some day."""

_STALE: Final = -1


@dataclass(slots=True, eq=False)
class Reservation:
    """Nodes that are held for a job.

    ``at``: when the reservation was made, ``first``: the start that it named then. ``start``: the one that is thought
    of now. ``announced``: that in the condition. None: not known. ``uid`` is that of the PodGroup: another one of the
    same name has no reservation. ``stale``: something changed that may move the start. ``needs``: what the members take
    on each node, by column. ``fullest`` is how much is in use on the fullest of the nodes. ``tried_at`` is the requeue
    generation in which the job was last tried, and whether its share was settled then. ``priority``: with which it
    holds its nodes. ``usable`` are those that its members could have. ``asked``: what the members of its minimum
    requested when it was made. ``restored``: it was read from the PodGroup, and no session has looked at it yet.
    """

    job: JobInfo
    uid: str
    at: float
    nodes: tuple[str, ...]
    start: float | None = None
    first: float | None = None
    announced: float | None = None
    announced_nodes: tuple[str, ...] = ()
    priority: int = 0
    stale: bool = True
    needs: Mapping[str, Amounts] = field(default_factory=dict)
    fullest: int = 0
    usable: frozenset[str] = frozenset()
    tried_at: tuple[int, bool] = (_STALE, False)
    signature: Hashable = None
    asked: Mapping[str, int] = field(default_factory=dict)
    restored: bool = False

    def is_settled(self, now: float) -> bool:
        """True if the start that the job was told has come: its queue's share was settled for then.

        Shares follow what other queues ask for; what they ask for after the reservation does not break it. A job
        whose start was not known had its share when the reservation was made.
        """
        return self.announced is None or self.announced <= now


class _Placed(NamedTuple):
    """When a pod got its node, and the duration (seconds) that it declared then; None: it declared none.

    ``part`` is the largest part of the node that it takes of any resource.
    """

    at: float
    declared: float | None
    part: float


class _Ended(NamedTuple):
    """A pod that has ended since the last session: its queue, when it began, and the seconds that it declared."""

    task: TaskInfo
    queue: str
    began: float
    declared: float | None
    placed: _Placed


@dataclass(slots=True)
class DurationSettings:
    """What durations count for: ``overestimate`` multiplies what is declared, ``default`` is for who declares none.

    ``outlived``: after so many pods that ran longer than they declared, a namespace or a queue is not believed. For
    ``hold`` seconds nodes are held for a job beyond its first start, or while its start is not known, then none are
    held for its namespace for ``pause`` seconds.
    """

    overestimate: float
    default: float
    outlived: int = 0
    hold: float = math.inf
    pause: float = 3600.0


class Book(Observer):
    """All reservations."""

    def __init__(self, cluster: Cluster, settings: DurationSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self.now = 0.0
        self.version = 0
        self.is_trying = False
        """True while tasks are moved only to find something out."""
        self.kept: dict[str, Reservation] = {}
        self._placed: dict[str, _Placed] = {}
        self._ended: dict[str, _Ended] = {}
        self._left_behind: list[JobInfo] = []
        self._moves = 0
        self._shared: dict[int, bool] = {}
        self._shared_at = _STALE
        self.trust = Trust(settings.outlived)
        self.pauses = Pauses(settings.hold, settings.pause)
        self._restore()

    def _restore(self) -> None:
        """Take up the reservations in PodGroups' conditions.

        What names a node that is gone counts for nothing, and what was made for a job without waiting pods is over: the
        scheduler that wrote it ended between its bindings and the status.
        """
        for job in self._cluster.jobs.values():
            if (paused := pause_of(job)) is not None:
                self.pauses.restore(job.namespace, *paused)
        found = [(stated_reservation_of(job), job) for job in self._cluster.jobs.values()]
        for stated, job in sorted(((s, j) for s, j in found if s), key=lambda each: (each[0].at, each[1].key)):
            if not job.waiting or any(name not in self._cluster.nodes for name in stated.nodes):
                self._left_behind.append(job)
            else:
                self.put(Reservation(
                    job, job.spec.group_uid, stated.at, stated.nodes, stated.start, stated.start, stated.start,
                    stated.nodes, restored=True,
                ))  # fmt: skip

    def take_left_behind(self) -> list[JobInfo]:
        """Return the jobs whose PodGroups state reservations that are over, once."""
        found, self._left_behind = self._left_behind, []
        return [job for job in found if self._cluster.jobs.get(job.key) is job]

    def begin(self, now: float) -> None:
        """Begin a session: pods that ended since the last one are judged now, when that is first looked at."""
        self.now = now
        for ended in self._ended.values():
            self._judge(ended)
        self._ended.clear()
        self.pauses.forget(now)

    # -- what is held -------------------------------------------------------------------------------------------------

    def put(self, reservation: Reservation) -> None:
        """Hold nodes for a job, in the order of reservations; of one second by name, as a new book would have them."""
        found = [*self.kept.values(), reservation]
        self.kept = {r.job.key: r for r in sorted(found, key=lambda r: (math.ceil(r.at), r.job.key))}
        self.changed()

    def drop(self, reservation: Reservation) -> None:
        """Hold a job's nodes no longer."""
        del self.kept[reservation.job.key]
        self.changed()

    def changed(self) -> None:
        """Have everybody asked again who may go where."""
        self.version += 1
        self._cluster.wake(ClusterEvent.NODE_CHANGED)

    def deadline(self, reservation: Reservation) -> float:
        """Return until when nodes are held for a job that does not start, in seconds since the epoch."""
        began = reservation.at if reservation.first is None else max(reservation.at, reservation.first)
        return began + self._settings.hold

    def next_deadline(self) -> float | None:
        """Return when nodes are next held for a job no longer, or may be held again for a namespace."""
        ends = [*map(self.deadline, self.kept.values()), *self.pauses.ends(self.now)]
        return min((end for end in ends if self.now < end < math.inf), default=None)

    def taken_from(self, job: JobInfo, above: float = -math.inf) -> set[str]:
        """Return the nodes that are held for others, for those of at least a priority."""
        others = (r for r in self.kept.values() if r.job is not job and r.priority >= above)
        return {name for r in others for name in r.nodes}

    # -- who may go where ---------------------------------------------------------------------------------------------

    def closed_to(self, task: TaskInfo) -> tuple[str, ...] | None:
        """Return whose nodes a task may not have, or None when there are none."""
        if not self.kept or self._shares(task):
            return None
        return self._closed(task)

    def closed_beside(self, task: TaskInfo) -> Hashable | None:
        """Return the same for a task that may be small enough to go beside those for whom nodes are held."""
        if not self.kept or not self._shares(task):
            return None
        closed = self._closed(task)
        return (task.template.id, closed) if closed else None

    def _closed(self, task: TaskInfo) -> tuple[str, ...] | None:
        found = tuple(key for key, r in self.kept.items() if not self.may_enter(task, r))
        return found or None

    def _shares(self, task: TaskInfo) -> bool:
        """True if there is a held node that could hold both a task and those for whom it is held, were it empty."""
        if self._shared_at != self.version:
            self._shared.clear()
            self._shared_at = self.version
        known = self._shared.get(task.template.id)
        if known is None:
            request = self._cluster.columns.request(task.template)
            known = any(self._is_beside(request, node.allocatable, needs) for node, needs in self._held())
            self._shared[task.template.id] = known
        return known

    def _held(self) -> Iterator[tuple[NodeInfo, Amounts]]:
        for reservation in self.kept.values():
            for name, needs in reservation.needs.items():
                if (node := self._cluster.nodes.get(name)) is not None:
                    yield node, needs

    @staticmethod
    def _is_beside(request: Request, room: Sequence[int], needs: Amounts) -> bool:
        return all(room[column] - needs.get(column, 0) >= amount for column, amount in request)

    def _has_room_for_both(self, task: TaskInfo, name: str, reservation: Reservation) -> bool:
        """True if a node has room for a task and, at the start, for those for whom it is held.

        Where the start is not known, it has to be there already.
        """
        needs, node = reservation.needs.get(name), self._cluster.nodes.get(name)
        if needs is None or node is None:
            return False
        room = [a - u - p for a, u, p in zip(node.allocatable, node.used, node.pipelined, strict=True)]
        if reservation.start is not None:
            for other in node.tasks.values():
                if other.status in RUNS and self.end(other) <= reservation.start:
                    for column, amount in other.charge:
                        room[column] += amount
        return self._is_beside(self._cluster.columns.request(task.template), room, needs)

    def may_enter(self, task: TaskInfo, reservation: Reservation) -> bool:
        """True if a task may have whatever is held: it is the job's own, more important, or over by the start."""
        if task.job is reservation.job or task.eviction_priority > reservation.priority:
            return True
        if reservation.start is None:
            return False
        duration = self.duration(task)
        return duration is not None and self.now + duration * self._settings.overestimate <= reservation.start

    def refusal(self, task: TaskInfo, node: NodePropertiesView) -> Verdict | None:
        """Return why a task may not go on a node that is held."""
        for key in self._closed(task) or ():
            if node.name in self.kept[key].nodes:
                return kept_from(self.kept[key], self.now)
        return None

    def refusal_beside(self, task: TaskInfo, node: NodeInfo) -> Verdict | None:
        """Return why a task may not go on a node that is held, though it is small enough for some."""
        for key in self._closed(task) or ():
            reservation = self.kept[key]
            if node.name in reservation.nodes and not self._has_room_for_both(task, node.name, reservation):
                return kept_from(reservation, self.now)
        return None

    def moves(self, _: TaskInfo) -> Hashable:
        """Return what changes when pods come to or leave nodes that are held."""
        return self.version, self._moves

    # -- when pods end ------------------------------------------------------------------------------------------------

    def end(self, task: TaskInfo) -> float:
        """Return when a pod on a node is thought to end, in seconds since the epoch; infinite if not declared."""
        if task.status is TaskStatus.RELEASING:
            return self.now
        start, promised = self._began(task), self._promised(task)
        if promised is not None and start + promised * self._settings.overestimate < self.now:
            placed = self._placed.get(task.uid)
            part = placed.part if placed is not None else _part(task)
            self.trust.outlived(task, task.queue, part * (self.now - start))
        duration = self.duration(task)
        if duration is None:
            return math.inf
        return end_of(start, duration * self._settings.overestimate, self.now)

    def duration(self, task: TaskInfo) -> float | None:
        """Return the seconds that a pod is thought to run; None if not declared, or its declaration is not trusted."""
        if self.trust.is_lost(task.namespace, task.queue):
            return None
        queue = self._cluster.queues.get(task.queue)
        return declared(task, queue.spec.annotations if queue is not None else {}, self._settings.default)

    def _began(self, task: TaskInfo) -> float:
        placed = self._placed.get(task.uid)
        return max(task.spec.started, placed.at if placed is not None else 0.0) or self.now

    def _promised(self, task: TaskInfo) -> float | None:
        """Return the shortest duration that a pod on a node declares, or declared when it was placed; None: none.

        An author may change the annotation of a running pod, and a short duration opens held nodes.
        """
        placed = self._placed.get(task.uid)
        stated = (annotated(task), placed.declared if placed is not None else None)
        return min((seconds for seconds in stated if seconds is not None), default=None)

    def _judge(self, ended: _Ended) -> None:
        """See whether a pod that is over kept to what it had declared."""
        if ended.declared is None:
            return
        weight = ended.placed.part * max(0.0, self.now - ended.began)
        if ended.began + ended.declared * self._settings.overestimate < self.now:
            self.trust.outlived(ended.task, ended.queue, weight)
        self.trust.over(ended.task, ended.queue, weight)

    def next_start(self) -> float | None:
        """Return when the first reservation is to start that has not, in seconds since the epoch."""
        return min((r.start for r in self.kept.values() if r.start is not None and r.start > self.now), default=None)

    # -- following ----------------------------------------------------------------------------------------------------

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Note when a pod got its node, and whose start that may move."""
        if self.is_trying:
            return
        if task.node is not None and ON_NODE[task.status]:
            if task.uid not in self._placed:
                again = self._ended.pop(task.uid, None)  # its request was read anew
                placed = _Placed(self.now, annotated(task), _part(task)) if again is None else again.placed
                self._placed[task.uid] = placed
        elif task.node is None or IS_FINISHED[task.status]:
            if task.uid in self._placed and before in RUNS:
                self._ended[task.uid] = _Ended(
                    task, task.queue, self._began(task), self._promised(task), self._placed[task.uid]
                )
            self._placed.pop(task.uid, None)
        for reservation in self.kept.values():
            for node in (node_before, task.node):
                if node is None:
                    continue
                if node.name in reservation.nodes:
                    self._moves += 1
                    reservation.stale = True
                elif self._is_emptier(node, reservation):
                    reservation.stale = True

    def node_changed(self, node: NodeInfo, before: object) -> None:
        """A node that is new or another one may do better."""
        for reservation in self.kept.values():
            reservation.stale = True

    def node_removed(self, node: NodeInfo) -> None:
        """A reservation on a node that breaks is moved at once."""
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
    """Return the amount in use of the resource of which a member asks for the largest part of the node."""
    charge = max(member.charge, key=lambda each: each[1] / max(1, node.allocatable[each[0]]), default=None)
    return node.used[charge[0]] - node.releasing[charge[0]] if charge is not None else 0


def _part(task: TaskInfo) -> float:
    """Return the largest part of its node that a pod takes of any resource."""
    node = task.node
    if node is None:
        return 0.0
    parts = [amount / whole for column, amount in task.charge if (whole := node.allocatable[column]) > 0]
    return max(parts, default=0.0)
