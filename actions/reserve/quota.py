"""A promise is charged to the queue: while the job waits, what it is promised counts there as if it were held.

The quota plugins are asked: what would be then is tried in a statement and undone. A promise is made only if its queue
has the quota, beside what it holds and what other promises are charged with. From then on others of the queue, and of
queues beneath the same parent, start only if the quota is enough for both. (*Ours*: quota that is to be free later only
would be taken up by the queue's own small pods again and again, and a promise would hold nodes for nothing.)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from actions.reserve.planning import Placements, needed
from actions.reserve.words import kept_quota
from volsched.framework.rules import Allocatable
from volsched.framework.session import Session
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import ROOT, QueueInfo, levels
from volsched.model.verdict import Verdict

if TYPE_CHECKING:
    from actions.reserve.book import Book, Reservation


def quota_lets(session: Session, placements: Placements, queue: str, beside: Placements = ()) -> bool:
    """Return whether a queue may hold a job on these nodes, beside what others are promised; tried and undone."""
    trial, info = session.statement(), session.cluster.queues[queue]
    with session.cluster.tentative():
        try:
            for task, node in beside:
                trial.pipeline(task, node)
            return all(
                session.allocatable_refusal(info, task) is None and trial.pipeline(task, node) is None
                for task, node in placements
            )
        finally:
            trial.discard()


def charged_beside(session: Session, book: Book, job: JobInfo) -> Placements:
    """Return what jobs with a promise are charged with that could share a quota with a job."""
    others = [r for r in book.kept.values() if r.job is not job and share_quota(session, r.job.queue, job.queue)]
    return tuple(placement for other in others for placement in _charged(session, other))


def share_quota(session: Session, one: str, other: str) -> bool:
    """Return whether two queues are one, or stand beneath the same parent, which may limit both."""
    queues = session.cluster.queues
    return one == other or bool(_parents(queues, one) & _parents(queues, other))


def _charged(session: Session, reservation: Reservation) -> Placements:
    """Return the members that a job needs and that have no node yet, on its nodes in turn."""
    nodes = [node for name in reservation.nodes if (node := session.cluster.nodes.get(name)) is not None]
    members = needed(session, reservation.job) if nodes and reservation.job.waiting else ()
    return tuple((member, nodes[number % len(nodes)]) for number, member in enumerate(members))


class KeptQuota:
    """Charges promises to their queues; lives for one session."""

    def __init__(self, session: Session, book: Book) -> None:
        self._session = session
        self._book = book
        self._known: dict[Hashable, bool] = {}

    def applies_to(self, _: PodTemplate) -> bool:
        """Whether there is a promise that is charged to a queue."""
        return bool(self._book.kept) and bool(self._session.rules.of[Allocatable])

    def refusal(self, task: TaskInfo) -> Verdict | None:
        """Why a pod of the same queue, or of one beneath the same parent, may not start now."""
        if self._book.is_trying:
            return None
        concerned = [reservation for reservation in self._book.kept.values() if self._concerns(reservation, task)]
        if not concerned or self._is_enough(concerned, task):
            return None
        return kept_quota(concerned[0])

    def _concerns(self, reservation: Reservation, task: TaskInfo) -> bool:
        if task.job is reservation.job or task.eviction_priority > reservation.priority:
            return False
        return share_quota(self._session, task.queue, reservation.job.queue)

    def _is_enough(self, concerned: Sequence[Reservation], task: TaskInfo) -> bool:
        """Whether the quota is enough for a pod beside the jobs with a promise."""
        placed = task.job.ready_count if task.job is not None else 0
        jobs = tuple(reservation.job.key for reservation in concerned)
        key = (jobs, task.template.id, task.queue, placed, self._session.cluster.clocks.changes)
        if key not in self._known:
            self._known[key] = self._try(concerned, task)
        return self._known[key]

    def _try(self, concerned: Sequence[Reservation], task: TaskInfo) -> bool:
        queue = self._session.cluster.queues.get(task.queue)
        trial = self._session.statement()
        self._book.is_trying = True
        try:
            with self._session.cluster.tentative():
                for member, node in (placement for each in concerned for placement in _charged(self._session, each)):
                    trial.pipeline(member, node)
                return queue is None or self._session.allocatable_refusal(queue, task) is None
        finally:
            trial.discard()
            self._book.is_trying = False


def _parents(queues: Mapping[str, QueueInfo], name: str) -> set[str]:
    """Return the queues above a queue that are not above all."""
    return set(levels(queues, name)) - {name, ROOT}
