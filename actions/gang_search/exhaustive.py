"""Trying every placement of a small gang, with branches cut off where a member has no node left (branch and bound)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from actions.gang_search.board import Board
from actions.gang_search.members import Wanted, alike
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo

MOST_MEMBERS: Final = 32
"""Of larger gangs not every placement is tried: nobody would see the end of it."""


class Exhaustive:
    """Goes through all placements of the needed members.

    Equal members take nodes in the order of rows, as nothing comes of two that change places. A member that has no
    node yet, as it waits for others to be near, comes after these.
    """

    def __init__(self, board: Board, wanted: Wanted, order: Sequence[TaskInfo]) -> None:
        self._board = board
        self._wanted = wanted
        self._order = list(order)
        self.is_proof = False
        """Whether everything was tried, so that there is no placement."""

    def run(self) -> bool:
        """Place all members; whether there is a placement. Raises OutOfStepsError."""
        found = self._place(self._order)
        grows = any(self._wanted.kind_of[task].grows for task in self._order)
        self.is_proof = not found and not grows and not self._wanted.spares
        return found

    def _place(self, left: Sequence[TaskInfo]) -> bool:
        if not left:
            return True
        task, nodes = self._next(left)
        if task is None:
            return False
        others = [other for other in left if other is not task]
        for node in nodes:
            if not self._board.put(task, node):
                continue
            if self._place(others):
                return True
            self._board.take_off(task)
        return False

    def _next(self, left: Sequence[TaskInfo]) -> tuple[TaskInfo | None, list[NodeInfo]]:
        """Choose the member with the fewest nodes; none when one has no node that waits for nobody."""
        found: tuple[TaskInfo, list[NodeInfo]] | None = None
        seen: list[TaskInfo] = []
        for task in left:
            if any(alike(task, other) for other in seen):
                continue
            seen.append(task)
            nodes = self._board.choices(task)
            if not nodes and not task.template.depends_on_pods:
                return None, []
            if nodes and (found is None or len(nodes) < len(found[1])):
                found = task, nodes
        if found is None:
            return None, []
        task, nodes = found
        least = max((node.row for other, node in self._board.placed.items() if alike(other, task)), default=-1)
        return task, [node for node in nodes if node.row >= least]
