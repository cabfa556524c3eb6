"""Which cards for which container: an exact search.

What makes a placement good is a sum over cards (see ``scoring``), so the search goes card by card and not container by
container. Containers that ask for the same are one *kind*; a container that wants g cards has g *units*. For each card
the feasible *loads* are listed: how many units of each kind go there, within the card's free core, memory and
instances. A state states how many units of each kind have been placed; one step for each card takes every state by
every load to the next::

    best'[state + load] = max(best[state] + what the load adds to this card's points)

After the last card, the best value of the full state is the optimum; if it was never reached, nothing fits. m equal
containers with g units each can always be dealt their cards afterwards, as long as no card has more than m of their
units. Work grows with cards x (states by loads), where going through all choices grows with cards to the power of the
containers.

Of several best placements the lexicographically smallest lists are taken, in the order of the containers. Container by
container, the search is repeated with that container as a kind of its own, and carries along, as a second thing to
maximise, the set of its cards as a row of bits with card 0 first: among sets of one size, the largest row of bits is
the smallest list.

The problem contains bin packing, so it is not always tractable. Beyond ``WORK_LIMIT`` the placement is a greedy one
and reports that (``truncated``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from math import prod
from operator import sub
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from plugins.mgpu.devices import CORE_OF_CARD, FreeCard, NodeCardState
from plugins.mgpu.scoring import Strategy

WORK_LIMIT: Final = 12_000_000
"""Steps (cards x states x loads) up to which a placement is exact: about a third of a second on one core."""

_MOST_LOADS: Final = 4096
_KEPT_STEPS: Final = 20_000
"""Tables of up to so many steps are kept. Larger ones cost less to make than to use."""
_KEPT_ANSWERS: Final = 50_000
_BITS: Final = 62
"""What an int64 holds beside its sign, with room for one addition."""

Array: TypeAlias = npt.NDArray[Any]


class ContainerRequest(NamedTuple):
    """What a container wants: ``core`` percent and ``memory`` MiB on each of ``cards`` different cards.

    Whole cards are asked for by all of the core; their memory is not stated.
    """

    cards: int
    core: int
    memory: int = 0

    @property
    def is_whole(self) -> bool:
        """True if whole cards are wanted."""
        return self.core == CORE_OF_CARD


Lists: TypeAlias = tuple[tuple[int, ...], ...]
"""For each container the indexes of its cards, ascending."""


class Best(NamedTuple):
    """The points of a node under the best placement, None when nothing was found.

    ``truncated``: the search was given up at its limit, so there may be better ones.
    """

    points: int | None
    truncated: bool = False


class Placement(NamedTuple):
    """The cards of each container, None when nothing was found; ``truncated`` as in ``Best``."""

    lists: Lists | None
    truncated: bool = False


@dataclass(slots=True)
class CardPlacementSearch:
    """Finds the best placement of containers on the cards of a node, and caches the results.

    Nodes whose cards are in equal states, in whatever order, share one answer. So sorted states have numbers, which are
    cheaper to look up than states. ``forget`` forgets all numbers; ``forgotten`` counts that. ``searches`` counts what
    had to be searched, ``truncations`` how many of these were given up at the limit.
    """

    strategy: Strategy
    limit: int = WORK_LIMIT
    searches: int = 0
    truncations: int = 0
    forgotten: int = 0
    states: list[NodeCardState] = field(default_factory=list)
    """The sorted states by their numbers."""
    _numbers: dict[NodeCardState, int] = field(default_factory=dict)
    _bests: dict[tuple[int, tuple[ContainerRequest, ...]], Best] = field(default_factory=dict)
    _placements: dict[tuple[NodeCardState, tuple[ContainerRequest, ...]], Placement] = field(default_factory=dict)

    def best(self, state: NodeCardState, asks: tuple[ContainerRequest, ...]) -> Best:
        """Return the points of a node under the best placement. ``state`` and ``asks`` are sorted, see ``alike``."""
        return self.best_of(self.number(state), asks)

    def number(self, state: NodeCardState) -> int:
        """Return the number of a sorted state, from 0. It holds until ``forgotten`` grows."""
        found = self._numbers.get(state)
        if found is None:
            found = self._numbers[state] = len(self.states)
            self.states.append(state)
        return found

    def best_of(self, number: int, asks: tuple[ContainerRequest, ...]) -> Best:
        """Answer as ``best``, by the number of the state."""
        found = self._bests.get((number, asks))
        if found is None:
            answer = _best(self.states[number], asks, self.strategy, self.limit)
            found = self._remember(self._bests, (number, asks), answer)
        return found

    def forget(self) -> None:
        """Forget all numbers and the answers under them."""
        self.states.clear()
        self._numbers.clear()
        self._bests.clear()
        self.forgotten += 1

    def place(self, state: NodeCardState, asks: tuple[ContainerRequest, ...]) -> Placement:
        """Return the best placement, of equal ones the lexicographically smallest; cards and containers in order."""
        found = self._placements.get((state, asks))
        if found is None:
            best = self.best(alike(state), tuple(sorted(asks)))
            found = _place(state, asks, best, self.strategy)
            self._remember(self._placements, (state, asks), found)
        return found

    def _remember(self, kept: dict[Any, Any], question: object, answer: Any) -> Any:
        self.searches += 1
        self.truncations += answer.truncated
        if len(kept) >= _KEPT_ANSWERS:
            kept.clear()
        kept[question] = answer
        return answer


def alike(state: NodeCardState) -> NodeCardState:
    """Return the state in which all nodes agree whose cards differ in their order only."""
    return NodeCardState(state.memory, tuple(sorted(state.cards)))


# -- problems --------------------------------------------------------------------------------------------------------


class _EqualContainers(NamedTuple):
    """Containers that ask for the same: ``units`` in all, at most ``most`` on one card."""

    core: int
    memory: int
    units: int
    most: int


_Kinds: TypeAlias = tuple[_EqualContainers, ...]


def _kinds(asks: Sequence[ContainerRequest], memory: int, first: ContainerRequest | None = None) -> _Kinds:
    """Group containers into kinds; ``first`` becomes one by itself, in the first place.

    Whole cards are one kind however many each container wants: no card has two of them anyway.
    """
    shared: dict[ContainerRequest, int] = {}
    whole = 0
    for ask in asks:
        if ask.is_whole:
            whole += ask.cards
        else:
            shared[ask] = shared.get(ask, 0) + 1
    found = [_EqualContainers(core, each, many * cards, many) for (cards, core, each), many in sorted(shared.items())]
    if whole:
        found.append(_EqualContainers(CORE_OF_CARD, memory, whole, 1))
    if first is not None:
        found.insert(0, _EqualContainers(first.core, memory if first.is_whole else first.memory, first.cards, 1))
    return tuple(found)


def _is_hopeless(state: NodeCardState, kinds: _Kinds, most_instances: int) -> bool:
    """True if sums alone tell that nothing fits: of core, of memory, of cards that could take each kind."""
    usable = [card for card in state.cards if card.instances < most_instances]
    if sum(kind.core * kind.units for kind in kinds) > sum(max(0, card.core) for card in usable):
        return True
    if sum(kind.memory * kind.units for kind in kinds) > sum(max(0, card.memory) for card in usable):
        return True
    return any(
        kind.units > kind.most * sum(card.core >= kind.core and card.memory >= kind.memory for card in usable)
        for kind in kinds
    )


@lru_cache(maxsize=4096)
def _steps(asks: tuple[ContainerRequest, ...], memory: int, most_instances: int) -> int | None:
    """Return the steps that one card costs at most, whichever container is looked at, or None when beyond counting."""
    largest = 0
    repeated = {ask for ask in asks if ask.is_whole or asks.count(ask) > 1}
    for first in (None, *sorted(repeated)):
        rest = list(asks)
        if first is not None:
            rest.remove(first)
        kinds = _kinds(rest, memory, first)
        places = [kind.units + 1 for kind in kinds]
        loads = list(islice(_loads(kinds, memory, most_instances), _MOST_LOADS + 1))
        if len(loads) > _MOST_LOADS:
            return None
        largest = max(largest, sum(prod(map(sub, places, load)) for load in loads))
    return largest


def _is_tractable(state: NodeCardState, asks: tuple[ContainerRequest, ...], strategy: Strategy, limit: int) -> bool:
    steps = _steps(tuple(sorted(asks)), state.memory, strategy.most_instances)
    return steps is not None and steps * len(state.cards) <= limit


def _loads(kinds: _Kinds, memory: int, most_instances: int) -> Iterator[tuple[int, ...]]:
    """Yield all that an idle card could take: for each kind how many units. The first is nothing."""
    open_ends: list[tuple[tuple[int, ...], int, int, int]] = [((), CORE_OF_CARD, memory, most_instances)]
    while open_ends:
        load, core, left, instances = open_ends.pop()
        if len(load) == len(kinds):
            yield load
            continue
        kind = kinds[len(load)]
        most = min(kind.most, instances, core // kind.core, left // kind.memory if kind.memory else instances)
        for units in range(most, -1, -1):
            left_over = core - kind.core * units, left - kind.memory * units, instances - units
            open_ends.append(((*load, units), *left_over))


# -- one pass over the cards -----------------------------------------------------------------------------------------


class _StepTables(NamedTuple):
    """Every step from a state by a load, in the order of the states that they lead to.

    ``states`` and ``loads`` are where each step comes from; ``starts`` where the steps to each state begin, ``counts``
    how many there are; ``core``, ``memory`` and ``instances`` what each load takes, ``marked`` whether each step has a
    unit of the first kind.
    """

    states: Array
    loads: Array
    starts: Array
    counts: Array
    core: Array
    memory: Array
    instances: Array
    marked: Array


def _tables(kinds: _Kinds, memory: int, most_instances: int, steps: int) -> _StepTables:
    return (_kept_tables if steps <= _KEPT_STEPS else _new_tables)(kinds, memory, most_instances)


def _new_tables(kinds: _Kinds, memory: int, most_instances: int) -> _StepTables:
    sizes = [kind.units + 1 for kind in kinds]
    digits = np.array(list(_loads(kinds, memory, most_instances)), dtype=np.int64)
    weights = np.array([prod(sizes[place + 1 :]) for place in range(len(sizes))])
    froms = [_codes(np.array(sizes) - load, weights) for load in digits]
    to = np.concatenate([states + shift for states, shift in zip(froms, digits @ weights, strict=True)])
    order = np.argsort(to, kind="stable")
    counts = np.bincount(to, minlength=prod(sizes))
    loads = np.repeat(np.arange(len(digits)), [len(states) for states in froms])[order].astype(np.int32)
    return _StepTables(
        states=np.concatenate(froms)[order].astype(np.int32),
        loads=loads,
        starts=np.concatenate(([0], np.cumsum(counts)[:-1])),
        counts=counts,
        core=digits @ np.array([kind.core for kind in kinds]),
        memory=digits @ np.array([kind.memory for kind in kinds]),
        instances=digits.sum(axis=1),
        marked=digits[loads, 0] > 0,
    )


def _codes(sizes: Array, weights: Array) -> Array:
    """Return the numbers of all states with fewer than so many units of each kind."""
    codes = np.zeros(1, dtype=np.int64)
    for size, weight in zip(sizes.tolist(), weights.tolist(), strict=True):
        if size > 1:
            codes = (codes[:, None] + np.arange(size) * weight).ravel()
    return codes


_kept_tables = lru_cache(maxsize=512)(_new_tables)


class _Numbers(NamedTuple):
    """The kind of numbers in which points are exact: int64 where they fit, else Python's own."""

    dtype: Any
    never: int


def _numbers(strategy: Strategy, state: NodeCardState) -> _Numbers:
    most = strategy.most(len(state.cards), state.memory)
    return _Numbers(np.int64, -(1 << 61)) if most < 1 << 59 else _Numbers(object, -4 * most)


def _gains(state: NodeCardState, tables: _StepTables, strategy: Strategy, numbers: _Numbers) -> Array:
    """Return for each card and load what it adds to what is maximised. ``never`` where it does not fit."""
    cards = np.array([(max(0, c.core), max(0, c.memory), c.instances) for c in state.cards], dtype=np.int64)
    core, memory, instances = (cards[:, [column]] for column in range(3))
    fits = (tables.core <= core) & (tables.memory <= memory)
    fits &= (tables.instances + instances <= strategy.most_instances) | (tables.instances == 0)
    used = (CORE_OF_CARD - core).astype(numbers.dtype), (state.memory - memory).astype(numbers.dtype)
    size = state.memory or 1
    after = strategy.points(used[0] + tables.core, used[1] + tables.memory, size)
    gains = after - strategy.points(used[0], used[1], size)
    return np.where(fits, gains if strategy.packs else -gains, numbers.never)


def _pass(state: NodeCardState, tables: _StepTables, strategy: Strategy) -> int | None:
    """Return the most that can be gained by placing everything, or None when it cannot be placed."""
    numbers = _numbers(strategy, state)
    best = np.full(len(tables.counts), numbers.never, dtype=numbers.dtype)
    best[0] = 0
    for gains in _gains(state, tables, strategy, numbers):
        best = np.maximum.reduceat(best[tables.states] + gains[tables.loads], tables.starts)
    gained = int(best[-1])
    return gained if gained > numbers.never // 2 else None


def _first_list(state: NodeCardState, tables: _StepTables, strategy: Strategy) -> tuple[int, ...]:
    """Return the smallest list of cards that the first kind has in any best placement. There must be one."""
    numbers, cards = _numbers(strategy, state), len(state.cards)
    dtype = np.int64 if cards <= _BITS else object
    best = np.full(len(tables.counts), numbers.never, dtype=numbers.dtype)
    best[0] = 0
    sets = np.zeros(len(tables.counts), dtype=dtype)
    for card, gains in enumerate(_gains(state, tables, strategy, numbers)):
        reached = best[tables.states] + gains[tables.loads]
        best = np.maximum.reduceat(reached, tables.starts)
        grown = sets[tables.states] + tables.marked.astype(dtype) * (1 << (cards - 1 - card))
        sets = np.maximum.reduceat(np.where(reached == np.repeat(best, tables.counts), grown, -1), tables.starts)
    chosen = int(sets[-1])
    return tuple(card for card in range(cards) if chosen >> (cards - 1 - card) & 1)


def forget() -> None:
    """Drop what is remembered of problems, so that the next one is as expensive as the first."""
    _steps.cache_clear()
    _kept_tables.cache_clear()


# -- answers ---------------------------------------------------------------------------------------------------------


def _best(state: NodeCardState, asks: tuple[ContainerRequest, ...], strategy: Strategy, limit: int) -> Best:
    kinds = _kinds(asks, state.memory)
    if _is_hopeless(state, kinds, strategy.most_instances):
        return Best(None)
    if not _is_tractable(state, asks, strategy, limit):
        lists = _greedy(state, asks, strategy)
        points = strategy.total(charged(state, asks, lists).cards, state.memory) if lists is not None else None
        return Best(points, truncated=True)
    steps = _steps(tuple(sorted(asks)), state.memory, strategy.most_instances) or 0
    gained = _pass(state, _tables(kinds, state.memory, strategy.most_instances, steps), strategy)
    if gained is None:
        return Best(None)
    return Best(strategy.total(state.cards, state.memory) + (gained if strategy.packs else -gained))


def _place(state: NodeCardState, asks: tuple[ContainerRequest, ...], best: Best, strategy: Strategy) -> Placement:
    if best.truncated:
        return Placement(_greedy(state, asks, strategy), truncated=True)
    if best.points is None:
        return Placement(None)
    steps = _steps(tuple(sorted(asks)), state.memory, strategy.most_instances) or 0
    lists: list[tuple[int, ...]] = []
    for place, ask in enumerate(asks):
        kinds = _kinds(asks[place + 1 :], state.memory, ask)
        lists.append(_first_list(state, _tables(kinds, state.memory, strategy.most_instances, steps), strategy))
        state = charged(state, (ask,), (lists[-1],))
    return Placement(tuple(lists))


def charged(state: NodeCardState, asks: Sequence[ContainerRequest], lists: Sequence[Sequence[int]]) -> NodeCardState:
    """Return the state once containers are on their cards."""
    cards = list(state.cards)
    for ask, chosen in zip(asks, lists, strict=True):
        memory = state.memory if ask.is_whole else ask.memory
        for index in chosen:
            core, free, instances = cards[index]
            cards[index] = FreeCard(core - ask.core, free - memory, instances + 1)
    return NodeCardState(state.memory, tuple(cards))


def _greedy(state: NodeCardState, asks: Sequence[ContainerRequest], strategy: Strategy) -> Lists | None:
    """Place the largest containers first, each where it is best by itself; None when that leads nowhere."""
    orders = (
        lambda place: (-asks[place].core, -asks[place].memory, -asks[place].cards, place),
        lambda place: (-asks[place].memory, -asks[place].core, -asks[place].cards, place),
        lambda place: (-asks[place].cards, -asks[place].core, -asks[place].memory, place),
    )
    found = [_in_turn(state, asks, sorted(range(len(asks)), key=order), strategy) for order in orders]
    best: Lists | None = None
    most = 0
    for lists in found:
        if lists is not None:
            points = strategy.total(charged(state, asks, lists).cards, state.memory)
            points = points if strategy.packs else -points
            if best is None or points > most:
                best, most = lists, points
    return best


def _in_turn(
    state: NodeCardState, asks: Sequence[ContainerRequest], order: Sequence[int], strategy: Strategy
) -> Lists | None:
    lists: dict[int, tuple[int, ...]] = {}
    for place in order:
        ask = asks[place]
        memory = state.memory if ask.is_whole else ask.memory
        gains = []
        for index, card in enumerate(state.cards):
            if card.core >= ask.core and card.memory >= memory and card.instances < strategy.most_instances:
                after = FreeCard(card.core - ask.core, card.memory - memory)
                gain = strategy.total((after,), state.memory) - strategy.total((card,), state.memory)
                gains.append((-gain if strategy.packs else gain, index))
        if len(gains) < ask.cards:
            return None
        lists[place] = tuple(sorted(index for _, index in sorted(gains)[: ask.cards]))
        state = charged(state, (ask,), (lists[place],))
    return tuple(lists[place] for place in range(len(asks)))
