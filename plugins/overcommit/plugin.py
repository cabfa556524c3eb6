"""overcommit: admit a PodGroup while what was admitted and does not hold room yet fits beside what is used.

The rule, for each resource that the PodGroup's minResources name (Volcano's plugin of that name)::

    admitted + minimum <= total * factor - used

``total`` and ``used`` are sums over nodes; ``admitted`` sums the minResources of Inqueue PodGroups, and of Running ones
what they do not hold yet. The factor is taken as the decimal that was written, so that the comparison is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

from volsched.framework.arguments import Argument
from volsched.framework.callbacks import PERMIT, Ballot, Vote
from volsched.framework.session import Session
from volsched.model.cluster import Cluster, Observer
from volsched.model.job import INQUEUE, RUNNING, JobInfo
from volsched.model.node import NodeInfo
from volsched.model.resources import Resources
from volsched.model.status import IS_ALLOCATED, TaskStatus
from volsched.model.task import TaskInfo
from volsched.model.verdict import Scope, Shortfall, Step, Verdict

FACTOR = "overcommit-factor"
DEFAULT_FACTOR = 1.2


class OvercommitPlugin:
    """Votes on admission and remembers what was admitted."""

    name: ClassVar[str] = "overcommit"
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (
        Argument(
            FACTOR,
            "float",
            DEFAULT_FACTOR,
            "How many times the cluster's amounts may be admitted; below 1 counts as 1.2.",
        ),
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        factor = arguments[FACTOR]
        self.factor = Fraction(str(factor if factor >= 1 else DEFAULT_FACTOR))

    def on_session_open(self, session: Session) -> None:
        """Register the vote and the notification."""
        admitted = session.account("overcommit", Admitted)
        admitted.catch_up()
        ledger = _Ledger(session.cluster, admitted, self.factor)
        session.add_job_enqueueable_fn(self.name, ledger.vote)


class Admitted(Observer):
    """What admitted jobs may still take, kept job by job as they change."""

    def __init__(self, cluster: Cluster) -> None:
        self.total: dict[str, int] = {}
        self._of: dict[str, Mapping[str, int]] = {}
        self._changed: dict[str, JobInfo] = dict(cluster.jobs)

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """See ``Observer``."""
        if task.job is not None:
            self._changed[task.job.key] = task.job

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """See ``Observer``."""
        if gone:
            self._changed.pop(job.key, None)
            self._set(job.key, Resources.EMPTY)
        else:
            self._changed[job.key] = job

    def catch_up(self) -> None:
        """Count the jobs that changed anew."""
        for job in self._changed.values():
            self._set(job.key, reserved_by(job))
        self._changed.clear()

    def _set(self, key: str, amounts: Mapping[str, int]) -> None:
        for name, amount in self._of.pop(key, {}).items():
            self.total[name] -= amount
        if amounts:
            self._of[key] = amounts
            for name, amount in amounts.items():
                self.total[name] = self.total.get(name, 0) + amount


def reserved_by(job: JobInfo) -> Resources:
    """What an admitted job may still take of its minimum, its gated pods left out."""
    least = job.min_resources
    if least is None or not job.has_group:
        return Resources.EMPTY
    if job.phase == RUNNING and job.ready_count >= job.min_available:
        held = Resources.EMPTY
        for task in job.tasks.values():
            if IS_ALLOCATED[task.status]:
                held = held.plus(task.template.request)
        least = least.minus(held)
    elif job.phase != INQUEUE:
        return Resources.EMPTY
    for task in job.waiting.values():
        if task.gated:
            least = least.minus(task.template.request)
    return least


class _Ledger:
    """The vote of one session."""

    def __init__(self, cluster: Cluster, admitted: Admitted, factor: Fraction) -> None:
        self._cluster = cluster
        self._admitted = admitted
        self._factor = factor

    def vote(self, job: JobInfo) -> Ballot:
        self._admitted.catch_up()
        least = job.min_resources
        if least is None:
            return PERMIT
        short = [s for name, amount in sorted(least.items()) if (s := self._shortfall(name, amount)) is not None]
        return Ballot(Vote.REJECT, _overused(tuple(short))) if short else PERMIT

    def _shortfall(self, name: str, amount: int) -> Shortfall | None:
        cluster = self._cluster
        column = cluster.columns.find(name)
        known = column is not None and column < len(cluster.totals)
        total = cluster.totals[column] if known and column is not None else 0
        used = cluster.total_used[column] if known and column is not None else 0
        limit = int(total * self._factor)
        taken = used + self._admitted.total.get(name, 0)
        return None if taken + amount <= limit else Shortfall(name, amount, taken, limit)


def _overused(short: tuple[Shortfall, ...]) -> Verdict:
    names = ", ".join(f"overused {s.resource}" for s in short)
    figures = "; ".join(
        f"{h['resource']}: requested {h['requested']}, used and admitted {h['used']}, limit {h['limit']}"
        for h in (s.human() for s in short)
    )
    message = f"resource in cluster is overused: {names} ({figures})"
    return Verdict(Step.ENQUEUE, "overcommit", Scope.JOB, "Unschedulable", message, short)
