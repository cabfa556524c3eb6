"""The cards of each node, and the pods on each: whole cards, slices, shared cards and devices together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from volsched.diagnose.records import AnswerRecord
from volsched.framework.config.configuration import Configuration
from volsched.framework.quota_report import CardUse
from volsched.model import api
from volsched.model.cards.inventory import cards_of_node as cards_of_node_labels
from volsched.model.cards.names import SHARED_AMOUNTS, CardNameFn
from volsched.model.cards.naming import BY_VENDOR_LABELS, first_name, no_names
from volsched.model.cards.node_cards import cards_of, idle_of
from volsched.model.cards.vendors import accelerators, is_amount
from volsched.model.cluster import Cluster
from volsched.model.dra.api import ResourceClaim, ResourceSlice
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_CHOSEN
from volsched.model.values.quantity import amount_of, format_amount
from volsched.registry import reports_in

_MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class CardNames:
    """The reading of cards without a standard label, by the plugins in force.

    ``name_of`` names the cards of a resource. ``shared`` are resources in which containers share cards, with their
    display names.
    """

    name_of: CardNameFn = no_names
    shared: Mapping[str, str] = field(default_factory=lambda: SHARED_AMOUNTS)


STANDARD: Final = CardNames()
"""Without any plugin: by the labels of the design, and Volcengine's resources of shared cards."""


def card_names_in(configuration: Configuration) -> CardNames:
    """Return how a configuration names cards. The first plugin that names a card decides."""
    reports = reports_in(configuration)
    names = first_name(report.card_name for report in reports if report.card_name is not None)
    shared = {resource: word for report in reports for resource, word in report.shared_cards.items()}
    return CardNames(names, {**SHARED_AMOUNTS, **shared})


class Cell(AnswerRecord, frozen=True):
    """One card, slice or device. ``holder`` is a pod's ``namespace/name``, several with commas; empty: it is free."""

    name: str
    holder: str


class Share(AnswerRecord, frozen=True):
    """The used part of a resource in which containers share cards: of ``limit``, and ``percent`` of it."""

    resource: str
    used: str
    limit: str
    percent: int


class NodeCards(AnswerRecord, frozen=True):
    """Cards of one model on a node. ``sort``: card (whole cards and slices), shared or device.

    ``resource`` is the one that pods request for whole cards and slices. ``promised``, ``stranded`` and ``unavailable``
    are free cards in these states, each card in one of them at most (see ``card_states``).
    """

    node: str
    model: str
    sort: str
    used: int
    total: int
    cells: tuple[Cell, ...] = ()
    shares: tuple[Share, ...] = ()
    resource: str = ""
    promised: float = 0
    stranded: float = 0
    unavailable: float = 0


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
    names: CardNames = STANDARD,
) -> Iterator[NodeCards]:
    """Yield the cards of one node, from its object, its usage in the mirror, and its devices.

    ``names`` are those of the configuration in force.
    """
    if node is not None:
        yield from _whole(node, info, names)
    if info is not None:
        yield from _shared(info, names.shared)
    for found in slices:
        yield from _devices(name, found, holder_of)


def _whole(node: api.Node, info: NodeInfo | None, names: CardNames) -> Iterator[NodeCards]:
    name = node.metadata.name
    for model, resource, total in _offered(node, names):
        holders = _holders(info, resource)
        on_cards = [*holders, *[""] * (total - len(holders))]
        cells = tuple(Cell(str(place), holder) for place, holder in enumerate(on_cards, 1))
        yield NodeCards(name, model, "card", len(holders), total, cells, resource=resource)


def _offered(node: api.Node, names: CardNames) -> Iterator[tuple[str, str, int]]:
    """Yield model, resource and number of a node's cards; if labels do not allow counting, their content."""
    labels, found = node.metadata.labels, cards_of_node_labels(node, names.name_of)
    for card in found.cards:
        if card.resource not in names.shared:
            yield card.name, card.resource, card.amount // _MILLI
    known = {card.resource for card in found.cards} | names.shared.keys()
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


def _shared(node: NodeInfo, shared: Mapping[str, str]) -> Iterator[NodeCards]:
    shares = tuple(_shares(node, shared))
    if shares:
        tasks = sorted(node.tasks.values(), key=lambda task: task.key)
        on_it = [task.key for task in tasks if any(task.template.request.get(name, 0) for name in shared)]
        cells = tuple(Cell(str(place), key) for place, key in enumerate(on_it, 1))
        yield NodeCards(node.name, "shared cards", "shared", len(on_it), len(on_it), cells, shares)


def _shares(node: NodeInfo, shared: Mapping[str, str]) -> Iterator[Share]:
    for resource, word in shared.items():
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
    """Yield the devices of a slice. Who reserved a claim that has one is on it."""
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


# --- of the whole cluster -------------------------------------------------------------------------------------------


def cards_of_cluster(cluster: Cluster, name_of: CardNameFn = no_names) -> dict[str, CardUse]:
    """Return the cards of all nodes, and those that pods of queues use, whether they name cards or not.

    For clusters in which no plugin has quotas of cards.
    """
    totals, idle, used = Counter[str](), Counter[str](), Counter[str]()
    for node in cluster.rows:
        amounts = {name: node.allocatable_of(name) for name in cluster.columns.names if "/" in name}
        for card in cards_of(node.labels, amounts, name_of).cards:
            totals[card.name] += card.amount
            idle[card.name] += idle_of(node, card)
            used[card.name] += sum(task.template.request.get(card.resource, 0) for task in _of_queues(cluster, node))
    return {name: CardUse(total, idle[name], used[name]) for name, total in sorted(totals.items())}


def _of_queues(cluster: Cluster, node: NodeInfo) -> Iterator[TaskInfo]:
    return (task for task in node.tasks.values() if task.queue in cluster.queues and IS_CHOSEN[task.status])
