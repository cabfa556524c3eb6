"""The pools of devices that a node may use: only the highest generation counts, and only when it is whole.

A pool is *incomplete* while it has fewer or more slices than they state, and *invalid* when its slices contradict
themselves or state something that is not understood. No device is taken from either. A claim for all devices
waits, as it is not known which devices these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from volsched.framework.dra.pool import Pool
from volsched.framework.dra.states import NodePools
from volsched.model.dra.device import Device, PoolId, Slice
from volsched.model.dra.devices import Devices
from volsched.model.nodes.node import NodeInfo


class Pools:
    """The pools of each node, kept until slices or the node's labels change."""

    KEPT = 65_536

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._kept: dict[tuple[str, PoolId], tuple[int, object, Pool | None]] = {}
        self._of_nodes: dict[str, NodePools] = {}
        self._broken: dict[PoolId, None] = {}
        """Pools of single nodes with shared counters that cannot be used: all nodes are told of these."""
        self._slices_seen = -1
        self._position = 0

    def of(self, node: NodeInfo) -> NodePools:
        """Return a node's pools."""
        known, version = self._of_nodes.get(node.name), self._devices.slices_version
        if known is not None and known.version == version and known.spec is node.spec:
            return known
        pools = self._seen_from(node.name, node.labels, node.spec)
        if known is not None and known.spec is node.spec and known.has(pools):
            known.version = version
            return known
        if len(self._of_nodes) >= self.KEPT:
            self._of_nodes.clear()
        found = self._of_nodes[node.name] = NodePools(pools, version, node.spec)
        return found

    def seen_from(self, name: str, labels: Mapping[str, str]) -> list[Pool]:
        """Return in order the pools of the node of this name and with these labels."""
        return self._seen_from(name, labels, None)

    def _seen_from(self, name: str, labels: Mapping[str, str], spec: object) -> list[Pool]:
        self._look_for_broken()
        near = self._devices.pools_near(name)
        if self._broken:
            near = sorted({*near, *self._broken})
        return in_order(self._pool(pool, name, labels, spec) for pool in near)

    def _look_for_broken(self) -> None:
        """Look again at pools with shared counters whose slices changed."""
        devices, log = self._devices, self._devices.pool_log
        if self._slices_seen == devices.slices_version:
            return
        changed = log.since(self._position) if self._slices_seen >= 0 else None
        self._slices_seen, self._position = devices.slices_version, log.end
        if changed is None:
            self._broken.clear()
        for name in devices.counting if changed is None else changed:
            self._broken.pop(name, None)
            if name in devices.counting:
                seen = pool_for(name, devices.slices_of(name), "", {})
                if seen is not None and not seen.is_usable:
                    self._broken[name] = None

    def _pool(self, name: PoolId, node: str, labels: Mapping[str, str], spec: object) -> Pool | None:
        version = self._devices.pool_version(name)
        known = self._kept.get((node, name))
        if known is not None and spec is not None and known[0] == version and known[1] is spec:
            return known[2]
        if len(self._kept) >= self.KEPT:
            self._kept.clear()
        pool = pool_for(name, self._devices.slices_of(name), node, labels)
        self._kept[node, name] = version, spec, pool
        return pool


def in_order(pools: Iterable[Pool | None]) -> list[Pool]:
    """Return the pools that there are as they are searched: those with devices that have binding conditions last."""
    return sorted((pool for pool in pools if pool is not None), key=lambda pool: pool.comes_last)


def pool_for(name: PoolId, slices: Iterable[Slice], node: str, labels: Mapping[str, str]) -> Pool | None:
    """Return a pool as the node of this name and with these labels sees it, or None when it has nothing there."""
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
    is_local = all(part.only_node == node for part in slices)
    return Pool(name, tuple(offers), tuple(slices), _counter_sets(slices), comes_last=comes_last, is_local=is_local)


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
