"""All choices of cards for all containers, one by one: slow, and plainly right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations

from plugins.mgpu.devices import NodeCardState
from plugins.mgpu.placement import ContainerRequest, Lists


def choices(state: NodeCardState, asks: Sequence[ContainerRequest], most_instances: int) -> Iterator[Lists]:
    """Every valid choice, in lexicographic order."""
    if not asks:
        yield ()
        return
    ask, rest = asks[0], asks[1:]
    memory = state.memory if ask.is_whole else ask.memory
    for chosen in combinations(range(len(state.cards)), ask.cards):
        cards = [list(card) for card in state.cards]
        for index in chosen:
            cards[index] = [cards[index][0] - ask.core, cards[index][1] - memory, cards[index][2] + 1]
        if all(cards[i][0] >= 0 and cards[i][1] >= 0 and cards[i][2] <= most_instances for i in chosen):
            left = NodeCardState(state.memory, tuple(map(tuple, cards)))  # type: ignore[arg-type]
            for others in choices(left, rest, most_instances):
                yield (chosen, *others)


def fullness(state: NodeCardState, asks: Sequence[ContainerRequest], lists: Lists, weight_of_core: int) -> Fraction:
    """The mean over the cards of w x core^2 + (1 - w) x memory^2, shares in use."""
    used = [[100 - card.core, state.memory - card.memory] for card in state.cards]
    for ask, chosen in zip(asks, lists, strict=True):
        for index in chosen:
            used[index][0] += ask.core
            used[index][1] += state.memory if ask.is_whole else ask.memory
    weight = Fraction(weight_of_core, 100)
    shares = [(Fraction(core, 100), Fraction(memory, state.memory)) for core, memory in used]
    return sum((weight * core**2 + (1 - weight) * memory**2 for core, memory in shares), Fraction(0)) / len(shares)


def best(
    state: NodeCardState, asks: Sequence[ContainerRequest], *, packs: bool, weight_of_core: int, most_instances: int
) -> tuple[Fraction, Lists] | None:
    """The best fullness and the first of the best choices; None when there is no choice."""
    found: tuple[Fraction, Lists] | None = None
    for lists in choices(state, asks, most_instances):
        value = fullness(state, asks, lists, weight_of_core)
        if found is None or (value > found[0] if packs else value < found[0]):
            found = value, lists
    return found
