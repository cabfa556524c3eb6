"""Which queue goes first: by priority, then level by level from the top, where two ways part.

Where two levels have the same place the older one goes first, so that the order has no circles. A queue without an
object is older than all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from volsched.framework.callbacks import QueueLevel
from volsched.framework.rules import QueueOrder, VictimQueueOrder
from volsched.model.queues.queue import QueueInfo

Queues = Mapping[str, QueueInfo]


def age(queues: Queues, level: str) -> tuple[float, str]:
    """Return when a queue was created (seconds since the epoch), and its name."""
    queue = queues.get(level)
    return (queue.spec.created if queue is not None else 0.0), level


def path_key(
    queues: Queues, queue: QueueInfo, path: Iterable[str], place: Callable[[str], tuple[object, ...]]
) -> tuple[int, tuple[tuple[object, ...], ...]]:
    """Return the key of a queue whose levels, the highest first, have these places."""
    return -queue.spec.priority, tuple((*place(level), *age(queues, level)) for level in path)


def order_in_tree(
    queues: Queues, way_down: Callable[[str], Sequence[str]], place: Callable[[str], object]
) -> QueueOrder:
    """Return the same order, in which a placement counts at once for all queues below a level."""

    def level_key(level: QueueLevel) -> object:
        return level if isinstance(level, int) else (place(level), *age(queues, level))

    return QueueOrder.in_tree(lambda queue: (-queue.spec.priority, *way_down(queue.name)), level_key)


def nearest_first(levels: Callable[[str], Sequence[str]]) -> VictimQueueOrder:
    """Return the order of victims in which those go first whose queue is nearest in the tree to that of the task."""

    def distance(queue: QueueInfo, own: QueueInfo) -> int:
        theirs = levels(own.name)[1:]
        return -sum(level in theirs for level in levels(queue.name)[1:])

    return VictimQueueOrder(distance)
