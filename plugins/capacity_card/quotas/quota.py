"""A queue's quota of cards: annotations that are JSON objects of cards and whole numbers.

``volcano.sh/card.quota`` is what it may hold; a card that is not named has a quota of 0. ``volsched.io/card.deserved``
is what it may take back from others, ``volsched.io/card.guarantee`` what is kept for it (ours: Volcano's design has no
reclaim). A bad entry makes that card's amount 0 and leaves the others; a text that is no JSON object makes all amounts
0 (*ours*: never open by mistake).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from volsched.plugin import FieldError
from volsched.plugin.cards import CARD_QUOTA, at, entries, is_plain

CARD_DESERVED: Final = "volsched.io/card.deserved"
CARD_GUARANTEE: Final = "volsched.io/card.guarantee"
OF_QUEUES: Final = (CARD_QUOTA, CARD_DESERVED, CARD_GUARANTEE)
"""The annotations of a queue about cards."""

Cards = Mapping[str, int]
"""Milli-cards by card."""


def path_of(annotation: str) -> str:
    """Return the path of an annotation."""
    return f"metadata.annotations[{annotation}]"


@dataclass(frozen=True, slots=True)
class CardQuota:
    """Milli-cards by card name, and what is wrong in the annotations.

    ``deserved`` is what counts: never less than the guarantee, and both at most the quota. It is None when neither is
    stated.
    """

    cards: Cards = field(default_factory=dict)
    deserved: Cards | None = None
    guarantee: Cards = field(default_factory=dict)
    errors: tuple[FieldError, ...] = ()


def quota_of(annotations: Mapping[str, str]) -> CardQuota:
    """Return what a queue states. One without a quota may hold 0 of every card."""
    (cards, deserved, guarantee), errors = zip(*(amounts_of(annotations, name) for name in OF_QUEUES), strict=True)
    wrong = tuple(error for found in errors for error in found)
    if not states_any(annotations, CARD_DESERVED, CARD_GUARANTEE):
        return CardQuota(cards, errors=wrong)
    has_quota = states_any(annotations, CARD_QUOTA)
    kept = _at_most(guarantee, cards) if has_quota else guarantee
    deserved_share = {card: max(deserved.get(card, 0), kept.get(card, 0)) for card in {**deserved, **kept}}
    return CardQuota(cards, _at_most(deserved_share, cards) if has_quota else deserved_share, kept, wrong)


def states_any(annotations: Mapping[str, str], *names: str) -> bool:
    """True if any of these annotations states anything."""
    return any(annotations.get(name, "").strip() for name in names)


def amounts_of(annotations: Mapping[str, str], annotation: str) -> tuple[dict[str, int], list[FieldError]]:
    """Return the amounts of one annotation as they are written, and what is wrong in it."""
    path = path_of(annotation)
    found, errors = entries(path, annotations.get(annotation, ""))
    cards: dict[str, int] = {}
    for written, amount in found:
        name = written.strip()
        problem = _problem(name, annotation)
        if problem:
            errors.append(FieldError(at(path, written), problem))
        else:
            cards[name] = amount
    return cards, errors


def _at_most(amounts: Cards, limits: Cards) -> dict[str, int]:
    return {card: min(amount, limits.get(card, 0)) for card, amount in amounts.items()}


def _problem(name: str, annotation: str) -> str:
    if not is_plain(name):
        return "is no name of a card"
    if "|" in name:
        what = annotation.rpartition(".")[2]
        return f"is a list of cards; a {what} is of one card, so give each card its own"
    return ""
