"""Trying every placement of a small gang. Branches are cut off where too few members have a node (branch and bound)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from actions.gang_search.board import Board
from actions.gang_search.members import Wanted, alike
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo

MOST_MEMBERS: Final = 32
"""Larger gangs have too many placements to try each."""


class Exhaustive:
    """Goes through all placements of as many members as the gang needs.

    Equal members take nodes in the order of rows, as nothing comes of two that change places. A member whose homes may
    grow is also tried after others. ``is_proof``: everything was tried, so there is no placement.
    """

    def __init__(self, board: Board, wanted: Wanted, job: JobInfo, order: Sequence[TaskInfo]) -> None:
        self.is_proof = False
        self._board = board
        self._wanted = wanted
        self._job = job
        self._order = [*order, *wanted.spares]
        self._needed = len(wanted.needed)

    def run(self) -> bool:
        """Make the gang ready. Return True if there is a placement. Raises OutOfStepsError."""
        found = self._place(self._order, [])
        self.is_proof = not found
        return found

    def _place(self, left: list[TaskInfo], put_off: list[TaskInfo]) -> bool:
        """Place some of the members that are left. Those that are put off wait until another one is placed."""
        placed = len(self._board.placed)
        if placed >= self._needed and self._board.session.is_ready(self._job):
            return True
        if placed + len(left) + len(put_off) < self._needed or not left:
            return False
        task, nodes = self._next(left)
        others = [other for other in left if other is not task]
        for node in nodes:
            if self._board.put(task, node):
                if self._place([*others, *put_off], []):
                    return True
                self._board.take_off(task)
        if self._grows(task) and self._place(others, [*put_off, task]):
            return True
        return self._place([other for other in others if not alike(other, task)], put_off)

    def _next(self, left: Sequence[TaskInfo]) -> tuple[TaskInfo, list[NodeInfo]]:
        """Choose the member with the fewest nodes, and where it is tried."""
        task, nodes = min(self._each(left), key=lambda each: len(each[1]))
        if self._grows(task):
            return task, nodes
        least = max((node.row for other, node in self._board.placed.items() if alike(other, task)), default=-1)
        return task, [node for node in nodes if node.row >= least]

    def _each(self, left: Sequence[TaskInfo]) -> Iterator[tuple[TaskInfo, list[NodeInfo]]]:
        """Yield one of each kind of members, with its nodes."""
        seen: set[int] = set()
        for task in left:
            kind = id(self._wanted.kind_of[task])
            if kind not in seen:
                seen.add(kind)
                yield task, self._board.choices(task)

    def _grows(self, task: TaskInfo) -> bool:
        return self._wanted.kind_of[task].grows
