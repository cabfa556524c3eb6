"""On which nodes there is anybody who may go, so that the others need not be looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeAlias, TypeVar

from volsched.framework.engine.plain import Ranked
from volsched.framework.session import Session
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus

T = TypeVar("T")

EVICTABLE = (TaskStatus.RUNNING, TaskStatus.BOUND)

Found: TypeAlias = tuple[Ranked, Ranked]
"""Nodes where a task could go if others left, best first, and those of them that are worth a try."""

Where: TypeAlias = Mapping[str, bool]
"""Names of nodes with pods that may go, and of each whether one of these pods does not run yet."""


def is_evictable(victim: TaskInfo) -> bool:
    """True if a task's pod may be evicted at all."""
    return victim.status in EVICTABLE and victim.spec.preemptable and victim.job is not None


def nodes_of(job: JobInfo) -> Where:
    """Nodes with pods of a job that may go."""
    found: dict[str, bool] = {}
    for task in job.tasks.values():
        if is_evictable(task):
            _note(found, task)
    return found


def _note(found: dict[str, bool], victim: TaskInfo) -> None:
    if victim.node is not None:
        name = victim.node.name
        found[name] = found.get(name, False) or victim.status is not TaskStatus.RUNNING


class Latest(Generic[T]):
    """Caches one result, for equal tasks until something moves."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: tuple[object, T] | None = None

    def once(self, alike: object, look: Callable[[], T]) -> T:
        """Return what a look finds. The latest find again, when the next task is like the one before."""
        key = (alike, self._cluster.generations.move)
        if self._known is not None and self._known[0] == key:
            return self._known[1]
        found = look()
        self._known = (key, found)
        return found


class CandidateNodes:
    """The nodes on which each queue has pods that may be evicted. Looked up once an action needs them.

    Equal tasks get the same nodes while nothing moves: thousands may wait for which no pod may be evicted.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._found: dict[str, dict[str, bool]] | None = None
        self._others: dict[str, dict[str, bool]] = {}
        self._latest: Latest[Found] = Latest(session.cluster)

    def once(self, task: TaskInfo, where: Where, look: Callable[[], Found]) -> Found:
        """Return what a look at the nodes finds. The latest find again, when the next task is like the one before."""
        if not self._session.depends_on_template(task):
            return look()
        return self._latest.once((task.template.id, task.queue, where), look)

    def of_queue(self, queue: str) -> Where:
        """Nodes with pods of a queue that may go."""
        return self._of_all().get(queue, {})

    def of_others(self, queue: str) -> Where:
        """Nodes with pods that may go, of any queue but one."""
        if queue not in self._others:
            found = self._others.setdefault(queue, {})
            for other, nodes in self._of_all().items():
                for name, is_not_running in nodes.items() if other != queue else ():
                    found[name] = found.get(name, False) or is_not_running
        return self._others[queue]

    def _of_all(self) -> dict[str, dict[str, bool]]:
        if self._found is None:
            self._found = {}
            for node in self._session.rows:
                for task in node.tasks.values():
                    job = task.job
                    if job is not None and is_evictable(task):
                        _note(self._found.setdefault(job.queue, {}), task)
        return self._found
