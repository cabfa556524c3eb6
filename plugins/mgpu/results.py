"""The result of a placement: annotations that travel in the Binding, and how they are read back.

    vke.volcengine.com/assumed: "true"
    vke.volcengine.com/gpu-index-container-<name>: "0,2"

one list for each container that has cards, ascending. Read back they are believed of pods with a node only: what stands
on a pod that waits is left over or forged, and the Binding writes over it. Some write the place of a container instead
of its name; that counts where no container has that name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from plugins.mgpu.devices import Cards
from plugins.mgpu.placement import Lists
from plugins.mgpu.requests import ContainerAsk
from volsched.plugin import FieldError, shortened

ASSUMED: Final = "vke.volcengine.com/assumed"
INDEX: Final = "vke.volcengine.com/gpu-index-container-"

_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


def written(asks: Sequence[ContainerAsk], lists: Lists, names: Sequence[str], ids: Sequence[str]) -> dict[str, str]:
    """Return the annotations. ``ids`` are the names of the cards, empty to write their indexes."""
    found = {ASSUMED: "true"}
    for (place, _), cards in zip(asks, lists, strict=True):
        found[INDEX + names[place]] = ",".join(ids[card] if ids else str(card) for card in cards)
    return found


def only_results(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return those annotations that state the cards of containers."""
    return {key: text for key, text in annotations.items() if key.startswith(INDEX)}


def without_results(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return annotations without those of a placement."""
    return {key: text for key, text in annotations.items() if key != ASSUMED and not key.startswith(INDEX)}


def lists_of(asks: Sequence[ContainerAsk], names: Sequence[str], annotations: Mapping[str, str], cards: Cards) -> Lists:
    """Return the cards of each container of a pod that has a node.

    FieldError when one is not told, or when what is told cannot be: other than so many different cards of the node.
    """
    return tuple(_list_of(place, ask.cards, names, annotations, cards) for place, ask in asks)


def _list_of(
    place: int, wanted: int, names: Sequence[str], annotations: Mapping[str, str], cards: Cards
) -> tuple[int, ...]:
    key = INDEX + names[place]
    if key not in annotations and str(place) not in names:
        key = f"{INDEX}{place}" if f"{INDEX}{place}" in annotations else key
    field, text = f"metadata.annotations[{key}]", annotations.get(key)
    if text is None:
        raise FieldError(field, "is missing")
    found = [_index(field, item, cards) for item in text.split(",")]
    if len(set(found)) < len(found):
        raise FieldError(field, f"names a card twice: {shortened(text, 40)!r}")
    if len(found) != wanted:
        raise FieldError(field, f"names {len(found)} cards, and the container has {wanted}")
    return tuple(sorted(found))


def _index(field: str, item: str, cards: Cards) -> int:
    if item in cards.ids:
        return cards.ids.index(item)
    if not _NUMBER.fullmatch(item):
        raise FieldError(field, f"{shortened(item, 40)!r} is no index of a card")
    if int(item) >= cards.count:
        raise FieldError(field, f"names card {int(item)}, and the node has {cards.count}, counted from 0")
    return int(item)
