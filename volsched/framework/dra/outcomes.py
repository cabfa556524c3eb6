"""Outcomes of searches for devices, each known for all nodes that are alike (`framework.dra.states`).

A backlog of equal claims on equal nodes needs as many searches as a node has states. What is kept tells devices by
their places on the node, so that it can be read for any other. What names a device or a pool (`Impossible`, a pool that
cannot be used) is searched for on each node, and so is what was ended early by the budget of selectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from volsched.framework.dra.reads import Read, reads_of
from volsched.framework.dra.search import Choice, Chosen, Impossible, Limits, Unfit, choose
from volsched.framework.dra.selectors import Selectors
from volsched.framework.dra.states import EVERYTHING, NodePools, Reads
from volsched.model.dra.device import Claim, ClassSpec
from volsched.model.dra.devices import Devices

MOST_KEPT: Final = 1 << 14
MOST_DEMANDS: Final = 1 << 12
MOST_READS: Final = 64
"""What is read of devices by claims whose outcomes are kept: a tenant may write claims that read thousands of names."""

FOUND: Final = "found"
NONE: Final = "none"
ERROR: Final = "error"
GAVE_UP: Final = "gave_up"
POSTPONED: Final = "postponed"
KNOWN: Final = "known"
RESULTS: Final = (FOUND, NONE, ERROR, GAVE_UP, POSTPONED, KNOWN)
"""How searches end. `KNOWN`: there was none, as the outcome was known."""


class Pick(NamedTuple):
    """One device of a claim: which alternative of which request it serves, and its place among a node's devices."""

    request: int
    alternative: int
    place: int
    consumed: Mapping[str, Fraction] | None


@dataclass(frozen=True, slots=True)
class Picks:
    """The devices that claims get, by their places."""

    of_claims: tuple[tuple[Pick, ...], ...]

    def on(self, claims: Sequence[Claim], pools: NodePools) -> Choice:
        """Return the devices of a node for these claims."""
        offers, choice = pools.offers, []
        for claim, picks in zip(claims, self.of_claims, strict=True):
            requests, chosen = claim.spec.requests, []
            for number, alternative, place, consumed in picks:
                request = requests[number]
                _, part, device = offers[place]
                chosen.append(Chosen(request, request.alternatives[alternative], part, device, consumed))
            choice.append(chosen)
        return choice

    @classmethod
    def of(cls, claims: Sequence[Claim], choice: Choice, pools: NodePools) -> Picks:
        """Return what was chosen for claims on a node."""
        places = {id(device): place for place, (_, _, device) in enumerate(pools.offers)}
        return cls(
            tuple(
                tuple(
                    Pick(
                        claim.spec.requests.index(one.request),
                        one.request.alternatives.index(one.ask),
                        places[id(one.device)],
                        one.consumed,
                    )
                    for one in chosen
                )
                for claim, chosen in zip(claims, choice, strict=True)
            )
        )


class _Demand(NamedTuple):
    """What some claims ask for together: a number, and what their selectors and constraints read of devices."""

    number: int
    reads: Reads


class Outcomes:
    """The outcomes of searches. ``counts`` has how many there were, by how they ended."""

    def __init__(self, devices: Devices, selectors: Selectors) -> None:
        self._devices = devices
        self._selectors = selectors
        self._known: dict[tuple[object, ...], Picks | Unfit] = {}
        self._demands: dict[object, _Demand] = {}
        self._demands_made = 0
        self._classes_version = -1
        self.counts: dict[str, int] = dict.fromkeys(RESULTS, 0)

    def of(self, claims: Sequence[Claim], pools: NodePools, limits: Limits) -> Picks | Unfit | Impossible:
        """Return the devices that claims get on a node, searched for if no search has told yet."""
        demand = self._demand_of(claims)
        layout = pools.layout(demand.reads)
        key: tuple[object, ...] = (demand.number, layout, pools.state(self._devices.usage))
        if limits:
            key += tuple(sorted(limits.items()))
        known = self._known.get(key) if layout else None
        if known is not None:
            self.counts[KNOWN] += 1
            return known
        found = self._search(claims, pools, limits)
        if layout and not isinstance(found, Impossible) and not (isinstance(found, Unfit) and found.is_postponed):
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[key] = found
        return found

    def _search(self, claims: Sequence[Claim], pools: NodePools, limits: Limits) -> Picks | Unfit | Impossible:
        devices = self._devices
        self._selectors.ask_for(claims[0].key.partition("/")[0])
        found = choose(claims, pools.pools, devices.classes, devices.usage, self._selectors, limits=limits)
        self.counts[_result_of(found)] += 1
        return Picks.of(claims, found, pools) if isinstance(found, list) else found

    def _demand_of(self, claims: Sequence[Claim]) -> _Demand:
        """Return what these claims ask for; with every change of a DeviceClass it counts as something else."""
        devices = self._devices
        if self._classes_version != devices.classes_version or len(self._demands) > MOST_DEMANDS:
            self._classes_version = devices.classes_version
            self._demands.clear()
        key = claims[0].spec.shape if len(claims) == 1 else tuple(claim.spec.shape for claim in claims)
        found = self._demands.get(key)
        if found is None:
            self._demands_made += 1
            found = self._demands[key] = _Demand(self._demands_made, _reads_of(claims, devices.classes))
        return found


def _result_of(found: Choice | Unfit | Impossible) -> str:
    if isinstance(found, Unfit):
        return POSTPONED if found.is_postponed else GAVE_UP if found.gave_up else NONE
    return ERROR if isinstance(found, Impossible) else FOUND


def _reads_of(claims: Sequence[Claim], classes: Mapping[str, ClassSpec]) -> Reads:
    """Return what of devices the selectors and constraints of claims read."""
    reads: set[Read] = set()
    for claim in claims:
        for request in claim.spec.requests:
            for ask in request.alternatives:
                found = classes.get(ask.device_class)
                for expression in (*(found.selectors if found is not None else ()), *ask.selectors):
                    read = reads_of(expression)
                    if read is None:
                        return EVERYTHING
                    reads.update(read)
        for constraint in claim.spec.constraints:
            attribute = constraint.distinct_attribute or constraint.match_attribute or ""
            domain, slash, name = attribute.partition("/")
            if not slash:
                return EVERYTHING
            reads.add(("attributes", domain, name))
    return tuple(sorted(reads)) if len(reads) <= MOST_READS else EVERYTHING
