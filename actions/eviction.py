"""Making room: which pods would have to go for a task, tried on the live cluster and undone when it does not help.

Victims are tried as gone, so that rules which look at other pods (affinity, ports, spread, volumes) see the node as it
will be. Only as many stay victims as are needed, the least important first (*ours*: Volcano keeps all that it tried).
A task for which room was made is promised that room: it is pipelined, and nominated to the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from actions.job_order import considered
from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.job import JobInfo
from volsched.model.node import NodeInfo
from volsched.model.queue import QueueInfo
from volsched.model.status import TaskStatus
from volsched.model.task import TaskInfo

EVICTABLE = (TaskStatus.RUNNING, TaskStatus.BOUND)

Lawful = Callable[[TaskInfo, Sequence[TaskInfo]], list[TaskInfo]]
"""The plugins' say on whom of the candidates a task may evict."""


@dataclass(frozen=True, slots=True)
class Hunt:
    """The search for room for one task.

    ``may_go`` picks candidates among a node's tasks, ``lawful`` is the plugins' vote on them, ``allowed`` whether the
    task's queue could take it on as things are. With ``needs_candidates`` nodes without any are passed over.
    """

    session: Session
    statement: Statement
    task: TaskInfo
    may_go: Callable[[TaskInfo], bool]
    lawful: Lawful
    allowed: Callable[[], bool]
    needs_candidates: bool = False

    def succeed(self) -> bool:
        """Make room on the best node where that can be done; without success nothing has changed."""
        task = self.task
        if self.session.pre_refusal(task) is not None or _waits_on_leavers(self.session, task):
            return False
        return any(self._make_room(node) for node in self.session.engine.ranked(task))

    def _make_room(self, node: NodeInfo) -> bool:
        candidates = [t for t in node.tasks.values() if self.may_go(t)]
        if self.needs_candidates and not candidates:
            return False
        victims = self._victims(candidates)
        if not self._could_suffice(node, victims):
            return False
        before = self.statement.checkpoint()
        self._displace_weaker(node)
        start = self.statement.checkpoint()
        chosen: list[TaskInfo] = []
        for victim in in_order_of_victims(self.session, self.task, victims):
            if self._suffices(node):
                break
            self.statement.evict(victim, self._reason(victim))
            chosen.append(victim)
        if not self._suffices(node):
            self.statement.rollback(before)
            return False
        self._spare(node, start, chosen)
        self.statement.settle_evictions(start)
        if self.statement.pipeline(self.task, node) is not None:
            self.statement.rollback(before)
            return False
        return True

    def _victims(self, candidates: list[TaskInfo]) -> list[TaskInfo]:
        """Whom the plugins let go; a task that asks for nothing can only take the place of another such."""
        if self.task.best_effort:
            candidates = [candidate for candidate in candidates if candidate.best_effort]
        return self.lawful(self.task, sorted(candidates, key=lambda t: t.uid)) if candidates else []

    def _displace_weaker(self, node: NodeInfo) -> None:
        """Take away promises that earlier sessions made here to less important tasks."""
        for other in sorted(node.tasks.values(), key=lambda t: t.uid):
            if self._is_weaker(other):
                self.statement.displace(other)

    def _is_weaker(self, other: TaskInfo) -> bool:
        return self.session.was_promised_before(other) and other.priority < self.task.priority

    def _could_suffice(self, node: NodeInfo, victims: Sequence[TaskInfo]) -> bool:
        """Whether the room of all victims together would do, resources alone considered."""
        freed: dict[int, int] = {}
        weaker = [other for other in node.tasks.values() if self._is_weaker(other)]
        for victim in [*victims, *weaker]:
            for column, amount in victim.charge:
                freed[column] = freed.get(column, 0) + amount
        return all(
            node.allocatable[c] - node.used[c] + node.releasing[c] - node.pipelined[c] + freed.get(c, 0) >= amount
            for c, amount in self.session.cluster.columns.request(self.task.template)
        )

    def _suffices(self, node: NodeInfo) -> bool:
        return self.allowed() and self.session.engine.admits(self.task, node)

    def _spare(self, node: NodeInfo, start: int, chosen: list[TaskInfo]) -> None:
        """Let go of victims that turn out not to be needed, the most important first."""
        for victim in reversed(chosen[:-1]):
            rest = [other for other in chosen if other is not victim]
            self.statement.rollback(start)
            self._evict_all(rest)
            if self._suffices(node):
                chosen[:] = rest
        self.statement.rollback(start)
        self._evict_all(chosen)

    def _evict_all(self, victims: Sequence[TaskInfo]) -> None:
        for victim in victims:
            self.statement.evict(victim, self._reason(victim))

    def _reason(self, victim: TaskInfo) -> str:
        """Who needs the room, and why it is this pod that goes."""
        mine, theirs = _standing(self.task), _standing(victim)
        return f'{self.session.action}: pod "{self.task.key}" ({mine}) needs the room of this pod ({theirs})'


def _standing(task: TaskInfo) -> str:
    job = task.job
    if job is None:
        return f"priority {task.priority}"
    return f'queue "{job.queue}", priority {job.priority}'


def _waits_on_leavers(session: Session, task: TaskInfo) -> bool:
    """Whether less important pods are leaving the node that the task is nominated to: then room is on its way."""
    node = session.cluster.nodes.get(task.nominated) if task.nominated else None
    if node is None:
        return False
    return any(t.status is TaskStatus.RELEASING and t.priority < task.priority for t in node.tasks.values())


def in_order_of_victims(session: Session, task: TaskInfo, victims: Sequence[TaskInfo]) -> list[TaskInfo]:
    """The least important victim first (Volcano's order of victims)."""

    def compare(left: TaskInfo, right: TaskInfo) -> int:
        mine, theirs = left.job, right.job
        if mine is theirs:
            ordered = session.in_order([left, right])
            return 1 if ordered[0] is left else -1
        if mine is None or theirs is None:
            return -1 if mine is None else 1
        if mine.queue != theirs.queue and task.job is not None:
            return _by_queue(session, mine, theirs)
        return _reversed(session.job_key(mine), session.job_key(theirs))

    return sorted(victims, key=cmp_to_key(compare))


def _by_queue(session: Session, mine: JobInfo, theirs: JobInfo) -> int:
    queues = session.cluster.queues
    return _reversed(session.queue_key(queues[mine.queue]), session.queue_key(queues[theirs.queue]))


def _reversed(left: tuple[Any, ...], right: tuple[Any, ...]) -> int:
    return (left < right) - (left > right)


def starving(session: Session) -> list[JobInfo]:
    """Jobs that lack room, those left out for which this action found nobody when the cluster was as it is now."""
    action, changes = session.action, session.cluster.changes
    jobs = considered(session, lambda job: job.hunted_at.get(action) != changes)
    return [job for job in jobs if session.is_starving(job)]


def note_hunted(session: Session, jobs: Sequence[JobInfo]) -> None:
    """Remember that victims were sought for these jobs in the cluster as it is now."""
    for job in jobs:
        job.hunted_at[session.action] = session.cluster.changes


def preemptors(session: Session, job: JobInfo) -> list[TaskInfo]:
    """The waiting tasks of a job in the order in which they are tried, last first."""
    return session.in_order(list(job.schedulable()))[::-1]


def can_go(victim: TaskInfo) -> bool:
    """Whether a task's pod may be evicted at all."""
    return victim.status in EVICTABLE and victim.preemptable and victim.job is not None


def takes_on(session: Session, queue: QueueInfo, task: TaskInfo) -> Callable[[], bool]:
    """Make a question to be asked again as victims go: whether the queue could take the task on now."""
    return lambda: session.allocatable_refusal(queue, task) is None
