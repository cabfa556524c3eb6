"""Counters and logs that invalidate cached answers about the cluster.

A counter grows with every change of one kind, and a log names the nodes that changed. The requeue generation counts
the changes that could let a waiting task in (kube-scheduler's queueing hints): a job that could not be placed is not
tried again before it has grown. Changes that are tried and undone leave the requeue generation as it was.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from volsched.model.former import renamed_attributes


class ClusterEvent(StrEnum):
    """The reasons to requeue waiting tasks. Each requeues all jobs.

    ======================  ===========================================================================================
    ``ROOM_FREED``          a task left a node, or a gang's lost room is kept no longer
    ``NODE_CHANGED``        a node came, changed or went, or reservations of nodes changed
    ``DEVICES_CHANGED``     volumes, claims, slices or classes of devices changed
    ``NEIGHBOURS_CHANGED``  pods or domains changed that rules of affinity and spread count
    ``QUEUE_CHANGED``       a queue came, changed or went
    ``DEMAND_CHANGED``      a task or job left, or requests less, so that shares or quotas of others grow
    ``JOB_CHANGED``         a PodGroup went
    ``VICTIMS_CHANGED``     a budget, a PodGroup or a pod came or changed, so that pods may be evicted that might not;
                            without an action that evicts it requeues no job
    ======================  ===========================================================================================
    """

    ROOM_FREED = "room freed"
    NODE_CHANGED = "node changed"
    DEVICES_CHANGED = "volumes or devices changed"
    NEIGHBOURS_CHANGED = "neighbours changed"
    QUEUE_CHANGED = "queue changed"
    DEMAND_CHANGED = "demand changed"
    JOB_CHANGED = "job changed"
    VICTIMS_CHANGED = "pods may be evicted that might not"


class Generations:
    """The counters of one cluster. Each grows with changes of one kind.

    ==============  ===================================================================================================
    ``requeue``     something happened that could let a waiting task in (``ClusterEvent``); restored when a tried change
                    is undone (``WithoutRequeue``)
    ``layout``      nodes came or went, so rows have new numbers; or amounts have other columns
    ``move``        a task moved, also if the move is undone later
    ``change``      a session committed something, or the mirror took a change in; not tried moves
    ``queue_tree``  a queue came, went, or got another parent
    ``namespace``   labels of a namespace changed
    ``template``    many templates ended, so caches by template are cleared: to compute the answers about the others
                    again costs less than they cost at first
    ==============  ===================================================================================================

    ``evicts`` is False while no configured action evicts.
    """

    __slots__ = ("change", "evicts", "layout", "move", "namespace", "queue_tree", "requeue", "template")

    def __init__(self) -> None:
        self.layout = 0
        self.requeue = 0
        self.move = 0
        self.change = 0
        self.queue_tree = 0
        self.namespace = 0
        self.template = 0
        self.evicts = True

    def wake(self, event: ClusterEvent) -> None:
        """Requeue all jobs that could not be placed, if the event can help any with the configured actions."""
        if self.evicts or event is not ClusterEvent.VICTIMS_CHANGED:
            self.requeue += 1

    def without_requeue(self, since: int | None = None) -> WithoutRequeue:
        """Requeue no job by changes inside the block; with ``since``, nor by those since that generation."""
        return WithoutRequeue(self, self.requeue if since is None else since)

    if not TYPE_CHECKING:  # a type checker finds the former names itself
        __getattr__ = renamed_attributes(
            {
                "changes": "change",
                "era": "template",
                "namespaces": "namespace",
                "standing": "move",
                "tentative": "without_requeue",
                **{f"{kind}_generation": kind for kind in __slots__ if kind != "evicts"},
            }
        )


if not TYPE_CHECKING:
    Clocks = Generations  # for imports from the former module, which warn


class WithoutRequeue:
    """Restores the requeue generation at the end of a block that only tries changes."""

    __slots__ = ("_before", "_generations")

    def __init__(self, generations: Generations, before: int) -> None:
        self._generations = generations
        self._before = before

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._generations.requeue = self._before


class RowLog:
    """A log of changed rows. Each reader remembers the position up to which it has read.

    ``start`` is the position of the first entry that is still kept. A reader behind it must read all rows.
    """

    __slots__ = ("rows", "start")

    KEPT = 1 << 18

    def __init__(self) -> None:
        self.rows = array("q")
        self.start = 0

    @property
    def end(self) -> int:
        """Return the position after the newest entry."""
        return self.start + len(self.rows)

    def append(self, row: int) -> None:
        """Note that a row changed."""
        self.rows.append(row)
        self.trim()

    def since(self, position: int) -> list[int] | None:
        """Return the rows that changed since a position, each once, ascending; None if the log no longer has them."""
        if position < self.start:
            return None
        return sorted(set(self.rows[position - self.start :]))

    def trim(self) -> None:
        """Drop the older half of the log if it is too long."""
        if len(self.rows) > self.KEPT:
            cut = len(self.rows) // 2
            del self.rows[:cut]
            self.start += cut


K = TypeVar("K", bound=Hashable)


class KeyLog(Generic[K]):
    """A log that drops its older half when it is long. A reader that is behind must read all again."""

    __slots__ = ("_keys", "_start")

    KEPT: ClassVar[int] = 1 << 16

    def __init__(self) -> None:
        self._keys: list[K] = []
        self._start = 0

    @property
    def end(self) -> int:
        """Return the position after the newest entry."""
        return self._start + len(self._keys)

    def since(self, position: int) -> Iterable[K] | None:
        """Return the keys that changed since a position, each once, or None when that was forgotten."""
        return None if position < self._start else dict.fromkeys(self._keys[position - self._start :])

    def append(self, key: K) -> None:
        """Note that something changed."""
        self._keys.append(key)
        if len(self._keys) > self.KEPT:
            cut = len(self._keys) // 2
            del self._keys[:cut]
            self._start += cut
