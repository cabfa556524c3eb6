"""What is written into a claim when its devices are chosen."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from volsched.framework.dra.capacity import quantity_text
from volsched.framework.dra.search import Chosen
from volsched.model import api
from volsched.model.dra import api as dra
from volsched.model.dra.device import Claim, ClassSpec

FROM_CLASS: Final = "FromClass"
FROM_CLAIM: Final = "FromClaim"

_SHARES: Final = uuid.UUID("5f1a1c9e-4a7e-5f0e-9a57-3c7d1e6f2b10")


def allocation_of(
    claim: Claim, chosen: Sequence[Chosen], classes: Mapping[str, ClassSpec], node: str
) -> dra.Allocation:
    """Return the allocation of a claim on a node."""
    results = tuple([_result(claim, number, one) for number, one in enumerate(chosen)])
    config: tuple[dra.AllocatedConfiguration, ...] = ()
    if claim.spec.config or any(classes[one.ask.device_class].config for one in chosen):
        config = (*_of_classes(claim, chosen, classes), *_of_claim(claim, chosen))
    return dra.Allocation(dra.DevicesAllocated(results, config), node_selector_of(chosen, node))


def _result(claim: Claim, number: int, chosen: Chosen) -> dra.DeviceResult:
    request, ask, _, device, consumed = chosen
    name = device.id
    return dra.DeviceResult(
        request.full_name(ask),
        name.driver,
        name.pool,
        name.device,
        True if ask.admin else None,
        ask.tolerations,
        device.conditions,
        device.failure_conditions,
        None if consumed is None else str(uuid.uuid5(_SHARES, f"{claim.uid}/{number}/{name}")),
        {} if consumed is None else {key: quantity_text(taken) for key, taken in consumed.items()},
    )


def _picked(claim: Claim, chosen: Sequence[Chosen]) -> list[tuple[str, str]]:
    """Return, for each request of a claim, the name of what was picked, and its class."""
    picked = {one.request.name: (one.request.full_name(one.ask), one.ask.device_class) for one in chosen}
    return [picked[request.name] for request in claim.spec.requests if request.name in picked]


def _of_classes(
    claim: Claim, chosen: Sequence[Chosen], classes: Mapping[str, ClassSpec]
) -> Iterator[dra.AllocatedConfiguration]:
    """Yield the configuration of each class once, for all requests that use it."""
    users: dict[str, list[str]] = {}
    for name, device_class in _picked(claim, chosen):
        users.setdefault(device_class, []).append(name)
    for device_class, names in users.items():
        for config in classes[device_class].config:
            yield dra.AllocatedConfiguration(FROM_CLASS, tuple(names), config.opaque)


def _of_claim(claim: Claim, chosen: Sequence[Chosen]) -> Iterator[dra.AllocatedConfiguration]:
    """Yield what the claim states itself for all requests, or for one that was picked."""
    names = {name for name, _ in _picked(claim, chosen)} | {request.name for request in claim.spec.requests}
    for config in claim.spec.config:
        if not config.requests or not names.isdisjoint(config.requests):
            yield dra.AllocatedConfiguration(FROM_CLAIM, config.requests, config.opaque)


def node_selector_of(chosen: Iterable[Chosen], node: str) -> api.NodeSelector | None:
    """Return from which nodes all devices can be used: one, those that all their selectors allow, or all (None)."""
    labels: dict[object, api.LabelSelectorRequirement] = {}
    fields: dict[object, api.LabelSelectorRequirement] = {}
    for one in chosen:
        place = one.part.place or one.device.place
        if one.device.binds_to_node or (place is not None and place.node):
            return _only(node)
        if place is not None and place.term is not None:
            for requirement in place.term.match_expressions:
                labels.setdefault(_identity(requirement), requirement)
            for requirement in place.term.match_fields:
                fields.setdefault(_identity(requirement), requirement)
    if not labels and not fields:
        return None
    return api.NodeSelector((api.NodeSelectorTerm(tuple(labels.values()), tuple(fields.values())),))


@lru_cache(maxsize=1 << 14)
def _only(node: str) -> api.NodeSelector:
    only = api.LabelSelectorRequirement("metadata.name", "In", (node,))
    return api.NodeSelector((api.NodeSelectorTerm(match_fields=(only,)),))


def _identity(requirement: api.LabelSelectorRequirement) -> object:
    return requirement.key, requirement.operator, frozenset(requirement.values)
