"""What is remembered of many: a mapping with a bound, and the list of all such tables with their sizes.

Users decide how many different things there are, so nothing that is kept for each of them may grow without a bound,
unless it ends with the object that it belongs to.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from volsched.model.series import Numbers

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


class Tables:
    """Everything in a process that grows with what users write, by name: how many entries it has now."""

    def __init__(self) -> None:
        self._sizes: dict[str, Size] = {}

    def add(self, tables: Mapping[str, Size]) -> None:
        """Add tables by their names, ``part.what``; sizes are read on the thread that asks for them."""
        self._sizes.update(tables)

    def sizes(self) -> Numbers:
        """Return how many entries each table has, by ``(name,)``."""
        return {(name,): float(size()) for name, size in self._sizes.items()}
