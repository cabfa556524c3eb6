"""Which cards each node has, and who is on each: one account of whole cards, slices, shared cards and devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from plugins.capacity_card.cards.mapping import BY_VENDOR_LABELS, UNMAPPED, CardMapping
from plugins.capacity_card.cards.stock import cards_of_node as cards_of_node_labels
from plugins.capacity_card.cards.vendors import accelerators, is_amount
from plugins.mgpu.devices import CORE, MEMORY
from volsched.asking.records import AnswerRecord
from volsched.model import api
from volsched.model.dra.api import ResourceClaim, ResourceSlice
from volsched.model.nodes.node import NodeInfo
from volsched.model.values.quantity import amount_of, format_amount

_MILLI: Final = 1000
_SHARED: Final = {CORE: "core", MEMORY: "memory"}


class Cell(AnswerRecord, frozen=True):
    """One card, slice or device. ``holder`` is a pod's ``namespace/name``, several with commas; empty: it is free."""

    name: str
    holder: str


class Share(AnswerRecord, frozen=True):
    """What is used of a resource in which containers share cards: of ``limit``, and ``percent`` of it."""

    resource: str
    used: str
    limit: str
    percent: int


class NodeCards(AnswerRecord, frozen=True):
    """Cards of one model on a node. ``sort``: card (whole cards and slices), shared or device."""

    node: str
    model: str
    sort: str
    used: int
    total: int
    cells: tuple[Cell, ...] = ()
    shares: tuple[Share, ...] = ()


Device = tuple[str, str, str]
"""Driver, pool and name of a device."""


def by_model(cards: NodeCards) -> tuple[str, str, str]:
    """Return where cards stand in lists."""
    return cards.model, cards.node, cards.sort


def cards_of_node(
    name: str,
    node: api.Node | None,
    info: NodeInfo | None,
    slices: Iterable[ResourceSlice],
    holder_of: Callable[[Device], str],
    mapping: CardMapping = UNMAPPED,
) -> Iterator[NodeCards]:
    """Yield the cards of one node: as its object offers them, as the mirror counts it, and its devices.

    ``mapping`` is that of the configuration in force.
    """
    if node is not None:
        yield from _whole(node, info, mapping)
    if info is not None:
        yield from _shared(info)
    for found in slices:
        yield from _devices(name, found, holder_of)


def _whole(node: api.Node, info: NodeInfo | None, mapping: CardMapping) -> Iterator[NodeCards]:
    name = node.metadata.name
    for model, resource, total in _offered(node, mapping):
        holders = _holders(info, resource)
        names = [*holders, *[""] * (total - len(holders))]
        cells = tuple(Cell(str(place), holder) for place, holder in enumerate(names, 1))
        yield NodeCards(name, model, "card", len(holders), total, cells)


def _offered(node: api.Node, mapping: CardMapping) -> Iterator[tuple[str, str, int]]:
    """Yield model, resource and number of a node's cards; where labels are not enough to count by, what they state."""
    labels, found = node.metadata.labels, cards_of_node_labels(node, mapping)
    for card in found.cards:
        if card.resource not in _SHARED:
            yield card.name, card.resource, card.amount // _MILLI
    known = {card.resource for card in found.cards} | _SHARED.keys()
    for resource in accelerators(node.status.allocatable, known):
        amount = units_of(node, resource)
        if amount and not is_amount(resource):
            model = labels.get(f"{resource}.product") or BY_VENDOR_LABELS.card_of(resource, labels)
            yield model or resource, resource, amount


def units_of(node: api.Node, resource: str) -> int:
    """Return how many of a resource a node offers; none where that is no quantity."""
    try:
        return amount_of(resource, node.status.allocatable.get(resource, 0)) // _MILLI
    except ValueError:
        return 0


def _holders(node: NodeInfo | None, resource: str) -> list[str]:
    """Return the pod of each card that is taken on a node."""
    if node is None:
        return []
    tasks = sorted(node.tasks.values(), key=lambda task: task.key)
    return [task.key for task in tasks for _ in range(task.template.request.get(resource, 0) // _MILLI)]


def _shared(node: NodeInfo) -> Iterator[NodeCards]:
    shares = tuple(_shares(node))
    if shares:
        tasks = sorted(node.tasks.values(), key=lambda task: task.key)
        on_it = [task.key for task in tasks if task.template.request.get(CORE, 0)]
        cells = tuple(Cell(str(place), key) for place, key in enumerate(on_it, 1))
        yield NodeCards(node.name, "shared cards", "shared", len(on_it), len(on_it), cells, shares)


def _shares(node: NodeInfo) -> Iterator[Share]:
    for resource, word in _SHARED.items():
        limit = node.allocatable_of(resource)
        if limit:
            used = sum(task.template.request.get(resource, 0) for task in node.tasks.values())
            yield Share(
                word,
                str(format_amount(resource, used)),
                str(format_amount(resource, limit)),
                min(100, 100 * used // limit),
            )


def node_of_slice(found: ResourceSlice) -> str:
    """Return the node whose devices a slice has; empty for those of several nodes."""
    return str(found.spec.get("nodeName") or "") if isinstance(found.spec, Mapping) else ""


def pool_of_slice(found: ResourceSlice) -> tuple[str, str]:
    """Return driver and pool of a slice."""
    spec = found.spec if isinstance(found.spec, Mapping) else {}
    return str(spec.get("driver", "")), str((spec.get("pool") or {}).get("name", ""))


def _devices(node: str, found: ResourceSlice, holder_of: Callable[[Device], str]) -> Iterator[NodeCards]:
    """Yield the devices of a slice; who reserved a claim that has one is on it."""
    driver, pool = pool_of_slice(found)
    devices = found.spec.get("devices") or () if isinstance(found.spec, Mapping) else ()
    names = [str(device.get("name", "")) for device in devices]
    cells = tuple(Cell(name, holder_of((driver, pool, name))) for name in names)
    used = sum(1 for cell in cells if cell.holder)
    yield NodeCards(node, driver, "device", used, len(cells), cells)


def devices_of_claim(claim: ResourceClaim) -> list[Device]:
    """Return the devices that a claim was given."""
    results = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
    return [(result.driver, result.pool, result.device) for result in results]


def holders_of_claim(claim: ResourceClaim) -> list[str]:
    """Return the pods that reserved a claim, else the claim itself."""
    return [f"{claim.metadata.namespace}/{user.name}" for user in claim.status.reserved_for] or [claim.key]
