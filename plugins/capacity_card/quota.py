"""What a queue may hold: the annotation ``volcano.sh/card.quota``, a JSON object of cards.

A card that is not named has a quota of 0. A bad entry makes that card's quota 0 and leaves the others; a text that is
no JSON object makes all quotas 0 (*ours*: never open by mistake).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from plugins.capacity_card.amounts import at, entries, is_plain
from volsched.model.errors import FieldError

CARD_QUOTA: Final = "volcano.sh/card.quota"
QUOTA_PATH: Final = f"metadata.annotations[{CARD_QUOTA}]"


@dataclass(frozen=True, slots=True)
class CardQuota:
    """Milli-cards by card name, and what is wrong in the annotation."""

    cards: Mapping[str, int] = field(default_factory=dict)
    errors: tuple[FieldError, ...] = ()


def quota_of(annotations: Mapping[str, str]) -> CardQuota:
    """Return a queue's quotas; a queue without the annotation has none, which means 0 of every card."""
    found, errors = entries(QUOTA_PATH, annotations.get(CARD_QUOTA, ""))
    cards: dict[str, int] = {}
    for written, amount in found:
        name = written.strip()
        problem = _problem(name)
        if problem:
            errors.append(FieldError(at(QUOTA_PATH, written), problem))
        else:
            cards[name] = amount
    return CardQuota(cards, tuple(errors))


def _problem(name: str) -> str:
    if not is_plain(name):
        return "is no name of a card"
    if "|" in name:
        return "is a list of cards; a quota is of one card, so give each card its own"
    return ""
