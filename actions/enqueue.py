"""enqueue: admit PodGroups, so that their pods may be made and looked at.

Queues take turns; a PodGroup is admitted when the plugins vote for it. Most are not asked about one that states no
minimum of resources. A rejected PodGroup does not hold others up. Pods need not exist yet: a controller may make them
only once the group is Inqueue.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from actions.of_volcano import OF_ENQUEUE
from actions.repair.rooms import LostRooms
from actions.turns import Turns, closed_queue, settle_minimum
from actions.unschedulable import is_unschedulable, mark_unschedulable
from volsched.framework.admission_reservations import AdmissionReservations
from volsched.framework.config.arguments import Argument
from volsched.framework.session import Session
from volsched.model.job import JobInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import Step

if TYPE_CHECKING:
    from actions.after_preemption import AfterPreemption

RESERVATION_TIMEOUT: Final = "reservationTimeout"

_EVICTING: Final = frozenset({"preempt", "reclaim"})


class EnqueueAction:
    """Admit what the plugins let in."""

    name: ClassVar[str] = "enqueue"
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (
        Argument(
            RESERVATION_TIMEOUT,
            "duration",
            0.0,
            "How long room is kept for a job that is admitted and does not start; 0: for ever.",
        ),
        *OF_ENQUEUE,
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._timeout = arguments[RESERVATION_TIMEOUT] or math.inf

    def execute(self, session: Session) -> None:
        """Take the best job of the best queue until all were asked once. Last, those whose admission has ended."""
        AdmissionReservations.of(session).times.timeout = self._timeout
        jobs, turn = _unadmitted(session), session.admission_turn
        if not jobs:
            return
        later = _after_preemption(session)
        self._take_turns(session, [job for job in jobs if not turn(job)], later)
        for job in sorted((job for job in jobs if turn(job)), key=turn):
            self._take_turns(session, [job], later)
        if later is not None:
            later.end()

    def _take_turns(self, session: Session, unadmitted: list[JobInfo], later: AfterPreemption | None) -> None:
        turns = Turns.of(session, unadmitted)
        while (queue := turns.next_queue(session)) is not None:
            job = turns.next_job(queue)
            with session.about(job):
                self._admit(session, queue, job, later)
            turns.put_back(queue)

    def _admit(self, session: Session, queue: QueueInfo, job: JobInfo, later: AfterPreemption | None) -> None:
        if job.is_native and not settle_minimum(session, job):
            return
        refusal = closed_queue(queue, Step.ENQUEUE)
        if refusal is None and not (job.is_native and job.placed_count) and not _has_room(session, job):
            refusal = session.enqueue_refusal(job)
            if refusal is not None and later is not None:
                refusal = later.refusal(job, refusal)
        if refusal is None:
            session.clear_refusal(job)
            job.admitted_at = 0.0  # what its status states was another admission
            session.enqueued(job)
        else:
            session.refuse_job(job, refusal)
            if later is None or job.key not in later.left_out:
                mark_unschedulable(job, session.cluster)


def _has_room(session: Session, job: JobInfo) -> bool:
    """True if allocate keeps room for a gang that has lost pods: it was admitted before."""
    return "allocate" in session.configuration.actions and LostRooms.of(session).has_room(job)


def _after_preemption(session: Session) -> AfterPreemption | None:
    """Return the answers for jobs for which eviction could make room, or None where no action evicts."""
    if not _EVICTING & set(session.configuration.actions):
        return None
    from actions.after_preemption import AfterPreemption  # noqa: PLC0415 - simple configurations search no victims

    return AfterPreemption(session)


def _unadmitted(session: Session) -> list[JobInfo]:
    """Return jobs that are not admitted, without those refused when the cluster was no fuller than now."""
    cluster = session.cluster
    return [
        job
        for job in cluster.queue_cache.unadmitted.values()
        if not is_unschedulable(job, cluster)
        and job.spec.has_group
        and job.queue in cluster.queues
        and not job.blocked
        and not session.is_paused(job)
    ]
