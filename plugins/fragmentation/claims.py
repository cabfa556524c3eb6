"""What the ResourceClaims of pods ask of devices.

A request counts by its number of devices, one for all devices of a node with 0 in its place; of alternatives the first
counts. Devices for administrators count for nothing, as they are shared with their users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Final, NamedTuple

from volsched.plugin import MOST_KEPT, Bounded, Seen, TaskInfo
from volsched.plugin.devices import Ask, ClaimSpec, Devices

ALL: Final = 0
"""In the place of a number of devices: all of a node."""


class Wanted(NamedTuple):
    """Which devices a request selects: the selectors of its class and its own, and how much of their capacity."""

    selectors: tuple[str, ...]
    capacity: tuple[tuple[str, Fraction], ...] = ()

    @property
    def is_long(self) -> bool:
        """True if its selectors are not remembered: tenants write them."""
        return sum(map(len, self.selectors)) > LONGEST


LONGEST: Final = 4096
"""Characters of the selectors of a request of which something is remembered when the claim is gone."""

Claimed = tuple[tuple[Wanted, int], ...]
"""What a pod's claims ask for: of which devices, and how many."""

NOTHING: Final[Claimed] = ()


class Claims:
    """Reads the claims of pods."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._classes_seen = Seen()
        self._known: Bounded[bytes, Claimed] = Bounded(MOST_KEPT)

    def still_to_allocate(self, task: TaskInfo) -> Claimed:
        """Return what those claims of a pod ask for that have no devices yet."""
        if not task.template.has_resource_claims:
            return NOTHING
        claims = [self._devices.claims.get(key) for key in dict.fromkeys(key for _, key in task.claims_by_entry())]
        return self.asked(c.spec for c in claims if c is not None and self._devices.allocation_of(c) is None)

    def specs(self, task: TaskInfo) -> Iterator[tuple[str, ClaimSpec]]:
        """Yield the claims of a pod by key, also claims still to be made. Pods that share a claim share its key."""
        names = dict(task.spec.claim_names)
        for use, key in task.claims_by_entry():
            claim = self._devices.claims.get(key)
            if claim is not None:
                yield claim.key, claim.spec
            elif use.template and (use.name not in names or key):
                spec = self._devices.templates.get(f"{task.namespace}/{use.template}")
                if spec is not None:
                    yield f"{task.uid}/{use.name}", spec

    def sources(self, task: TaskInfo) -> Iterator[str]:
        """Yield the keys of the claims and templates that decide what a pod's claims ask for."""
        for use, key in task.claims_by_entry():
            if key:
                yield key
            if use.template:
                yield f"{task.namespace}/{use.template}"

    def asked(self, specs: Iterable[ClaimSpec]) -> Claimed:
        """Return what some claims ask for together."""
        if self._classes_seen.differs(self._devices.classes_version):
            self._known.clear()
        return tuple(found for spec in specs for found in self._asked_by(spec))

    def _asked_by(self, spec: ClaimSpec) -> Claimed:
        if spec.fault:
            return NOTHING
        found = self._known.recall(spec.shape)
        if found is None:
            found = tuple(self._requests(spec))
            if not spec.is_long:
                self._known[spec.shape] = found
        return found

    def _requests(self, spec: ClaimSpec) -> Iterator[tuple[Wanted, int]]:
        for request in spec.requests:
            ask = request.alternatives[0]
            selectors = self._selectors_of(ask)
            if selectors is not None and not ask.admin:
                yield Wanted(selectors, ask.capacity), ALL if ask.takes_all else ask.count

    def _selectors_of(self, ask: Ask) -> tuple[str, ...] | None:
        """Return the selectors of a request's class and its own, or None while its class is not there."""
        found = self._devices.classes.get(ask.device_class)
        return (*found.selectors, *ask.selectors) if found is not None and not found.fault else None
