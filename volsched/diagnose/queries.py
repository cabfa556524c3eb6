"""Queries about a finished run: waiting jobs, and usage of queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from volsched.diagnose.records import Figures, QueueState, WaitingJob
from volsched.diagnose.workload_names import workload_of
from volsched.framework.quota_report import Dimension, QueueUse, Usage
from volsched.model.job import JobInfo
from volsched.model.values.quantity import format_amount
from volsched.model.verdict import Verdict
from volsched.quota.report import asked_of, unlimited_usage
from volsched.simulation.result import Looked, waiting_refusal

_MILLI: Final = 1000
_NUMBERED: Final = 1e8
"""The earliest real creation time: the mirror numbers objects without one far below it."""


def jobs_in_order(simulation: Looked, queue: str | None = None) -> dict[str, list[JobInfo]]:
    """Return the jobs that wait, by queue, in the order in which the actions try them; with ``queue`` of it alone."""
    found: dict[str, list[JobInfo]] = {}
    for job in simulation.mirror.cluster.jobs.values():
        if queue in (None, job.queue) and is_waiting(job):
            found.setdefault(job.queue, []).append(job)
    session = simulation.session
    for jobs in found.values():
        jobs.sort(key=session.rules.job_key if session is not None else lambda job: (job.created, job.uid))
    return found


def is_waiting(job: JobInfo) -> bool:
    """True if a job has pods of ours without a node, or waits for its admission."""
    waits = any(task.spec.is_managed for task in job.waiting.values())
    return waits or (job.spec.has_group and not job.tasks and job.phase in ("", "Pending", "Inqueue"))


def waiting_jobs(simulation: Looked) -> tuple[WaitingJob, ...]:
    """Return every job that waits, by queue and position."""
    ordered = jobs_in_order(simulation)
    return tuple(
        waiting_job(simulation, job, place) for _, jobs in sorted(ordered.items()) for place, job in enumerate(jobs, 1)
    )


def waiting_job(simulation: Looked, job: JobInfo, position: int) -> WaitingJob:
    """Return the data of a waiting job."""
    verdict = refusal_of_job(simulation, job)
    return WaitingJob(
        job.name,
        job.namespace,
        job.queue,
        verdict.step.value,
        verdict.reason,
        verdict.message,
        since(job),
        position,
        len(job.waiting),
        quantities(asked_of(job)),
        *workload_of(job),
    )


def refusal_of_job(simulation: Looked, job: JobInfo) -> Verdict:
    """Return the reason of most pods of a job; that others of the gang wait counts last."""
    verdicts = [waiting_refusal(simulation, task) for task in job.waiting.values() if task.spec.is_managed]
    if not verdicts:
        return waiting_refusal(simulation, job)
    counted = Counter(verdicts)
    return max(counted, key=lambda verdict: (verdict.step.value != "gang", counted[verdict], verdict.message))


def since(job: JobInfo) -> float | None:
    """Return since when a job waits: the oldest of its pods, else its PodGroup, was made then."""
    made = min((task.created for task in job.waiting.values()), default=job.created)
    return made if made > _NUMBERED else None


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts by resource as quantities, without zeros, by name."""
    return {name: str(format_amount(name, amount)) for name, amount in sorted(amounts.items()) if amount}


# --- queues ---------------------------------------------------------------------------------------------------------


def usage_of(simulation: Looked) -> Usage:
    """Return what queues hold as the quota plugins in force count it, else by resource."""
    session = simulation.session
    usages = session.reported(lambda report: report.usage) if session is not None else []
    if usages:
        return usages[0]()
    return unlimited_usage(simulation.mirror.cluster)


def queue_tree(simulation: Looked) -> tuple[QueueState, ...]:
    """Return all queues by name, each with its parent."""
    waiting = jobs_in_order(simulation)
    return tuple(
        queue_state(use, len(jobs), sum(len(job.waiting) for job in jobs))
        for name, use in usage_of(simulation).queues.items()
        for jobs in [waiting.get(name, [])]
    )


def queue_state(use: QueueUse, waiting_jobs: int, waiting_pods: int) -> QueueState:
    """Return what there is to show of a queue in which so many jobs and pods wait."""
    queue = use.queue
    return QueueState(
        queue.name, queue.spec.parent, queue.spec.reported_state or "Open", figures_of(use), waiting_jobs, waiting_pods
    )


def figures_of(use: QueueUse) -> tuple[Figures, ...]:
    """Return what there is to show of a queue, cards first."""
    cards = set(use.cards)
    return tuple(
        _figures(name, dimension, is_card=name in cards) for name, dimension in use.dimensions if is_shown(dimension)
    )


def is_shown(dimension: Dimension) -> bool:
    """Return whether a dimension has anything to show. A quota of 0 is something."""
    return not dimension.is_empty or dimension.quota is not None


def _figures(name: str, of: Dimension, *, is_card: bool) -> Figures:
    def text(amount: int | None) -> str | None:
        return None if amount is None else amount_text(name, amount, is_card=is_card)

    used, reserved = amount_text(name, of.used, is_card=is_card), amount_text(name, of.reserved, is_card=is_card)
    return Figures(name, used, reserved, text(of.quota), text(of.headroom), text(of.deserved), text(of.guarantee))


def amount_text(name: str, amount: int, *, is_card: bool) -> str:
    """Return an amount of a resource for people: cards as whole numbers or fractions, others as quantities."""
    return f"{amount / _MILLI:g}" if is_card else str(format_amount(name, amount))


def held_by(jobs: Iterable[JobInfo], resource: str) -> list[tuple[JobInfo, int]]:
    """Return the jobs that hold a resource and how much, the largest first."""
    found = [(job, job.allocated[resource]) for job in jobs if job.allocated.get(resource)]
    return sorted(found, key=lambda one: (-one[1], one[0].key))
