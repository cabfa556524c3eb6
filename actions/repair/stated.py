"""Writes kept rooms into the condition of a PodGroup, and reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from actions.repair.lost_room import LostRoom, room_of
from volsched.model.job import JobInfo, PodGroupCondition, with_condition
from volsched.model.lost_pods import LostPod, condition_of, lost_pods_in


def with_loss(job: JobInfo, rooms: Sequence[LostRoom]) -> tuple[PodGroupCondition, ...]:
    """Return a PodGroup's conditions with the one that its gang has lost pods, and where room is kept for them."""
    lost = (LostPod(room.pod, room.node, room.until) for room in rooms)
    return with_condition(job.conditions, condition_of(lost))


def rooms_stated_of(job: JobInfo) -> Iterator[LostRoom]:
    """Yield the rooms that a PodGroup states, each as large as a member of its gang; none if it has no members."""
    member = next(iter([*job.waiting.values(), *job.tasks.values()]), None)
    if member is None:
        return
    for condition in job.conditions:
        for pod, node, until in lost_pods_in(condition):
            yield room_of(member, job, pod, node, until)
