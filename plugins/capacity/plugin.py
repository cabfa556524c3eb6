"""capacity: every queue has what its spec says, without weights (Volcano's plugin of that name).

No queue holds more than its ``capability``, nor what others are guaranteed; one that deserves more of a resource than
it holds may reclaim from those above what they deserve, down to their guarantees. With ``enableHierarchy`` queues above
count as well, and work belongs into queues without any below them. Quotas of devices are minded by ``capacity-dra``,
which comes along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from plugins.capacity.reclaim import Reclaim
from plugins.capacity.refusals import NAME, NO_PLACE
from plugins.capacity.rules import Rules
from plugins.capacity.standing import Standing
from volsched.framework.accounts.queue_demand import ACCOUNT, ACCOUNT_ABOVE, QueueDemands
from volsched.framework.accounts.queue_usage import QueueUsage
from volsched.framework.accounts.quota_report import usage_by_resource
from volsched.framework.config.arguments import Argument
from volsched.framework.reporter import about_queue
from volsched.framework.session import Session
from volsched.model.values.series import Series

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

    def on_session_open(self, session: Session) -> None:
        """Register, and tell what queues say that cannot be kept."""
        above = session.minds_ancestors
        held = session.account(f"{NAME}.held", lambda cluster: QueueUsage(cluster, above=above))
        standing = session.account(f"{NAME}.standing", lambda cluster: Standing(cluster, held, hierarchical=above))
        demand = (
            session.account(ACCOUNT_ABOVE, QueueDemands.with_above) if above else session.account(ACCOUNT, QueueDemands)
        )
        told = session.account(f"{NAME}.told", lambda _: Told())
        held.catch_up()
        standing.catch_up()
        told.tell(session, standing)
        rules = Rules(session.cluster, standing, demand)
        reclaim = Reclaim(standing, session.in_order_of_victims, self._ancestors, session.elastic.reclaims_for)
        session.add_queue_order_fn(NAME, rules.order)
        session.add_job_enqueueable_fn(NAME, rules.vote, always=True)
        session.add_allocatable_fn(NAME, rules.refusal, rules.leeway)
        session.add_run_fn(NAME, rules.longest_run)
        session.add_preemptive_fn(NAME, reclaim.may_take_room)
        session.add_reclaimable_fn(NAME, reclaim.victims)
        if above:
            session.add_victim_queue_order_fn(NAME, reclaim.closeness)
        session.add_series_fn(NAME, LIMIT, lambda: standing.limits)
        session.add_queue_usage_fn(NAME, lambda: usage_by_resource(session.cluster, rules.dimensions))


class Told:
    """What was said of queues by now, so that it is said once."""

    def __init__(self) -> None:
        self._told: Mapping[str, tuple[str, ...]] = {}

    def tell(self, session: Session, standing: Standing) -> None:
        """Tell of queues without a place in the hierarchy, and of amounts that contradict each other."""
        lost = {name: (f"{why}; it takes no work",) for name, why in standing.lost.items()}
        said = {name: (*lost.get(name, ()), *standing.doubts.get(name, ())) for name in {**lost, **standing.doubts}}
        for name, faults in said.items():
            for fault in faults if faults != self._told.get(name) else ():
                session.tell(about_queue(session.cluster.queues[name], "Warning", NO_PLACE, fault))
        self._told = said
