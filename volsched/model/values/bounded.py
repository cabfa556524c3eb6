"""Bounded tables, and the list of all such tables with their sizes.

Users decide how many different things there are, so no table may grow without a bound, unless its entries end with the
objects that they belong to.
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
    """A mapping of at most ``most`` entries: the entry that was set or recalled longest ago is dropped first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self.most:
            self.popitem(last=False)

    def recall(self, key: K) -> V | None:
        """Return the value of a key and keep it longer, or None without one."""
        found = self.get(key)
        if found is not None:
            self.move_to_end(key)
        return found


class Weighed(Generic[K, V]):
    """A mapping whose keys have weights, which together are at most ``most``.

    The entry that was set or recalled longest ago is dropped first. An entry above half of the bound is not kept at
    all.
    """

    def __init__(self, most: int, weigh: Callable[[K], int]) -> None:
        self._most = most
        self._weigh = weigh
        self._kept: OrderedDict[K, V] = OrderedDict()
        self.weight = 0

    def __len__(self) -> int:
        return len(self._kept)

    def recall(self, key: K) -> V | None:
        """Return what is kept under a key, or None when nothing is."""
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

    A part is an attribute whose class is the project's or a plugin's; parts whose ``id`` is in ``apart`` are left out.
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
    """All tables of a process that grow with input of users: names and present sizes."""

    def __init__(self) -> None:
        self._sizes: dict[str, Size] = {}
        self._sources: list[Callable[[], Mapping[str, int]]] = []

    def add(self, tables: Mapping[str, Size]) -> None:
        """Add tables by their names, ``part.what``. Sizes are read on the thread that asks for them."""
        self._sizes.update(tables)

    def add_source(self, source: Callable[[], Mapping[str, int]]) -> None:
        """Add tables whose names are not known beforehand: names and sizes, read on each request."""
        self._sources.append(source)

    def sizes(self) -> Numbers:
        """Return how many entries each table has, by ``(name,)``."""
        known: dict[tuple[str, ...], float] = {(name,): float(size()) for name, size in self._sizes.items()}
        for source in self._sources:
            known |= {(name,): float(size) for name, size in source().items()}
        return known
