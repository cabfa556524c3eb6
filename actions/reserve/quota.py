"""Charges promised amounts to the queue while the job waits.

The quota plugins are asked: what would be then is tried in a statement and undone. A reservation is made only if its
queue has the quota, beside what it holds and what other reservations are charged with. From then on others of the
queue, and of queues beneath the same parent, start only if the quota is enough for both. (*Ours*: quota that is to be
free later only would be taken up by the queue's own small pods again and again, and a reservation would hold nodes
for nothing.)
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from actions.kept_quota import KeptQuota, share_quota
from actions.reserve.planning import Placements, needed
from actions.reserve.words import kept_quota
from volsched.framework.session import Session
from volsched.model.job import JobInfo

if TYPE_CHECKING:
    from actions.reserve.book import Book, Reservation


def quota_lets(session: Session, placements: Placements, queue: str, beside: Placements = ()) -> bool:
    """Return whether a queue may hold a job on these nodes, beside other reservations; tried and undone."""
    trial, info = session.statement(), session.queues[queue]
    with session.without_requeue():
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
    """Return what jobs with reservations are charged with that could share a quota with a job."""
    others = [r for r in book.kept.values() if r.job is not job and share_quota(session, r.job.queue, job.queue)]
    return tuple(placement for other in others for placement in _charged(session, other))


def _charged(session: Session, reservation: Reservation) -> Placements:
    """Return the members that a job needs and that have no node yet, on its nodes in turn."""
    nodes = [node for name in reservation.nodes if (node := session.nodes.get(name)) is not None]
    members = needed(session, reservation.job) if nodes and reservation.job.waiting else ()
    return tuple((member, nodes[number % len(nodes)]) for number, member in enumerate(members))


def of_reservations(session: Session, book: Book) -> KeptQuota[Reservation]:
    """Return what charges reservations to their queues."""
    return KeptQuota(session, book, lambda session, each: nullcontext(_charged(session, each)), kept_quota)
