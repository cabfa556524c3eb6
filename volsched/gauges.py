"""The numbers of `volsched run` that are read at the moment of asking: lanes, watches, the lease, queues."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from volsched.kube.client import Api
from volsched.kube.executor import ClusterExecutor
from volsched.kube.fence import Fence
from volsched.kube.inbox import Inbox
from volsched.kube.informer import Informer
from volsched.kube.metrics import Metrics
from volsched.model.cluster import Cluster

Numbers: TypeAlias = dict[tuple[str, ...], float]


def add_gauges(
    metrics: Metrics,
    *,
    cluster: Cluster,
    api: Api,
    executor: ClusterExecutor,
    informers: Sequence[Informer],
    inbox: Inbox,
    fence: Fence,
    silence: Callable[[], float],
) -> None:
    """Let `metrics` read all of these; `silence` is the age of the scheduling thread's heartbeat in seconds."""
    _add_reading(metrics, api, informers)
    _add_writing(metrics, executor, inbox)
    _add_queues(metrics, cluster)
    metrics.add("volsched_leader", "Whether this process may write", (), lambda: {(): float(fence.is_open)})
    metrics.add(
        "volsched_lease_seconds_left",
        "Until the right to write ends if it is not renewed",
        (),
        lambda: _seconds_left(fence),
    )
    metrics.add("volsched_scheduling_thread_silence_seconds", "Age of its heartbeat", (), lambda: {(): silence()})


def _add_reading(metrics: Metrics, api: Api, informers: Sequence[Informer]) -> None:
    metrics.add(
        "volsched_api_requests",
        "Requests to the API server",
        ("verb", "resource", "code"),
        lambda: {tuple(key): count for key, count in list(api.requests.items())},
        counts=True,
    )
    metrics.add(
        "volsched_watch_restarts",
        "Watches that had to be begun again, and why",
        ("resource", "reason"),
        lambda: {(i.resource.plural, reason): count for i in informers for reason, count in i.restarts.items()},
        counts=True,
    )
    metrics.add(
        "volsched_objects",
        "Objects that are known",
        ("resource",),
        lambda: {(informer.resource.plural,): informer.count for informer in informers},
    )


def _add_writing(metrics: Metrics, executor: ClusterExecutor, inbox: Inbox) -> None:
    binder, statuses, events = executor.binder, executor.statuses, executor.events
    metrics.add("volsched_pods_bound", "Pods that were bound", (), lambda: {(): binder.bound}, counts=True)
    metrics.add("volsched_binds_refused", "Bindings that failed", (), lambda: {(): binder.refused}, counts=True)
    metrics.add("volsched_events_sent", "Events that were written", (), lambda: {(): events.sent}, counts=True)
    metrics.add(
        "volsched_lane_depth",
        "Writes that wait",
        ("lane",),
        lambda: {
            ("bind",): executor.backlog,
            ("volumes",): binder.preparing,
            ("status",): statuses.depth,
            ("events",): events.depth,
            ("inbox",): len(inbox),
        },
    )
    metrics.add(
        "volsched_writes_dropped",
        "Writes that were given up",
        ("lane",),
        lambda: {("bind",): binder.dropped, ("status",): statuses.dropped, ("events",): events.dropped},
        counts=True,
    )


def _add_queues(metrics: Metrics, cluster: Cluster) -> None:
    """Add Volcano's names; milli-CPU, bytes, and thousandths of other resources."""
    label = ("queue_name",)
    for resource, unit in (("cpu", "milli_cpu"), ("memory", "memory_bytes")):
        name = f"volcano_queue_allocated_{unit}"
        metrics.add(name, "What placed pods of the queue use", label, partial(queue_amounts, cluster, resource))
        for kind, word in (("deserved", "deserved"), ("capability", "capacity"), ("guarantee", "guarantee")):
            reading = partial(queue_limits, cluster, kind, resource)
            metrics.add(f"volcano_queue_{word}_{unit}", f"The queue's {kind}", label, reading)
    metrics.add(
        "volcano_queue_allocated_scalar_resources",
        "What placed pods of the queue use of other resources, in thousandths",
        ("queue_name", "resource"),
        lambda: queue_scalars(cluster),
    )
    metrics.add(
        "volcano_queue_weight",
        "The queue's weight",
        label,
        lambda: {(queue.name,): queue.weight for queue in list(cluster.queues.values())},
    )


def _seconds_left(fence: Fence) -> Numbers:
    left = fence.valid_until - time.monotonic()
    return {(): max(0.0, left)} if math.isfinite(left) else {}


def queue_amounts(cluster: Cluster, resource: str) -> Numbers:
    """Return what placed pods of each queue take of one resource."""
    return {(queue.name,): queue.allocated.get(resource, 0) for queue in list(cluster.queues.values())}


def queue_limits(cluster: Cluster, kind: str, resource: str) -> Numbers:
    """Return the deserved amount, capability or guarantee of each queue that names the resource there."""
    found = ((queue.name, getattr(queue, kind).get(resource)) for queue in list(cluster.queues.values()))
    return {(name,): amount for name, amount in found if amount is not None}


def queue_scalars(cluster: Cluster) -> Numbers:
    """Return what placed pods of each queue take of all resources but CPU and memory."""
    return {
        (queue.name, resource): amount
        for queue in list(cluster.queues.values())
        for resource, amount in list(queue.allocated.items())
        if resource not in ("cpu", "memory")
    }
