"""What is stated, and remembered, of a gang that has lost pods: the condition ``LostPods`` of its PodGroup.

Its message is for people, and whoever leads next reads from it for which pods room is kept on which nodes until when.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from actions.repair.lost_room import LostRoom, room_of
from volsched.model.conditions import LOST_PODS
from volsched.model.job import JobInfo, PodGroupCondition, with_condition

_STAMP: Final = "%Y-%m-%dT%H:%M:%SZ"
_NO_ROOM: Final = "the gang has lost pods and comes first in its queue; no room is kept for them"
_ROOM: Final = "the gang has lost pods and comes first in its queue; room is kept for "
_ONE: Final = re.compile(r"([a-z0-9.-]+) on node ([a-z0-9.-]+) until (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")


def with_loss(job: JobInfo, rooms: Sequence[LostRoom]) -> tuple[PodGroupCondition, ...]:
    """Return a PodGroup's conditions with the one that its gang has lost pods, and where room is kept for them."""
    told = ", ".join(f"{room.pod} on node {room.node} until {_stamp(room.until)}" for room in rooms)
    message = f"{_ROOM}{told}" if told else _NO_ROOM
    return with_condition(job.conditions, PodGroupCondition(LOST_PODS, "True", LOST_PODS, message))


def rooms_stated_of(job: JobInfo) -> Iterator[LostRoom]:
    """Yield the rooms that a PodGroup states, each as large as a member of its gang; none if it has no members."""
    member = next(iter([*job.waiting.values(), *job.tasks.values()]), None)
    if member is None:
        return
    texts = [c.message for c in job.conditions if c.type == LOST_PODS and c.message.startswith(_ROOM)]
    for pod, node, until in _ONE.findall("; ".join(texts)):
        yield room_of(member, job, pod, node, _seconds(until))


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(math.ceil(seconds), UTC).strftime(_STAMP)


def _seconds(text: str) -> float:
    return datetime.strptime(text, _STAMP).replace(tzinfo=UTC).timestamp()
