"""The room of one pod that a gang has lost, or is losing."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass

from volsched.model.dra.device import Claim
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus


@dataclass(slots=True, eq=False)
class LostRoom:
    """The room of one pod: ``stand_in`` asks for what the pod did, and is of no job as long as nothing is tried.

    ``uid`` is that of the PodGroup, ``until`` in seconds since the epoch, and ``priority`` that of the gang's pods.
    While ``leaving``, the pod itself, is there, the room is its own, and is kept from the next one. ``claims`` are its
    claims that had devices.
    """

    job: JobInfo
    uid: str
    pod: str
    node: str
    stand_in: TaskInfo
    until: float = math.inf
    priority: int = 0
    leaving: TaskInfo | None = None
    claims: tuple[Claim, ...] = ()

    def is_closed_to(self, task: TaskInfo) -> bool:
        """True if a task is kept from it: of the same queue, another job, and no more important."""
        is_other = task.job is not self.job and task.queue == self.job.queue
        return is_other and task.eviction_priority <= self.priority

    def has_port_of(self, task: TaskInfo) -> bool:
        """Whether the pod had a host port that a task asks for."""
        mine = self.stand_in.template.host_ports
        return any(port.conflicts_with(other) for port in task.template.host_ports for other in mine)


def room_of(member: TaskInfo, job: JobInfo, name: str, node: str, until: float = math.inf) -> LostRoom:
    """Return the room of the pod of a gang, as large as what a member asks for."""
    stand_in = copy(member)
    stand_in.uid, stand_in.name = f"lost/{member.namespace}/{name}", name
    stand_in.status, stand_in.node, stand_in.job, stand_in.nominated = TaskStatus.PENDING, None, None, ""
    stand_in.refusal = None
    stand_in.ungated = False
    return LostRoom(job, job.spec.group_uid, name, node, stand_in, until)
