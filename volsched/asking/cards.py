"""Which cards each node has, and who is on each: one account of whole cards, slices, shared cards and devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from plugins.capacity_card.cards.stock import stock_of
from plugins.mgpu.devices import CORE, MEMORY
from volsched.asking.records import Record
from volsched.model import api
from volsched.model.cluster import Cluster
from volsched.model.dra.api import ResourceClaim, ResourceSlice
from volsched.model.node import NodeInfo
from volsched.model.values.quantity import format_amount

_MILLI: Final = 1000
_SHARED: Final = {CORE: "core", MEMORY: "memory"}


class Cell(Record, frozen=True):
    """One card, slice or device. ``holder`` is a pod's ``namespace/name``, several with commas; empty: it is free."""

    name: str
    holder: str


class Share(Record, frozen=True):
    """What is used of a resource in which containers share cards: of ``limit``, and ``percent`` of it."""

    resource: str
    used: str
    limit: str
    percent: int


class NodeCards(Record, frozen=True):
    """Cards of one model on a node. ``sort``: card (whole cards and slices), shared or device."""

    node: str
    model: str
    sort: str
    used: int
    total: int
    cells: tuple[Cell, ...] = ()
    shares: tuple[Share, ...] = ()


def cards_by_node(cluster: Cluster, objects: Iterable[api.ApiObject]) -> tuple[NodeCards, ...]:
    """Return all cards by model and node.

    Which of several equal cards a pod was given is known to the node alone, so holders are put in order of their names.
    """
    known = list(objects)
    found = [
        *_whole(cluster, [each for each in known if isinstance(each, api.Node)]),
        *_shared(cluster),
        *_devices(known),
    ]
    return tuple(sorted(found, key=lambda cards: (cards.model, cards.node)))


def _whole(cluster: Cluster, nodes: Iterable[api.Node]) -> Iterator[NodeCards]:
    for name, offered in stock_of(nodes).nodes.items():
        node = cluster.nodes.get(name)
        for card in offered.cards:
            total = card.amount // _MILLI
            holders = _holders(node, card.resource)
            names = [*holders, *[""] * (total - len(holders))]
            cells = tuple(Cell(str(place), holder) for place, holder in enumerate(names, 1))
            yield NodeCards(name, card.name, "card", len(holders), total, cells)


def _holders(node: NodeInfo | None, resource: str) -> list[str]:
    """Return the pod of each card that is taken on a node."""
    if node is None:
        return []
    tasks = sorted(node.tasks.values(), key=lambda task: task.key)
    return [task.key for task in tasks for _ in range(task.template.request.get(resource, 0) // _MILLI)]


def _shared(cluster: Cluster) -> Iterator[NodeCards]:
    for name, node in cluster.nodes.items():
        shares = tuple(_shares(node))
        if shares:
            tasks = sorted(node.tasks.values(), key=lambda task: task.key)
            on_it = [task.key for task in tasks if task.template.request.get(CORE, 0)]
            cells = tuple(Cell(str(place), key) for place, key in enumerate(on_it, 1))
            yield NodeCards(name, "shared cards", "shared", len(on_it), len(on_it), cells, shares)


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


def _devices(objects: list[api.ApiObject]) -> Iterator[NodeCards]:
    """Yield the devices of each slice of a node; who reserved a claim that has one is on it."""
    holders = _holders_of_devices(each for each in objects if isinstance(each, ResourceClaim))
    for each in objects:
        spec = each.spec if isinstance(each, ResourceSlice) and isinstance(each.spec, Mapping) else {}
        if spec.get("nodeName"):
            driver, pool = str(spec.get("driver", "")), str((spec.get("pool") or {}).get("name", ""))
            names = [str(device.get("name", "")) for device in spec.get("devices") or ()]
            cells = tuple(Cell(name, holders.get((driver, pool, name), "")) for name in names)
            used = sum(1 for cell in cells if cell.holder)
            yield NodeCards(str(spec["nodeName"]), driver, "device", used, len(cells), cells)


def _holders_of_devices(claims: Iterable[ResourceClaim]) -> dict[tuple[str, str, str], str]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for claim in claims:
        results = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
        pods = [f"{claim.metadata.namespace}/{user.name}" for user in claim.status.reserved_for]
        for result in results:
            found.setdefault((result.driver, result.pool, result.device), []).extend(pods or [claim.key])
    return {device: ", ".join(sorted(set(pods))) for device, pods in found.items()}
