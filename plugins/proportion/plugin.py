"""proportion: queues share the cluster by weight (Volcano's plugin of that name).

Admission compares with what a queue may have, placing with what it deserves; a queue that holds its due on all
resources gets nothing more, and one above its due may be reclaimed from. Pod slots are shared out like any resource:
they count for the order of queues and for who is above its due, and refuse nobody (as in Volcano).

With ``enableHierarchy`` the cluster is divided from the root of the queues' tree down (``hierarchy``).

With ``usage.halfLife`` queues are ordered by what they held over time, over their weight. What each deserves, and so
who may take or reclaim, stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from plugins.proportion.fair_shares import NAME, FairShares, LastShares
from plugins.proportion.hierarchy import HierarchicalShares, share_out_in
from volsched.plugin import (
    Allocatable,
    Argument,
    Due,
    EventHandler,
    JobEnqueueable,
    Overused,
    Preemptive,
    Reclaimable,
    Registrar,
    Report,
    Series,
    VictimQueueOrder,
    never,
)
from volsched.plugin.quota import (
    DEMANDS,
    DEMANDS_ABOVE,
    HALF_LIFE_ARGUMENT,
    QUEUE_FAULTS,
    QueueDemands,
    QueueFaults,
    QueueTree,
    QueueUsageObserver,
    check_half_life,
    half_life_of,
    order_over_time,
)

FAIR_SHARE = Series(
    "volsched_queue_fair_share", "What the plugin proportion says that the queue deserves", ("queue", "resource")
)
"""In cores, bytes and whole devices."""

LEAVE_DUE: Final = "reclaimLeavesDeserved"


class ProportionPlugin:
    """Registers the figures of one session."""

    name: ClassVar[str] = NAME
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (
        Argument(
            LEAVE_DUE,
            "bool",
            False,
            "Whether `reclaim` takes no pod whose queue would then hold less than it deserves of what the pod holds; "
            "otherwise the last one taken may bring it below, as with Volcano.",
        ),
        HALF_LIFE_ARGUMENT,
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._leaves_due = bool(arguments[LEAVE_DUE])
        self._half_life = half_life_of(arguments)

    def on_session_open(self, registrar: Registrar) -> None:
        """Share the cluster out, and register."""
        above = registrar.checks_ancestors
        shares, last = self._in_a_tree(registrar) if above else self._side_by_side(registrar)
        self._order_queues(registrar, shares)
        registrar.register(
            Reclaimable(shares.reclaimable),
            Due(shares.is_within, shares.victims_by_due),
            Overused(shares.overused),
            Allocatable(headroom=shares.headroom, is_share=True),
            Preemptive(shares.may_preempt),
            JobEnqueueable(shares.vote, always=above),
            Report(
                metrics={FAIR_SHARE: last.fair_shares},
                usage=shares.usage,
                consumers=shares.holders,
                suggestions=shares.remedies,
            ),
        )

    def _side_by_side(self, registrar: Registrar) -> tuple[FairShares, LastShares]:
        last, demand = registrar.account(f"{NAME}.last", LastShares), registrar.account(DEMANDS, QueueDemands)
        shares = FairShares(registrar.cluster, demand, last, leaves_due=self._leaves_due)
        registrar.register(EventHandler(shares, for_each_pod=never))
        return shares, last

    def _in_a_tree(self, registrar: Registrar) -> tuple[FairShares, LastShares]:
        places = registrar.account(f"{NAME}.places", QueueTree)
        registrar.account(QUEUE_FAULTS, QueueFaults).tell(registrar.session, NAME, places.tree.faults())
        usage = registrar.account(f"{NAME}.held", lambda cluster: QueueUsageObserver(cluster, above=True))
        usage.catch_up()
        last = registrar.account(f"{NAME}.last", lambda cluster: LastShares(cluster, share_out_in(places)))
        demand = registrar.account(DEMANDS_ABOVE, QueueDemands.with_above)
        shares = HierarchicalShares(registrar.cluster, demand, last, usage, places, leaves_due=self._leaves_due)
        registrar.register(VictimQueueOrder(shares.closeness))
        return shares, last

    def _order_queues(self, registrar: Registrar, shares: FairShares) -> None:
        """Order queues by what they hold of their due, or by what they held over time."""
        if not self._half_life:
            registrar.register(shares.queue_order())
            return
        past = registrar.account(f"{NAME}.past", lambda _: shares.past_use(self._half_life))
        order_over_time(registrar, past, shares.past_order(past))


check_arguments = check_half_life
