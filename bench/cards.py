"""The clusters of the other benches with quotas by card model: product labels, quotas, pods that name their cards.

Half of the pods take either of two models, and so are kept to their nodes by the names of their cards alone; the
others keep their node selector too. Four of twenty queues run dry soon.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from bench import worlds
from bench.worlds import CARD, CARDS, MODELS, Json

PRODUCTS: Final = {model: f"NVIDIA-{model.upper()}" for model in MODELS}
PLENTY: Final = 10**6
FEW: Final = 40
"""Cards of each model that a queue may hold: two gangs of one card each, and a half."""

CONFIGURATION: Final = worlds.BASE.replace("  - name: predicates\n", "  - name: predicates\n  - name: capacity-card\n")


def with_quotas(objects: Iterable[Json]) -> Iterator[Json]:
    """Return the same objects with labels and annotations of capacity-card."""
    queues = 0
    for item in objects:
        meta = item["metadata"]
        if item["kind"] == "Node":
            product = PRODUCTS[meta["labels"][CARD]]
            meta["labels"] |= {f"{CARDS}.product": product, f"{CARDS}.count": "8", f"{CARDS}.memory": "81920"}
        elif item["kind"] == "Queue":
            meta["annotations"] = {"volcano.sh/card.quota": json.dumps(_quotas(FEW if runs_dry(queues) else PLENTY))}
            item["spec"]["capability"] = {"cpu": str(PLENTY), "memory": f"{PLENTY}Gi"}
            queues += 1
        elif item["kind"] == "Pod" and int(item["spec"]["containers"][0]["resources"]["requests"][CARDS]):
            meta["annotations"]["volcano.sh/card.name"] = _names(item)
        yield item


def runs_dry(queue: int) -> bool:
    """Say whether the queue of this number has few cards."""
    return queue % 5 == 0


def _quotas(each: int) -> dict[str, int]:
    return dict.fromkeys(PRODUCTS.values(), each)


def _names(pod: Json) -> str:
    model = pod["spec"]["nodeSelector"][CARD]
    if int(pod["metadata"]["name"].split("-")[1]) // 7 % 2:
        return PRODUCTS[model]
    del pod["spec"]["nodeSelector"]
    other = MODELS[(MODELS.index(model) + 1) % len(MODELS)]
    return f"{PRODUCTS[model]}|{PRODUCTS[other]}"
