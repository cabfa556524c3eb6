"""By what whoever keeps an answer about the cluster knows that it may not hold any more.

A counter changes with every change of one sort, and a log names the nodes that changed. The requeue generation is the
counter of what could let a waiting task in (kube-scheduler's queueing hints): a job that could not be placed is not
tried again before it has changed. What is only tried and undone helps nobody, so it leaves the generation as it was.
"""

from __future__ import annotations

from array import array
from enum import StrEnum
from types import TracebackType


class ClusterEvent(StrEnum):
    """What happened that could let a waiting task in."""

    ROOM_FREED = "room freed"
    NODE_CHANGED = "node changed"
    DEVICES_CHANGED = "volumes or devices changed"
    NEIGHBOURS_CHANGED = "neighbours changed"
    QUEUE_CHANGED = "queue changed"
    DEMAND_CHANGED = "demand changed"
    JOB_CHANGED = "job changed"
    VICTIMS_CHANGED = "pods may be evicted that might not"


class Clocks:
    """The counters of one cluster.

    ``layout`` changes when nodes come or go (rows get new numbers) or amounts get other columns. ``standing`` changes
    with every move, ``changes`` only with what a session has committed and what the mirror has heard, not with what is
    tried and undone. ``queue_tree`` changes when a queue comes, goes, or is put below another one, ``namespaces`` with
    the labels of namespaces. ``era`` changes when so many templates are gone that who keeps something by template had
    better begin again: working it out again for those that are left costs less than they cost when they came.
    """

    __slots__ = ("changes", "era", "layout", "namespaces", "queue_tree", "requeue_generation", "standing")

    def __init__(self) -> None:
        self.layout = 0
        self.requeue_generation = 0
        self.standing = 0
        self.changes = 0
        self.queue_tree = 0
        self.namespaces = 0
        self.era = 0

    def wake(self, event: ClusterEvent) -> None:
        """Have jobs that could not be placed tried again, as something happened that could let them in.

        All of them, whatever happened: ``event`` is for whoever reads the call.
        """
        self.requeue_generation += 1

    def tentative(self, since: int | None = None) -> Tentative:
        """Wake nobody by what is done inside; with ``since``, nor by what was done since that generation."""
        return Tentative(self, self.requeue_generation if since is None else since)


class Tentative:
    """While it is open, the cluster is changed on trial: afterwards the requeue generation is as it was before."""

    __slots__ = ("_clocks", "_generation")

    def __init__(self, clocks: Clocks, generation: int) -> None:
        self._clocks = clocks
        self._generation = generation

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._clocks.requeue_generation = self._generation


class RowLog:
    """Positions of changed rows, in order, for any number of readers that each remember how far they have read.

    ``start`` is the position of the first entry that is still kept; a reader behind it must start afresh.
    """

    __slots__ = ("rows", "start")

    KEPT = 1 << 18

    def __init__(self) -> None:
        self.rows = array("q")
        self.start = 0

    @property
    def end(self) -> int:
        """The position after the newest entry."""
        return self.start + len(self.rows)

    def append(self, row: int) -> None:
        """Note that a row changed."""
        self.rows.append(row)
        self.trim()

    def since(self, position: int) -> list[int] | None:
        """The rows that changed since a position, each once, ascending; None when that was forgotten."""
        if position < self.start:
            return None
        return sorted(set(self.rows[position - self.start :]))

    def trim(self) -> None:
        """Forget the older half of a log that has grown too long."""
        if len(self.rows) > self.KEPT:
            cut = len(self.rows) // 2
            del self.rows[:cut]
            self.start += cut
