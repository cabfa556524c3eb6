"""When pods and jobs started and ended, and when those that run are expected to end by what they declare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from volsched.mirror.reading import seconds
from volsched.model import api
from volsched.model.cluster import Cluster
from volsched.model.durations import declared, end_of
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import ON_NODE

EARLIEST: Final = 1.4e9
"""The earliest real time, in seconds since the epoch (2014, before Kubernetes); those of simulations are earlier."""


def annotations_of(cluster: Cluster, queue: str) -> Mapping[str, str]:
    """Return the annotations of a queue, none if there is no such queue."""
    found = cluster.queues.get(queue)
    return found.spec.annotations if found is not None else {}


def holds_since(job: JobInfo) -> float | None:
    """Return when the first of a job's pods that hold room started, in seconds since the epoch."""
    tasks = (task for task in job.tasks.values() if ON_NODE[task.status])
    return min((at for task in tasks if (at := task.spec.started or task.created) > EARLIEST), default=None)


def end_of_pod(pod: api.Pod) -> float | None:
    """Return when a pod ended, in seconds since the epoch: the last end of a container, else of its readiness."""
    status = pod.status
    stopped = [each.state.terminated for each in status.container_statuses if each.state and each.state.terminated]
    ends = [at for each in stopped if (at := seconds(each.finished_at)) is not None]
    if not ends:
        ends = [
            at
            for condition in status.conditions
            if condition.type in ("Ready", "DisruptionTarget") and (at := seconds(condition.last_transition_time))
        ]
    return max(ends, default=None)


def expected_end_of_pod(task: TaskInfo, queue: Mapping[str, str], now: float) -> float | None:
    """Return when a pod on a node is expected to end, None if it declares no duration or has not started.

    ``queue`` has the annotations of its queue. Rules: docs/reserve.md, "How long pods run".
    """
    duration = declared(task, queue, 0.0)
    if duration is None or task.spec.started < EARLIEST:
        return None
    return end_of(task.spec.started, duration, now)


def expected_end(job: JobInfo, queue: Mapping[str, str], now: float) -> float | None:
    """Return when the last pod of a job on a node is expected to end; None if that is not known of each."""
    ends = [expected_end_of_pod(task, queue, now) for task in job.tasks.values() if ON_NODE[task.status]]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def requested(job: JobInfo) -> dict[str, int]:
    """Return the requests of all pods of a job, by resource."""
    found: dict[str, int] = {}
    for task in job.tasks.values():
        for name, amount in task.template.request.items():
            found[name] = found.get(name, 0) + amount
    return found
