"""The search for devices of claims on a node, with a cache that holds until devices change.

A search that reached its limit on several nodes is not tried again for claims like these. Nodes for which a session had
no time are asked again in a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

from plugins.predicates.devices.resource_claims import ClaimNeeds
from plugins.predicates.verdicts import node_refusal
from volsched.framework.dra.states import NodePools
from volsched.plugin import NodeInfo, Seen, Verdict, selects
from volsched.plugin.devices import (
    Choice,
    Claim,
    Devices,
    Impossible,
    Limits,
    Outcomes,
    Picks,
    Pools,
    Selectors,
    Unfit,
)

UNREACHED: Final = node_refusal("resourceclaim not available on the node", resolvable=False)
TOO_HARD: Final = node_refusal("too many combinations of devices to try", resolvable=False)
MOST_TRIES: Final = 3
"""The number of nodes on which a search may reach its limit before it is given up for all."""


class DeviceAllocator:
    """Chooses devices. ``rounds`` counts how often nodes that were postponed had to be asked again."""

    def __init__(self, devices: Devices, selector_seconds: float) -> None:
        self.rounds = 0
        self._devices = devices
        self._pools = Pools(devices)
        self._selectors = Selectors(selector_seconds)
        self._outcomes = Outcomes(devices, self._selectors)
        self._given_up: dict[Hashable, int] = {}
        self._given_up_at = Seen()
        self._faults: dict[Hashable, dict[str, str]] = {}
        self._faults_at = Seen()
        self._postponed: set[Hashable] = set()

    def begin(self, clock: Callable[[], float]) -> bool:
        """Begin a session. Return True if nodes have to be asked again for which the last one had no time."""
        self._selectors.begin(clock)
        if not self._postponed:
            return False
        self._postponed.clear()
        self.rounds += 1
        return True

    @property
    def is_behind(self) -> bool:
        """True if nodes were not judged yet, as that would have taken long."""
        return bool(self._postponed)

    def refusal(self, needs: ClaimNeeds, claims: Sequence[Claim], node: NodeInfo) -> Verdict | None:
        """Return why these claims of a pod get no devices on a node, or None when they get some."""
        if needs.given and not _is_reached(needs, node):
            return UNREACHED
        found = self._found(needs, claims, node, self._pools.of(node)) if claims else None
        return found if isinstance(found, Verdict) else None

    def choose(self, needs: ClaimNeeds, claims: Sequence[Claim], node: NodeInfo) -> Choice | Verdict:
        """Return the devices that these claims of a pod would get on a node, or why they get none."""
        if needs.given and not _is_reached(needs, node):
            return UNREACHED
        if not claims:
            return []
        pools = self._pools.of(node)
        found = self._found(needs, claims, node, pools)
        return found if isinstance(found, Verdict) else found.on(claims, pools)

    def _found(self, needs: ClaimNeeds, claims: Sequence[Claim], node: NodeInfo, pools: NodePools) -> Picks | Verdict:
        if self._given_up and self._is_too_hard(needs.key):
            return TOO_HARD
        found = self._outcomes.of(claims, pools, needs.limits)
        if needs.limits and isinstance(found, Unfit) and not found.is_postponed:
            found = self._outcomes.of(claims, pools, {})
        if isinstance(found, Impossible):
            self.faults_of(needs.key)  # those of other versions are forgotten
            self._faults.setdefault(needs.key, {})[node.name] = found.message
            return node_refusal(found.message, resolvable=False)
        if self._faults:
            self._faults.get(needs.key, {}).pop(node.name, None)
        if isinstance(found, Picks):
            return found
        if found.is_postponed:
            self._postponed.add(needs.key)
        if found.gave_up:
            self._is_too_hard(needs.key)
            self._given_up[needs.key] = self._given_up.get(needs.key, 0) + 1
        return node_refusal(found.reason, resolvable=not found.gave_up)

    def search(self, claims: Sequence[Claim], node: NodeInfo, limits: Limits) -> Picks | Unfit | Impossible:
        """Search once, within these limits."""
        return self._outcomes.of(claims, self._pools.of(node), limits)

    @property
    def searches(self) -> Mapping[str, int]:
        """How many searches there were, by how they ended."""
        return self._outcomes.counts

    def faults_of(self, key: Hashable) -> Mapping[str, str]:
        """Return the nodes on which claims like these could not be judged: one is enough to keep a pod waiting."""
        if self._faults_at.differs(self._devices.version):
            self._faults.clear()
        return self._faults.get(key, {})

    def _is_too_hard(self, key: Hashable) -> bool:
        """True if claims like these were too hard on so many nodes that others are not tried for now."""
        if self._given_up_at.differs(self._devices.claims_version):
            self._given_up.clear()
        return self._given_up.get(key, 0) >= MOST_TRIES


def _is_reached(needs: ClaimNeeds, node: NodeInfo) -> bool:
    """True if the devices that claims of a pod have can be used from a node."""
    if needs.given_up:
        return False
    return all(selector is None or selects(selector, node) for _, selector in needs.given)
