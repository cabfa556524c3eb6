"""The cards of nodes that are devices, as drivers announce them in ResourceSlices, and what is free of each.

A card is a device, or what the devices of one counter set share (KEP 4815): of that a device is the mean of what it
takes of each counter. A device is a whole card, or ``n``/7 of one where its attribute ``profile`` is that of a MIG
slice. Of one that many may share (KEP 5075) is taken what is taken of the scarcest of its capacities; without any it is
never used up, and no card. Devices count that only one node can use, without a taint that keeps pods off, of pools that
are complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from plugins.fragmentation.cluster_cards import MILLI
from volsched.plugin import Cluster, NodeInfo, Rows
from volsched.plugin.cards import WHOLE
from volsched.plugin.devices import BLOCKING, Device, DeviceUsage, PoolId, Slice, pool_for

Ints = npt.NDArray[np.int64]
State = tuple[int, ...]
"""The percent that is free of each card of a node, ascending."""

NO_CARDS: Final[State] = ()
PER_PERCENT: Final = MILLI // WHOLE
"""Thousandths of a card."""
_MIG: Final = re.compile(r"([1-7])g\..+", re.ASCII)
_SLICES: Final = 7
_PRODUCTS: Final = ("productName", "model")
_MOST_STATES: Final = 20_000


class Card(NamedTuple):
    """A card: its devices, each with its share of it, and how much of a whole card it is, in percent."""

    parts: tuple[tuple[Device, Fraction], ...]
    percent: int = WHOLE

    def percent_free(self, usage: DeviceUsage) -> int:
        """Return how much of it is free, in percent of a whole card, rounded down."""
        if len(self.parts) == 1 and not self.parts[0][0].shareable:
            return 0 if self.parts[0][0].id in usage.taken else self.percent
        left = Fraction(1) - sum((share * _held(device, usage) for device, share in self.parts), Fraction(0))
        return int(self.percent * max(Fraction(0), left))


def _held(device: Device, usage: DeviceUsage) -> Fraction:
    """Return which part of a device is held; all of one that takes counters, however many share it."""
    if device.id in usage.taken or (device.counters and device.id in usage.shares):
        return Fraction(1)
    return scarcest(device, usage.consumed.get(device.id, {}))


def scarcest(device: Device, taken: Mapping[str, Fraction]) -> Fraction:
    """Return what some amounts are of a device, by the capacity of which they are most; 0 without any capacity."""
    parts = (amount / whole for name, amount in taken.items() if (whole := _value(device, name)) > 0)
    return max(parts, default=Fraction(0))


def _value(device: Device, name: str) -> Fraction:
    capacity = device.capacity.get(name)
    return capacity.value if capacity is not None else Fraction(0)


def percent_of_card(device: Device) -> int:
    """Return how much of a whole card a device is that takes no counters, in percent, rounded down."""
    slices = _MIG.fullmatch(_attribute(device, ("profile",)))
    return WHOLE * int(slices[1]) // _SLICES if slices else WHOLE


def product_of(device: Device) -> str:
    """Return the model of a device, as its driver tells it; empty when it does not."""
    return _attribute(device, _PRODUCTS)


def _attribute(device: Device, names: Sequence[str]) -> str:
    """Return the first of some attributes of the driver's own that is a text."""
    keys = (key for name in names for key in (name, f"{device.id.driver}/{name}"))
    return next((found for key in keys if isinstance(found := device.attributes.get(key), str)), "")


def is_kept_off(device: Device) -> bool:
    """True if a device has a taint that keeps pods off."""
    return any(taint.effect in BLOCKING for taint in device.taints)


def shares_of_sets(device: Device, sets: Mapping[str, Mapping[str, Fraction]]) -> dict[str, Fraction]:
    """Return a device's share of each counter set: the mean of what it takes of each counter there."""
    shares: dict[str, Fraction] = {}
    for name, counter, amount in device.counters:
        counters = [value for value in sets.get(name, {}).values() if value > 0]
        whole = sets.get(name, {}).get(counter, Fraction(0))
        if whole > 0:
            shares[name] = shares.get(name, Fraction(0)) + amount / whole / len(counters)
    return shares


class _ReadPool(NamedTuple):
    """A pool as it was read: at which version, and its cards by the node that has them."""

    version: int
    cards: Mapping[str, tuple[Card, ...]]


class DeviceCards:
    """The cards of all nodes that are devices of some drivers. Ask ``refresh`` before reading.

    ``version`` changes when other devices are there, not with what is free of them. The numbers of states hold while a
    session lasts.
    """

    def __init__(self, cluster: Cluster, drivers: Iterable[str]) -> None:
        self._cluster = cluster
        self._drivers = frozenset(drivers)
        self._position = -1
        self._layout = -1
        self._pools: dict[PoolId, _ReadPool] = {}
        self._by_pool: dict[str, dict[PoolId, tuple[Card, ...]]] = {}
        self._cards: dict[str, tuple[Card, ...]] = {}
        self._totals: dict[str, int] = {}
        self._numbers: dict[State, int] = {NO_CARDS: 0}
        self._state_of: dict[str, int] = {}
        self.states: list[State] = [NO_CARDS]
        """The states that nodes have been in, by their numbers."""
        self.numbers: Rows = np.zeros(0, dtype=np.intp)
        """The number of each row's state."""
        self.free: Ints = np.zeros(0, dtype=np.int64)
        """What is free of cards by row, in thousandths."""
        self.version = 0

    @property
    def is_any(self) -> bool:
        """True if any node has cards that are devices."""
        return bool(self._cards)

    # -- reading ------------------------------------------------------------------------------------------------------

    def cards_of(self, node: str) -> tuple[Card, ...]:
        """Return the cards of a node: the same object while the node has the same ones."""
        return self._cards.get(node, ())

    def state(self, node: NodeInfo) -> State:
        """Return what is free of each card of a node."""
        return self.states[self._state_of.get(node.name, 0)]

    def total(self, node: str) -> int:
        """Return the thousandths of a card that a node has."""
        return self._totals.get(node, 0)

    # -- following ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a session: number states anew if there have been too many."""
        if len(self.states) > _MOST_STATES:
            self._numbers, self.states, self._state_of = {NO_CARDS: 0}, [NO_CARDS], {}
            for name in self._cards:
                self._count(name)
            self._layout = -1
            self.version += 1

    def refresh(self) -> None:
        """Catch up with slices, with who has which devices, and with nodes."""
        log = self._cluster.devices.pool_log
        if self._position != log.end:
            changed = log.since(self._position) if self._position >= 0 else None
            self._position = log.end
            self._follow({**self._pools, **dict.fromkeys(self._cluster.devices.pools)} if changed is None else changed)
        if self._layout != self._cluster.generations.layout:
            self._layout = self._cluster.generations.layout
            numbers = [self._state_of.get(node.name, 0) for node in self._cluster.rows]
            self.numbers = np.array(numbers, dtype=np.intp)
            self.free = np.array([free_in(self.states[number]) for number in numbers], dtype=np.int64)

    def _follow(self, pools: Iterable[PoolId]) -> None:
        stale: dict[str, None] = {}
        for pool in pools:
            if pool.driver in self._drivers:
                stale.update(dict.fromkeys(self._look_at(pool)))
        for name in stale:
            self._count(name)

    def _look_at(self, pool: PoolId) -> Iterable[str]:
        """Read a pool again if its slices are others. Return the nodes that have cards of it, or had."""
        version, known = self._cluster.devices.pool_version(pool), self._pools.get(pool)
        if known is not None and known.version == version:
            return known.cards
        before: Mapping[str, tuple[Card, ...]] = known.cards if known is not None else {}
        now = _cards_by_node(pool, list(self._cluster.devices.slices_of(pool)))
        if now:
            self._pools[pool] = _ReadPool(version, now)
        else:
            self._pools.pop(pool, None)
        concerned = {**before, **now}
        for name in concerned:
            self._put(name, pool, now.get(name))
        self.version += bool(concerned)
        return concerned

    def _put(self, name: str, pool: PoolId, cards: tuple[Card, ...] | None) -> None:
        """Let a node have these cards of a pool, or none."""
        pools = self._by_pool.setdefault(name, {})
        if cards is None:
            pools.pop(pool, None)
        else:
            pools[pool] = cards
        self._cards[name] = tuple(card for found in pools.values() for card in found)
        self._totals[name] = PER_PERCENT * sum(card.percent for card in self._cards[name])
        if not pools:
            for kept in (self._by_pool, self._cards, self._totals):
                kept.pop(name)

    def _count(self, name: str) -> None:
        usage = self._cluster.devices.usage
        state = tuple(sorted(card.percent_free(usage) for card in self.cards_of(name)))
        number = self._numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
        if number:
            self._state_of[name] = number
        else:
            self._state_of.pop(name, None)
        node = self._cluster.nodes.get(name)
        if node is not None and self._layout == self._cluster.generations.layout:
            self.numbers[node.row], self.free[node.row] = number, free_in(state)


def free_in(state: State) -> int:
    """Return what is free of cards, in thousandths."""
    return PER_PERCENT * sum(state)


def _cards_by_node(pool: PoolId, slices: Sequence[Slice]) -> dict[str, tuple[Card, ...]]:
    """Return the cards of a pool by node; none of one that is incomplete or invalid."""
    places = [device.place or part.place for part in slices for device in part.devices]
    found: dict[str, tuple[Card, ...]] = {}
    for name in sorted({place.node for place in places if place is not None and place.node}):
        seen = pool_for(pool, slices, name, {})
        if seen is None or not seen.is_usable:
            continue
        own = [device for part, device in seen.offers if (place := device.place or part.place) and place.node == name]
        if cards := tuple(_cards(own, seen.counter_sets)):
            found[name] = cards
    return found


def _cards(devices: Iterable[Device], sets: Mapping[str, Mapping[str, Fraction]]) -> Iterator[Card]:
    """Yield the cards that devices make, those that share counters last."""
    of_sets: dict[str, list[tuple[Device, Fraction]]] = {}
    for device in devices:
        if not device.counters:
            if not is_kept_off(device) and (device.capacity or not device.shareable):
                yield Card(((device, Fraction(1)),), percent_of_card(device))
            continue
        for name, share in shares_of_sets(device, sets).items():
            of_sets.setdefault(name, []).append((device, share))
    for parts in of_sets.values():
        if not all(is_kept_off(device) for device, _ in parts):
            yield Card(tuple(parts))
