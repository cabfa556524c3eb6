"""How much a placement takes from the members that are not placed yet: room that they could have used.

Of each kind so many members fit on a node before the placement, and so many after it. What is lost weighs the more, the
more members of the kind are to be placed for the room that there was for them. So a pod with one large card goes to a
node that has room for one pod alone, and not to one where four pods with a small card each find room.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from actions.gang_search.members import Kind, Wanted
from volsched.model.nodes.columns import ResourceColumns
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo

_Request: TypeAlias = tuple[tuple[int, int], ...]
_Losses: TypeAlias = tuple[tuple[int, int], ...]

_DIGITS = 9
"""Sums that agree in so many digits are equal: they are made in different orders."""


class Needs:
    """What the members of one start need that are not placed."""

    def __init__(self, columns: ResourceColumns, wanted: Wanted, order: Iterable[TaskInfo]) -> None:
        self._wanted = wanted
        self._requests: list[_Request] = [columns.request(kind.first.template) for kind in wanted.kinds]
        self._columns = sorted({column for request in self._requests for column, _ in request})
        self._place = {id(kind): place for place, kind in enumerate(wanted.kinds)}
        self._users: dict[int, tuple[int, ...]] = {}
        for place, kind in enumerate(wanted.kinds):
            for node in kind.homes:
                self._users[node.row] = (*self._users.get(node.row, ()), place)
        self._room = [self._room_for(kind, request) for kind, request in zip(wanted.kinds, self._requests, strict=True)]
        self._waiting = [0] * len(wanted.kinds)
        self._worth = [len(k.members) / max(1, room) for k, room in zip(wanted.kinds, self._room, strict=True)]
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...], int], _Losses] = {}
        for task in order:
            self.count(task, 1)

    def _room_for(self, kind: Kind, request: _Request) -> int:
        found = (
            fit_into([node.allocatable[c] - node.used[c] for c in self._columns], self._at(request))
            for node in kind.homes
        )
        return sum(found)

    def _at(self, request: _Request) -> list[int]:
        """Return amounts in the order of the columns that matter."""
        asked = dict(request)
        return [asked.get(column, 0) for column in self._columns]

    def count(self, task: TaskInfo, by: int) -> None:
        """Count a member that is to be placed, or (-1) is so no more."""
        self._waiting[self._place[id(self._wanted.kind_of[task])]] += by

    def swap(self, task: TaskInfo, leaving: Iterable[TaskInfo], node: NodeInfo) -> float:
        """Return how much room all kinds lose on a node where a member takes the place of others.

        Below 0 if they win some.
        """
        free = [node.allocatable[column] - node.used[column] for column in self._columns]
        after = [amount - less for amount, less in zip(free, self._amounts(task), strict=True)]
        for other in leaving:
            after = [amount + more for amount, more in zip(after, self._amounts(other), strict=True)]
        total = 0.0
        for kind in self._users.get(node.row, ()):
            asked = self._at(self._requests[kind])
            total += (fit_into(free, asked) - fit_into(after, asked)) * self._worth[kind]
        return round(total, _DIGITS)

    def _amounts(self, task: TaskInfo) -> list[int]:
        return self._at(self._requests[self._place[id(self._wanted.kind_of[task])]])

    def least_first(self, task: TaskInfo, nodes: Sequence[NodeInfo]) -> list[NodeInfo]:
        """Order nodes by how much the others lose there, and as they are where that is equal."""
        weights = [count / max(1, room) for count, room in zip(self._waiting, self._room, strict=True)]
        place = self._place[id(self._wanted.kind_of[task])]

        def loss(node: NodeInfo) -> float:
            return round(sum(lost * weights[kind] for kind, lost in self._losses(node, place)), _DIGITS)

        return sorted(nodes, key=loss)

    def _losses(self, node: NodeInfo, place: int) -> _Losses:
        """Of each kind, how many members less fit on a node beside a member of one kind. Equal nodes are asked once."""
        free = tuple([node.allocatable[column] - node.used[column] for column in self._columns])
        key = (self._users.get(node.row, ()), free, place)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = tuple(self._work_out(*key))
        return found

    def _work_out(self, users: tuple[int, ...], free: tuple[int, ...], place: int) -> Iterable[tuple[int, int]]:
        taken = self._at(self._requests[place])
        after = [amount - less for amount, less in zip(free, taken, strict=True)]
        for kind in users:
            asked = self._at(self._requests[kind])
            yield kind, fit_into(free, asked) - fit_into(after, asked)


def fit_into(free: Sequence[int], asked: Sequence[int]) -> int:
    """Return how many members with these requests fit into amounts. One that asks for none of them counts once."""
    return max(0, min((have // want for have, want in zip(free, asked, strict=True) if want > 0), default=1))
