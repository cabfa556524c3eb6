"""What is remembered of many: a mapping with a bound, and the list of all such tables with their sizes.

Users decide how many different things there are, so nothing that is kept for each of them may grow without a bound,
unless it ends with the object that it belongs to.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from volsched.model.values.series import Numbers

K = TypeVar("K")
V = TypeVar("V")

Size: TypeAlias = Callable[[], int]


class Bounded(OrderedDict[K, V]):
    """A mapping of at most ``most`` entries: what was set or recalled longest ago makes room for what is new."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self.most:
            self.popitem(last=False)

    def recall(self, key: K) -> V | None:
        """Return what is kept under a key, and keep it longer than what was not asked for; None when nothing is."""
        found = self.get(key)
        if found is not None:
            self.move_to_end(key)
        return found


class Weighed(Generic[K, V]):
    """What is remembered of keys of very different sizes: their weights together are at most ``most``.

    What was set or recalled longest ago makes room; what alone weighs more than half of that is not kept at all.
    """

    def __init__(self, most: int, weigh: Callable[[K], int]) -> None:
        self._most = most
        self._weigh = weigh
        self._kept: OrderedDict[K, V] = OrderedDict()
        self.weight = 0

    def __len__(self) -> int:
        return len(self._kept)

    def recall(self, key: K) -> V | None:
        """Return what is kept under a key; None when nothing is."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: K, value: V) -> V:
        """Keep a value under a key that has none yet, and return it."""
        weight = self._weigh(key)
        if 2 * weight <= self._most:
            self._kept[key] = value
            self.weight += weight
            while self.weight > self._most:
                self.weight -= self._weigh(self._kept.popitem(last=False)[0])
        return value


def entries_of(thing: object, apart: Collection[int] = ()) -> int:
    """Return how many entries an object's own containers have, and those of its parts.

    A part is an object of a class of somebody's own that an attribute holds; those whose ``id`` is in ``apart`` are
    not looked into.
    """
    total = 0
    for value in _attributes(thing):
        if isinstance(value, dict | list | set | deque | Weighed):
            total += len(value)
        elif id(value) not in apart and _is_part(value):
            total += sum(len(inner) for inner in _attributes(value) if isinstance(inner, dict | set | deque | Weighed))
    return total


def _attributes(thing: object) -> list[object]:
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*list(getattr(thing, "__dict__", {}).values()), *(getattr(thing, name, None) for name in slots)]


def _is_part(value: object) -> bool:
    return "." in type(value).__module__ and not isinstance(value, type) and not callable(value)


class Tables:
    """Everything in a process that grows with what users write, by name: how many entries it has now."""

    def __init__(self) -> None:
        self._sizes: dict[str, Size] = {}
        self._sources: list[Callable[[], Mapping[str, int]]] = []

    def add(self, tables: Mapping[str, Size]) -> None:
        """Add tables by their names, ``part.what``; sizes are read on the thread that asks for them."""
        self._sizes.update(tables)

    def add_source(self, source: Callable[[], Mapping[str, int]]) -> None:
        """Add tables of which it is not known beforehand which there are: names and sizes, whenever they are asked."""
        self._sources.append(source)

    def sizes(self) -> Numbers:
        """Return how many entries each table has, by ``(name,)``."""
        known: dict[tuple[str, ...], float] = {(name,): float(size()) for name, size in self._sizes.items()}
        for source in self._sources:
            known |= {(name,): float(size) for name, size in source().items()}
        return known
