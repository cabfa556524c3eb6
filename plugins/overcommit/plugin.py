"""overcommit: admit a PodGroup while what was admitted and does not hold room yet fits beside what is used.

The rule, for each resource that the PodGroup's minResources name (Volcano's plugin of that name)::

    admitted + minimum <= total * factor - used

The factor of a resource is its own, ``overcommit-factor.<resource>``, else the one for all. ``total`` and ``used`` are
sums over nodes; ``admitted`` sums the minResources of Inqueue PodGroups, and of Running ones what they do not hold yet.
Factors are taken as the decimals that were written, so that the comparison is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

from volsched.plugin import (
    PERMIT,
    Argument,
    Ballot,
    Cluster,
    JobEnqueueable,
    JobInfo,
    Registrar,
    Report,
    Scope,
    Shortfall,
    Step,
    Verdict,
    Vote,
)
from volsched.plugin.quota import DEMANDS, QueueDemands, held_in_cluster

FACTOR = "overcommit-factor"
OF_RESOURCE = f"{FACTOR}."
DEFAULT_FACTOR = 1.2
_NO_QUEUE_FACTORS = "queues have no factors of their own"


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
        Argument(f"{OF_RESOURCE}*", "float", DEFAULT_FACTOR, "The same for one resource."),
        Argument(
            "max-queue-overcommit-factor",
            "float",
            DEFAULT_FACTOR,
            f"Taken from Volcano; {_NO_QUEUE_FACTORS}.",
            unused=_NO_QUEUE_FACTORS,
        ),
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.factor = _factor(arguments[FACTOR])
        self.factors = {
            key.removeprefix(OF_RESOURCE): _factor(factor)
            for key, factor in arguments.items()
            if key.startswith(OF_RESOURCE)
        }

    def factor_of(self, resource: str) -> Fraction:
        """Return how many times the cluster's amount of a resource may be admitted."""
        return self.factors.get(resource, self.factor)

    def on_session_open(self, registrar: Registrar) -> None:
        """Register the vote."""
        demand = registrar.account(DEMANDS, QueueDemands)
        cluster = registrar.cluster
        registrar.register(
            JobEnqueueable(_OvercommitVote(cluster, demand, self).vote),
            Report(consumers=lambda _, refusal: held_in_cluster(cluster, refusal)),
        )


class _OvercommitVote:
    """The vote of one session."""

    def __init__(self, cluster: Cluster, demand: QueueDemands, factors: OvercommitPlugin) -> None:
        self._cluster = cluster
        self._demand = demand
        self._factors = factors

    def vote(self, job: JobInfo) -> Ballot:
        least = job.spec.min_resources
        if least is None:
            return PERMIT
        short = [s for name, amount in sorted(least.items()) if (s := self._shortfall(name, amount)) is not None]
        return Ballot(Vote.REJECT, _overused(tuple(short))) if short else PERMIT

    def _shortfall(self, name: str, amount: int) -> Shortfall | None:
        cluster = self._cluster
        if cluster.is_left_to_devices(name):
            return None
        column = cluster.columns.find(name)
        known = column is not None and column < len(cluster.node_cache.totals)
        total = cluster.node_cache.totals[column] if known and column is not None else 0
        used = cluster.node_cache.total_used[column] if known and column is not None else 0
        limit = int(total * self._factors.factor_of(name))
        taken = used + self._demand.reserved().get(name, 0)
        return None if taken + amount <= limit else Shortfall(name, amount, taken, limit)


def _factor(given: float) -> Fraction:
    return Fraction(str(given if given >= 1 else DEFAULT_FACTOR))


def _overused(short: tuple[Shortfall, ...]) -> Verdict:
    names = ", ".join(f"overused {s.resource}" for s in short)
    figures = "; ".join(
        f"{h['resource']}: requested {h['requested']}, used and admitted {h['used']}, limit {h['limit']}"
        for h in (s.human() for s in short)
    )
    message = f"resource in cluster is overused: {names} ({figures})"
    return Verdict(Step.ENQUEUE, "overcommit", Scope.JOB, "Unschedulable", message, short)
