"""The cards that queues hold, as `status.allocated` of Queues has them: twice, for people and for programs.

    NVIDIA-A100/mps-80g*1/8               the card's name, as quotas and requests are written in
    volsched.io/NVIDIA-A100_mps-80g_1_8   the same as the name of an extended resource

The API server keeps both: keys of that list are any text, in Volcano's CRD as in ours. Go programs that read it as
resources, as Volcano's `NewResource` does, pass over keys that are no resource's name; the second form they take, in
thousandths as all extended resources. A card that is called like a resource (`cpu`) has the second form alone.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from plugins.capacity_card.usage import CardUsage
from volsched.plugin import CPU, Unit, unit_of
from volsched.plugin.devices import FLAT

PREFIX: Final = "volsched.io/"

_LONGEST: Final = 63
"""Characters of a resource's name behind its domain."""
_LONGEST_KNOWN: Final = 512
"""Characters of a name that is remembered: authors of pods write any."""
_HASH: Final = 8
_OTHER: Final = re.compile(r"[^-A-Za-z0-9_.]", re.ASCII)
_ENDS: Final = "-_."


class AllocatedCards:
    """What the placed pods of queues hold of cards."""

    def __init__(self, usage: CardUsage) -> None:
        self._usage = usage
        self._placed = usage.placed

    def take_changed(self) -> Iterable[str]:
        """Return the names of queues that may hold other cards than when this was last called."""
        changed, self._placed.changed = self._placed.changed, {}
        return changed

    def of(self, queue: str) -> Mapping[str, int]:
        """Return the milli-cards that a queue's own placed pods hold, under both names."""
        found: Counter[str] = Counter()
        taken = set(self._usage.catalogue.resources.values())
        for (card, _), amount in self._placed.own.of(queue).items():
            found[as_resource(card)] += amount
            if card not in taken and not _means_a_resource(card):
                found[card] += amount
        return found


def as_resource(card: str) -> str:
    """Return a card's name as that of an extended resource: what may not stand there is a `_`.

    A name that is too long ends in a hash of it.
    """
    return (_as_resource if len(card) <= _LONGEST_KNOWN else _as_resource.__wrapped__)(card)


@lru_cache(maxsize=4096)
def _as_resource(card: str) -> str:
    name = _OTHER.sub("_", card).strip(_ENDS)
    if len(name) > _LONGEST or not name:
        digest = hashlib.sha256(card.encode()).hexdigest()[:_HASH]
        name = f"{name[: _LONGEST - _HASH - 1]}-{digest}".lstrip(_ENDS)
    return PREFIX + name


def _means_a_resource(card: str) -> bool:
    """True if a name is read as that of a resource of nodes, or of devices, wherever it stands."""
    return card == CPU or FLAT in card or card.startswith(PREFIX) or unit_of(card) is not Unit.MILLI
