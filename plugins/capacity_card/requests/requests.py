"""What pods and jobs want: the annotations ``volcano.sh/card.name`` of pods and ``volcano.sh/card.request`` of jobs.

A pod names the card that it wants, or several that would do, the one it likes best first; how many it wants is what it
asks of the card's resource, ``nvidia.com/gpu`` and the like, in its containers. A job may state in advance how many
cards it wants in all, so that it is not admitted in vain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from volsched.plugin import CPU, MEMORY, FieldError, shortened
from volsched.plugin.cards import at, entries, is_plain, joined, names_in

CARD_NAME: Final = "volcano.sh/card.name"
CARD_REQUEST: Final = "volcano.sh/card.request"
REQUEST_PATH: Final = f"metadata.annotations[{CARD_REQUEST}]"
NAME_PATH: Final = f"metadata.annotations[{CARD_NAME}]"

MOST_NAMES: Final = 64
"""Cards of one list. Each name is kept for itself, and 4096 characters may be 2048 names."""
LONGEST_SHOWN: Final = 1024
"""Characters of a list in a message."""

Names: TypeAlias = tuple[str, ...]
"""Cards any one of which would do, the best first."""
Dimension: TypeAlias = str | Names
"""What is counted: cpu or memory by its name, in milli-cores or bytes. Cards, in milli-cards, by the list of those that
would do, which is that of one card in what is held and in limits. So a card may be called like a resource."""
Amounts: TypeAlias = Mapping[Dimension, int]

RESOURCES: Final[tuple[Dimension, ...]] = (CPU, MEMORY)
"""What is counted beside cards."""


class NoSuchCardError(FieldError):
    """No node offers any of the cards that a pod names."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Milli-cards that a job wants of each list of cards, and what is wrong in the annotation.

    What is wrong is left out: the annotation is optional, so a mistake in it must not keep a job out (*ours*).
    """

    lists: Mapping[Names, int] = field(default_factory=dict)
    errors: tuple[FieldError, ...] = ()


@dataclass(frozen=True, slots=True)
class CardRequest:
    """What a pod wants: ``amount`` milli-cards of one of ``names``, as ``resource``.

    ``candidates`` are those of the names that there are in the cluster.
    """

    names: Names
    resource: str
    amount: int
    candidates: Names

    @property
    def text(self) -> str:
        """The list as it is written."""
        return joined(self.names)


def resources_of(amounts: Mapping[Any, int]) -> dict[Dimension, int]:
    """Return the amounts of cpu and memory."""
    return {name: amounts[name] for name in RESOURCES if name in amounts}


def lists_of(amounts: Mapping[Any, int]) -> dict[Names, int]:
    """Return the amounts of cards, by list."""
    return {names: amount for names, amount in amounts.items() if isinstance(names, tuple)}


def cards_of(amounts: Mapping[Any, int]) -> dict[str, int]:
    """Return the amounts of single cards, by name."""
    return {names[0]: amount for names, amount in lists_of(amounts).items() if len(names) == 1}


def text_of(dimension: Dimension) -> str:
    """Return a resource, or a list of cards as it is written."""
    return dimension if isinstance(dimension, str) else joined(dimension)


def shown(names: Names) -> str:
    """Return a list of cards for a message."""
    return shortened(joined(names), LONGEST_SHOWN)


def by_text(amounts: Mapping[Any, int]) -> dict[str, int]:
    """Return amounts by the text of what is counted."""
    return {text_of(dimension): amount for dimension, amount in amounts.items()}


def job_request_of(annotations: Mapping[str, str]) -> JobRequest:
    """Return what a job's PodGroup states that the job wants in all. Lists of equal names are added up."""
    found, errors = entries(REQUEST_PATH, annotations.get(CARD_REQUEST, ""))
    lists: dict[Names, int] = {}
    for written, amount in found:
        names = names_in(written)
        if not names or not all(map(is_plain, names)):
            errors.append(FieldError(at(REQUEST_PATH, written), "is no name of a card, and no list of names"))
        elif amount:
            lists[names] = lists.get(names, 0) + amount
    return JobRequest(lists, tuple(errors))


def card_names_of(annotations: Mapping[str, str]) -> Names:
    """Return the cards that a pod names; none for a pod that wants no card by name.

    Of too many there is one more than a list may have.
    """
    return names_in(annotations.get(CARD_NAME, ""))[: MOST_NAMES + 1]


def are_too_many(names: Names) -> str:
    """Return what is wrong with a list that is too long, else nothing."""
    return f"names more than {MOST_NAMES} cards" if len(names) > MOST_NAMES else ""


def card_request_of(names: Names, request: Mapping[str, int], resources: Mapping[str, str]) -> CardRequest:
    """Return what a pod with these names and this request (thousandths) wants.

    ``resources`` states for each card in the cluster which resource it is. Names that are not in the cluster are no
    candidates; FieldError when none is, when those that are differ in their resource, or when the pod does not ask for
    it.
    """
    if fault := are_too_many(names):
        raise FieldError(NAME_PATH, f"{CARD_NAME} {fault}")
    known = {name: resources[name] for name in names if name in resources}
    if not known:
        raise NoSuchCardError(NAME_PATH, f"no resource name found for card <{shown(names)}>")
    if len(set(known.values())) > 1:
        message = ", ".join(f"<{name}> is {resource}" for name, resource in known.items())
        raise FieldError(NAME_PATH, f"the cards of a list must be of one resource, and {message}")
    resource = next(iter(known.values()))
    amount = request.get(resource, 0)
    if amount <= 0:
        first = next(iter(known))
        raise FieldError(NAME_PATH, f"no resource <{resource}> defined in requests/limits for card <{first}>")
    return CardRequest(names, resource, amount, tuple(known))
