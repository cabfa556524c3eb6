"""Two known ways to place pods with cards, for comparison: BestFit, and FGD of "Beware of Fragmentation" (ATC'23).

FGD expects the kinds of pods of the whole list: a node's fragmentation is what of its free cards a pod of each kind
could not use, by how often the kind comes. The node on which that grows least is taken; ties go to the first name.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.openb import CARD, Machine, Wish

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_TYPICAL: Final = 0.95
_MOST: Final = 8


class Place(NamedTuple):
    """Where a pod is: the node's row, and what it took of each card, in the order of the cards."""

    row: int
    taken: tuple[int, ...]


class _Option(NamedTuple):
    """One way to put a pod on some rows: what is taken of each card there."""

    rows: Ints
    taken: Ints


class State:
    """What is free of every node."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.cpu = np.array([m.cpu for m in machines])
        self.memory = np.array([m.memory for m in machines])
        self.cards: Ints = np.array([[CARD * (n < m.cards) for n in range(_MOST)] for m in machines])
        self.models = np.array([m.model for m in machines])

    def options(self, wish: Wish) -> list[_Option]:
        """Return the ways to place a pod: whole cards are the first free ones, parts are tried on each card."""
        fits = (self.cpu >= wish.cpu) & (self.memory >= wish.memory)
        if wish.models:
            fits &= np.isin(self.models, wish.models)
        rows = np.flatnonzero(fits)
        if not wish.cards:
            return [_Option(rows, np.zeros((len(rows), _MOST), dtype=np.int64))]
        room = self.cards[rows] >= wish.share
        if wish.share == CARD or wish.cards > 1:
            first = room & (np.cumsum(room, axis=1) <= wish.cards)
            enough = first.sum(axis=1) == wish.cards
            return [_Option(rows[enough], first[enough] * np.int64(wish.share))]
        alone = np.eye(_MOST, dtype=np.int64) * wish.share
        return [_Option(rows[room[:, n]], np.repeat(alone[n : n + 1], room[:, n].sum(), axis=0)) for n in range(_MOST)]

    def take(self, wish: Wish, place: Place, by: int = 1) -> None:
        """Place a pod, or take it away."""
        self.cpu[place.row] -= by * wish.cpu
        self.memory[place.row] -= by * wish.memory
        self.cards[place.row] -= by * np.array(place.taken)


class BestFit:
    """The node of which least is left: the sum of CPU and cards, each by the most that a node has."""

    def __init__(self, machines: Sequence[Machine], _: Sequence[Wish]) -> None:
        self.state = State(machines)
        self._most = (int(self.state.cpu.max()), CARD * _MOST)

    def place(self, wish: Wish) -> Place | None:
        """Place a pod; None where it finds no room."""
        return _best(self.state, wish, lambda option: self._score(wish, option))

    def _score(self, wish: Wish, option: _Option) -> Floats:
        state, rows = self.state, option.rows
        cpu, cards = self._most
        left = (state.cpu[rows] - wish.cpu) / cpu
        found: Floats = -(left + (state.cards[rows] - option.taken).sum(axis=1) / cards)
        return found


class FGD:
    """The node whose fragmentation grows least, in points as kube-scheduler rounds them."""

    def __init__(self, machines: Sequence[Machine], rows: Sequence[Wish]) -> None:
        self.state = State(machines)
        counted = Counter(wish._replace(memory=0) for wish in rows).most_common()
        kept, covered = [], 0
        for kind, count in counted:
            if covered >= _TYPICAL * len(rows):
                break
            kept.append((kind, count))
            covered += count
        self._weights = np.array([count / covered for _, count in kept])
        self._kinds = [kind for kind, _ in kept]
        self._shares = sorted({kind.share for kind in self._kinds if kind.cards})
        self._column = {share: n for n, share in enumerate(self._shares)}
        self._accepts = np.array([[not k.models or m in k.models for k in self._kinds] for m in self.state.models])
        self._before = self._fragmentation(np.arange(len(machines)), self.state.cpu, self.state.cards)

    def place(self, wish: Wish) -> Place | None:
        """Place a pod; None where it finds no room."""
        place = _best(self.state, wish, lambda option: self._score(wish, option))
        if place is not None:
            self._renew(place.row)
        return place

    def left(self, place: Place) -> None:
        """Hear that a pod has left."""
        self._renew(place.row)

    def _renew(self, row: int) -> None:
        rows = np.array([row])
        self._before[row] = self._fragmentation(rows, self.state.cpu[rows], self.state.cards[rows])[0]

    def _score(self, wish: Wish, option: _Option) -> Floats:
        rows = option.rows
        after = self._fragmentation(rows, self.state.cpu[rows] - wish.cpu, self.state.cards[rows] - option.taken)
        points: Floats = np.floor(100 / (1 + np.exp(-(self._before[rows] - after) / CARD)))
        return points

    def _fragmentation(self, rows: Ints, cpu: Ints, cards: Ints) -> Floats:
        """Return the thousandths of cards that pods of each kind could not use, by weight."""
        free = cards.sum(axis=1)
        below = np.stack([(cards * (cards < share)).sum(axis=1) for share in self._shares], axis=1)
        count = np.stack([(cards >= share).sum(axis=1) for share in self._shares], axis=1)
        found = np.zeros(len(rows))
        for number, kind in enumerate(self._kinds):
            lost: Any = free
            if kind.cards:
                column = self._column[kind.share]
                fits = self._accepts[rows, number] & (cpu >= kind.cpu) & (count[:, column] >= kind.cards)
                lost = np.where(fits, below[:, column], free)
            found += self._weights[number] * lost
        return found


def _best(state: State, wish: Wish, score: Any) -> Place | None:
    """Take the option with the most points; of equal ones the first row, and there the first card."""
    best, place = -math.inf, None
    for option in state.options(wish):
        if not len(option.rows):
            continue
        points = score(option)
        at = int(points.argmax())
        if (points[at], -option.rows[at]) > (best, -place.row if place is not None else 0):
            best, place = points[at], Place(int(option.rows[at]), tuple(option.taken[at].tolist()))
    if place is not None:
        state.take(wish, place)
    return place
