"""The earliest start of a job: when enough nodes can take the members that it needs.

Amounts are reckoned here; what else pods hold on nodes (ports, cards, devices) is asked when the job is tried. So a
start may be thought too early, and is never taken for room that is not there.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from volsched.framework.session import Session
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus

EndFn: TypeAlias = Callable[[TaskInfo], float]
"""When a pod that has a node is thought to end, in seconds since the epoch; infinite if not known."""

Placements: TypeAlias = tuple[tuple[TaskInfo, NodeInfo], ...]
"""Members of a job with the nodes that they would have."""


@dataclass(frozen=True, slots=True)
class ReservationPlan:
    """The members that a job needs on nodes, and from when on; None: when these are free is not known.

    ``usable`` are the nodes that any of the members could have if others left.
    """

    placements: Placements
    start: float | None
    usable: frozenset[str] = frozenset()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes, in order."""
        return tuple(sorted({node.name for _, node in self.placements}))

    def needs(self, session: Session) -> dict[str, dict[int, int]]:
        """Return what the members take on each node, by column."""
        found: dict[str, dict[int, int]] = {}
        for task, node in self.placements:
            amounts = found.setdefault(node.name, {})
            for column, amount in session.request(task):
                amounts[column] = amounts.get(column, 0) + amount
        return found


def needed(session: Session, job: JobInfo) -> list[TaskInfo]:
    """Return the waiting members that a job needs to start, and never more than its minimum."""
    waiting = session.in_order(task for task in job.schedulable() if not task.best_effort)
    lacking = {role: least - job.ready_in_role(role) for role, least in job.spec.min_roles.items()}
    first: list[TaskInfo] = []
    others: list[TaskInfo] = []
    for task in waiting:
        wanted = job.judges_roles and lacking.get(task.spec.role, 0) > 0
        if wanted:
            lacking[task.spec.role] -= 1
        (first if wanted else others).append(task)
    return (first + others)[: max(job.lacking, len(first), 1)]


class Planner:
    """Plans one job on the nodes that may take its members and that no other reservation holds."""

    def __init__(
        self, session: Session, members: Sequence[TaskInfo], taken: Container[str], held: Container[str], end: EndFn
    ) -> None:
        self._session = session
        self._members = members
        self._held = held
        self._end = end
        self._allowed = _allowed(session, members)
        names = dict.fromkeys(name for found in self._allowed.values() for name in found)
        self._usable = frozenset(names)
        self._nodes = [session.nodes[name] for name in names if name not in taken]
        self._ends = {node.name: self._ends_on(node) for node in self._nodes}

    def plan(self, only: Container[str] | None = None) -> ReservationPlan | None:
        """Return the earliest start, on nodes of these names alone if so asked, or None when there never will be room.

        The members of a group that has a topology key go to nodes of one domain: the domain is chosen first.
        """
        nodes = [node for node in self._nodes if only is None or node.name in only]
        plans = (self._plan_on(domain) for domain in self._domains(nodes))
        return min((plan for plan in plans if plan is not None), key=self._rank, default=None)

    def _domains(self, nodes: Sequence[NodeInfo]) -> Iterable[Sequence[NodeInfo]]:
        """Return the nodes that a job may have together; all of them unless it has a topology key."""
        job = self._members[0].job
        key = job.spec.native.topology_key if job is not None and job.spec.native is not None else ""
        if not key:
            return [nodes]
        found: dict[str, list[NodeInfo]] = {}
        for node in nodes:
            found.setdefault(node.spec.labels.get(key, ""), []).append(node)
        return [found[value] for value in sorted(found)]

    def _rank(self, plan: ReservationPlan) -> tuple[float, int, bool]:
        """The earliest start first; of equal ones the emptiest nodes, then those that are held already."""
        first = self._members[0]
        used = sum(in_use(self._session, first, self._session.nodes[name]) for name in plan.nodes)
        start = math.inf if plan.start is None else plan.start
        return start, used, not all(name in self._held for name in plan.nodes)

    def _plan_on(self, nodes: Sequence[NodeInfo]) -> ReservationPlan | None:
        times = sorted({self._session.now, *(end for node in nodes for end, _ in self._ends[node.name])} - {math.inf})
        last = bisect_left(times, True, key=lambda time: self._placements(nodes, time) is not None)
        if last < len(times):
            return ReservationPlan(self._placements(nodes, times[last]) or (), times[last], self._usable)
        placements = self._placements(nodes, math.inf)
        return ReservationPlan(placements, None, self._usable) if placements is not None else None

    def _placements(self, nodes: Sequence[NodeInfo], time: float) -> Placements | None:
        """Give members nodes as these are at a time; None when not all have one."""
        left, found = list(self._members), []
        for node in sorted(nodes, key=self._preference):
            room = self._room(node, time)
            for task in [task for task in left if _take(self._session, task, node, room, self._allowed)]:
                left.remove(task)
                found.append((task, node))
            if not left:
                return tuple(found)
        return None

    def _preference(self, node: NodeInfo) -> tuple[int, bool, float, str]:
        """Return the emptiest first, among equals those that are held already, then those whose pods are the youngest.

        Durations are heavy-tailed: who has run long will run long.
        """
        oldest = min((task.spec.started or math.inf for task in node.tasks.values()), default=math.inf)
        return in_use(self._session, self._members[0], node), node.name not in self._held, -oldest, node.name

    def _room(self, node: NodeInfo, time: float) -> list[int]:
        room = [a - u - p for a, u, p in zip(node.allocatable, node.used, node.pipelined, strict=True)]
        for end, task in self._ends[node.name]:
            if end <= time:
                for column, amount in task.charge:
                    room[column] += amount
        return room

    def _ends_on(self, node: NodeInfo) -> list[tuple[float, TaskInfo]]:
        """Return when pods there end.

        Those that stay for as long as the node does, as DaemonSets', are not among them.
        """
        tasks = node.tasks.values()
        holding = [
            t for t in tasks if t.status is not TaskStatus.PIPELINED and (t.spec.is_managed or self._end(t) < math.inf)
        ]
        return [(self._end(t), t) for t in holding]


def _allowed(session: Session, members: Sequence[TaskInfo]) -> Mapping[int, dict[str, None]]:
    """Return the nodes that would take members if others left, by template."""
    examples = {task.template.id: task for task in members}
    return {number: dict.fromkeys(node.name for node, _ in session.engine.ranked(t)) for number, t in examples.items()}


def _take(
    session: Session, task: TaskInfo, node: NodeInfo, room: list[int], allowed: Mapping[int, Container[str]]
) -> bool:
    """Subtract a member's request from the room of a node. Return False if it does not fit."""
    request = session.request(task)
    if node.name not in allowed[task.template.id]:
        return False
    if any(room[column] < amount and not node.leaves_to_devices(column) for column, amount in request):
        return False
    for column, amount in request:
        room[column] -= amount
    return True


def in_use(session: Session, task: TaskInfo, node: NodeInfo) -> int:
    """Return how much pods on a node hold of the scarcest resource that a task requests."""
    request = [(column, amount) for column, amount in session.request(task) if amount]
    scarce = max(request, key=lambda each: each[1] / max(1, node.allocatable[each[0]]), default=None)
    return node.used[scarce[0]] - node.releasing[scarce[0]] if scarce is not None else 0
