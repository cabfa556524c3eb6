"""Every account of the live cluster, counted again from scratch.

Cluster, job, queue and node keep their figures as tasks move; this looks at the tasks alone and states what differs. A
test that has done anything to a cluster asks for ``faults`` and expects none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from volsched.model.cluster import Cluster
from volsched.model.dra.devices import DeviceUsage
from volsched.model.job import PENDING, JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import HOLDS_ROOM, IS_ALLOCATED, IS_READY, TaskStatus
from volsched.model.values.resources import PODS

OF_A_SESSION = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


def faults(cluster: Cluster) -> list[str]:
    """Return which accounts differ from what the tasks add up to; empty when all is well. Holds inside sessions too."""
    tasks_of: dict[int, list[TaskInfo]] = {}
    for task in cluster.tasks.values():
        tasks_of.setdefault(id(task.node), []).append(task)
    return [
        *_rows(cluster),
        *_members(cluster),
        *(fault for node in cluster.rows for fault in _node(cluster, node, tasks_of.get(id(node), []))),
        *_totals(cluster),
        *(fault for job in cluster.jobs.values() for fault in _job_differences(job)),
        *_queues(cluster),
        *_sets(cluster),
        *_devices(cluster),
    ]


def _devices(cluster: Cluster) -> Iterator[str]:
    """Yield the users of each device, counted again from the claims and from those in flight."""
    devices, again = cluster.devices, DeviceUsage()
    for claim in devices.claims.values():
        allocation = devices.allocation_of(claim)
        if allocation is not None and claim.uid not in devices.vacant:
            again.hold(claim.uid, allocation.devices.results)
    for uid, chosen in devices.in_flight.items():
        again.hold(uid, chosen.allocation.devices.results)
    for uid, allocation in devices.kept.items():
        again.hold(f"kept/{uid}", allocation.devices.results)
    for account in ("taken", "shares", "consumed", "pools", "held"):
        yield from _compare(f"devices {account}", getattr(devices.usage, account), getattr(again, account))
    for uid, chosen in devices.in_flight.items():
        if not chosen.pods:
            yield f"claim {uid} is in flight for no pod"


def leftovers(cluster: Cluster) -> list[str]:
    """Return which tasks still stand as only a session may leave them; empty between sessions."""
    return [f"{task!r} outside a session" for task in cluster.tasks.values() if task.status in OF_A_SESSION]


def _rows(cluster: Cluster) -> Iterator[str]:
    names = [node.name for node in cluster.rows]
    yield from _compare("rows", names, sorted(cluster.nodes))
    yield from _compare("row numbers", [node.row for node in cluster.rows], list(range(len(cluster.rows))))
    for name, node in cluster.nodes.items():
        yield from _compare(f"name of node {name}", node.name, name)


def _members(cluster: Cluster) -> Iterator[str]:
    for uid, task in cluster.tasks.items():
        if task.uid != uid:
            yield from _compare(f"uid of {task!r}", task.uid, uid)
        node, job = task.node, task.job
        if node is not None and cluster.nodes.get(node.name) is not node:
            yield f"{task!r} is on a node that is not there"
        if job is not None and cluster.jobs.get(job.key) is not job:
            yield f"{task!r} is in a job that is not there"
        if job is not None and job.tasks.get(uid) is not task:
            yield f"{task!r} is not among its job's tasks"
        if task.status is TaskStatus.PENDING and node is not None:
            yield f"{task!r} waits and has a node"


def _node(cluster: Cluster, node: NodeInfo, here: Sequence[TaskInfo]) -> Iterator[str]:
    name = f"node {node.name}"
    yield from _compare(f"{name}: tasks", sorted(node.tasks), sorted(task.uid for task in here))
    leaving = [task for task in here if task.status is TaskStatus.RELEASING]
    promised = [task for task in here if task.status is TaskStatus.PIPELINED]
    for what, kept, tasks in (
        ("used", node.used, [task for task in here if HOLDS_ROOM[task.status]]),
        ("releasing", node.releasing, leaving),
        ("pipelined", node.pipelined, promised),
    ):
        yield from _amounts(cluster, f"{name}: {what}", kept, tasks)
    yield from _compare(f"{name}: terminating or promised", node.terminating_pods, len(leaving) + len(promised))


def _amounts(cluster: Cluster, what: str, kept: Sequence[int], tasks: Iterable[TaskInfo]) -> Iterator[str]:
    counted = [0] * len(kept)
    for task in tasks:
        for column, amount in cluster.columns.charge(task.template):
            counted[column] += amount
    yield from _columns(cluster, what, kept, counted)


def _totals(cluster: Cluster) -> Iterator[str]:
    nodes = cluster.node_cache
    columns = range(len(nodes.totals))
    for what, kept, rows in (
        ("total", nodes.totals, [node.allocatable for node in cluster.rows]),
        ("total used", nodes.total_used, [node.used for node in cluster.rows]),
    ):
        yield from _columns(cluster, what, kept, [sum([row[column] for row in rows]) for column in columns])


def _columns(cluster: Cluster, what: str, kept: Sequence[int], counted: Sequence[int]) -> Iterator[str]:
    """Compare amounts, given by column; they are named only if some differ."""
    if list(kept) != counted:
        for name, have, want in zip(cluster.columns.names[: len(kept)], kept, counted, strict=True):
            yield from _compare(f"{what} {name}", have, want)


def _job_differences(job: JobInfo) -> Iterator[str]:
    name, tasks = f"job {job.key}", list(job.tasks.values())
    statuses = Counter(task.status for task in tasks)
    counts = [statuses[status] for status in TaskStatus]
    waiting = [task for task in tasks if task.status is TaskStatus.PENDING]
    yield from _compare(f"{name}: counts", job.counts, counts)
    yield from _compare(f"{name}: ready", job.ready_count, sum(1 for task in tasks if IS_READY[task.status]))
    yield from _compare(f"{name}: waiting", sorted(job.waiting), sorted(task.uid for task in waiting))
    held: dict[str, int] = {}
    for task in tasks:
        if IS_ALLOCATED[task.status]:
            _add(held, task)
    yield from _compare(f"{name}: allocated", job.allocated, held)
    best_effort = sum(1 for task in waiting if task.best_effort)
    yield from _compare(f"{name}: pending best effort", job.pending_best_effort, best_effort)
    yield from (f"{task!r} is a task of {name} and does not know" for task in tasks if task.job is not job)


def _queues(cluster: Cluster) -> Iterator[str]:
    counted: dict[str, dict[str, int]] = {name: {} for name in cluster.queues}
    placed = dict.fromkeys(counted, 0)
    for task in cluster.tasks.values():
        if task.job is not None and IS_ALLOCATED[task.status] and task.job.queue in counted:
            _add(counted[task.job.queue], task)
            placed[task.job.queue] += 1
    for name, amounts in counted.items():
        yield from _compare(f"queue {name}: allocated", cluster.queues[name].allocated, amounts)
        yield from _compare(f"queue {name}: placed", cluster.queues[name].placed, placed[name])
    ungated: dict[str, dict[str, int]] = {}
    for task in cluster.tasks.values():
        if task.job is not None and task.ungated and task.status is TaskStatus.PENDING:
            account = ungated.setdefault(task.job.queue, {})
            _add(account, task)
            account[PODS] = account.get(PODS, 0) + 1
    yield from _compare("ungated tasks without a node", cluster.queue_cache.ungated, ungated)


def _add(amounts: dict[str, int], task: TaskInfo) -> None:
    for resource, amount in task.template.request.items():
        amounts[resource] = amounts.get(resource, 0) + amount


def _sets(cluster: Cluster) -> Iterator[str]:
    jobs, nodes = cluster.jobs, cluster.nodes
    nominated = {uid: task for uid, task in cluster.tasks.items() if task.nominated}
    for what, kept, counted in (
        ("waiting jobs", cluster.queue_cache.waiting, {key: job for key, job in jobs.items() if job.waiting}),
        (
            "jobs with best-effort tasks",
            cluster.queue_cache.best_effort,
            {key: job for key, job in jobs.items() if job.pending_best_effort},
        ),
        (
            "unadmitted jobs",
            cluster.queue_cache.unadmitted,
            {key: job for key, job in jobs.items() if job.phase in ("", PENDING)},
        ),
        ("nominated tasks", cluster.nominated, nominated),
        (
            "terminating nodes",
            cluster.node_cache.with_terminating_pods,
            {name: node for name, node in nodes.items() if node.terminating_pods},
        ),
    ):
        yield from _same(what, kept, counted)
    for key, job in cluster.queue_cache.dirty_jobs.items():
        if jobs.get(key) is not job:
            yield f"touched job {key} is not there"
    for key in cluster.queue_cache.moves.moved:
        if key not in jobs or jobs[key].phase not in ("", PENDING):
            yield f"job {key} came from another queue and is admitted, or is not there"
    for key, named in cluster.queue_cache.moves.kept.items():
        if key not in jobs or jobs[key].queue == named:
            yield f"job {key} is kept from queue {named} and is in it, or is not there"
    empty = [key for key, job in jobs.items() if not job.tasks and not job.spec.has_group]
    yield from _compare("jobs without PodGroup and pods", empty, [])


def _same(what: str, kept: Mapping[str, object], counted: Mapping[str, object]) -> Iterator[str]:
    yield from _compare(what, sorted(kept), sorted(counted))
    yield from (f"{what}: {key} is another one" for key in kept if key in counted and kept[key] is not counted[key])


def _compare(what: str, kept: object, counted: object) -> Iterator[str]:
    if kept != counted:
        yield f"{what}: kept {kept}, counted {counted}"
