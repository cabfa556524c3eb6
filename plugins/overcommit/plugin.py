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

from volsched.framework.accounts.queue_demand import ACCOUNT, QueueDemands
from volsched.framework.callbacks import PERMIT, Ballot, Vote
from volsched.framework.config.arguments import Argument
from volsched.framework.registration import Registrar
from volsched.framework.rules import JobEnqueueable
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
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

    def on_session_open(self, registrar: Registrar) -> None:
        """Register the vote."""
        demand = registrar.account(ACCOUNT, QueueDemands)
        registrar.register(JobEnqueueable(_OvercommitVote(registrar.cluster, demand, self.factor).vote))


class _OvercommitVote:
    """The vote of one session."""

    def __init__(self, cluster: Cluster, demand: QueueDemands, factor: Fraction) -> None:
        self._cluster = cluster
        self._demand = demand
        self._factor = factor

    def vote(self, job: JobInfo) -> Ballot:
        least = job.min_resources
        if least is None:
            return PERMIT
        short = [s for name, amount in sorted(least.items()) if (s := self._shortfall(name, amount)) is not None]
        return Ballot(Vote.REJECT, _overused(tuple(short))) if short else PERMIT

    def _shortfall(self, name: str, amount: int) -> Shortfall | None:
        cluster = self._cluster
        if cluster.is_left_to_devices(name):
            return None
        column = cluster.columns.find(name)
        known = column is not None and column < len(cluster.node_ledger.totals)
        total = cluster.node_ledger.totals[column] if known and column is not None else 0
        used = cluster.node_ledger.total_used[column] if known and column is not None else 0
        limit = int(total * self._factor)
        taken = used + self._demand.reserved().get(name, 0)
        return None if taken + amount <= limit else Shortfall(name, amount, taken, limit)


def _overused(short: tuple[Shortfall, ...]) -> Verdict:
    names = ", ".join(f"overused {s.resource}" for s in short)
    figures = "; ".join(
        f"{h['resource']}: requested {h['requested']}, used and admitted {h['used']}, limit {h['limit']}"
        for h in (s.human() for s in short)
    )
    message = f"resource in cluster is overused: {names} ({figures})"
    return Verdict(Step.ENQUEUE, "overcommit", Scope.JOB, "Unschedulable", message, short)
