"""The layout and the state of a node's devices. Nodes that agree in both serve claims alike.

A search for devices reads of a node how its devices are made, what of their attributes its selectors read, and which of
them are taken. It does not read their names. So the outcome of a search holds for every node with the same *layout* and
*state*, the devices being told by their places.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import repeat
from typing import Final

from volsched.framework.dra.pool import Pool
from volsched.framework.dra.reads import Read, kind_of
from volsched.model.dra.device import Device, DeviceId, Slice
from volsched.model.dra.devices import DeviceUsage

EVERYTHING: Final = None
"""Stands for all attributes: a selector may read any of them."""

Reads = tuple[Read, ...] | None


class Numbers:
    """Small numbers that stand for values: equal values have one. More than ``most`` begin a new numbering."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[Hashable, int] = {}
        self._next = 1

    def of(self, value: Hashable) -> int:
        """Return the number of a value. A number is never given to another one."""
        found = self._known.get(value)
        if found is None:
            if len(self._known) >= self._most:
                self._known.clear()
            found = self._known[value] = self._next
            self._next += 1
        return found


_BUILDS: Final = Numbers(1 << 14)
_LAYOUTS: Final = Numbers(1 << 14)
_STATES: Final = Numbers(1 << 16)


class NodePools:
    """The pools of one node in order, and the devices that they offer, each with its pool and slice."""

    __slots__ = ("_changes", "_layouts", "_places", "_seen", "_state", "offers", "pools", "spec", "version")

    def __init__(self, pools: list[Pool], version: int, spec: object) -> None:
        self.pools = pools
        self.version = version
        self.spec = spec
        self.offers: list[tuple[Pool, Slice, Device]] = [
            (pool, part, device) for pool in pools if pool.is_usable for part, device in pool.offers
        ]
        self._layouts: dict[Reads, int] = {}
        self._places: list[dict[DeviceId, int]] = [_places_in(pool) for pool in pools]
        self._changes = -1
        self._seen: list[int] | None = None
        self._state = 0

    def has(self, pools: Sequence[Pool]) -> bool:
        """Return whether these very pools are those of the node."""
        return len(pools) == len(self.pools) and all(a is b for a, b in zip(pools, self.pools, strict=True))

    def layout(self, reads: Reads) -> int:
        """Return the number of how the devices are made, as far as selectors read it; 0 if a pool cannot be used."""
        found = self._layouts.get(reads)
        if found is None:
            if not all(pool.is_usable for pool in self.pools):
                found = 0
            else:
                found = _LAYOUTS.of((reads, tuple(_layout_of(pool, reads) for pool in self.pools)))
            self._layouts[reads] = found
        return found

    def state(self, usage: DeviceUsage) -> int:
        """Return the number of what is taken of the devices."""
        if self._changes != usage.changes:
            self._changes = usage.changes
            versions = usage.versions
            seen = [versions.get(pool.id, 0) for pool in self.pools]
            if seen != self._seen:
                self._seen = seen
                self._state = _STATES.of(tuple(map(_state_of, self.pools, self._places, repeat(usage))))
        return self._state


def _places_in(pool: Pool) -> dict[DeviceId, int]:
    devices = (device for part in pool.slices for device in part.devices) if pool.is_local else ()
    return {device.id: place for place, device in enumerate(devices)}


def _state_of(pool: Pool, places: dict[DeviceId, int], usage: DeviceUsage) -> Hashable:
    """Return which devices of a pool are taken; of one that several nodes share, when that changed last."""
    if not pool.is_local:
        return pool.id, usage.versions.get(pool.id, 0)
    known = [device for device in usage.pools.get(pool.id, ()) if device in places]
    if usage.shares.keys().isdisjoint(known):
        return frozenset([places[device] for device in known])
    taken = frozenset([places[device] for device in known if device in usage.taken])
    shares = [
        (places[device], *((name, v.numerator, v.denominator) for name, v in sorted(usage.consumed[device].items())))
        for device in known
        if device in usage.shares
    ]
    return taken, *sorted(shares)


def _layout_of(pool: Pool, reads: Reads) -> Hashable:
    """Return how the devices of a pool are made; one that several nodes share is like no other."""
    offered = {id(device) for _, device in pool.offers}
    every = [device for part in pool.slices for device in part.devices]
    devices = [(_build_of(device), _kind_of(device, reads), id(device) in offered) for device in every]
    sets = tuple((name, tuple(sorted(counters.items()))) for name, counters in sorted(pool.counter_sets.items()))
    return tuple(devices), sets, None if pool.is_local else pool.id


def _build_of(device: Device) -> int:
    """Return the number of all that the search reads of a device beside its name and its attributes."""
    if not device.build:
        device.build = _BUILDS.of((tuple(device.capacity.items()), device.counters, device.taints))
    return device.build


def _kind_of(device: Device, reads: Reads) -> Hashable:
    """Return what selectors and constraints read of a device."""
    if reads is not EVERYTHING:
        return kind_of(device, reads)
    every = ((name, type(value).__name__, value) for name, value in device.attributes.items())
    return (device.id.driver, device.shareable, *sorted(every, key=lambda item: item[:2]))
