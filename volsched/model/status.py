"""The statuses of tasks, and what each means for counts and room.

The names and groups are Volcano's (its task status model). Two more things are defined only here: what a status takes
on its node, and whether it counts towards a gang's minimum.
"""

from __future__ import annotations

from enum import IntEnum


class TaskStatus(IntEnum):
    """The life of a task as the scheduler sees it."""

    PENDING = 0
    """The task has no node."""
    ALLOCATED = 1
    """This session chose a node that has room now. Nothing is written yet."""
    PIPELINED = 2
    """This session chose a node that will have room once others have gone."""
    BINDING = 3
    """Handed to the executor. The task is assumed on its node until the watch shows otherwise."""
    BOUND = 4
    """The API server shows the node. The kubelet has not started the pod."""
    RUNNING = 5
    """Started."""
    RELEASING = 6
    """Being deleted; its room is still taken and will be free."""
    SUCCEEDED = 7
    """Finished well; takes no room."""
    FAILED = 8
    """Finished badly; takes no room."""
    UNKNOWN = 9
    """The kubelet lost sight of it. Its room is taken."""


def _flags(*members: TaskStatus) -> tuple[bool, ...]:
    return tuple(status in members for status in TaskStatus)


_S = TaskStatus

HOLDS_ROOM = _flags(_S.ALLOCATED, _S.BINDING, _S.BOUND, _S.RUNNING, _S.RELEASING, _S.UNKNOWN)
"""Indexed by status: the task's request is part of its node's used amounts."""

ON_NODE = _flags(_S.ALLOCATED, _S.PIPELINED, _S.BINDING, _S.BOUND, _S.RUNNING, _S.RELEASING, _S.UNKNOWN)
"""Indexed by status: rules about neighbours (ports, volumes, affinity, spreading) count the task on its node."""

IS_ALLOCATED = _flags(_S.ALLOCATED, _S.BINDING, _S.BOUND, _S.RUNNING)
"""Indexed by status: the task is charged to its queue and counts as placed."""

IS_CHOSEN = _flags(_S.ALLOCATED, _S.PIPELINED, _S.BINDING, _S.BOUND, _S.RUNNING)
"""Indexed by status: placed or pipelined. Quotas compare with these, so that no promise exceeds one."""

IS_READY = _flags(_S.ALLOCATED, _S.BINDING, _S.BOUND, _S.RUNNING, _S.SUCCEEDED)
"""Indexed by status: the task counts towards its gang's minimum."""

IS_FINISHED = _flags(_S.SUCCEEDED, _S.FAILED)
"""Indexed by status: the pod has ended for good."""

IS_VALID = _flags(_S.PENDING, _S.ALLOCATED, _S.PIPELINED, _S.BINDING, _S.BOUND, _S.RUNNING, _S.SUCCEEDED)
"""Indexed by status: the task can be, or is, a working member of its gang."""

IS_SCHEDULED = _flags(_S.BOUND, _S.RUNNING, _S.SUCCEEDED, _S.FAILED)
"""Indexed by status: the API server knows the task's node (used for the PodGroup's phase)."""
