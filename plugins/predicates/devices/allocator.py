"""The search for devices of claims on a node, with a cache that holds until devices change.

A search that reached its limit on several nodes is not tried again for claims like these. Nodes for which a session had
no time are asked again in a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from plugins.predicates.devices.resource_claims import ClaimNeeds
from plugins.predicates.verdicts import node_refusal
from volsched.plugin import NodeInfo, Seen, Verdict, selects
from volsched.plugin.devices import Choice, Claim, Devices, Impossible, Limits, Pools, Selectors, Unfit, choose

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
        self._given_up: dict[Hashable, int] = {}
        self._given_up_at = Seen()
        self._faults: dict[Hashable, dict[str, str]] = {}
        self._faults_at = Seen()
        self._postponed: set[Hashable] = set()

    def begin(self, clock: Callable[[], float]) -> bool:
        """Begin a session; return True if nodes have to be asked again for which the last one had no time."""
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

    def choose(self, needs: ClaimNeeds, claims: Sequence[Claim], node: NodeInfo) -> Choice | Verdict:
        """Return the devices that these claims of a pod would get on a node, or why they get none."""
        if needs.given_up or any(selector is not None and not selects(selector, node) for _, selector in needs.given):
            return UNREACHED
        if not claims:
            return []
        if self._is_too_hard(needs.key):
            return TOO_HARD
        found = self.search(claims, node, needs.limits)
        if isinstance(found, Unfit) and needs.limits and not found.is_postponed:
            found = self.search(claims, node, {})
        if isinstance(found, Unfit) and found.is_postponed:
            self._postponed.add(needs.key)
        if isinstance(found, Unfit) and found.gave_up:
            self._given_up[needs.key] = self._given_up.get(needs.key, 0) + 1
        faults = self.faults_of(needs.key)
        faults.pop(node.name, None)
        if isinstance(found, Impossible):
            faults[node.name] = found.message
            return node_refusal(found.message, resolvable=False)
        return node_refusal(found.reason, resolvable=not found.gave_up) if isinstance(found, Unfit) else found

    def search(self, claims: Sequence[Claim], node: NodeInfo, limits: Limits) -> Choice | Unfit | Impossible:
        """Search once, within these limits."""
        devices, pools = self._devices, self._pools.of(node)
        self._selectors.ask_for(claims[0].key.partition("/")[0] if claims else "")
        return choose(claims, pools, devices.classes, devices.usage, self._selectors, limits=limits)

    def faults_of(self, key: Hashable) -> dict[str, str]:
        """Return the nodes on which claims like these were not judged: one is enough to keep a pod waiting."""
        if self._faults_at.differs(self._devices.version):
            self._faults.clear()
        return self._faults.setdefault(key, {})

    def _is_too_hard(self, key: Hashable) -> bool:
        """True if claims like these were too hard on so many nodes that others are not tried for now."""
        if self._given_up_at.differs(self._devices.claims_version):
            self._given_up.clear()
        return self._given_up.get(key, 0) >= MOST_TRIES
