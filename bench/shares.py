"""The clusters of the other benches with cards that pods share by the plugin mgpu: each node has eight of them.

A pod of one card has 30 percent of a card instead, and 8 GiB of its memory; all others have whole cards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from bench import worlds
from bench.worlds import CARDS, CARDS_PER_NODE, Json
from plugins.mgpu.devices import CORE, MEMORY

CONFIGURATION: Final = worlds.BASE.replace(
    "  - name: predicates\n",
    "  - name: predicates\n  - name: mgpu\n    arguments:\n      predicate.MGPUEnable: true\n",
)
MIB_PER_CARD: Final = 81_920
SHARE: Final = {CORE: "30", MEMORY: "8192"}


def in_place_of_cards(objects: Iterable[Json]) -> Iterator[Json]:
    """Return the same objects, but nodes have cards to share, and pods ask for parts of these or for whole ones."""
    for item in objects:
        if item["kind"] == "Node":
            for amounts in (item["status"]["allocatable"], item["status"]["capacity"]):
                amounts.pop(CARDS, None)
                amounts |= {CORE: str(100 * CARDS_PER_NODE), MEMORY: str(MIB_PER_CARD * CARDS_PER_NODE)}
        elif item["kind"] == "Pod":
            resources = item["spec"]["containers"][0]["resources"]
            amounts = dict(resources["requests"])
            cards = int(amounts.pop(CARDS))
            amounts |= SHARE if cards == 1 else {CORE: str(100 * cards)}
            resources |= {"requests": amounts, "limits": amounts}
        yield item
