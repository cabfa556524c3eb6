"""The pools of devices that a node may use: only the highest generation counts, and only when it is whole.

A pool is *incomplete* while it has fewer or more slices than they state, and *invalid* when its slices contradict
themselves or state something that is not understood. No device is taken from either; whoever asks for all devices has
to wait, as nobody can tell what all would be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from volsched.model.dra.device import Device, PoolId, Slice
from volsched.model.dra.devices import Devices, DeviceUsage
from volsched.model.nodes.node import NodeInfo


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

    @property
    def is_usable(self) -> bool:
        """True if devices may be taken from it."""
        return not self.incomplete and not self.invalid

    def left(self, usage: DeviceUsage) -> dict[tuple[str, str], Fraction]:
        """Return what is left of each counter when all allocated devices of the pool have theirs."""
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


class Pools:
    """The pools of each node, kept until their slices or the node's labels change."""

    KEPT = 65_536

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._kept: dict[tuple[str, PoolId], tuple[int, object, Pool | None]] = {}

    def of(self, node: NodeInfo) -> list[Pool]:
        """Return a node's pools in order."""
        return in_order(self._pool(name, node) for name in self._devices.pools_near(node.name))

    def _pool(self, name: PoolId, node: NodeInfo) -> Pool | None:
        version = self._devices.pool_version(name)
        known = self._kept.get((node.name, name))
        if known is not None and known[0] == version and known[1] is node.spec:
            return known[2]
        if len(self._kept) >= self.KEPT:
            self._kept.clear()
        pool = pool_for(name, self._devices.slices_of(name), node.name, node.labels)
        self._kept[node.name, name] = version, node.spec, pool
        return pool


def in_order(pools: Iterable[Pool | None]) -> list[Pool]:
    """Return the pools that there are as they are searched: those with devices that have binding conditions last."""
    return sorted((pool for pool in pools if pool is not None), key=lambda pool: pool.comes_last)


def pool_for(name: PoolId, slices: Iterable[Slice], node: str, labels: Mapping[str, str]) -> Pool | None:
    """Return a pool as the node of this name and with these labels sees it; None when it has nothing there."""
    slices = sorted(slices, key=lambda part: part.name)
    newest = max(part.generation for part in slices)
    slices = [part for part in slices if part.generation == newest]
    near = [part for part in slices if part.reaches(node, labels)]
    if not near:
        return None
    if len(slices) != near[0].size:
        return Pool(name, incomplete=True)
    fault = _fault(slices, near)
    if fault:
        return Pool(name, invalid=fault)
    offers = [
        (part, device)
        for part in near
        for device in part.devices
        if (device.place or part.place) is not None and _reaches(part, device, node, labels)
    ]
    comes_last = any(device.conditions for part in near for device in part.devices)
    return Pool(name, tuple(offers), tuple(slices), _counter_sets(slices), comes_last=comes_last)


def _reaches(part: Slice, device: Device, node: str, labels: Mapping[str, str]) -> bool:
    place = part.place if part.place is not None else device.place
    return place is not None and place.reaches(node, labels)


def _counter_sets(slices: Iterable[Slice]) -> dict[str, Mapping[str, Fraction]]:
    return {name: counters for part in slices for name, counters in part.counter_sets.items()}


def _fault(slices: list[Slice], near: list[Slice]) -> str:
    """Return what is wrong with a pool. Names of devices are only compared among the slices that the node needs."""
    for part in slices:
        if part.fault:
            return part.fault
    names = [device.id.device for part in near for device in part.devices]
    if len(set(names)) < len(names):
        return f'duplicate device name "{_repeated(names)}"'
    sets = [name for part in slices for name in (*part.counter_sets, *part.repeated_sets)]
    if len(set(sets)) < len(sets):
        return f'duplicate counter set name "{_repeated(sets)}"'
    declared = _counter_sets(slices)
    for part in slices:
        for device in part.devices:
            for name, counter, _ in device.counters:
                if name not in declared:
                    return f'device "{device.id.device}" consumes from counter set "{name}", which the pool lacks'
                if counter and counter not in declared[name]:
                    return f'device "{device.id.device}" consumes counter "{counter}", which set "{name}" lacks'
    return ""


def _repeated(names: list[str]) -> str:
    return next(name for place, name in enumerate(names) if name in names[:place])
