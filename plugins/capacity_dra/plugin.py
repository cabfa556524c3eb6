"""capacity-dra: no queue holds more devices of a DeviceClass, or of their capacity, than its quota.

Decoupled from the allocation of devices: it only counts. It stands alone, beside ``proportion`` or beside
``capacity-card``, with accounts of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from plugins.capacity_dra.arguments import SCHEMA, CapacityDRAArguments
from plugins.capacity_dra.demands import DeviceDemands
from plugins.capacity_dra.ledger import ClaimLedger
from plugins.capacity_dra.limits import ClaimLimits
from plugins.capacity_dra.reclaim import DeviceReclaimView
from plugins.capacity_dra.refusals import NAME
from plugins.capacity_dra.report import DeviceReport
from plugins.capacity_dra.reserved import Reservations
from plugins.capacity_dra.rules import DeviceQuotaRules
from volsched.model.annotations import LAST_APPLIED
from volsched.model.dra.announced import ANNOTATION
from volsched.plugin import Argument, Cluster, Registrar, Session, about_queue

BAD_QUOTA: Final = "InvalidDRAQuota"

DEVICE_KINDS: Final = ("DeviceClass", "ResourceSlice", "ResourceClaimTemplate", "ResourceClaim")
"""What the accounts are made from besides nodes, queues, PodGroups and pods."""


class CapacityDRAPlugin:
    """Registers the rules; what they read follows the cluster from one session to the next."""

    name: ClassVar[str] = NAME
    GROUP_ANNOTATIONS: ClassVar[tuple[str, ...]] = (ANNOTATION,)
    QUEUE_ANNOTATIONS: ClassVar[tuple[str, ...]] = (LAST_APPLIED,)
    COUNTED_FROM: ClassVar[tuple[str, ...]] = DEVICE_KINDS
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = SCHEMA

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = CapacityDRAArguments.of(arguments)

    def on_session_open(self, registrar: Registrar) -> None:
        """Register everything, and report what is wrong with queues."""
        if self._arguments.enabled:
            quotas = registrar.account(f"{NAME}.quotas", lambda cluster: Quotas(cluster, self._arguments))
            registrar.account(f"{NAME}.ledger", lambda _: quotas.ledger).catch_up()
            registrar.account(f"{NAME}.reserved", lambda _: quotas.reservations)
            quotas.open(registrar.session, above=registrar.checks_ancestors)
            registrar.register(*quotas.rules.rules(), quotas.report.rule())


class Quotas:
    """All that is kept from one session to the next."""

    def __init__(self, cluster: Cluster, arguments: CapacityDRAArguments) -> None:
        self.ledger = ClaimLedger(cluster, with_admin=arguments.with_admin)
        demands = DeviceDemands(cluster, self.ledger, with_admin=arguments.with_admin)
        self.limits = ClaimLimits(cluster, arguments)
        self.reservations = Reservations(cluster, self.ledger, demands)
        view = DeviceReclaimView(self.ledger, demands, self.limits)
        self.rules = DeviceQuotaRules(cluster, self.ledger, demands, self.reservations, self.limits, view)
        self.report = DeviceReport(cluster, self.ledger, demands, self.reservations, self.limits, view)

    def open(self, session: Session, *, above: bool) -> None:
        """Begin a session: whether queues above count, and what is wrong with queues."""
        self.rules.open(session)
        for queue, fault in self.limits.open(above=above):
            session.record_event(about_queue(queue, "Warning", BAD_QUOTA, fault))
