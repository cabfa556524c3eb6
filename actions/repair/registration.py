"""The rules by which room is kept for lost pods. They are registered while there is some."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

from actions.kept_quota import KeptQuota, Placements
from actions.repair.lost_room import LostRoom
from actions.repair.rooms import ROOM_KEPT, LostRooms
from volsched.framework.registration import Registrar
from volsched.framework.rules import Predicate, PrePredicate, Wake
from volsched.framework.session import Session
from volsched.model.verdict import ConditionReason, Scope, Step, Verdict


def register(registrar: Registrar, rooms: LostRooms) -> None:
    """Keep others from room on nodes, and from what of quotas is charged for it."""
    quota = KeptQuota(registrar.session, rooms, partial(_charged, rooms), _kept_quota)
    registrar.register(
        Predicate(rooms.refusal, key=rooms.closed_to, version=rooms.usage, is_temporary=True),
        PrePredicate(quota.refusal, applies_to=quota.applies_to),
        Wake(rooms.next_end),
    )


@contextmanager
def _charged(rooms: LostRooms, session: Session, room: LostRoom) -> Iterator[Placements]:
    """Have a pod stand in for the one that was lost, on its node, as long as something is tried.

    One that is still leaving has the room itself, but counts in its queue no more.
    """
    node, stand_in, cluster = session.nodes.get(room.node), room.stand_in, session.cluster
    if node is None:
        yield ()
        return
    stand_in.job = room.job
    with rooms.devices.given_back_to(room) if rooms.devices is not None else nullcontext():
        cluster.add_task(stand_in, stand_in.status)
        try:
            yield ((stand_in, node),)
        finally:
            cluster.remove_task(stand_in)


def _kept_quota(room: LostRoom) -> Verdict:
    message = f"what is left of the quota is kept for {room.job.label}, which lost a pod"
    shown_as = ConditionReason.QUOTA_EXCEEDED
    return Verdict(Step.PREDICATE, "allocate", Scope.JOB, ROOM_KEPT, message, resolvable=False, shown_as=shown_as)
