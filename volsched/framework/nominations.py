"""Pipelined tasks: they hold room in a session, and are nominated if the room outlives the session.

A pipelined task is placed once other pods are gone or the rest of its gang has room. If others were evicted for it, the
node is nominated as well, in the status of the pod, so it survives a restart. The next session holds that room first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from volsched.framework.statement import Statement
from volsched.framework.terminating import all_left, terminating_on
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus
from volsched.model.verdict import Scope, Step, Verdict

if TYPE_CHECKING:
    from volsched.framework.session import Session


def waits_for_room(task: TaskInfo, node: NodeInfo) -> Verdict:
    """Return the refusal of a task that waits on a node for terminating pods, or for its gang."""
    message = f'pod "{task.key}" can go to node "{node.name}" once pods that are being deleted there are gone'
    if not terminating_on(node):
        message = f'room on node "{node.name}" is kept for pod "{task.key}"'
        message += " until its gang can start" if task.job is not None and not task.job.is_ready else ""
    return Verdict(Step.PREDICATE, "predicates", Scope.POD, "FailedScheduling", message)


def by_importance(task: TaskInfo) -> tuple[int, float, str]:
    """Return the sort key of tasks that were promised room: the more important first, then the older."""
    return -task.eviction_priority, task.created, task.uid


class Nominations:
    """The nominations of one session. ``held`` has the statements that hold room for tasks, by the uid of the task."""

    def __init__(self, session: Session) -> None:
        self.held: dict[str, Statement] = {}
        self._session = session
        self._cluster = session.cluster
        self._before: dict[TaskInfo, tuple[str, bool]] = {}
        self._kept: set[str] = set()

    def note(self, statement: Statement) -> None:
        """Take in the room that a statement holds for tasks."""
        for operation in statement.operations:
            if operation.kind == "pipeline":
                self.held[operation.task.uid] = statement

    def tasks(self) -> list[TaskInfo]:
        """Tasks that were promised room in this session."""
        return [self._cluster.tasks[uid] for uid in self.held if uid in self._cluster.tasks]

    def by_job(self, tries: Callable[[TaskInfo], bool]) -> dict[JobInfo, list[TaskInfo]]:
        """Return the tasks that were promised room in this session and that an action ``tries`` again, by job."""
        found: dict[JobInfo, list[TaskInfo]] = {}
        for task in self.tasks():
            if task.job is not None and tries(task):
                found.setdefault(task.job, []).append(task)
        return found

    def node_of(self, task: TaskInfo) -> NodeInfo | None:
        """Return the node that was nominated for a task, if it is still there."""
        return self._cluster.nodes.get(task.nominated) if task.nominated else None

    def release(self, task: TaskInfo) -> None:
        """Take back the room of a pipelined task, so that it can be placed."""
        statement = self.held.pop(task.uid, None)
        if statement is not None:
            statement.undo(task)

    def promise(self, task: TaskInfo, *, nominate: bool) -> None:
        """Nominate a node's room to a task; with ``nominate`` the nomination outlives the session."""
        node = task.node
        if node is None:
            return
        if nominate:
            self._nominate(task, node.name)
        self._session.refusals.refuse_task(task, waits_for_room(task, node))

    def displace(self, task: TaskInfo) -> None:
        """Room that was promised to a task went to a more important one."""
        statement = self.held.pop(task.uid, None)
        if statement is not None:
            statement.operations = [o for o in statement.operations if o.task is not task]
        self.give_up(task)

    def give_up(self, task: TaskInfo) -> None:
        """No room is being made for a task any more."""
        if task.nominated:
            self._nominate(task, "")

    def _nominate(self, task: TaskInfo, node: str) -> None:
        before = self._before.setdefault(task, (task.nominated, task.nomination_sent))
        self._cluster.nominate(task, node, sent=before != (node, False))

    def changed(self) -> list[TaskInfo]:
        """Return pending tasks whose nominated node differs from that at the start of the session."""
        before = self._before.items()
        return [t for t, (node, _) in before if t.nominated != node and t.status is TaskStatus.PENDING]

    def keep(self) -> None:
        """Hold the room of nominated tasks of earlier sessions, the most important first; drop lost nominations.

        A task may depend on a later one (a pod that has affinity to it). So tasks that fail are tried again as long as
        others succeed.
        """
        open_promises: list[TaskInfo] = []
        for task in sorted(self._cluster.nominated.values(), key=by_importance):
            if task.status is TaskStatus.PENDING and task.spec.is_managed:
                open_promises.append(task)
            else:
                self._cluster.nominate(task, "", sent=False)
        kept_some = True
        while open_promises and kept_some:
            left = [task for task in open_promises if not self._kept_within(task)]
            kept_some, open_promises = len(left) < len(open_promises), left
        for task in open_promises:
            self.give_up(task)

    def _kept_within(self, task: TaskInfo) -> bool:
        """Keep a task's promise. What fails over it ends with its job."""
        if task.job is None:
            return self._keep(task)
        with self._session.about(task.job):
            return self._keep(task)
        return False

    def _keep(self, task: TaskInfo) -> bool:
        """Hold the room that was made for a task, if it still is to be had."""
        node = self._cluster.nodes.get(task.nominated)
        if node is None or not self.will_admit(task, node):
            return False
        statement = self._session.statement()
        if statement.pipeline(task, node) is not None:
            return False
        statement.hold()
        self._kept.add(task.uid)
        return True

    def will_admit(self, task: TaskInfo, node: NodeInfo) -> bool:
        """True if a task fits on a node now, or once its terminating pods are gone."""
        if self._session.engine.admits(task, node):
            return True
        if not terminating_on(node) and not self._cluster.devices.unclean:
            return False
        with all_left(self._cluster, node):
            return self._session.engine.admits(task, node)

    def is_kept(self, task: TaskInfo) -> bool:
        """True if a task holds room from an earlier session."""
        return task.uid in self._kept and task.status is TaskStatus.PIPELINED
