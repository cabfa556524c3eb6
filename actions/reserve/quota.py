"""The second clock of a promise: at its start the job has to be inside the quota of its queue, too.

The quota plugins are asked: what would be then is tried in a statement and undone. While a job waits, what it is
promised does not count in its queue. So pods of the queue go on if they are over by the start, or if the quota is
enough for both.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from actions.reserve.planning import EndFn, Placements, needed
from actions.reserve.words import kept_quota
from volsched.framework.rules import Allocatable
from volsched.framework.session import Session
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import ROOT, QueueInfo, levels
from volsched.model.status import TaskStatus
from volsched.model.verdict import Verdict

if TYPE_CHECKING:
    from actions.reserve.book import Book, Reservation


def quota_lets(
    session: Session,
    placements: Placements,
    queue: str,
    gone: Sequence[TaskInfo] = (),
    beside: TaskInfo | None = None,
) -> bool:
    """Return whether a queue may hold a job on these nodes, with some of its pods gone; tried and undone.

    ``beside``: and whether a pod's queue may hold that, then, too.
    """
    trial, info = session.statement(), session.cluster.queues[queue]
    for task in gone:
        trial.evict(task, "")
    try:
        lets = all(
            session.allocatable_refusal(info, task) is None and trial.pipeline(task, node) is None
            for task, node in placements
        )
        return lets and (beside is None or _takes(session, beside))
    finally:
        trial.discard()


def quota_free_at(session: Session, placements: Placements, queue: str, end: EndFn) -> float | None:
    """Return when the queue's own pods leave it room for a job; None: not as far as anybody knows."""
    if quota_lets(session, placements, queue):
        return session.now
    ends = sorted((end(task), task.uid) for task in _running(session, queue) if end(task) < math.inf)
    tasks = session.cluster.tasks

    def lets(count: int) -> bool:
        return quota_lets(session, placements, queue, [tasks[uid] for _, uid in ends[:count]])

    found = bisect_left(range(len(ends) + 1), True, key=lets)
    return ends[found - 1][0] if 0 < found <= len(ends) else None


def _running(session: Session, queue: str) -> list[TaskInfo]:
    """Return the pods of a queue that run, and may be over some day."""
    jobs = [job for job in session.cluster.jobs.values() if job.queue == queue]
    running = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)
    return [task for job in jobs for task in job.tasks.values() if task.ours and task.status in running]


def _takes(session: Session, task: TaskInfo) -> bool:
    queue = session.cluster.queues.get(task.queue)
    return queue is None or session.allocatable_refusal(queue, task) is None


class KeptQuota:
    """Keeps quota free for the starts of jobs that have a promise; lives for one session."""

    def __init__(self, session: Session, book: Book) -> None:
        self._session = session
        self._book = book
        self._known: dict[Hashable, bool] = {}

    def applies_to(self, _: PodTemplate) -> bool:
        """Whether there is a promise for which quota is kept."""
        return bool(self._session.rules.of[Allocatable]) and any(r.start is not None for r in self._book.kept.values())

    def refusal(self, task: TaskInfo) -> Verdict | None:
        """Why a pod of the same queue, or of one beneath the same parent, may not start now."""
        if self._book.is_trying:
            return None
        for reservation in self._book.kept.values():
            if self._concerns(reservation, task) and not self._is_enough(reservation, task):
                return kept_quota(reservation, self._session.now)
        return None

    def _concerns(self, reservation: Reservation, task: TaskInfo) -> bool:
        if reservation.start is None or self._book.may_enter(task, reservation):
            return False
        queues, mine = self._session.cluster.queues, reservation.job.queue
        return task.queue == mine or bool(_parents(queues, task.queue) & _parents(queues, mine))

    def _is_enough(self, reservation: Reservation, task: TaskInfo) -> bool:
        """Whether the quota is enough for a pod and, at its start, for the job with the promise."""
        placed = task.job.ready_count if task.job is not None else 0
        changes = self._session.cluster.clocks.changes
        key = (reservation.job.key, task.template.id, task.queue, placed, changes)
        if key not in self._known:
            self._known[key] = self._try(reservation, task)
        return self._known[key]

    def _try(self, reservation: Reservation, task: TaskInfo) -> bool:
        nodes = [node for name in reservation.nodes if (node := self._session.cluster.nodes.get(name)) is not None]
        if not nodes:
            return True
        members = needed(self._session, reservation.job)
        placements = tuple((member, nodes[number % len(nodes)]) for number, member in enumerate(members))
        start, queue = reservation.start or 0.0, reservation.job.queue
        self._book.is_trying = True
        try:
            with self._session.cluster.tentative():
                if quota_lets(self._session, placements, queue, beside=task):
                    return True
                gone = [other for other in _running(self._session, queue) if self._book.end(other) <= start]
                return quota_lets(self._session, placements, queue, gone, beside=task)
        finally:
            self._book.is_trying = False


def _parents(queues: Mapping[str, QueueInfo], name: str) -> set[str]:
    """Return the queues above a queue that are not above all."""
    return set(levels(queues, name)) - {name, ROOT}
