"""The arguments of capacity-dra."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from volsched.plugin import Argument

ENABLED: Final = "dynamicResourceAllocationEnable"
DIMENSIONS: Final = "draConsumableCapacityEnable"
STRICT: Final = "draStrictCapacity"
UNLISTED: Final = "capacity-dra.unlistedClasses"
VOLCANO_ENABLED: Final = "capacity.DynamicResourceAllocationEnable"
VOLCANO_DIMENSIONS: Final = "capacity.DRAConsumableCapacityEnable"
ADMIN: Final = "chargeAdminAccess"

SCHEMA: Final = (
    Argument(ENABLED, "bool", True, "Whether quotas of devices are enforced at all."),
    Argument(DIMENSIONS, "bool", True, "Whether sums of consumable capacity count besides numbers of devices."),
    Argument(STRICT, "bool", False, "Refuse a request for a dimension that the quota of its class does not name."),
    Argument(UNLISTED, "str", "allow", "Classes that a quota does not name.", choices=("allow", "deny")),
    Argument(ADMIN, "bool", False, "Devices with adminAccess count too."),
    Argument(VOLCANO_ENABLED, "bool", True, f"Volcano's name for {ENABLED}; either switches off."),
    Argument(VOLCANO_DIMENSIONS, "bool", True, f"Volcano's name for {DIMENSIONS}; either switches off."),
)


@dataclass(frozen=True, slots=True)
class CapacityDRAArguments:
    """What the plugin was configured with; see ``SCHEMA``."""

    enabled: bool = True
    dimensions: bool = True
    strict: bool = False
    denies_unlisted: bool = False
    with_admin: bool = False

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> CapacityDRAArguments:
        """Read checked arguments; each of Volcano's names switches off what ours does."""
        return cls(
            arguments[ENABLED] and arguments[VOLCANO_ENABLED],
            arguments[DIMENSIONS] and arguments[VOLCANO_DIMENSIONS],
            arguments[STRICT],
            arguments[UNLISTED] == "deny",
            arguments[ADMIN],
        )
