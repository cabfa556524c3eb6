"""Where a task goes for which room is being made, and what becomes there of promises to less important tasks.

A promise is worth what the pod would have on the node: amounts, a slot, ports, cards, devices, its place among
neighbours. A task that has been tried and cannot go yet is therefore pipelined there again at once, before anybody else
is tried. As with kube-scheduler, only promises to tasks that matter as much stand in a promised task's way.
"""

from __future__ import annotations

from typing import NamedTuple

from volsched.framework.nominations import by_importance, waits_for_room
from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.nodes.columns import PODS
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import Step, Verdict


class Room(NamedTuple):
    """Where a task can go: now if the room ``is_free``, else once others have left."""

    node: NodeInfo
    is_free: bool


def choose(session: Session, task: TaskInfo) -> Room | None:
    """Return a node with room now for a task, else one that will have room: its nominated node first, then the best."""
    free = next(session.places((task,)), None)
    if free is not None:
        return Room(free, True)
    node = session.later(task)
    return Room(node, False) if node is not None else None


def take(session: Session, statement: Statement, task: TaskInfo, room: Room) -> Verdict | None:
    """Put a task where it can go, or promise it the room; a plugin's refusal leaves no trace."""
    return statement.allocate(task, room.node) if room.is_free else promise(session, statement, task, room.node)


def promise_later(session: Session, statement: Statement, task: TaskInfo) -> bool:
    """Promise a task the room that a node will have once others have left. Refuse the task if no node will."""
    node = session.later(task)
    if node is None:
        session.refuse_by_nodes(task, Step.PREDICATE)
        return False
    refusal = promise(session, statement, task, node)
    if refusal is not None:
        session.refuse(task, refusal)
    return refusal is None


def promise(session: Session, statement: Statement, task: TaskInfo, node: NodeInfo) -> Verdict | None:
    """Promise a task room on a node, or put it there if less important promises can wait. Return a plugin's refusal."""
    if _goes_first(session, statement, task, node):
        return None
    refusal = statement.pipeline(task, node)
    if refusal is None:
        session.refuse(task, waits_for_room(task, node))
    return refusal


def promised(session: Session, node: NodeInfo) -> list[TaskInfo]:
    """Tasks to which earlier sessions promised room on a node, the most important first."""
    if not node.pipelined[PODS]:
        return []
    return sorted((task for task in node.tasks.values() if session.nominations.is_kept(task)), key=by_importance)


def weaker(session: Session, task: TaskInfo, node: NodeInfo) -> list[TaskInfo]:
    """Return those of them that are less important than a task."""
    return [other for other in promised(session, node) if other.eviction_priority < task.eviction_priority]


def _goes_first(session: Session, statement: Statement, task: TaskInfo, node: NodeInfo) -> bool:
    """True if a task takes the free room of a node first, as the less important promises can be kept later."""
    others = weaker(session, task, node)
    if not others or not session.has_room(task, node):
        return False
    with session.without_requeue():
        start, aside, again = statement.checkpoint(), session.statement(), session.statement()
        for other in others:
            aside.displace(other)
        goes = session.engine.admits(task, node) and statement.allocate(task, node) is None
        if goes and all(session.nominations.will_admit(o, node) and again.pipeline(o, node) is None for o in others):
            return True
        again.discard()
        statement.rollback(start)
        aside.discard()
        return False
