"""Which devices of all nodes a request means, and how much of a card it takes of one.

Selectors in CEL are worked out once for all devices that agree in what they read. One that tells more kinds of devices
apart than ``MOST_KINDS``, as by serial numbers, counts as if it took any device: it says no more of models. So does,
until the next session, one for which no time is left in this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from plugins.fragmentation.claims import ALL, Wanted
from plugins.fragmentation.device_cards import DeviceCards, part_of_card, scarcest
from volsched.framework.accounts.card_parts import WHOLE, PartRequest
from volsched.framework.accounts.templates import MOST_KEPT
from volsched.framework.columns.arrays import Mask, Rows
from volsched.framework.dra import capacity
from volsched.framework.dra.reads import Read, kind_of, reads_of
from volsched.framework.dra.selectors import OverBudgetError, Selectors
from volsched.model.cluster import Cluster
from volsched.model.dra.device import Capacity, Device
from volsched.model.values.bounded import Bounded

MOST_KINDS: Final = 256
_MOST_READS: Final = 64


class Meant(NamedTuple):
    """What a request means: the rows whose nodes have such devices, and what it takes of cards.

    ``one`` is what it takes of one device, of several sizes the largest; None where no device is meant. ``every`` is
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


class _DeviceKinds(NamedTuple):
    """Devices that agree in something, by number: of each device its number, and of each number a device."""

    numbers: Rows
    examples: list[Device]


class Meanings:
    """What requests mean, read once each while the same devices are there.

    ``version`` changes when answers may be others.
    """

    def __init__(self, cluster: Cluster, cards: DeviceCards) -> None:
        self._cluster = cluster
        self._cards = cards
        self._selectors = Selectors()
        self._seen: object = None
        self._devices: list[Device] = []
        self._rows: Rows = np.zeros(0, dtype=np.intp)
        self._sorts: list[_DeviceSort] = []
        self._by_sort = _DeviceKinds(self._rows, [])
        self._by_reads: Bounded[tuple[Read, ...], _DeviceKinds] = Bounded(_MOST_READS)
        self._known: Bounded[Wanted, Meant] = Bounded(MOST_KEPT)
        self._is_postponed = False
        self.version = 0

    def begin(self, clock: Callable[[], float]) -> None:
        """Begin a session, of which ``clock`` gives the seconds; what the one before left open is asked again."""
        self._selectors.begin(clock)
        if self._is_postponed:
            self._seen = None
        self.refresh()

    def refresh(self) -> None:
        """Catch up with devices and nodes."""
        self._cards.refresh()
        seen = (self._cards.version, self._cluster.clocks.layout)
        if seen != self._seen:
            self._seen = seen
            self._is_postponed = False
            self._known.clear()
            self._by_reads.clear()
            self._look_at_devices()
            self.version += 1

    def of(self, wanted: Wanted) -> Meant:
        """Return what a request means."""
        found = self._known.recall(wanted)
        if found is None:
            found = self._known[wanted] = self._read(wanted)
        return found

    # -- devices ------------------------------------------------------------------------------------------------------

    def _look_at_devices(self) -> None:
        rows: list[int] = []
        numbers: dict[Hashable, int] = {}
        sorts: list[int] = []
        examples: list[Device] = []
        self._devices, self._sorts = [], []
        for node in self._cluster.rows if self._cards.is_any else ():
            shares: dict[Device, list[Fraction]] = {}
            for _, device, share in self._cards.devices_of(node.name):
                shares.setdefault(device, []).append(share)
            for device, parts in shares.items():
                sort = _sort_of(device, parts)
                number = numbers.setdefault(sort, len(numbers))
                if number == len(examples):
                    examples.append(device)
                    self._sorts.append(sort)
                self._devices.append(device)
                rows.append(node.row)
                sorts.append(number)
        self._rows = np.array(rows, dtype=np.intp)
        self._by_sort = _DeviceKinds(np.array(sorts, dtype=np.intp), examples)

    def _read(self, wanted: Wanted) -> Meant:
        sorts = self._by_sort
        takes = [sort.taken(example, wanted) for sort, example in zip(self._sorts, sorts.examples, strict=True)]
        will_do = np.array([part.percent > 0 for part in takes], dtype=np.bool_)
        meant: Mask = will_do[sorts.numbers]
        for expression in wanted.selectors:
            meant = meant & self._selected(expression)
        if not meant.any():
            return Meant(np.zeros(len(self._cluster.rows), dtype=np.bool_))
        amounts = np.array([part.cards * part.percent for part in takes], dtype=np.int64)
        by_row = np.zeros(len(self._cluster.rows), dtype=np.int64)
        np.add.at(by_row, self._rows[meant], amounts[sorts.numbers[meant]])
        of_richest = Counter(sorts.numbers[meant & (self._rows == by_row.argmax())].tolist())
        every = tuple(PartRequest(n * takes[sort].cards, takes[sort].percent) for sort, n in sorted(of_richest.items()))
        largest = max(set(sorts.numbers[meant].tolist()), key=lambda sort: takes[sort][::-1])
        return Meant(by_row > 0, takes[largest], every)

    # -- selectors ----------------------------------------------------------------------------------------------------

    def _selected(self, expression: str) -> Mask:
        """Mark the devices that an expression selects; all where it says more than can be looked at."""
        kinds = self._kinds(reads_of(expression))
        if len(kinds.examples) > MOST_KINDS:
            return np.ones(len(self._devices), dtype=np.bool_)
        try:
            answers = [self._selectors.select(expression, device) is True for device in kinds.examples]
        except OverBudgetError:
            self._is_postponed = True
            return np.ones(len(self._devices), dtype=np.bool_)
        found: Mask = np.array(answers, dtype=np.bool_)[kinds.numbers]
        return found

    def _kinds(self, reads: tuple[Read, ...] | None) -> _DeviceKinds:
        """Return the devices by what an expression reads; each is one of its own where that is not known."""
        if reads is None:
            return _DeviceKinds(np.arange(len(self._devices)), self._devices)
        found = self._by_reads.recall(reads)
        if found is None:
            found = self._by_reads[reads] = _kinds_of(self._devices, reads)
        return found


def _sort_of(device: Device, shares: list[Fraction]) -> _DeviceSort:
    size = max(shares) if device.counters else part_of_card(device)
    is_shared = device.shareable and not device.counters
    return _DeviceSort(is_shared, len(shares), _percent(size), tuple(sorted(device.capacity.items(), key=_name)))


def _percent(part: Fraction) -> int:
    """Return a part of a card in percent, rounded down as what is free is, but never to nothing."""
    return max(1, int(WHOLE * part)) if part else 0


def _name(item: tuple[str, Capacity]) -> str:
    return item[0]


def _kinds_of(devices: Iterable[Device], reads: tuple[Read, ...]) -> _DeviceKinds:
    numbers: dict[Hashable, int] = {}
    examples: list[Device] = []
    found: list[int] = []
    for device in devices:
        number = numbers.setdefault(kind_of(device, reads), len(numbers))
        if number == len(examples):
            examples.append(device)
        found.append(number)
    return _DeviceKinds(np.array(found, dtype=np.intp), examples)
