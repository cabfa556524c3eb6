"""capacity: every queue has what its spec states, without weights (Volcano's plugin of that name).

No queue holds more than its ``capability``, nor what others are guaranteed; one that deserves more of a resource than
it holds may reclaim from those above what they deserve, down to their guarantees. With ``enableHierarchy`` queues above
count as well, and work belongs into queues without any below them. Quotas of devices are counted by ``capacity-dra``,
which comes along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from plugins.capacity.reclaim import Reclaim
from plugins.capacity.refusals import NAME
from plugins.capacity.rules import CapacityRules
from plugins.capacity.standing import QueueDues
from volsched.plugin import (
    Allocatable,
    Argument,
    Due,
    JobEnqueueable,
    Preemptive,
    QueueOrder,
    Reclaimable,
    Registrar,
    Series,
    VictimQueueOrder,
)
from volsched.plugin.quota import (
    DEMANDS,
    DEMANDS_ABOVE,
    QUEUE_FAULTS,
    QueueDemands,
    QueueFaults,
    QueueUsageObserver,
)

ANCESTORS: Final = "ancestorReclaimLevel"

LIMIT: Final = Series(
    "volsched_queue_limit", "The most that the plugin capacity lets the queue hold", ("queue", "resource")
)
"""In cores, bytes and whole devices; what is not limited is left out."""


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
        rules, standing = self._rules(registrar)
        reclaim = Reclaim(standing, registrar.session.rules, self._ancestors)
        registrar.register(
            QueueOrder(rules.order),
            JobEnqueueable(rules.vote, always=True),
            Allocatable(headroom=rules.headroom),
            Preemptive(reclaim.may_take_room),
            Reclaimable(reclaim.victims),
            Due(reclaim.is_within, reclaim.victims_by_due),
            *(VictimQueueOrder(reclaim.closeness) for _ in range(registrar.checks_ancestors)),
            rules.report({LIMIT: lambda: standing.limits}),
        )

    def _rules(self, registrar: Registrar) -> tuple[CapacityRules, QueueDues]:
        """Return the rules, and where queues stand, as the cluster is now; tell what cannot be kept."""
        above = registrar.checks_ancestors
        held = registrar.account(f"{NAME}.held", lambda cluster: QueueUsageObserver(cluster, above=above))
        standing = registrar.account(f"{NAME}.standing", lambda cluster: QueueDues(cluster, held, hierarchical=above))
        name, make = (DEMANDS_ABOVE, QueueDemands.with_above) if above else (DEMANDS, QueueDemands)
        demand = registrar.account(name, make)
        held.catch_up()
        standing.catch_up()
        registrar.account(QUEUE_FAULTS, QueueFaults).tell(registrar.session, NAME, standing.faults())
        return CapacityRules(registrar.cluster, standing, demand), standing
