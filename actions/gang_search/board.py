"""The members that a search has put on nodes, in a statement on the live cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo


class OutOfStepsError(Exception):
    """The budget of a search is used up."""


class Steps:
    """The budget of a search: a step is one member put on a node, or taken off one."""

    __slots__ = ("left", "taken")

    def __init__(self, most: int) -> None:
        self.left = most
        self.taken = 0

    def take(self) -> None:
        """Take one step. Raises OutOfStepsError when none is left."""
        if self.left <= 0:
            raise OutOfStepsError
        self.left -= 1
        self.taken += 1


class Placement(NamedTuple):
    """A member and its node."""

    task: TaskInfo
    node: NodeInfo


class Board:
    """Where members are.

    ``placed`` has the nodes of members, ``on`` the members on a node by its row, in the order in which they came.
    ``within`` limits members to some rows, while one topology domain after the other is tried. ``replaced`` are members
    that had no node and for which others stand in.
    """

    def __init__(self, session: Session, queue: QueueInfo, statement: Statement, steps: Steps) -> None:
        self.session = session
        self.steps = steps
        self.placed: dict[TaskInfo, NodeInfo] = {}
        self.on: dict[int, list[TaskInfo]] = {}
        self.within: dict[TaskInfo, Collection[int]] = {}
        self.replaced: set[TaskInfo] = set()
        self._queue = queue
        self._statement = statement

    # -- questions ----------------------------------------------------------------------------------------------------

    def choices(self, task: TaskInfo) -> list[NodeInfo]:
        """Return where a member can go as things are, best first."""
        if not self._may_start(task):
            return []
        return self._inside(task, self.session.engine.choices(task))

    def possible(self, task: TaskInfo) -> list[NodeInfo]:
        """Return where a member could go if any others were elsewhere, best first."""
        return self._inside(task, [node for node, _ in self.session.engine.ranked(task)])

    def _inside(self, task: TaskInfo, nodes: list[NodeInfo]) -> list[NodeInfo]:
        within = self.within.get(task)
        return nodes if within is None else [node for node in nodes if node.row in within]

    def can_go(self, task: TaskInfo, node: NodeInfo) -> bool:
        """True if a member can go on a node as things are."""
        return self.session.fits_now(task, node) and self._may_start(task)

    def is_kept_from_afar(self, task: TaskInfo, node: NodeInfo) -> bool:
        """True if more than what is on a node keeps a member away: its queue, or a rule about other nodes' pods."""
        return self.session.engine.refused_from_afar(task, node) or not self._may_start(task)

    def _may_start(self, task: TaskInfo) -> bool:
        """True if neither the queue nor a rule about the pod alone refuses the member."""
        return self.session.takes_on(self._queue, task) and self.session.pre_refusal(task) is None

    # -- moves --------------------------------------------------------------------------------------------------------

    def put(self, task: TaskInfo, node: NodeInfo) -> bool:
        """Put a member on a node. Return True if all plugins agree."""
        self.steps.take()
        session = self.session
        if session.on_placed is not None:
            session.on_placed(session, task)
        if self._statement.allocate(task, node) is not None:
            return False
        self.placed[task] = node
        self.on.setdefault(node.row, []).append(task)
        return True

    def take_off(self, task: TaskInfo) -> NodeInfo:
        """Take a member off its node. Return the node."""
        self.steps.take()
        node = self.placed.pop(task)
        self.on[node.row].remove(task)
        self._statement.undo(task)
        return node

    def clear(self) -> None:
        """Take all members off; this costs no steps."""
        self._statement.rollback(0)
        self.placed.clear()
        self.on.clear()
        self.replaced.clear()

    def put_all(self, placements: Iterable[Placement]) -> bool:
        """Put members on nodes. Return True if all are there."""
        return all(self.put(task, node) for task, node in placements)
