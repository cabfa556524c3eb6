"""capacity-dra: no queue holds more devices of a DeviceClass, or of their capacity, than its quota.

Decoupled from the allocation of devices: it only counts. It stands alone, beside ``proportion`` or beside
``capacity-card``, with accounts of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from plugins.capacity_dra.arguments import SCHEMA, CapacityDRAArguments
from plugins.capacity_dra.device_quotas import DeviceQuotaRules
from plugins.capacity_dra.refusals import NAME
from plugins.capacity_dra.report import DeviceReport
from volsched.model.annotations import LAST_APPLIED
from volsched.model.dra.announced import ANNOTATION
from volsched.plugin import Argument, Registrar

DEVICE_KINDS: Final = ("DeviceClass", "ResourceSlice", "ResourceClaimTemplate", "ResourceClaim")
"""What the accounts are made from besides nodes, queues, PodGroups and pods."""


class CapacityDRAPlugin:
    """Registers the rules of capacity-dra. Their accounts persist between sessions."""

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
            rules = registrar.account(f"{NAME}.quotas", lambda cluster: DeviceQuotaRules(cluster, self._arguments))
            registrar.account(f"{NAME}.ledger", lambda _: rules.usage)
            registrar.account(f"{NAME}.reserved", lambda _: rules.reservations)
            report = registrar.account(f"{NAME}.report", lambda cluster: DeviceReport(cluster, rules))
            rules.open(registrar.session, above=registrar.checks_ancestors)
            registrar.register(*rules.rules(), report.rule())
