"""Checks whether all demands for lists of cards can be met, at the admission of jobs.

A demand is an amount with the set of cards that would do. Demands can be met together exactly when for every union of
their sets, those whose set lies inside it ask for no more than there is in it (Hall's condition). That is a flow from
demands to cards, so it costs no more when lists overlap in odd ways.

For one list alone this is the sum over its cards, used and asked for against what there is; that is checked first, as
its numbers are the ones to tell. A card that is held beyond its quota is none that is left, and takes nothing of the
others: a demand that can be met with one of these is let in. What is outstanding in other lists may
ask for more than there is (a quota that shrank): a new demand is met when all of it can be had without taking from what
the others can have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

Names: TypeAlias = tuple[str, ...]
Demand: TypeAlias = tuple[Names, int]


@dataclass(slots=True)
class Matching:
    """Demands spread over cards as well as can be.

    ``room`` is what is left of each card; what is below zero counts as none. ``given`` is what each list got of each
    card.
    """

    room: Mapping[str, int]
    taken: dict[str, int] = field(default_factory=dict)
    given: dict[Names, dict[str, int]] = field(default_factory=dict)

    def add(self, names: Names, amount: int) -> int:
        """Meet as much of a demand as possible, moving what others got if need be. Return what is left unmet."""
        while amount > 0:
            path = self._path(names)
            if path is None:
                return amount
            amount -= self._send(path, amount)
        return 0

    def short_of(self, names: Names) -> Names:
        """Return the cards that an unmet demand competes for: its own list first, then others in order."""
        reached = self._reachable(names)
        return (*names, *sorted(card for card in reached if card not in names))

    def _left(self, card: str) -> int:
        return max(0, self.room.get(card, 0)) - self.taken.get(card, 0)

    def _path(self, names: Names) -> list[tuple[Names, str]] | None:
        """Return the shortest path to a card with room. In each step a list takes a card of the next list."""
        came: dict[str, tuple[Names, str]] = {}
        waiting: deque[tuple[Names, str]] = deque([(names, "")])
        asked = {names}
        while waiting:
            asking, via = waiting.popleft()
            for card in asking:
                if card in came:
                    continue
                came[card] = (asking, via)
                if self._left(card) > 0:
                    return _back(came, card)
                for other, got in self.given.items():
                    if got.get(card) and other not in asked:
                        asked.add(other)
                        waiting.append((other, card))
        return None

    def _send(self, path: list[tuple[Names, str]], amount: int) -> int:
        """Move along a path as much as fits, at most ``amount``."""
        end = path[-1][1]
        amount = min(amount, self._left(end))
        for (_, card), (other, _) in pairwise(path):
            amount = min(amount, self.given[other][card])
        for place, (asking, card) in enumerate(path):
            got = self.given.setdefault(asking, {})
            got[card] = got.get(card, 0) + amount
            if place + 1 < len(path):
                self.given[path[place + 1][0]][card] -= amount
        self.taken[end] = self.taken.get(end, 0) + amount
        return amount

    def _reachable(self, names: Names) -> set[str]:
        reached: set[str] = set()
        waiting = [names]
        while waiting:
            for card in waiting.pop():
                if card not in reached:
                    reached.add(card)
                    waiting.extend(other for other, got in self.given.items() if got.get(card))
        return reached


def _back(came: Mapping[str, tuple[Names, str]], card: str) -> list[tuple[Names, str]]:
    path: list[tuple[Names, str]] = []
    at = card
    while at:
        asking, via = came[at]
        path.append((asking, at))
        at = via
    return path[::-1]


@dataclass(frozen=True, slots=True)
class Unmet:
    """A demand that cannot be met.

    ``cards`` are those that it competes for, ``asked`` what all demands inside them ask for, itself included.
    """

    names: Names
    amount: int
    cards: Names
    asked: int


def first_unmet(room: Mapping[str, int], outstanding: Iterable[Demand], wanted: Iterable[Demand]) -> Unmet | None:
    """Return the first of the wanted demands that cannot be met beside what is outstanding and those before it."""
    matching = Matching(room)
    demands = [(names, amount) for names, amount in outstanding if amount > 0]
    for names, amount in demands:
        matching.add(names, amount)
    for names, amount in wanted:
        if amount <= 0:
            continue
        demands.append((names, amount))
        asked = _asked_inside(names, demands)
        if asked > sum(max(0, room.get(card, 0)) for card in names):
            return Unmet(names, amount, names, asked)
        if matching.add(names, amount):
            cards = matching.short_of(names)
            return Unmet(names, amount, cards, _asked_inside(cards, demands))
    return None


def _asked_inside(cards: Names, demands: Iterable[Demand]) -> int:
    inside = set(cards)
    return sum(amount for names, amount in demands if inside.issuperset(names))
