"""A pool of devices as one node sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from volsched.model.dra.device import Device, PoolId, Slice
from volsched.model.dra.devices import DeviceUsage


@dataclass(slots=True, eq=False)
class Pool:
    """A pool as one node sees it: `offers` are the devices that it may use, each with its slice, in order."""

    id: PoolId
    offers: tuple[tuple[Slice, Device], ...] = ()
    slices: tuple[Slice, ...] = ()
    """All slices of the generation that counts."""
    counter_sets: Mapping[str, Mapping[str, Fraction]] = field(default_factory=dict)
    incomplete: bool = False
    invalid: str = ""
    comes_last: bool = False
    """Whether its slices near the node have devices with binding conditions, usable from there or not."""
    is_local: bool = False
    """Whether it belongs to this node alone."""

    @property
    def is_usable(self) -> bool:
        """True if devices may be taken from it."""
        return not self.incomplete and not self.invalid

    def left(self, usage: DeviceUsage) -> dict[tuple[str, str], Fraction]:
        """Return the remaining value of each counter, without what allocated devices use."""
        left = {(name, counter): value for name, c in self.counter_sets.items() for counter, value in c.items()}
        taken = usage.pools.get(self.id)
        if not left or not taken:
            return left
        for part in self.slices:
            for device in part.devices:
                if device.counters and device.id in taken:
                    for name, counter, amount in device.counters:
                        if (name, counter) in left:
                            left[name, counter] -= amount
        return left
