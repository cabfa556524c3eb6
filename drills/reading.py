"""What pods, nodes and Queues say of amounts and cards, read for the auditor alone.

Nothing of volsched's own reading is used: a mistake there would be made twice, and found by nobody. Only what the
drills create is understood.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

Json = dict[str, Any]

GROUP_NAME: Final = "scheduling.k8s.io/group-name"
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
CARD_NAME: Final = "volcano.sh/card.name"
CARD_QUOTA: Final = "volcano.sh/card.quota"
CORE: Final = "vke.volcengine.com/mgpu-core"
MEMORY: Final = "vke.volcengine.com/mgpu-memory"
INDEX: Final = "vke.volcengine.com/gpu-index-container-"

_UNITS: Final[Mapping[str, Decimal]] = {
    **{f"{prefix}i": Decimal(1024) ** power for power, prefix in enumerate("KMGTPE", 1)},
    **{prefix: Decimal(1000) ** power for power, prefix in enumerate("kMGTPE", 1)},
    "m": Decimal("0.001"),
}


class Share(NamedTuple):
    """A part of one card: percent of its compute, MiB of its memory."""

    card: int
    core: int
    memory: int


@lru_cache(maxsize=1024)
def amount(text: str) -> Decimal:
    """Return a quantity as a number."""
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return Decimal(text.removesuffix(unit)) * factor
    return Decimal(text)


def amounts(said: Mapping[str, Any] | None) -> dict[str, Decimal]:
    """Return a list of resources as numbers."""
    return {resource: amount(str(text)) for resource, text in (said or {}).items()}


def notes_of(thing: Json) -> dict[str, str]:
    """Return the annotations of an object."""
    return thing["metadata"].get("annotations") or {}


def key_of(thing: Json) -> str:
    """Return namespace and name of an object, or the name where there is no namespace."""
    metadata = thing["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def requests_of(pod: Json) -> dict[str, Decimal]:
    """Return what a pod asks for, its place among a node's pods included."""
    spec = pod["spec"]
    found = {"pods": Decimal(1)}
    for container in spec["containers"]:
        for resource, number in amounts(container["resources"].get("requests")).items():
            found[resource] = found.get(resource, Decimal(0)) + number
    for container in spec.get("initContainers") or ():
        for resource, number in amounts(container["resources"].get("requests")).items():
            found[resource] = max(found.get(resource, number), number)
    for resource, number in amounts(spec.get("overhead")).items():
        found[resource] = found.get(resource, Decimal(0)) + number
    served = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    for mapping in served.get("requestMappings", ()):  # the pod has it from devices, and nothing of the node
        found.pop(mapping["resourceName"], None)
    return found


def is_finished(pod: Json) -> bool:
    """Whether a pod holds nothing any more."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def card_of(node: Json, resource: str) -> str:
    """Return the name of the card that a node offers as this resource, empty when it is none."""
    labels = node["metadata"].get("labels") or {}
    prefix, _, kind = resource.partition("/")
    if kind.startswith("mig-"):
        product = labels.get(f"{prefix}/gpu.product", "")
        return f"{product}/{kind}-mixed" if product else ""
    product = labels.get(f"{resource.removesuffix('.shared')}.product", "")
    if not product or not kind.endswith(".shared"):
        return str(product)
    gigabytes = int(int(labels[f"{prefix}/gpu.memory"]) / 1024 + 0.5)
    return f"{product}/mps-{gigabytes}g*1/{labels[f'{prefix}/gpu.replicas']}"


def charges_of(pod: Json, node: Json) -> dict[str, Decimal]:
    """Return the cards that a pod with a node is charged for; one that names no card is charged for none."""
    if CARD_NAME not in notes_of(pod):
        return {}
    offered = {card_of(node, resource): number for resource, number in requests_of(pod).items()}
    return {card: number for card, number in offered.items() if card}


def quota_of(queue: Json) -> dict[str, Decimal]:
    """Return how many cards a Queue may hold; what it does not name it may not hold."""
    return amounts(json.loads(notes_of(queue).get(CARD_QUOTA, "{}")))


def shares_of(pod: Json, card_memory: int) -> Iterator[Share]:
    """Yield the parts of cards that a pod was given, whole ones with all their memory.

    Raises ValueError when it asks for some and its annotations say none, or too few.
    """
    for container in pod["spec"]["containers"]:
        asked = amounts(container["resources"].get("requests"))
        if core := int(asked.get(CORE, 0)):
            yield from _shares_of_container(pod, container["name"], core, int(asked.get(MEMORY, 0)), card_memory)


def _shares_of_container(pod: Json, name: str, core: int, memory: int, card_memory: int) -> Iterator[Share]:
    text = notes_of(pod).get(f"{INDEX}{name}", "")
    if not text:
        raise ValueError(f"container {name} has no cards written")
    cards = [int(index) for index in text.split(",")]
    if len(set(cards)) != len(cards):
        raise ValueError(f"container {name} has a card twice: {text}")
    if core > 100 * len(cards):
        raise ValueError(f"container {name} asks for {core} percent and has cards {text}")
    each = core // len(cards)
    for card in cards:
        yield Share(card, each, card_memory if each == 100 else memory // len(cards))
