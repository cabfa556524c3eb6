"""proportion: queues share the cluster by weight (Volcano's plugin of that name).

Admission compares with the queue's limit, placing with its deserved share. A queue that holds its deserved share of all
resources gets nothing more. Pods of a queue above its deserved share may be reclaimed. Pod slots are shared out like
any resource: they count for the order of queues and for reclaim, but do not refuse pods (as in Volcano).

With ``enableHierarchy`` the cluster is divided from the root of the queues' tree down (``quotas``).

With ``usage.halfLife`` queues are ordered by their past usage, divided by their weight. Deserved shares stay as they
are, and so does reclaim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from plugins.proportion.quotas import NAME, ProportionQuotas
from volsched.plugin import (
    Allocatable,
    Argument,
    JobEnqueueable,
    Overused,
    Preemptive,
    Reclaimable,
    Registrar,
    Series,
    WithinDeserved,
)
from volsched.plugin.quota import (
    HALF_LIFE_ARGUMENT,
    QueueTree,
    QueueUsageObserver,
    check_half_life,
    demands_of,
    half_life_of,
    nearest_first,
    order_queues,
    report_faults,
)

FAIR_SHARE = Series(
    "volsched_queue_fair_share", "What the plugin proportion says that the queue deserves", ("queue", "resource")
)
"""In cores, bytes and whole devices."""

LEAVE_DESERVED: Final = "reclaimLeavesDeserved"


class ProportionPlugin:
    """Registers the figures of one session."""

    name: ClassVar[str] = NAME
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (
        Argument(
            LEAVE_DESERVED,
            "bool",
            False,
            "Whether `reclaim` takes no pod whose queue would then hold less than it deserves of what the pod holds; "
            "otherwise the last one taken may bring it below, as with Volcano.",
        ),
        HALF_LIFE_ARGUMENT,
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._leaves_deserved = bool(arguments[LEAVE_DESERVED])
        self._half_life = half_life_of(arguments)

    def on_session_open(self, registrar: Registrar) -> None:
        """Divide the cluster, and register."""
        quotas = self._quotas(registrar)
        quotas.refresh()
        past_use = (lambda _: quotas.past_use(self._half_life)) if self._half_life else None
        order_queues(registrar, NAME, past_use, quotas.queue_order(), quotas.past_order)
        registrar.register(
            Reclaimable(quotas.reclaimable),
            WithinDeserved(quotas.is_within, quotas.victims_by_share),
            Overused(quotas.overused),
            Allocatable(headroom=quotas.headroom, is_share=True),
            Preemptive(quotas.may_preempt),
            JobEnqueueable(quotas.vote, always=registrar.checks_ancestors),
            quotas.report({FAIR_SHARE: lambda: quotas.fair_shares}),
        )

    def _quotas(self, registrar: Registrar) -> ProportionQuotas:
        """Return the quotas, over the tree of queues if the switch states so. Tell what is wrong with the tree."""
        above = registrar.checks_ancestors
        places = registrar.account(f"{NAME}.places", QueueTree) if above else None
        usage = registrar.account(
            f"{NAME}.held", lambda cluster: QueueUsageObserver(cluster, above=above, ungated=above)
        )
        demand, leaves_deserved = demands_of(registrar, above=above), self._leaves_deserved
        quotas = registrar.account(
            f"{NAME}.quotas",
            lambda cluster: ProportionQuotas(cluster, usage, demand, places, leaves_deserved=leaves_deserved),
        )
        if places is not None:
            report_faults(registrar, NAME, places.tree.faults())
            registrar.register(nearest_first(quotas.levels))
        return quotas


check_arguments = check_half_life
