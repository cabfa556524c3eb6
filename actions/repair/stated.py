"""Writes kept rooms into the condition of a PodGroup, and reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from actions.repair.lost_room import LostRoom, room_of
from volsched.model.job import JobInfo, PodGroupCondition, with_condition
from volsched.model.lost_pods import LostPod, condition_of, held_in, lost_pods_in


def with_loss(job: JobInfo, rooms: Sequence[LostRoom], held: Mapping[str, int]) -> tuple[PodGroupCondition, ...]:
    """Return a PodGroup's conditions with the one that its gang has lost pods, and where room is kept for them.

    ``held`` is what the gang held when it was whole; nothing where that is not known.
    """
    lost = (LostPod(room.pod, room.node, room.until) for room in rooms)
    return with_condition(job.conditions, condition_of(lost, held))


def held_stated_by(job: JobInfo) -> Counter[str] | None:
    """Return what a PodGroup states that its gang held when it was whole, or None."""
    found = (held_in(condition) for condition in job.conditions)
    return next((Counter(held) for held in found if held), None)


def rooms_stated_of(job: JobInfo) -> Iterator[LostRoom]:
    """Yield the rooms that a PodGroup states, each as large as the smallest member of its gang that has a node.

    None if it has no such member.
    """
    placed = (task for task in job.tasks.values() if task.node is not None)
    member = min(placed, key=lambda task: (sorted(task.template.request.items()), task.key), default=None)
    if member is None:
        return
    for condition in job.conditions:
        for pod, node, until in lost_pods_in(condition):
            yield room_of(member, job, pod, node, until)
