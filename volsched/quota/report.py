"""What is reported of quotas: the usage of queues, and which jobs consume what a job waits for.

All of it is made from a plugin's own accounts when it is asked for, so people see what the scheduler believes. Where no
plugin has quotas, ``unlimited_usage`` has what queues hold.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeVar

import msgspec

from volsched.framework.quota_report import (
    QUOTA,
    Consumer,
    Dimension,
    JobUse,
    JobUses,
    PodUse,
    QueueUse,
    Suggestion,
    Usage,
)
from volsched.model import api
from volsched.model.cluster import Cluster
from volsched.model.errors import QuantityError
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo, levels
from volsched.model.status import IS_CHOSEN
from volsched.model.values.quantity import Unit, amount_of, format_amount, unit_of
from volsched.model.values.resources import CPU, MEMORY
from volsched.model.values.series import Numbers
from volsched.model.verdict import Scope, Step, Verdict
from volsched.quota.demand import QueueDemand, QueueDemands, reserved_by

_MILLI: Final = 1000
Found = TypeVar("Found", bound=api.ApiObject)

# --- usage ----------------------------------------------------------------------------------------------------------


def usage_by_resource(cluster: Cluster, dimensions: Callable[[QueueInfo], Mapping[str, Dimension]]) -> Usage:
    """Return the usage of all queues, each with the dimensions that a plugin gives it, and with its jobs."""
    jobs = jobs_by_queue(cluster)

    def of(name: str) -> QueueUse:
        uses = JobUses(lambda: map(_job_use, sorted(jobs.get(name, ()), key=lambda job: job.key)))
        return _queue(cluster.queues[name], dict(dimensions(cluster.queues[name])), uses)

    return Usage({name: of(name) for name in sorted(cluster.queues)})


def jobs_by_queue(cluster: Cluster) -> dict[str, list[JobInfo]]:
    """Return all jobs by their queue."""
    found: dict[str, list[JobInfo]] = {}
    for job in cluster.jobs.values():
        found.setdefault(job.queue, []).append(job)
    return found


def unlimited_usage(cluster: Cluster) -> Usage:
    """Return what queues hold and have reserved where no plugin states what they may hold."""
    demands = QueueDemands(cluster).queues()

    def dimensions(queue: QueueInfo) -> dict[str, Dimension]:
        reserved = demands.get(queue.name, QueueDemand()).reserved
        return {
            name: Dimension(used=queue.allocated.get(name, 0), reserved=reserved.get(name, 0))
            for name in sorted({*queue.allocated, *reserved})
        }

    return usage_by_resource(cluster, dimensions)


def left(quota: int, taken: int) -> int:
    """Return what is left of a quota: nothing when it is exceeded."""
    return max(0, quota - taken)


def _queue(queue: QueueInfo, dimensions: dict[str, Dimension], jobs: Sequence[JobUse]) -> QueueUse:
    cpu, memory = dimensions.pop(CPU, Dimension()), dimensions.pop(MEMORY, Dimension())
    return QueueUse(queue, cpu, memory, {}, {}, jobs, dict(sorted(dimensions.items())))


def _job_use(job: JobInfo) -> JobUse:
    """Return what a job uses and waits for."""
    pending: dict[str, int] = {}
    for task in job.waiting.values():
        for name, amount in task.template.request.items():
            pending[name] = pending.get(name, 0) + amount
    return JobUse(
        job.key,
        job.phase,
        dict(job.allocated),
        dict(reserved_by(job)),
        pending,
        pods_of(job, lambda task: PodUse(task.key, node_name(task))),
        len(job.waiting),
    )


def pods_of(job: JobInfo, use: Callable[[TaskInfo], PodUse]) -> tuple[PodUse, ...]:
    """Return the pods of a job that have a node, or room promised on one, by name."""
    placed = [task for task in job.tasks.values() if IS_CHOSEN[task.status]]
    return tuple(use(task) for task in sorted(placed, key=lambda task: task.key))


def node_name(task: TaskInfo) -> str:
    """Return the name of a task's node, empty without one."""
    return task.node.name if task.node is not None else ""


# --- metrics --------------------------------------------------------------------------------------------------------


class CachedNumbers:
    """The numbers of series by name. Made again when what they are made from is something else."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Hashable, Numbers]] = {}

    def get(self, series: str, state: Hashable, make: Callable[[], Numbers]) -> Numbers:
        """Return the same mapping as before while the state is the same."""
        known = self._made.get(series)
        if known is None or known[0] != state:
            known = self._made[series] = state, make()
        return known[1]


# --- consumers ------------------------------------------------------------------------------------------------------


def queues_below(cluster: Cluster, queue: str) -> list[str]:
    """Return a queue and all queues below it: those that share its limit over a hierarchy."""
    return [name for name in cluster.queues if queue in levels(cluster.queues, name)]


def sharing_limit(cluster: Cluster, job: JobInfo, refusal: Verdict, *, in_tree: bool) -> Sequence[str]:
    """Return the queues that share the limit that refused a job: that queue; in a tree those below it, too."""
    level = refusal.queue or job.queue
    return queues_below(cluster, level) if in_tree else [level]


def asked_of(job: JobInfo) -> dict[str, int]:
    """Return what a job's waiting pods ask for; of one without pods, its minimum."""
    asked: dict[str, int] = {}
    for task in job.waiting.values():
        for name, amount in task.template.request.items():
            asked[name] = asked.get(name, 0) + amount
    return asked if job.tasks or job.spec.min_resources is None else dict(job.spec.min_resources)


def held_of_quota(usage: Usage, queues: Iterable[str], job: JobInfo, refusal: Verdict) -> Iterator[Consumer]:
    """Yield the amounts that jobs of queues hold of a short resource, or else of what a job requests.

    What is reserved for admitted jobs counts where it keeps others from being admitted.
    """
    if refusal.scope is Scope.QUEUE:
        names = _short(refusal) or sorted(asked_of(job))
        for use in (usage.queues[name] for name in queues if name in usage.queues):
            yield from held_of_queue(use, names, reserved=refusal.step is Step.ENQUEUE)


def held_of_queue(use: QueueUse, names: Iterable[str], *, reserved: bool = False) -> Iterator[Consumer]:
    """Yield what the jobs of a queue hold of resources and cards; with what is ``reserved``, if that counts."""
    for name, job in product(names, use.jobs):
        kept = job.reserved.get(name, 0) if reserved else 0
        amount = job.held.get(name, 0) + kept
        if amount:
            text, part = (
                f"{n / _MILLI:g}" if name in use.cards else str(format_amount(name, n)) for n in (amount, kept)
            )
            yield Consumer(job.name, use.queue.name, name, amount, text, len(job.pods), part if kept else "")


def held_in_cluster(cluster: Cluster, refusal: Verdict) -> Iterator[Consumer]:
    """Yield what jobs of all queues hold, or have reserved as they were admitted, of that which is short."""
    for name, job in product(_short(refusal), cluster.jobs.values()):
        kept = reserved_by(job).get(name, 0)
        amount = job.allocated.get(name, 0) + kept
        if amount:
            text, part = (str(format_amount(name, number)) for number in (amount, kept))
            yield Consumer(job.key, job.queue, name, amount, text, job.placed_count, part if kept else "")


def _short(refusal: Verdict) -> list[str]:
    """Return what is short, each once: several plugins may lack the same."""
    return list(dict.fromkeys(item.resource for item in refusal.shortfalls))


# --- suggestions ----------------------------------------------------------------------------------------------------


def step_of(resource: str) -> int:
    """Return what counts as one more of a resource, in its unit: a core, a card, a GiB."""
    return 1 << 30 if unit_of(resource) is Unit.BYTE else amount_of(resource, 1)


def raises(queue: QueueInfo, field: str, resources: Iterable[str]) -> Iterator[Suggestion]:
    """Yield one remedy per resource: a field of the queue's spec grants more of the resource."""
    for resource in resources:
        yield _raise(queue.name, field, resource, step_of(resource))


def _raise(queue: str, field: str, resource: str, step: int) -> Suggestion:
    def changed(found: api.Queue, size: int) -> api.Queue:
        amounts: Mapping[str, Any] = getattr(found.spec, field)
        total = format_amount(resource, _counted(resource, amounts.get(resource, 0)) + size * step)
        return with_spec(found, **{field: {**amounts, resource: total}})

    def text(size: int, _: Sequence[str]) -> str:
        return f"{resource} of queue {queue} by {format_amount(resource, size * step)} (spec.{field})"

    return Suggestion(QUOTA, ((api.Queue, queue),), changed, text)


def _counted(resource: str, stated: Any) -> int:
    """Return an amount as quotas count it: what cannot be read, or is negative, counts as 0."""
    try:
        return max(0, amount_of(resource, stated))
    except QuantityError:
        return 0


def with_spec(queue: api.Queue, **fields: Any) -> api.Queue:
    """Return a Queue with another spec."""
    return msgspec.structs.replace(queue, spec=msgspec.structs.replace(queue.spec, **fields))


def with_annotation(found: Found, key: str, text: str) -> Found:
    """Return an object with an annotation."""
    annotations = {**found.metadata.annotations, key: text}
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, annotations=annotations))
