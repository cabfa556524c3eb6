"""What mgpu shows in numbers: what is used of each card, and how the free part lies.

A session touches few nodes, so of each node the numbers are kept; what is handed out shares them and is laid out when
somebody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from plugins.mgpu.devices import CORE_OF_CARD
from plugins.mgpu.placement import CardPlacementSearch
from plugins.mgpu.usage import CardAccount, NodeCardUsage
from volsched.plugin import Numbers, Report, Series, SeriesFn, format_amount
from volsched.plugin.cards import SHARED_AMOUNTS
from volsched.plugin.quota import QuotaRow, QuotaTable, Value

_MIB: Final = 1024 * 1024
_CARD: Final = ("node", "card")
_FIGURES: Final = ("id", "core", "coreUsed", "memory", "memoryUsed", "containers", "remark")

CORE_USED: Final = Series("volsched_mgpu_card_core_used_ratio", "Part of a card's core that is given away", _CARD)
MEMORY_USED: Final = Series("volsched_mgpu_card_memory_used_bytes", "Memory of a card that is given away", _CARD)
MEMORY_SIZE: Final = Series("volsched_mgpu_card_memory_bytes", "Memory of a card", _CARD)
INSTANCES: Final = Series("volsched_mgpu_card_instances", "Containers that use a card", _CARD)
FRAGMENTATION: Final = Series(
    "volsched_mgpu_fragmentation_ratio", "Part of a node's free core that is on cards in use", ("node",)
)
UNKNOWN: Final = Series("volsched_mgpu_card_state_unknown", "Nodes of whose cards too little is known", ("node",))
CHANGED: Final = Series(
    "volsched_mgpu_changed_results", "Pods whose annotations say other cards than they were bound to", ("node",)
)
SEARCHES: Final = Series("volsched_mgpu_searches", "Placements that had to be searched", counts=True)
TRUNCATED: Final = Series("volsched_mgpu_search_truncated", "Searches given up at their limit", counts=True)


class _NodeSample(NamedTuple):
    """What is shown of one node."""

    core: tuple[float, ...]
    memory: tuple[float, ...]
    size: float
    instances: tuple[float, ...]
    fragmentation: float
    is_unknown: bool
    changed: int


class _Laid(Mapping[tuple[str, ...], float]):
    """Numbers of many nodes, laid out when they are read."""

    def __init__(
        self,
        nodes: Mapping[str, _NodeSample],
        lay: Callable[[str, _NodeSample], Iterable[tuple[tuple[str, ...], float]]],
    ) -> None:
        self._nodes = nodes
        self._lay = lay
        self._numbers: dict[tuple[str, ...], float] | None = None

    def _read(self) -> dict[tuple[str, ...], float]:
        if self._numbers is None:
            self._numbers = {key: n for name, shown in self._nodes.items() for key, n in self._lay(name, shown)}
        return self._numbers

    def __getitem__(self, key: tuple[str, ...]) -> float:
        return self._read()[key]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())


class MgpuSeries:
    """The numbers of all series."""

    def __init__(self, usage: NodeCardUsage, search: CardPlacementSearch) -> None:
        self._usage = usage
        self._search = search
        self._nodes: dict[str, _NodeSample] = {}
        self._changed: dict[str, None] = {}
        self._version = -1
        self._laid: tuple[Numbers, ...] = self._lay()

    def note(self, changed: Mapping[str, None]) -> None:
        """Look at these nodes again before anything is shown."""
        self._changed.update(changed)

    def report(self) -> Report:
        """Return all that the plugin reports."""
        of_nodes = (CORE_USED, MEMORY_USED, MEMORY_SIZE, INSTANCES, FRAGMENTATION, UNKNOWN, CHANGED)
        metrics: dict[Series, SeriesFn] = {
            **{series: partial(self._number, place) for place, series in enumerate(of_nodes)},
            SEARCHES: lambda: {(): float(self._search.searches)},
            TRUNCATED: lambda: {(): float(self._search.truncations)},
        }
        return Report(metrics=metrics, table=self.table, shared_cards=SHARED_AMOUNTS)

    def _number(self, place: int) -> Numbers:
        return self._numbers()[place]

    def table(self) -> QuotaTable:
        """Return what of each shared card is given away, and on which nodes that is not known of all pods."""
        usage = sorted(self._usage.nodes.items())
        rows = [row for name, account in usage for row in _rows(name, account)]
        return QuotaTable("sharedCards", "Shared cards", ("node", "card"), _FIGURES, rows)

    def _numbers(self) -> tuple[Numbers, ...]:
        if self._version == self._usage.version:
            return self._laid
        self._version = self._usage.version
        changed = {**self._changed, **self._usage.changed}
        self._changed.clear()
        shown = {name: _shown(self._usage.nodes.get(name)) for name in changed}
        if any(self._nodes.get(name) != now for name, now in shown.items()):
            nodes = {**self._nodes, **shown}
            self._nodes = {name: now for name, now in nodes.items() if now is not None}
            self._laid = self._lay()
        return self._laid

    def _lay(self) -> tuple[Numbers, ...]:
        nodes = self._nodes
        return (
            _Laid(nodes, lambda name, shown: _by_card(name, shown.core)),
            _Laid(nodes, lambda name, shown: _by_card(name, shown.memory)),
            _Laid(nodes, lambda name, shown: _by_card(name, [shown.size] * len(shown.core))),
            _Laid(nodes, lambda name, shown: _by_card(name, shown.instances)),
            _Laid(nodes, lambda name, shown: [((name,), shown.fragmentation)]),
            _Laid(nodes, lambda name, shown: [((name,), 1.0)] if shown.is_unknown else []),
            _Laid(nodes, lambda name, shown: [((name,), float(shown.changed))] if shown.changed else []),
        )


def _by_card(name: str, numbers: Iterable[float]) -> Iterator[tuple[tuple[str, ...], float]]:
    return (((name, str(card)), number) for card, number in enumerate(numbers))


def _rows(name: str, account: CardAccount) -> Iterator[QuotaRow]:
    unclear = len(account.unclear)
    remark = f"of {unclear} pod{'s' if unclear > 1 else ''} on the node it is not known which cards they use"
    for index, used in enumerate(account.used):
        figures: dict[str, Value] = {
            "id": account.cards.ids[index] if account.cards.ids else None,
            "core": CORE_OF_CARD,
            "coreUsed": used.core,
            "memory": format_amount("memory", account.cards.memory * _MIB),
            "memoryUsed": format_amount("memory", used.memory * _MIB),
            "containers": used.instances,
            "remark": remark if unclear else None,
        }
        yield QuotaRow((name, index), figures)


def _shown(account: CardAccount | None) -> _NodeSample | None:
    if account is None:
        return None
    cards = account.used
    free = [max(0, CORE_OF_CARD - card.core) for card in cards]
    on_cards_in_use = sum(left for left, card in zip(free, cards, strict=True) if card.instances)
    return _NodeSample(
        core=tuple(card.core / CORE_OF_CARD for card in cards),
        memory=tuple(float(card.memory * _MIB) for card in cards),
        size=float(account.cards.memory * _MIB),
        instances=tuple(float(card.instances) for card in cards),
        fragmentation=on_cards_in_use / sum(free) if sum(free) else 0.0,
        is_unknown=bool(account.unclear),
        changed=len(account.changed),
    )
