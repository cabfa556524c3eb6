"""The jobs that hold devices, claim by claim, for ``explain``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from volsched.framework.dra.accounts import DeviceAccounts
from volsched.framework.dra.amounts import Amount, Amounts
from volsched.framework.dra.charges import named_as
from volsched.framework.quota_report import Consumer
from volsched.model.cluster import Cluster

NO_LIMITS: Final[Amounts] = MappingProxyType({})


def device_holdings(
    cluster: Cluster,
    accounts: DeviceAccounts,
    queues: Iterable[str],
    keys: Collection[str],
    limits: Amounts = NO_LIMITS,
) -> Iterator[Consumer]:
    """Yield the amounts that jobs of queues hold, for these keys, under the names of limits.

    Each claim counts once for a job.
    """
    within = set(queues)
    for job in sorted(cluster.jobs.values(), key=lambda job: job.key):
        claims = accounts.held_by(job) if job.queue in within else ()
        pods = sum(task.uid in accounts.pod_charges for task in job.tasks.values()) if claims else 0
        for key, amount in sorted(_total(map(accounts.charge, claims), limits).items()):
            if key.key in keys and amount:
                yield Consumer(job.key, job.queue, key.key, amount, key.quantity(amount), pods)


def _total(found: Iterable[Amounts], limits: Amounts) -> dict[Amount, Fraction]:
    total: dict[Amount, Fraction] = {}
    for amounts in found:
        for key, amount in amounts.items():
            name = named_as(key, limits)
            total[name] = total.get(name, Fraction(0)) + amount
    return total
