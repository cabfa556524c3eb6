"""Places jobs while room is kept for gangs that have lost pods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

from actions.attempt import Attempt, Place
from actions.repair.rooms import LostRooms
from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.queues.queue import QueueInfo


@contextmanager
def beside_kept_room(rooms: LostRooms, place: Place) -> Iterator[Place]:
    """Yield ``place`` as it is if no room is kept, else in such a way that it leaves the room to its gangs."""
    if not rooms.kept:
        yield place
        return
    try:
        yield partial(_place, rooms, place)
    finally:
        rooms.give_devices_back()


def _place(rooms: LostRooms, place: Place, session: Session, queue: QueueInfo, attempt: Attempt) -> Statement | None:
    """Place a job. The share of one for which room is kept was settled before, and counts for no quota that changes."""
    job = attempt.job
    rooms.keep_devices_from(job)
    with session.shares_settled() if rooms.has_room(job) else nullcontext():
        statement = place(session, queue, attempt)
    if statement is not None:
        rooms.placed(job)
    return statement
