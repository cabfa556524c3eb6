"""What is wrong with what a Queue states that it deserves and is guaranteed of cards, alone and beside other Queues.

A guarantee is at most what is deserved, and that is at most the quota. What a queue keeps for its children it has to be
guaranteed itself, so more than that is an error; what they deserve together may be more, since not all ask at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from plugins.capacity_card.quotas.quota import (
    CARD_DESERVED,
    CARD_GUARANTEE,
    Cards,
    amounts_of,
    path_of,
    states_any,
)
from volsched.plugin.cards import CARD_QUOTA, at, whole
from volsched.plugin.objects import INVALID, Fault, Faults, Surroundings, api, warning
from volsched.plugin.quota import above, short_of_those_below

Texts = Mapping[str, str]


def deserved_faults(queue: api.Queue, beside: Surroundings) -> Faults:
    """Yield what of it cannot be kept."""
    texts = queue.metadata.annotations
    yield from _at_most(texts, CARD_GUARANTEE, CARD_DESERVED)
    yield from _at_most(texts, CARD_GUARANTEE, CARD_QUOTA)
    yield from _at_most(texts, CARD_DESERVED, CARD_QUOTA)
    children = [found for found in beside.queues.values() if found.spec.parent == queue.metadata.name]
    for annotation, make in ((CARD_GUARANTEE, Fault), (CARD_DESERVED, warning)):
        for path, message in _promised(texts, annotation, [child.metadata.annotations for child in children]):
            yield make(path, INVALID, message)


def _at_most(texts: Texts, annotation: str, other: str) -> Faults:
    """Yield amounts above what another annotation states. One that is not there states nothing."""
    if not states_any(texts, other):
        return
    amounts = _amounts(texts, annotation)
    for card, amount, limit in above(amounts, {**dict.fromkeys(amounts, 0), **_amounts(texts, other)}):
        message = f"{whole(amount)} is more than the {whole(limit)} of {other}"
        yield Fault(at(path_of(annotation), card), INVALID, message)


def _promised(texts: Texts, annotation: str, children: list[Texts]) -> Iterator[tuple[str, str]]:
    below = (_amounts(child, annotation) for child in children)
    for card, amount, together in short_of_those_below(_amounts(texts, annotation), below):
        message = f"{whole(amount)} is less than the {whole(together)} of the queues right below together"
        yield at(path_of(annotation), card), message


def _amounts(texts: Texts, annotation: str) -> Cards:
    return amounts_of(texts, annotation)[0]
