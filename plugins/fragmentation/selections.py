"""Which devices of all nodes a request selects, and how much of a card it takes of one.

Selectors in CEL are worked out once for all devices that agree in what they read. One that tells more kinds of devices
apart than ``MOST_KINDS``, as by serial numbers, counts as if it took any device: it says no more of models. So does,
until the next session, one for which no time is left in this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from plugins.fragmentation.claims import ALL, Wanted
from plugins.fragmentation.device_cards import Card, DeviceCards, is_kept_off, percent_of_card, scarcest
from volsched.framework.dra import capacity
from volsched.plugin import MOST_KEPT, Bounded, Cluster, Mask, Rows
from volsched.plugin.cards import WHOLE, PartRequest
from volsched.plugin.devices import Capacity, Device, OverBudgetError, Read, Selectors, kind_of, reads_of

MOST_KINDS: Final = 256
_MOST_READS: Final = 64
_MOST_SORTS: Final = 1_024
"""The most sorts of devices that are kept, former ones included, before all devices are read again."""


class Selection(NamedTuple):
    """What a request selects: the rows whose nodes have such devices, and what it takes of cards.

    ``one`` is what it takes of one device, of several sizes the largest; None where no device is selected. ``every`` is
    what all of the node take of which that is most.
    """

    rows: Mask
    one: PartRequest | None = None
    every: tuple[PartRequest, ...] = ()

    def taken(self, count: int) -> tuple[PartRequest, ...]:
        """Return what so many devices take of cards."""
        if count == ALL or self.one is None:
            return self.every
        return (PartRequest(count * self.one.cards, self.one.percent),)


class _DeviceSort(NamedTuple):
    """All of a device that decides how much of a card a request takes of it.

    It is ``percent`` of each of ``cards``; where many may share it, it is as much as of its capacities.
    """

    is_shared: bool
    cards: int
    percent: int
    capacity: tuple[tuple[str, Capacity], ...]

    def taken(self, device: Device, wanted: Wanted) -> PartRequest:
        """Return what a request takes of a device; 0 percent of one that is too small."""
        amounts = capacity.consumed(device, wanted.capacity)
        if amounts is None:
            return PartRequest(self.cards, 0)
        if not self.is_shared:
            return PartRequest(self.cards, self.percent)
        return PartRequest(self.cards, _percent(scarcest(device, amounts) * self.percent / WHOLE))


class _NodeDevices(NamedTuple):
    """The devices of a node that pods may have, and the numbers of their sorts, as they were read from its cards."""

    cards: tuple[Card, ...]
    devices: list[Device]
    sorts: list[int]


class _DeviceKinds:
    """Devices that agree in what some expressions read, by number. ``examples`` has a device of each number."""

    def __init__(self, reads: tuple[Read, ...]) -> None:
        self._reads = reads
        self._numbers: dict[Hashable, int] = {}
        self._of_device: dict[Device, int] = {}
        self.examples: list[Device] = []
        self.numbers: Rows = np.zeros(0, dtype=np.intp)
        """Of each device, in the order in which they were given."""

    def follow(self, devices: Sequence[Device]) -> None:
        """Number these devices, those that are known as they were."""
        if len(self.examples) > MOST_KINDS:
            self._numbers, self._of_device, self.examples = {}, {}, []
        known = self._of_device
        self._of_device = {d: known[d] if d in known else self._number(d) for d in devices}
        self.numbers = np.fromiter(self._of_device.values(), np.intp, len(devices))

    def _number(self, device: Device) -> int:
        number = self._numbers.setdefault(kind_of(device, self._reads), len(self._numbers))
        if number == len(self.examples):
            self.examples.append(device)
        return number


class Selections:
    """What requests select, read once each while the same devices are there.

    ``version`` changes when answers may be others.
    """

    def __init__(self, cluster: Cluster, cards: DeviceCards) -> None:
        self._cluster = cluster
        self._cards = cards
        self._selectors = Selectors()
        self._seen: object = None
        self._devices: list[Device] = []
        self._rows: Rows = np.zeros(0, dtype=np.intp)
        self._of_node: dict[str, _NodeDevices] = {}
        self._sorts: dict[_DeviceSort, int] = {}
        self._examples: list[Device] = []
        self._sort_numbers: Rows = np.zeros(0, dtype=np.intp)
        self._by_reads: Bounded[tuple[Read, ...], _DeviceKinds] = Bounded(_MOST_READS)
        self._numbered: set[tuple[Read, ...]] = set()
        self._known: Bounded[Wanted, Selection] = Bounded(MOST_KEPT)
        self._is_postponed = False
        self.version = 0

    def begin(self, clock: Callable[[], float]) -> None:
        """Begin a session, of which ``clock`` gives the seconds; what the one before left open is asked again."""
        self._selectors.begin(clock)
        self._cards.begin()
        if self._is_postponed:
            self._seen = None
        self.refresh()

    def refresh(self) -> None:
        """Catch up with devices and nodes."""
        self._cards.refresh()
        seen = (self._cards.version, self._cluster.generations.layout)
        if seen != self._seen:
            self._seen = seen
            self._is_postponed = False
            self._known.clear()
            self._rebuild_device_arrays()
            self._numbered.clear()
            self.version += 1

    def of(self, wanted: Wanted) -> Selection:
        """Return what a request selects."""
        found = self._known.recall(wanted)
        if found is None:
            found = self._read(wanted)
            if not wanted.is_long:
                self._known[wanted] = found
        return found

    # -- devices ------------------------------------------------------------------------------------------------------

    def _rebuild_device_arrays(self) -> None:
        """Make the arrays of devices by node again."""
        if len(self._sorts) > _MOST_SORTS:
            self._sorts, self._examples, self._of_node = {}, [], {}
        rows, known = self._cluster.rows if self._cards.is_any else [], self._of_node
        self._of_node = {node.name: self._devices_of(node.name, known.get(node.name)) for node in rows}
        found = self._of_node.values()
        self._devices = [device for node in found for device in node.devices]
        self._sort_numbers = np.array([sort for node in found for sort in node.sorts], dtype=np.intp)
        self._rows = np.repeat(np.arange(len(rows)), [len(node.devices) for node in found])

    def _devices_of(self, node: str, known: _NodeDevices | None) -> _NodeDevices:
        cards = self._cards.cards_of(node)
        if known is not None and known.cards is cards:
            return known
        shares: dict[Device, list[Fraction]] = {}
        for card in cards:
            for device, share in card.parts:
                if not is_kept_off(device):
                    shares.setdefault(device, []).append(share)
        sorts = [self._sort_of(device, parts) for device, parts in shares.items()]
        return _NodeDevices(cards, list(shares), sorts)

    def _sort_of(self, device: Device, shares: list[Fraction]) -> int:
        number = self._sorts.setdefault(_read_sort(device, shares), len(self._sorts))
        if number == len(self._examples):
            self._examples.append(device)
        return number

    def _read(self, wanted: Wanted) -> Selection:
        takes = [sort.taken(example, wanted) for sort, example in zip(self._sorts, self._examples, strict=True)]
        will_do = np.array([part.percent > 0 for part in takes], dtype=np.bool_)
        selected: Mask = will_do[self._sort_numbers]
        for expression in wanted.selectors:
            selected = selected & self._selected(expression)
        if not selected.any():
            return Selection(np.zeros(len(self._cluster.rows), dtype=np.bool_))
        amounts = np.array([part.cards * part.percent for part in takes], dtype=np.int64)
        by_row = np.zeros(len(self._cluster.rows), dtype=np.int64)
        np.add.at(by_row, self._rows[selected], amounts[self._sort_numbers[selected]])
        of_richest = Counter(self._sort_numbers[selected & (self._rows == by_row.argmax())].tolist())
        every = tuple(PartRequest(n * takes[sort].cards, takes[sort].percent) for sort, n in sorted(of_richest.items()))
        largest = max(set(self._sort_numbers[selected].tolist()), key=lambda sort: takes[sort][::-1])
        return Selection(by_row > 0, takes[largest], every)

    # -- selectors ----------------------------------------------------------------------------------------------------

    def _selected(self, expression: str) -> Mask:
        """Mark the devices that an expression selects. All where it says more than can be looked at."""
        examples, numbers = self._distinguished(expression)
        if len(examples) > MOST_KINDS:
            return np.ones(len(self._devices), dtype=np.bool_)
        try:
            answers = [self._selectors.select(expression, device) is True for device in examples]
        except OverBudgetError:
            self._is_postponed = True
            return np.ones(len(self._devices), dtype=np.bool_)
        found: Mask = np.array(answers, dtype=np.bool_)[numbers]
        return found

    def _distinguished(self, expression: str) -> tuple[Sequence[Device], Rows]:
        """Return a device of each kind that an expression tells apart, and the number of each device's kind."""
        reads = reads_of(expression)
        if reads is None:
            return self._devices, np.arange(len(self._devices))
        kinds = self._kinds(reads)
        return kinds.examples, kinds.numbers

    def _kinds(self, reads: tuple[Read, ...]) -> _DeviceKinds:
        """Return the devices by what an expression reads."""
        found = self._by_reads.recall(reads)
        if found is None:
            found = self._by_reads[reads] = _DeviceKinds(reads)
        if reads not in self._numbered:
            self._numbered.add(reads)
            found.follow(self._devices)
        return found


def _read_sort(device: Device, shares: list[Fraction]) -> _DeviceSort:
    percent = _percent(max(shares)) if device.counters else percent_of_card(device)
    is_shared = device.shareable and not device.counters
    return _DeviceSort(is_shared, len(shares), percent, tuple(sorted(device.capacity.items(), key=_name)))


def _percent(part: Fraction) -> int:
    """Return a part of a card in percent, rounded down as what is free is, but never to nothing."""
    return max(1, int(WHOLE * part)) if part else 0


def _name(item: tuple[str, Capacity]) -> str:
    return item[0]
