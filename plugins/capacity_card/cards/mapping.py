"""Names of cards whose nodes have no label ``<prefix>/<type>.product``: an argument maps resources to them.

    cards:
    - {resource: amd.com/gpu, model: amd.com/gpu.product-name}    the label's value is the card
    - {resource: huawei.com/Ascend910, name: Ascend910}           the card, whatever the labels

After these entries come, where that is switched on, the labels that vendors are known to set
(``model.cards.vendors``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from volsched.plugin import Argument, ArgumentProblem, Place
from volsched.plugin.cards import BY_VENDORS, UNMAPPED, CardLabel, CardMapping, MappedCard, is_plain, resource_by_name

CARDS: Final = "cards"
VENDOR_LABELS: Final = "vendorLabels"
RESOURCE, MODEL, NAME = FIELDS = ("resource", "model", "name")

ARGUMENTS: Final = (
    Argument(
        CARDS,
        "mappings",
        (),
        "Names of cards without a label `.product`: of a resource, by the label that is its model, or one name.",
        fields=FIELDS,
        holds=("resource", "label", "card"),
    ),
    Argument(VENDOR_LABELS, "bool", False, "Name cards without a label `.product` by the labels of known vendors."),
)

_PART: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN: Final = r"(?=.{1,253}/)[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_RESOURCE: Final = re.compile(rf"{_DOMAIN}/{_PART}", re.ASCII)
_LABEL: Final = re.compile(rf"({_DOMAIN}/)?{_PART}", re.ASCII)
_NATIVE: Final = re.compile(r"(.+\.)?kubernetes\.io/.+|requests\..+", re.ASCII)


def mapping_of(arguments: Mapping[str, Any] | None) -> CardMapping:
    """Return the mapping that checked arguments of the plugin state; none where it is not configured (None)."""
    if not arguments or not (arguments[CARDS] or arguments[VENDOR_LABELS]):
        return UNMAPPED
    return CardMapping([*map(_entry, arguments[CARDS]), *(BY_VENDORS if arguments[VENDOR_LABELS] else ())])


def _entry(given: Mapping[str, str]) -> MappedCard:
    label = CardLabel(given[MODEL]) if MODEL in given else None
    return MappedCard(given[RESOURCE], given.get(NAME, ""), label)


# --- what is wrong with entries -------------------------------------------------------------------------------------


def check_mapping(values: Mapping[str, Any]) -> Iterator[ArgumentProblem]:
    """Report entries that cannot be understood, that say again what others say, and that contradict others."""
    sound: list[tuple[int, Mapping[str, str]]] = []
    for number, entry in enumerate(values[CARDS]):
        problems = list(_entry_problems(number, entry))
        yield from problems
        if not problems:
            yield from _contradictions(number, entry, sound)
            sound.append((number, entry))


def _entry_problems(number: int, entry: Mapping[str, str]) -> Iterator[ArgumentProblem]:
    resource = entry.get(RESOURCE, "")
    if not resource:
        yield _problem((number, RESOURCE), "is missing; it says which resource of nodes is the card, as amd.com/gpu")
    elif not _RESOURCE.fullmatch(resource) or _NATIVE.fullmatch(resource):
        yield _problem((number, RESOURCE), f"must be an extended resource, as amd.com/gpu, not {resource!r}")
    if (MODEL in entry) == (NAME in entry):
        how = "has both a model and a name" if MODEL in entry else "has neither a model nor a name"
        yield _problem((number,), f"{how}; say model, the label of nodes whose value is the card, or name, the card")
        return
    if MODEL in entry and not _LABEL.fullmatch(entry[MODEL]):
        yield _problem((number, MODEL), f"must be the key of a label of nodes, not {entry[MODEL]!r}")
    if NAME in entry:
        yield from _name_problems(number, resource, entry[NAME])


def _name_problems(number: int, resource: str, name: str) -> Iterator[ArgumentProblem]:
    if not is_plain(name) or name != name.strip() or "|" in name:
        what = "must be the name of a card, without | and without spaces around it"
        yield _problem((number, NAME), f"{what}, not {name!r}")
    elif resource_by_name(name) not in (None, resource):
        what = f"is the name of a share of a card, which is {resource_by_name(name)} and not {resource}"
        yield _problem((number, NAME), f"{what}; choose another")


def _contradictions(
    number: int, entry: Mapping[str, str], before: Sequence[tuple[int, Mapping[str, str]]]
) -> Iterator[ArgumentProblem]:
    """Yield the first entry before it that says the same, leaves it nothing, or calls another resource so."""
    resource, name = entry[RESOURCE], entry.get(NAME)
    for other, found in before:
        first = f"{CARDS}[{other}]"
        if entry == found:
            yield _problem((number,), f"says the same as {first}; leave one of them out")
        elif resource == found[RESOURCE] and NAME in found:
            message = f"never counts, as {first} names every {resource} {found[NAME]!r}"
            way_out = "; leave one of them out" if name else f"; put it before {first}"
            yield _problem((number,), f"contradicts {first}: it {message}{way_out}")
        elif name and name == found.get(NAME):
            message = f"calls {resource} {name!r}, and that is {found[RESOURCE]}; a card is of one resource"
            yield _problem((number, NAME), f"contradicts {first}: it {message}, so choose another name")
        else:
            continue
        return


def _problem(at: Place, message: str) -> ArgumentProblem:
    problem = ArgumentProblem(CARDS, message, at=at)
    return ArgumentProblem(CARDS, f"{problem.path} {message}", at=at)
