"""Placing members one after the other, where one without a node displaces others, which are placed again.

For equal pods and nodes the chains of displacements are augmenting paths. Whom to displace is decided by what it costs:
a member costs more the fewer nodes it has, and the more often it was displaced, so that the search does not go in
circles. What has to go from a node follows from amounts; where other rules keep a member away it is found by trying.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from actions.gang_search.board import Board, Placement
from actions.gang_search.members import Wanted, alike
from actions.gang_search.needs import Needs
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo

_TRIED: Final = 4
"""So many nodes are looked at more closely for a member that has none."""
_SCARCE: Final = 4.0
"""What the last node of a member adds to the cost of displacing it."""
_FROM_AFAR: Final = 1.5
"""How much more displacing members on other nodes is taken to cost, before it is tried."""


class _Way(NamedTuple):
    """A node for a member, with who is expected to have to leave it, and what that costs."""

    cost: float
    place: int
    node: NodeInfo
    leaving: tuple[TaskInfo, ...]
    from_afar: bool


class Displacing:
    """One start. ``order`` is that of the members; ``by_need``: nodes that fewer others need come first.

    ``costs`` are those of displacing members; what one start has found out the next one knows.
    """

    def __init__(
        self, board: Board, wanted: Wanted, order: Sequence[TaskInfo], costs: dict[TaskInfo, float], *, by_need: bool
    ) -> None:
        self.costs = costs
        self.most = 0
        self.stuck: TaskInfo | None = None
        self._board = board
        self._wanted = wanted
        self._queue = deque(order)
        self._spares = [spare for spare in wanted.spares if spare not in board.placed]
        self._needs = Needs(board.session.columns, wanted, order) if by_need else None
        for task in (*order, *wanted.spares):
            costs.setdefault(task, 1.0 + _SCARCE / (1 + len(wanted.homes(task))))

    def run(self) -> bool:
        """Place all members. Return True if all are placed. Raises OutOfStepsError."""
        queue, put_off = self._queue, 0
        while queue:
            task = queue.popleft()
            if self._put_on_best(task) or self._displace(task):
                put_off = 0
            elif put_off < len(queue):
                queue.append(task)
                put_off += 1
            elif not self._replace(task):
                self.stuck = task
                return False
        return True

    def _replace(self, task: TaskInfo) -> bool:
        """Let a spare member stand in for one that has no node."""
        spare = next((spare for spare in self._spares if spare.spec.role == task.spec.role or not _is_due(task)), None)
        if spare is None:
            return False
        self._spares.remove(spare)
        self._queue.append(spare)
        self._board.replaced.add(task)
        return True

    # -- a node for a member ------------------------------------------------------------------------------------------

    def _put_on_best(self, task: TaskInfo) -> bool:
        nodes = self._board.choices(task)
        if self._needs is not None:
            nodes = self._needs.least_first(task, nodes)
        return any(self._put(task, node) for node in nodes)

    def _put(self, task: TaskInfo, node: NodeInfo) -> bool:
        if not self._board.put(task, node):
            return False
        if self._needs is not None:
            self._needs.count(task, -1)
        self.most = max(self.most, len(self._board.placed))
        return True

    def _take_off(self, task: TaskInfo) -> Placement:
        if self._needs is not None:
            self._needs.count(task, 1)
        return Placement(task, self._board.take_off(task))

    # -- displacing others --------------------------------------------------------------------------------------------

    def _displace(self, task: TaskInfo) -> bool:
        """Put a member where those who have to leave for it cost least. They are placed again next."""
        found: tuple[float, NodeInfo, list[TaskInfo]] | None = None
        for way in sorted(self._ways(task), key=lambda way: way[:2])[:_TRIED]:
            if found is not None and way.cost >= found[0]:
                break
            leaving = self._who_has_to_leave(task, way)
            if leaving is not None:
                cost = sum(self.costs[other] for other in leaving)
                if found is None or cost < found[0]:
                    found = cost, way.node, leaving
        return found is not None and self._take_place(task, found[1], found[2])

    def _take_place(self, task: TaskInfo, node: NodeInfo, leaving: list[TaskInfo]) -> bool:
        for other in leaving:
            self.costs[other] += 1.0
            if other in self._board.placed:
                self._take_off(other)
        again = (other for other in leaving if other not in self._queue)
        self._queue.extendleft(sorted(again, key=lambda other: -len(self._wanted.homes(other))))
        return self._put(task, node)

    def _ways(self, task: TaskInfo) -> Iterator[_Way]:
        """Yield the nodes that a member could have, each with the least that has to leave it by amounts."""
        others = [self.costs[other] for other in self._board.placed if not alike(other, task)]
        if not others:
            return
        cheapest = min(others)
        homes = self._wanted.homes(task) or self._board.possible(task)
        for place, node in enumerate(homes):
            mine = [other for other in self._board.on.get(node.row, ()) if not alike(other, task)]
            short = self._short(task, node)
            if not short:
                local = min((self.costs[other] for other in mine), default=None)
                far = self._board.is_kept_from_afar(task, node)
                if far:
                    yield _Way(_FROM_AFAR * cheapest, place, node, (), from_afar=True)
                elif local is not None:
                    yield _Way(local, place, node, (), from_afar=False)
            elif mine and (leaving := self._enough(mine, short)):
                far = self._board.is_kept_from_afar(task, node)
                cost = sum(self.costs[other] for other in leaving) + (cheapest if far else 0.0)
                if self._needs is not None:
                    cost += self._needs.swap(task, leaving, node)
                yield _Way(cost, place, node, leaving, from_afar=far)

    def _short(self, task: TaskInfo, node: NodeInfo) -> dict[int, int]:
        """Return what a node lacks for a member, by amount."""
        asked = self._board.session.request(task)
        lacking = ((column, amount - node.allocatable[column] + node.used[column]) for column, amount in asked)
        return {column: amount for column, amount in lacking if amount > 0 and not node.leaves_to_devices(column)}

    def _enough(self, mine: Sequence[TaskInfo], short: dict[int, int]) -> tuple[TaskInfo, ...]:
        """Choose few cheap members of a node whose amounts are enough for what is short; none when all are too few."""
        gives = {other: dict(self._board.session.request(other)) for other in mine}
        by_cost = sorted(mine, key=self.costs.__getitem__)
        for other in by_cost:
            if all(gives[other].get(column, 0) >= amount for column, amount in short.items()):
                return (other,)
        chosen, left = [], dict(short)
        for other in by_cost:
            if any(left[column] > 0 and gives[other].get(column, 0) for column in left):
                chosen.append(other)
                left = {column: amount - gives[other].get(column, 0) for column, amount in left.items()}
        if any(amount > 0 for amount in left.values()):
            return ()
        for other in sorted(chosen, key=self.costs.__getitem__, reverse=True):
            if all(amount + gives[other].get(column, 0) <= 0 for column, amount in left.items()):
                chosen.remove(other)
                left = {column: amount + gives[other].get(column, 0) for column, amount in left.items()}
        return tuple(chosen)

    # -- found by trying ----------------------------------------------------------------------------------------------

    def _who_has_to_leave(self, task: TaskInfo, way: _Way) -> list[TaskInfo] | None:
        """Return the members that have to leave a node for a member, or None if that does not help; undo all moves."""
        board, off = self._board, [self._take_off(other) for other in way.leaving]
        try:
            if board.can_go(task, way.node):
                return [other for other, _ in off]
            for other in self._suspects(task, way):
                off.append(self._take_off(other))
                if board.can_go(task, way.node):
                    off = self._spare(task, way.node, off)
                    return [other for other, _ in off]
            return None
        finally:
            for other, node in reversed(off):
                if not self._put(other, node):
                    self._queue.appendleft(other)

    def _suspects(self, task: TaskInfo, way: _Way) -> list[TaskInfo]:
        """Return who may keep a member off a node, the cheapest first: those on the node, then those elsewhere.

        What keeps it away from afar keeps it away from the nodes of those who are to blame, too: a rack that is
        closed to it, a card of which its queue may hold no more.
        """
        board, cost = self._board, self.costs.__getitem__
        there = [other for other in board.on.get(way.node.row, ()) if not alike(other, task)]
        if not way.from_afar:
            return sorted(there, key=cost)
        elsewhere = [
            other
            for other, node in board.placed.items()
            if node is not way.node and not alike(other, task) and board.is_kept_from_afar(task, node)
        ]
        return [*sorted(there, key=cost), *sorted(elsewhere, key=cost)]

    def _spare(self, task: TaskInfo, node: NodeInfo, off: list[Placement]) -> list[Placement]:
        """Put those back who need not leave, the dearest first. Return the others."""
        board = self._board
        needed: list[Placement] = []
        for placement in sorted(off, key=lambda each: -self.costs[each.task]):
            if len(off) == 1 or not self._put(*placement):
                needed.append(placement)
            elif not board.can_go(task, node):
                needed.append(self._take_off(placement.task))
        return needed


def _is_due(task: TaskInfo) -> bool:
    """True if the role of a member has a minimum that counts."""
    job = task.job
    return job is not None and job.judges_roles and job.spec.min_roles.get(task.spec.role, 0) > 0
