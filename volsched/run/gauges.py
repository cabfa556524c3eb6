"""Metrics of a process that are read on request: requests, watches, lanes, the lease, queues."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from volsched.kube.client.rest import Api
from volsched.kube.fence import Fence
from volsched.kube.serve.connections import WHY_CLOSED
from volsched.kube.serve.loop_lag import LoopLagMonitor
from volsched.kube.serve.metrics import Metrics, Read
from volsched.kube.serve.scheduler_metrics import SchedulerMetrics
from volsched.kube.serve.site import LimitedSites
from volsched.kube.watch.inbox import Inbox
from volsched.kube.watch.informer import Informer
from volsched.kube.write.executor import ClusterExecutor
from volsched.mirror.apply import Mirror
from volsched.mirror.memory_bound import MemoryUse
from volsched.mirror.online import parts
from volsched.mirror.quarantine import Quarantine
from volsched.model.cluster import Cluster
from volsched.model.nodes.columns import NONZERO_CPU, NONZERO_MEMORY, OFFERED_NOWHERE
from volsched.model.queues.queue import QueueInfo
from volsched.model.values.bounded import Size, Tables
from volsched.model.values.quantity import UNLIMITED, in_base_units
from volsched.model.values.series import Numbers

T = TypeVar("T")

_RESOURCE: Final = ("resource",)
_QUEUE: Final = ("queue", "resource")
_VOLCANO_QUEUE: Final = ("queue_name",)
_VOLCANO_UNITS: Final = {"cpu": "milli_cpu", "memory": "memory_bytes"}


def add_gauges(
    metrics: SchedulerMetrics,
    *,
    mirror: Mirror,
    apis: Callable[[], Sequence[Api]],
    executor: ClusterExecutor,
    informers: Sequence[Informer],
    inbox: Inbox,
    fence: Fence,
    silence: Callable[[], float],
) -> None:
    """Let `metrics` read all of these. `silence` is the age of the scheduling thread's heartbeat in seconds."""
    cluster = mirror.cluster
    queues, resources = (lambda: cluster.queues), (lambda: cluster.columns.names)
    metrics.bounds.known.update({"queue": queues, "queue_name": queues, "resource": resources})
    add_requests(metrics, apis)
    add_watches(metrics, informers)
    add_lease(metrics, fence)
    add_quarantine(metrics, mirror.quarantine)
    add_memory_use(metrics, mirror.memory_use)
    _add_writing(metrics, executor, inbox)
    _add_binding(metrics, executor, cluster)
    _add_preemption(metrics, cluster)
    _add_cluster(metrics, cluster)
    metrics.add(
        "volsched_uncharged_pods",
        "Pods that came with a node and count in no queue",
        (),
        lambda: {(): float(len(mirror.passers_by.uncharged))},
    )
    _add_queues(metrics, cluster, lambda: metrics.last.waiting.requests)
    _add_volcano_queues(metrics, cluster, lambda: metrics.last.waiting.requests)
    _add_workloads(metrics, mirror)
    metrics.add("volsched_scheduling_thread_silence_seconds", "Age of its heartbeat", (), lambda: {(): silence()})


# -- parts that every process has -----------------------------------------------------------------------------------


def add_loop(metrics: Metrics, loop_lag: LoopLagMonitor, tables: Tables) -> None:
    """Metrics of the process itself: delays of its event loop, and table sizes."""
    metrics.add_histograms(
        "volsched_loop_stall_seconds",
        "For how long the event loop stood still, looked at twenty times a second",
        (),
        lambda: {(): loop_lag.stalls},
    )
    metrics.add(
        "volsched_memory_blocks",
        "Blocks of memory in use, as Python's allocator counts them",
        (),
        lambda: {(): float(sys.getallocatedblocks())},
    )
    metrics.add("volsched_memory_objects", "Entries of each table that is kept", ("table",), tables.sizes)


def add_connections(metrics: Metrics, sites: Callable[[], Sequence[LimitedSites]]) -> None:
    """Metrics of connections to the process, and of those it closed."""
    metrics.add(
        "volsched_connections",
        "Connections that are open, by the port to which they are",
        ("port",),
        lambda: {(site.name,): len(site.table) for site in sites()},
    )
    metrics.add(
        "volsched_connections_closed",
        "Connections that were closed from this side, by port and why",
        ("port", "reason"),
        lambda: {(site.name, why): site.table.closed[why] for site in sites() for why in WHY_CLOSED},
        counts=True,
    )


def tables_of(informers: Sequence[Informer], apis: Callable[[], Sequence[Api]]) -> Mapping[str, Size]:
    """Return the sizes of what is kept to follow the API server."""
    return {
        "informers.objects": lambda: sum(informer.count for informer in informers),
        "requests.series": lambda: sum(len(api.requests) + len(api.durations) for api in apis()),
    }


def add_requests(metrics: Metrics, apis: Callable[[], Sequence[Api]]) -> None:
    """Metrics of requests to the API server. The Lease is renewed with an `Api` of its own."""
    metrics.add(
        "volsched_api_requests",
        "Requests to the API server",
        ("verb", "resource", "code"),
        lambda: _summed(item for api in apis() for item in dict(api.requests).items()),
        counts=True,
    )
    metrics.add_histograms(
        "volsched_api_request_duration_seconds",
        "From sending a request to the last byte of its answer",
        ("verb", "resource"),
        lambda: {labels: found for api in reversed(apis()) for labels, found in dict(api.durations).items()},
    )
    metrics.add(
        "volsched_api_throttled_seconds",
        "What requests waited for our own limit, all together",
        (),
        lambda: {(): sum(api.throttled_seconds for api in apis())},
        counts=True,
    )


def add_memory_use(metrics: Metrics, memory_use: MemoryUse) -> None:
    """Metrics of the memory for objects, and its bound."""
    metrics.add(
        "volsched_kept_bytes",
        "Memory that objects of all namespaces take, by estimate",
        (),
        lambda: {(): float(memory_use.kept_bytes)},
    )
    metrics.add(
        "volsched_kept_bytes_limit",
        "Above so much objects that hold nothing are refused; 0: no bound",
        (),
        lambda: {(): float(memory_use.most)},
    )


def add_watches(metrics: Metrics, informers: Sequence[Informer]) -> None:
    """Metrics of the followed kinds."""
    metrics.add(
        "volsched_watch_restarts",
        "Watches that had to be begun again, and why",
        ("resource", "reason"),
        lambda: _summed(((i.resource.plural, reason), n) for i in informers for reason, n in dict(i.restarts).items()),
        counts=True,
    )
    metrics.add(
        "volsched_watch_changes",
        "Changes of objects that were read",
        _RESOURCE,
        lambda: _summed(((informer.resource.plural,), informer.changes) for informer in informers),
        counts=True,
    )
    metrics.add(
        "volsched_objects_unreadable",
        "Objects that could not be read and are ignored",
        _RESOURCE,
        lambda: _summed(((informer.resource.plural,), informer.unreadable) for informer in informers),
        counts=True,
    )
    metrics.add(
        "volsched_objects",
        "Objects that are known",
        _RESOURCE,
        lambda: _summed(((informer.resource.plural,), informer.count) for informer in informers),
    )


def add_quarantine(metrics: Metrics, quarantine: Quarantine) -> None:
    """Metrics of quarantined objects; for the memory bound 0 is reported, too, so that the alert has data."""
    metrics.add(
        "volsched_quarantined_objects",
        "Objects that are set aside, as they cannot be read or used, until they change",
        ("kind", "where"),
        lambda: {("Pod", "memory"): 0.0, **quarantine.counts},
    )


def _summed(numbers: Iterable[tuple[tuple[str, ...], float]]) -> Numbers:
    """Add up values with the same labels: of one kind there may be several watches, and kinds of the same name."""
    total: dict[tuple[str, ...], float] = {}
    for labels, number in numbers:
        total[labels] = total.get(labels, 0) + number
    return total


def add_lease(metrics: Metrics, fence: Fence) -> None:
    """Metrics of leadership: whether this process leads, and for how long still."""
    metrics.add("volsched_leader", "Whether this process may write", (), lambda: {(): float(fence.is_open)})
    metrics.add(
        "volsched_lease_seconds_left",
        "Until the right to write ends if it is not renewed",
        (),
        lambda: _finite(fence.valid_until - time.monotonic()),
    )
    metrics.add(
        "volsched_lease_renewal_age_seconds",
        "Since this process took or renewed the lease",
        (),
        lambda: _finite(time.monotonic() - fence.prolonged_at) if math.isfinite(fence.valid_until) else {},
    )


def _finite(seconds: float) -> Numbers:
    return {(): max(0.0, seconds)} if math.isfinite(seconds) else {}


# -- writes ---------------------------------------------------------------------------------------------------------


def _add_writing(metrics: Metrics, executor: ClusterExecutor, inbox: Inbox) -> None:
    pod_writer, statuses, events = executor.pod_writer, executor.statuses, executor.events
    metrics.add(
        "volsched_lane_depth",
        "Writes that wait",
        ("lane",),
        lambda: {
            ("bind",): executor.backlog,
            ("volumes",): pod_writer.preparing,
            ("status",): statuses.depth,
            ("events",): events.depth,
            ("inbox",): len(inbox),
        },
    )
    metrics.add(
        "volsched_writes_dropped",
        "Writes that were given up",
        ("lane",),
        lambda: {("bind",): pod_writer.dropped, ("status",): statuses.dropped, ("events",): events.dropped},
        counts=True,
    )
    metrics.add(
        "volsched_writes_spared",
        "Writes that were not needed: nothing new to say, or overtaken",
        ("lane",),
        lambda: {("status",): statuses.suppressed, ("events",): events.suppressed},
        counts=True,
    )
    metrics.add(
        "volsched_statuses_written", "Statuses that were written", (), lambda: {(): statuses.written}, counts=True
    )
    metrics.add("volsched_events_sent", "Events that were written", (), lambda: {(): events.sent}, counts=True)


def _add_binding(metrics: Metrics, executor: ClusterExecutor, cluster: Cluster) -> None:
    pod_writer = executor.pod_writer

    def count(name: str, help_: str, read: Callable[[], int]) -> None:
        metrics.add(name, help_, (), lambda: {(): read()}, counts=True)

    count("volsched_pods_bound", "Pods that were bound", lambda: pod_writer.bound)
    count("volsched_binds_refused", "Bindings that failed", lambda: pod_writer.refused)
    count("volsched_binds_to_lost_nodes", "Pods bound to a node that went meanwhile", lambda: pod_writer.lost_nodes)
    count("volsched_evictions_sent", "Pods that were deleted to make room", lambda: pod_writer.evicted)
    count("volsched_evictions_refused", "Pods that could not be deleted", lambda: pod_writer.evictions_refused)
    metrics.add_histograms(
        "volsched_bind_duration_seconds",
        "From a decision to its binding at the API server",
        (),
        lambda: {(): pod_writer.durations},
    )
    metrics.add_histograms(
        "volsched_claims_duration_seconds",
        "From a pod's turn to write its ResourceClaims until all are allocated and reserved",
        (),
        lambda: {(): executor.claims.durations},
    )
    metrics.add_histograms(
        "volsched_pod_wait_seconds",
        "From a pod's creation to its binding, by queue",
        ("queue",),
        lambda: _of_living_queues(pod_writer.waits, cluster),
    )


def _add_preemption(metrics: SchedulerMetrics, cluster: Cluster) -> None:
    labels = ("action", "queue")
    metrics.add(
        "volsched_preemption_attempts",
        "Searches for pods that could be evicted, by the queue that needs the room",
        labels,
        lambda: _of_living_queues(metrics.victim_searches, cluster),
        counts=True,
    )
    metrics.add(
        "volsched_preemption_victims",
        "Pods evicted, by the queue that needed the room",
        labels,
        lambda: _of_living_queues(metrics.victims, cluster),
        counts=True,
    )


def _of_living_queues(found: dict[tuple[str, ...], T], cluster: Cluster) -> dict[tuple[str, ...], T]:
    """Drop counts of deleted queues. The queue is the last label."""
    for labels in [labels for labels in tuple(found) if labels[-1] not in cluster.queues]:
        found.pop(labels, None)
    return found


# -- who holds what -------------------------------------------------------------------------------------------------


def _add_cluster(metrics: Metrics, cluster: Cluster) -> None:
    metrics.add(
        "volsched_cluster_allocatable",
        "What pods may take on all nodes",
        _RESOURCE,
        lambda: _of_cluster(cluster, cluster.node_cache.totals),
    )
    metrics.add(
        "volsched_cluster_used",
        "What pods take on all nodes",
        _RESOURCE,
        lambda: _of_cluster(cluster, cluster.node_cache.total_used),
    )


def _add_queues(metrics: Metrics, cluster: Cluster, waiting: Read) -> None:
    """Add what queues hold and may hold: cores, bytes, whole devices."""
    for kind, of, help_ in (
        ("allocated", _allocated, "What placed pods of the queue use"),
        ("deserved", _deserved, "What the queue's object says that it deserves"),
        ("capability", _capability, "What the queue's object lets it have at most"),
        ("guarantee", _guarantee, "What the queue's object keeps for it"),
    ):
        read = partial(queue_amounts, cluster, of)
        metrics.add(f"volsched_queue_{kind}", help_, _QUEUE, partial(_in_base_units, read))
    metrics.add(
        "volsched_queue_request",
        "What the queue's pods ask for, placed or not",
        _QUEUE,
        partial(_in_base_units, partial(requested, cluster, waiting)),
    )
    metrics.add(
        "volsched_queue_share", "The part of the cluster that the queue holds", _QUEUE, partial(shares, cluster)
    )


def _add_volcano_queues(metrics: Metrics, cluster: Cluster, waiting: Read) -> None:
    """Add the same under Volcano's names: milli-CPU, bytes, and thousandths of other resources."""
    reads: dict[str, Read] = {
        "allocated": partial(queue_amounts, cluster, _allocated),
        "request": partial(requested, cluster, waiting),
        "deserved": partial(queue_amounts, cluster, _deserved),
        "capacity": partial(queue_amounts, cluster, _capability),
        "guarantee": partial(queue_amounts, cluster, _guarantee),
    }
    for kind, read in reads.items():
        for resource, unit in _VOLCANO_UNITS.items():
            name = f"volcano_queue_{kind}_{unit}"
            metrics.add(name, f"The queue's {kind}", _VOLCANO_QUEUE, partial(_only, read, resource))
        name = f"volcano_queue_{kind}_scalar_resources"
        metrics.add(name, f"The queue's {kind}, in thousandths", ("queue_name", "resource"), partial(_scalars, read))
    metrics.add(
        "volcano_queue_weight",
        "The queue's weight",
        _VOLCANO_QUEUE,
        lambda: {(queue.name,): queue.spec.weight for queue in _queues(cluster)},
    )


def _add_workloads(metrics: Metrics, mirror: Mirror) -> None:
    """Add how what is used is parted among online and offline pods."""
    metrics.add(
        "volsched_cluster_workload_used",
        "What online and offline pods take on all nodes",
        ("resource", "workload"),
        partial(_parts_of_cluster, mirror),
    )
    metrics.add(
        "volsched_queue_workload_allocated",
        "What placed online and offline pods of the queue use",
        ("queue", "resource", "workload"),
        partial(_parts_of_queues, mirror),
    )


def _parts_of_cluster(mirror: Mirror) -> Numbers:
    names, online = mirror.cluster.columns.names, dict(mirror.online.used)
    by_name = {names[column]: amount for column, amount in online.items()}
    return {
        (resource, workload): in_base_units(resource, amount)
        for workload, resource, amount in parts(_named(mirror.cluster, mirror.cluster.node_cache.total_used), by_name)
    }


def _parts_of_queues(mirror: Mirror) -> Numbers:
    return {
        (queue.name, resource, workload): in_base_units(resource, amount)
        for queue in _queues(mirror.cluster)
        for workload, resource, amount in parts(dict(queue.allocated), dict(mirror.online.queues.get(queue.name, {})))
    }


def _only(read: Read, resource: str) -> Numbers:
    return {(queue,): amount for (queue, name), amount in read().items() if name == resource}


def _scalars(read: Read) -> Numbers:
    return {labels: amount for labels, amount in read().items() if labels[1] not in _VOLCANO_UNITS}


def _queues(cluster: Cluster) -> list[QueueInfo]:
    return list(cluster.queues.values())  # at once: the scheduling thread may add one meanwhile


def _allocated(queue: QueueInfo) -> Mapping[str, int]:
    return queue.allocated


def _deserved(queue: QueueInfo) -> Mapping[str, int]:
    return queue.spec.deserved


def _capability(queue: QueueInfo) -> Mapping[str, int]:
    return queue.spec.capability


def _guarantee(queue: QueueInfo) -> Mapping[str, int]:
    return queue.spec.guarantee


def queue_amounts(cluster: Cluster, of: Callable[[QueueInfo], Mapping[str, int]]) -> Numbers:
    """Return amounts of each queue (used, limit, ...) by queue and resource, in the resource's unit."""
    return {
        (queue.name, resource): amount
        for queue in _queues(cluster)
        for resource, amount in dict(of(queue)).items()
        if amount != UNLIMITED
    }


def requested(cluster: Cluster, waiting: Read) -> Numbers:
    """Return the requests of each queue: the used amounts and those of waiting pods."""
    total = dict(queue_amounts(cluster, _allocated))
    for labels, amount in waiting().items():
        if labels[0] in cluster.queues:
            total[labels] = total.get(labels, 0) + amount
    return total


def shares(cluster: Cluster) -> Numbers:
    """Return which part of what all nodes have each queue holds, from 0 to 1."""
    there = dict(zip(cluster.columns.names, cluster.node_cache.totals, strict=False))
    return {
        (queue, resource): amount / there[resource]
        for (queue, resource), amount in queue_amounts(cluster, _allocated).items()
        if there.get(resource)
    }


def _in_base_units(read: Read) -> Numbers:
    return {labels: in_base_units(labels[1], amount) for labels, amount in read().items()}


def _of_cluster(cluster: Cluster, totals: Sequence[int]) -> Numbers:
    return {(name,): in_base_units(name, amount) for name, amount in _named(cluster, totals).items()}


def _named(cluster: Cluster, totals: Sequence[int]) -> dict[str, int]:
    """Name the amounts of all nodes together. One that was named this moment may be missing."""
    named = enumerate(zip(cluster.columns.names, totals, strict=False))
    return {
        name: amount
        for column, (name, amount) in named
        if amount and column not in (NONZERO_CPU, NONZERO_MEMORY, OFFERED_NOWHERE)  # those are no resources
    }
