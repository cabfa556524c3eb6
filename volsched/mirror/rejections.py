"""Pods that a node's kubelet refused after their binding: it knew of less room, or of no free device.

The kubelet reports it on the pod, which ends with it. The PodGroup stays, so it is reported there, too.
"""

from __future__ import annotations

from typing import Final

from volsched.model import api
from volsched.model.errors import shortened
from volsched.model.plan import RecordEvent
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus

REASON: Final = "RejectedByNode"
_GROUP_VERSION: Final = "scheduling.volcano.sh/v1beta1"
_LONGEST_CAUSE: Final = 600
"""Characters of the kubelet's message. An Event takes 1024."""


def rejection_of(task: TaskInfo, pod: api.Pod) -> RecordEvent | None:
    """Return the Event on the PodGroup of a pod that failed before any of its containers was made, else None.

    `task` has the former state, `pod` is the new object. A pod without a PodGroup has only the Event of the kubelet.
    """
    status, job = pod.status, task.job
    was_bound = task.status in (TaskStatus.BINDING, TaskStatus.BOUND)
    if (
        not (was_bound and task.spec.is_managed and status.phase == "Failed" and status.reason)
        or status.container_statuses
    ):
        return None
    if job is None or not job.spec.group_uid:
        return None
    cause = shortened(f"{status.reason}: {status.message}", _LONGEST_CAUSE)
    message = f'pod "{task.name}" was refused by node "{pod.spec.node_name}", to which it was bound: {cause}'
    return RecordEvent(
        "PodGroup",
        _GROUP_VERSION,
        job.namespace,
        job.name,
        job.spec.group_uid,
        "Warning",
        REASON,
        message,
        each=True,  # the next pod, soon bound, makes it no less true
    )
