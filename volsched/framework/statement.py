"""A statement: the changes that a session makes for one job, all of them or none.

Every operation changes the live cluster at once, so later questions see it, and is recorded with its reverse.
``commit`` hands the changes to the executor. ``discard`` undoes them. ``hold`` keeps the room until the session ends,
for a gang that waits for room being freed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from volsched.framework import reporter
from volsched.framework.callbacks import TaskEvents
from volsched.framework.outcome.refusals import not_allowed
from volsched.framework.redaction import within
from volsched.framework.terminating import terminating_on
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.plan import Bind, Evict, PlanStep
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus
from volsched.model.verdict import Verdict

if TYPE_CHECKING:
    from volsched.framework.session import Session


class Operation(msgspec.Struct, frozen=True):
    """One recorded change: the former status and node of the task, and the reason if it was evicted.

    ``generation`` is the requeue generation before the change; undoing the change restores it.
    """

    kind: Literal["allocate", "pipeline", "evict", "displace"]
    task: TaskInfo
    status: TaskStatus
    node: NodeInfo | None
    generation: int
    reason: str = ""


class Placed(NamedTuple):
    """The number of tasks that were placed, and the refusal of the next one."""

    number: int
    refusal: Verdict | None = None


class EqualTasks:
    """Equal tasks that are put on nodes in one step, where handlers hear of each of them before the next one.

    ``refusal`` is what a handler answered to the last task that it was told of; the step ends there.
    """

    __slots__ = ("_found", "_notified", "handlers", "refusal", "tasks")

    def __init__(self, tasks: Sequence[TaskInfo], found: Iterator[NodeInfo], handlers: Sequence[TaskEvents]) -> None:
        self.tasks = tasks
        self.handlers = handlers
        self.refusal: Verdict | None = None
        self._found = found
        self._notified = 0

    def nodes(self) -> Iterator[NodeInfo]:
        """Yield the node of each task, and tell of the task once it is there."""
        try:
            for node in self._found:
                yield node
                if self._notify() is not None or self._notified == len(self.tasks):
                    return
        except Exception:
            self.take_back()
            raise

    def take_back(self) -> None:
        """Call the handlers in reverse for all tasks that they were called for, as the step has failed."""
        for task in reversed(self.tasks[: self._notified]):
            self._notify_undo(self.handlers, task)
        self._notified = 0

    def finish(self, count: int) -> Verdict | None:
        """Tell of the last task if that is still to be done. Return why a handler refuses it."""
        if self._notified < count:
            self._notify()
        return self.refusal

    def _notify(self) -> Verdict | None:
        task, accepted = self.tasks[self._notified], 0
        try:
            for handler in self.handlers:
                self.refusal = handler.allocate(task)
                if self.refusal is not None:
                    break
                accepted += 1
        finally:
            if accepted < len(self.handlers):
                self._notify_undo(self.handlers[:accepted], task)
        self._notified += 1
        return self.refusal

    @staticmethod
    def _notify_undo(handlers: Sequence[TaskEvents], task: TaskInfo) -> None:
        for handler in reversed(handlers):
            handler.deallocate(task)


class Statement:
    """The operations of one attempt."""

    __slots__ = ("_session", "makes_room", "operations")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.operations: list[Operation] = []
        self.makes_room = False
        """True if its pipelined tasks are nominated, so that they keep their room after the session."""

    def place(self, tasks: Sequence[TaskInfo], nodes: Iterator[NodeInfo]) -> Placed:
        """Put one or more equal pending tasks of one job on nodes with room now, each on the next node.

        A refusal by a plugin ends this, and leaves no trace of the refused task.
        """
        first, rules = tasks[0], self._session.rules
        refusal = _refusal(first)
        if refusal is not None:
            return Placed(0, refusal)
        handlers = rules.hearing_in_steps(first.template) if len(tasks) > 1 else ()
        if handlers:
            return self._place_and_notify(EqualTasks(tasks, nodes, handlers))
        start = len(self.operations)
        count = self._put_on_nodes(tasks, nodes)
        try:
            self._session.check_accounts()
            if count and len(tasks) == 1:
                refusal = rules.notify_allocated(first)
        except BaseException:
            self._take_back(start)
            raise
        if refusal is not None:
            self._take_back(start)
            return Placed(0, refusal)
        return Placed(count)

    def _place_and_notify(self, equal: EqualTasks) -> Placed:
        """Put equal tasks on nodes. Handlers hear of each one before the next, and may refuse the last."""
        start = len(self.operations)
        count = self._put_on_nodes(equal.tasks, equal.nodes())
        try:
            self._session.check_accounts()
            refusal = equal.finish(count)
        except BaseException:
            equal.take_back()
            self._take_back(start)
            raise
        if refusal is not None:
            count -= 1
            self._take_back(start + count)
            return Placed(count, None if count else refusal)
        return Placed(count)

    def _put_on_nodes(self, tasks: Sequence[TaskInfo], nodes: Iterator[NodeInfo]) -> int:
        """Put equal tasks on nodes in the cluster, and record that. Return how many."""
        cluster, first = self._session.cluster, tasks[0]
        generation, status, node = cluster.generations.requeue, first.status, first.node
        count = cluster.allocate(tasks, nodes)
        placed = tasks if count == len(tasks) else tasks[:count]
        self.operations += [Operation("allocate", task, status, node, generation) for task in placed]
        return count

    def allocate(self, task: TaskInfo, node: NodeInfo) -> Verdict | None:
        """Put a task on a node that has room now. Return the refusal of a plugin, which leaves no trace."""
        return self.place((task,), iter((node,))).refusal

    def _take_back(self, checkpoint: int) -> None:
        """Undo placements that no event handler was called for."""
        while len(self.operations) > checkpoint:
            self._move_back(self.operations.pop())

    def pipeline(self, task: TaskInfo, node: NodeInfo) -> Verdict | None:
        """Promise a task room on a node where others are about to leave."""
        refusal = _refusal(task)
        if refusal is not None:
            return refusal
        cluster = self._session.cluster
        operation = Operation("pipeline", task, task.status, task.node, cluster.generations.requeue)
        cluster.move(task, TaskStatus.PIPELINED, node)
        try:
            self._session.check_accounts()
            refusal = self._session.rules.notify_allocated(task)
        except BaseException:
            self._move_back(operation)
            raise
        if refusal is not None:
            self._move_back(operation)
            return refusal
        self.operations.append(operation)
        return None

    def evict(self, task: TaskInfo, reason: str) -> None:
        """Treat a task as gone from its node, to see which tasks fit then (see ``settle_evictions``)."""
        cluster = self._session.cluster
        self.operations.append(Operation("evict", task, task.status, task.node, cluster.generations.requeue, reason))
        self._session.rules.notify_deallocated(task)
        self._session.evicted[task.uid] = task
        cluster.move(task, TaskStatus.RELEASING, None)

    def displace(self, task: TaskInfo) -> None:
        """Take away the room that a less important task was promised."""
        cluster = self._session.cluster
        self.operations.append(Operation("displace", task, task.status, task.node, cluster.generations.requeue))
        self._session.rules.notify_deallocated(task)
        cluster.move(task, TaskStatus.PENDING, None)

    def settle_evictions(self, checkpoint: int) -> None:
        """Put tasks evicted since a checkpoint back on their nodes as terminating: their room is not free yet."""
        for operation in self.operations[checkpoint:]:
            if operation.kind == "evict":
                self._session.cluster.move(operation.task, TaskStatus.RELEASING, operation.node)

    def checkpoint(self) -> int:
        """Return a place to roll back to."""
        return len(self.operations)

    def rollback(self, checkpoint: int) -> None:
        """Undo, newest first, everything since a checkpoint."""
        while len(self.operations) > checkpoint:
            self._undo(self.operations.pop())

    def undo(self, task: TaskInfo) -> None:
        """Undo the operation on one task, but not later operations that it made possible."""
        operation = next(o for o in self.operations if o.task is task)
        self.operations.remove(operation)
        with self._session.cluster.without_requeue():
            self._undo(operation)

    def _undo(self, operation: Operation) -> None:
        task, cluster = operation.task, self._session.cluster
        with cluster.without_requeue(since=operation.generation):
            if operation.kind in ("evict", "displace"):
                self._session.evicted.pop(task.uid, None)
                cluster.move(task, operation.status, operation.node)
                self._session.rules.notify_allocated(task)
            else:
                self._session.rules.notify_deallocated(task)
                cluster.move(task, operation.status, operation.node)

    def _move_back(self, operation: Operation) -> None:
        """Have a task where it stood before an operation."""
        cluster = self._session.cluster
        with cluster.without_requeue(since=operation.generation):
            cluster.move(operation.task, operation.status, operation.node)

    def discard(self) -> None:
        """Undo everything. The cluster is as it was, so nothing has become possible that was not before."""
        self._session.closed(self)
        self.rollback(0)

    def keep_bound(self) -> None:
        """Drop operations on tasks that were bound since: they can no longer be undone."""
        self.operations = [o for o in self.operations if o.task.status is not TaskStatus.BINDING]

    def hold(self) -> None:
        """Keep the room until the session ends. Nothing is written."""
        self._session.hold(self)

    def commit(self, job: JobInfo | None = None) -> list[PlanStep]:
        """Hand bindings and evictions to the executor. Tasks that it binds are assumed from here on.

        With a job, its members that earlier actions of this session allocated and that waited for the gang go along.
        """
        steps: list[PlanStep] = []
        cluster = self._session.cluster
        self._session.closed(self)
        for place, operation in enumerate(self.operations):
            task, kind = operation.task, operation.kind
            if kind == "allocate":
                if task.status is TaskStatus.ALLOCATED and task.node is not None:
                    steps.append(bind_step(task, task.node))
                    cluster.move_quietly(task, TaskStatus.BINDING)
            elif kind == "evict":
                steps.append(self._eviction(place))
                cluster.generations.change += 1
            elif kind == "displace":
                self._session.nominations.displace(task)
        if job is not None:
            steps.extend(self._session.release_waiting(job))
        self._hold_pipelined()
        self._session.submit(steps)
        return steps

    def _hold_pipelined(self) -> None:
        """Keep the room of pipelined tasks until the session ends.

        If no pod leaves the node for such a task, or is leaving anyway, no promise is reported.
        """
        promises = [o for o in self.operations if o.kind == "pipeline"]
        makes_way = any(o.kind in ("evict", "displace") for o in self.operations)
        waits = makes_way or any(_is_being_left(o.task) for o in promises)
        self.operations = []
        for operation in promises if waits else ():
            self._session.nominations.promise(operation.task, nominate=self.makes_room)
        if promises:
            rest = Statement(self._session)
            rest.operations = promises
            rest.hold()

    def _eviction(self, place: int) -> Evict:
        """Return the step for the eviction at an index. The victim was evicted for the task that was pipelined next."""
        operation = self.operations[place]
        task = operation.task
        task.evicted = True
        preemptor = next((o.task for o in self.operations[place:] if o.kind == "pipeline"), None)
        queue = preemptor.queue if preemptor is not None else ""
        self._session.stats.victims[self._session.action, queue] += 1
        event_words, condition = reporter.victim_words(preemptor, task, operation.reason)
        for event in reporter.about_victim(task, event_words):
            self._session.record_event(event)
        return Evict(
            task.uid,
            task.namespace,
            task.name,
            self._session.action,
            preemptor.key if preemptor else "",
            within(self._session.cluster, task.namespace, condition),
            self._session.now,
        )


def _refusal(task: TaskInfo) -> Verdict | None:
    """Return a refusal if no action may place the task."""
    return not_allowed(task.job) if task.job is not None else None


def _is_being_left(task: TaskInfo) -> bool:
    """True if pods are terminating on the node where the task is pipelined."""
    return task.node is not None and bool(terminating_on(task.node))


def bind_step(task: TaskInfo, node: NodeInfo) -> Bind:
    """Return the step that makes an allocation real."""
    annotations = dict(task.bind_annotations) if task.bind_annotations else {}
    return Bind(
        task.uid,
        task.namespace,
        task.name,
        node.name,
        annotations,
        node.spec.uid,
        task.bind_volumes,
        task.queue,
        task.created,
        task.bind_claims,
    )


class Statements:
    """The statements of one session that are open, and those that are held until it closes.

    ``waiting`` has tasks that were placed by themselves, by the job that is not ready yet.
    """

    def __init__(self) -> None:
        self._open: dict[int, Statement] = {}
        self._held: list[Statement] = []
        self.waiting: dict[str, list[TaskInfo]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, statement: Statement) -> None:
        """Note a statement that has begun."""
        self._open[id(statement)] = statement

    def close(self, statement: Statement) -> None:
        """Note that a statement was committed, held or discarded."""
        self._open.pop(id(statement), None)

    def hold(self, statement: Statement) -> None:
        """Keep a statement until the session closes."""
        self.close(statement)
        self._held.append(statement)

    def discard_since(self, number: int) -> None:
        """Discard the statements that were opened since there were so many, the last first."""
        for statement in list(self._open.values())[: number - len(self._open) - 1 : -1]:
            statement.discard()

    def discard_held(self) -> None:
        """Undo what was only held. What was bound meanwhile stays."""
        for statement in reversed(self._held):
            statement.keep_bound()
            statement.discard()
        self._held.clear()
