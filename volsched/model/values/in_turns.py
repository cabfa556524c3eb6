"""Waiting items by owner: owners take turns, each with its oldest item."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class InTurns(Generic[T]):
    """A queue in which the items of one owner do not delay the first turn of another.

    Putting in, taking out and leaving out cost the same however many wait.
    """

    def __init__(self) -> None:
        self._of: dict[str, dict[T, None]] = {}
        self._owners: dict[T, str] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def __iter__(self) -> Iterator[T]:
        """Yield what waits in the order in which it would be taken."""
        lines = [iter(mine) for mine in self._of.values()]
        while lines:
            for line in list(lines):
                try:
                    yield next(line)
                except StopIteration:
                    lines.remove(line)

    def __contains__(self, item: T) -> bool:
        return item in self._owners

    def put(self, owner: str, item: T) -> None:
        """Have something wait. What waits already keeps its place."""
        if item not in self._owners:
            self._owners[item] = owner
            self._of.setdefault(owner, {})[item] = None

    def drop(self, item: T) -> None:
        """Leave something out, if it waits."""
        owner = self._owners.pop(item, None)
        if owner is not None:
            del self._of[owner][item]
            if not self._of[owner]:
                del self._of[owner]

    def of(self, owner: str) -> int:
        """Return how many things of an owner wait."""
        return len(self._of.get(owner, ()))

    def take(self) -> T:
        """Take out what is next. Its owner is last in line then. KeyError where nothing waits."""
        found = self.take_where(lambda _: True)
        if found is None:
            raise KeyError("nothing waits")
        return found[1]

    def take_where(self, may: Callable[[str], bool]) -> tuple[str, T] | None:
        """Take out the next item of the owners that may have a turn, with its owner. Others keep their places."""
        owner = next(filter(may, self._of), None)
        if owner is None:
            return None
        mine = self._of.pop(owner)
        item = next(iter(mine))
        del mine[item], self._owners[item]
        if mine:
            self._of[owner] = mine
        return owner, item

    def first_of_most(self) -> T:
        """Return the oldest item of the owner with the most items. Raises KeyError if nothing waits."""
        owner = max(self._of, key=lambda each: len(self._of[each]), default=None)
        if owner is None:
            raise KeyError("nothing waits")
        return next(iter(self._of[owner]))
