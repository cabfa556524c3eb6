"""capacity: every queue has what its spec states, without weights (Volcano's plugin of that name).

No queue holds more than its ``capability``, nor what others are guaranteed; one that deserves more of a resource than
it holds may reclaim from those above what they deserve, down to their guarantees. With ``enableHierarchy`` queues above
count as well, and work belongs into queues without any below them. Quotas of devices are counted by ``capacity-dra``,
which comes along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from plugins.capacity.quotas import NAME, CapacityQuotas
from plugins.capacity.reclaim import Reclaim
from volsched.plugin import (
    Allocatable,
    Argument,
    JobEnqueueable,
    Preemptive,
    QueueOrder,
    Reclaimable,
    Registrar,
    Series,
    WithinDeserved,
)
from volsched.plugin.quota import QueueUsageObserver, demands_of, nearest_first, report_faults

ANCESTORS: Final = "ancestorReclaimLevel"

LIMIT: Final = Series(
    "volsched_queue_limit", "The most that the plugin capacity lets the queue hold", ("queue", "resource")
)
"""In cores, bytes and whole devices. What is not limited is left out."""


class CapacityPlugin:
    """Registers the rules; what they read follows the cluster from one session to the next."""

    name: ClassVar[str] = NAME
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (
        Argument(
            ANCESTORS,
            "int",
            0,
            "Over a hierarchy, how many queues above a queue count when one reclaims from another.",
            minimum=0,
            lenient=True,
        ),
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._ancestors = arguments[ANCESTORS]

    def on_session_open(self, registrar: Registrar) -> None:
        """Register, and tell what queues state that cannot be kept."""
        quotas = self._quotas(registrar)
        reclaim = Reclaim(quotas, registrar.session.rules, self._ancestors)
        registrar.register(
            QueueOrder(quotas.order),
            JobEnqueueable(quotas.vote, always=True),
            Allocatable(headroom=quotas.headroom),
            Preemptive(reclaim.may_take_room),
            Reclaimable(reclaim.victims),
            WithinDeserved(reclaim.is_within, reclaim.victims_by_share),
            *(nearest_first(quotas.levels) for _ in range(registrar.checks_ancestors)),
            quotas.report({LIMIT: lambda: quotas.limits}),
        )

    def _quotas(self, registrar: Registrar) -> CapacityQuotas:
        """Return the quotas as the cluster is now. Tell what cannot be kept."""
        above = registrar.checks_ancestors
        usage = registrar.account(f"{NAME}.held", lambda cluster: QueueUsageObserver(cluster, above=above))
        demand = demands_of(registrar, above=above)
        quotas = registrar.account(
            f"{NAME}.quotas", lambda cluster: CapacityQuotas(cluster, usage, demand, hierarchical=above)
        )
        quotas.refresh()
        report_faults(registrar, NAME, quotas.faults())
        return quotas
