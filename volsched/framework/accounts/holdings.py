"""Who holds what a job waits for, as the plugin counts it that refused the job.

It is the part ``consumers`` of a plugin's ``Report``. Plugins with quotas of queues answer by their ``Usage``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from volsched.framework.accounts.queue_demand import reserved_by
from volsched.framework.accounts.quota_report import QueueUse, Usage
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.queues.queue import levels
from volsched.model.values.quantity import format_amount
from volsched.model.verdict import Scope, Step, Verdict

_MILLI = 1000


class Holding(NamedTuple):
    """What one job holds of one thing. ``amount`` orders holdings of that thing, ``text`` is what people read.

    ``reserved`` is how much of it is kept for the job, which was admitted and does not hold it yet; empty for nothing.
    """

    job: str
    queue: str
    resource: str
    amount: int | Fraction
    text: str
    pods: int
    reserved: str = ""


def queues_below(cluster: Cluster, queue: str) -> list[str]:
    """Return a queue and all queues below it: those that share its limit over a hierarchy."""
    return [name for name in cluster.queues if queue in levels(cluster.queues, name)]


def asked_of(job: JobInfo) -> dict[str, int]:
    """Return what a job's waiting pods ask for; of one without pods, its minimum."""
    asked: dict[str, int] = {}
    for task in job.waiting.values():
        for name, amount in task.template.request.items():
            asked[name] = asked.get(name, 0) + amount
    return asked if job.tasks or job.spec.min_resources is None else dict(job.spec.min_resources)


def held_of_quota(usage: Usage, queues: Iterable[str], job: JobInfo, refusal: Verdict) -> Iterator[Holding]:
    """Yield what jobs of queues hold of that of which a queue has too little, or else of what a job asks for.

    What is reserved for admitted jobs counts where it keeps others from being admitted.
    """
    if refusal.scope is Scope.QUEUE:
        names = _short(refusal) or sorted(asked_of(job))
        for use in (usage.queues[name] for name in queues if name in usage.queues):
            yield from held_of_queue(use, names, reserved=refusal.step is Step.ENQUEUE)


def held_of_queue(use: QueueUse, names: Iterable[str], *, reserved: bool = False) -> Iterator[Holding]:
    """Yield what the jobs of a queue hold of resources and cards; with what is ``reserved``, if that counts."""
    for name, job in product(names, use.jobs):
        kept = job.reserved.get(name, 0) if reserved else 0
        amount = job.held.get(name, 0) + kept
        if amount:
            text, part = (
                f"{n / _MILLI:g}" if name in use.cards else str(format_amount(name, n)) for n in (amount, kept)
            )
            yield Holding(job.name, use.queue.name, name, amount, text, len(job.pods), part if kept else "")


def held_in_cluster(cluster: Cluster, refusal: Verdict) -> Iterator[Holding]:
    """Yield what jobs of all queues hold, or have reserved as they were admitted, of that which is short."""
    for name, job in product(_short(refusal), cluster.jobs.values()):
        kept = reserved_by(job).get(name, 0)
        amount = job.allocated.get(name, 0) + kept
        if amount:
            text, part = (str(format_amount(name, number)) for number in (amount, kept))
            yield Holding(job.key, job.queue, name, amount, text, job.placed_count, part if kept else "")


def _short(refusal: Verdict) -> list[str]:
    """Return what is short, each once: several plugins may lack the same."""
    return list(dict.fromkeys(item.resource for item in refusal.shortfalls))
