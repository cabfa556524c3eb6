"""Who need not go for a group after all: rooms are made one by one, and the last may do for two members.

kube-scheduler takes away everybody who matters less and gives back one after the other, the most important first, as
long as the whole group still finds room. Here the victims that were chosen member by member are gone through in that
order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from actions.victims.budgets import broken_by
from volsched.framework.eviction_units import unit_of
from volsched.framework.session import Session
from volsched.framework.statement import Operation, Statement
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo

MOST_UNITS: Final = 64
"""More are not gone through: each costs a placement of the whole group."""


def spare(session: Session, statement: Statement, queue: QueueInfo) -> None:
    """Let go of victims without whom all members of a group that were promised room still have some."""
    evictions = [operation for operation in statement.operations if operation.kind == "evict"]
    promised = [operation.task for operation in statement.operations if operation.kind == "pipeline"]
    if not promised or len(evictions) + len(promised) < len(statement.operations):
        return
    units = _units(session, promised[0], [operation.task for operation in evictions])
    if not 1 < len(units) <= MOST_UNITS:
        return
    nodes = {task.uid: task.node for task in promised}
    spared: set[str] = set()
    for unit in units:
        without = spared | {member.uid for member in unit}
        statement.rollback(0)
        if _place_all(session, statement, queue, promised, _without(evictions, without)):
            spared, nodes = without, {task.uid: task.node for task in promised}
    statement.rollback(0)
    _evict(statement, _without(evictions, spared))
    for task in promised:
        node = nodes[task.uid]
        if node is not None:
            statement.pipeline(task, node)
    statement.settle_evictions(0)


def _units(session: Session, task: TaskInfo, victims: Sequence[TaskInfo]) -> list[list[TaskInfo]]:
    """Victims with those who go with them: first who is pinned, then who breaks a budget, then the most important."""
    known = {victim.uid for victim in victims}
    units: dict[str, list[TaskInfo]] = {}
    for victim in reversed(session.in_order_of_victims(task, victims)):
        unit = [member for member in _with_it(victim, victims) if member.uid in known]
        units.setdefault(min(member.uid for member in unit), unit)
    return sorted(units.values(), key=lambda unit: _reluctance(session, unit))


def _reluctance(session: Session, unit: Sequence[TaskInfo]) -> tuple[bool, bool]:
    is_pinned = any(member.spec.pinned for member in unit)
    return not is_pinned, not any(broken_by(session, member) for member in unit)


def _with_it(victim: TaskInfo, victims: Sequence[TaskInfo]) -> list[TaskInfo]:
    """Return a victim and those who go with it, all of whom are leaving already."""
    group = victim.job.spec.native if victim.job is not None else None
    if group is None or not group.goes_whole:
        return unit_of(victim)
    return [other for other in victims if other.job is victim.job]


def _without(evictions: Iterable[Operation], spared: set[str]) -> list[Operation]:
    """Return evictions, without those of some pods (by uid)."""
    return [operation for operation in evictions if operation.task.uid not in spared]


def _evict(statement: Statement, evictions: Iterable[Operation]) -> None:
    for operation in evictions:
        statement.evict(operation.task, operation.reason)


def _place_all(
    session: Session, statement: Statement, queue: QueueInfo, tasks: Sequence[TaskInfo], evictions: Iterable[Operation]
) -> bool:
    """True if all tasks find room when just these have gone."""
    _evict(statement, evictions)
    for task in tasks:
        node = session.engine.best(task) if session.allocatable_refusal(queue, task) is None else None
        if node is None or statement.pipeline(task, node) is not None:
            return False
    return True
