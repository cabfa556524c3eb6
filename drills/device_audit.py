"""What an auditor counts again of devices: who has which, how much of them, and in what order it was written.

Claims and pods come through watches of their own. Their order is that of the versions that the API server gives them,
which count up over all kinds. So whether a claim was reserved before its pod was bound is judged in the end, when all
has been seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Final, NamedTuple

from drills.reading import Json, amount, key_of

FINALIZER: Final = "resource.kubernetes.io/delete-protection"


class DeviceKey(NamedTuple):
    """A device, as results of allocations name it."""

    driver: str
    pool: str
    device: str


class DeviceAudit:
    """Told of slices, claims and bound pods; each call yields what is wrong, in words."""

    def __init__(self) -> None:
        self.slices: dict[str, Json] = {}
        self.claims: dict[str, Json] = {}
        self._reserved: dict[tuple[str, str], int] = {}
        """By claim and uid of a pod: the version that first reserved the claim for the pod."""
        self._bound: dict[str, tuple[str, int, tuple[str, ...]]] = {}
        """By uid: name, version of the binding, and claims of a pod that is not judged yet."""

    def see_slice(self, found: Json, *, is_deleted: bool) -> None:
        """Take a slice in."""
        if is_deleted:
            self.slices.pop(key_of(found), None)
        else:
            self.slices[key_of(found)] = found

    def list_claims(self, claims: list[Json]) -> None:
        """Take in listed claims. A list does not tell when a claim was reserved, so that counts as in time."""
        for claim in claims:
            for consumer in claim.get("status", {}).get("reservedFor", ()):
                self._reserved.setdefault((key_of(claim), consumer["uid"]), 0)

    def see_claim(self, claim: Json, *, is_deleted: bool) -> Iterator[str]:
        """Take a version of a claim in."""
        key = key_of(claim)
        if is_deleted:
            self.claims.pop(key, None)
            return
        before = self.claims.get(key)
        self.claims[key] = claim
        for consumer in claim.get("status", {}).get("reservedFor", ()):
            self._reserved.setdefault((key, consumer["uid"]), int(claim["metadata"]["resourceVersion"]))
        results = results_of(claim)
        if not results or (before is not None and results_of(before) == results):
            return
        if FINALIZER not in claim["metadata"].get("finalizers", ()):
            yield f"claim {key} has devices and no finalizer"
        for result in results:
            yield from (f"claim {key}: {words}" for words in self._overrun(result))

    def see_binding(self, pod: Json) -> None:
        """Take in the first version of a pod that has a node."""
        claims = tuple(f"{pod['metadata']['namespace']}/{name}" for name in claims_of(pod))
        if claims:
            meta = pod["metadata"]
            self._bound[meta["uid"]] = key_of(pod), int(meta["resourceVersion"]), claims

    def judge_bindings(self) -> Iterator[str]:
        """Judge the pods that were bound since the last call, once all versions up to theirs were seen."""
        for uid, (pod, version, claims) in self._bound.items():
            for claim in claims:
                reserved = self._reserved.get((claim, uid))
                if reserved is None or reserved > version:
                    yield f"pod {pod} was bound before claim {claim} was reserved for it"
        self._bound.clear()

    def forget(self) -> None:
        """Believe nothing of what was known: the store was put back to an earlier state."""
        self.claims.clear()
        self._reserved.clear()
        self._bound.clear()

    # -- what is more than there is -------------------------------------------------------------------------------

    def _overrun(self, result: Json) -> Iterator[str]:
        device = _device_of(result)
        found = self._find(device)
        if found is None or result.get("adminAccess"):
            return
        mine = [each for each in self._given() if _device_of(each) == device]
        if not found.get("allowMultipleAllocations"):
            if len(mine) > 1:
                yield f"device {'/'.join(device)} is given out {len(mine)} times"
        else:
            yield from self._overrun_capacity(device, found, mine)
        yield from self._overrun_counters(device, found)

    def _overrun_capacity(self, device: DeviceKey, found: Json, given: list[Json]) -> Iterator[str]:
        taken: defaultdict[str, Decimal] = defaultdict(Decimal)
        for result in given:
            for name, text in result.get("consumedCapacity", {}).items():
                taken[name] += amount(text)
        for name, number in taken.items():
            there = amount(found.get("capacity", {}).get(name, {}).get("value", "0"))
            if number > there:
                yield f"device {'/'.join(device)}: {number} of {there} {name} given away"

    def _overrun_counters(self, device: DeviceKey, found: Json) -> Iterator[str]:
        wanted = {(each["counterSet"], name) for each in found.get("consumesCounters", ()) for name in each["counters"]}
        if not wanted:
            return
        taken: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
        for other in {_device_of(result) for result in self._given()}:
            if other[:2] == device[:2] and (consumer := self._find(other)) is not None:
                for each in consumer.get("consumesCounters", ()):
                    for name, counter in each["counters"].items():
                        taken[each["counterSet"], name] += amount(counter["value"])
        for counter_set, name in sorted(wanted):
            there = self._counter(device, counter_set, name)
            if taken[counter_set, name] > there:
                where = f"{device.driver}/{device.pool}"
                yield f"{where}: {taken[counter_set, name]} of {there} {counter_set}/{name} given away"

    def _given(self) -> Iterator[Json]:
        """Yield what all claims have that takes something of devices."""
        for claim in self.claims.values():
            yield from (result for result in results_of(claim) if not result.get("adminAccess"))

    def _find(self, device: DeviceKey) -> Json | None:
        for spec in self._of_pool(device):
            for found in spec.get("devices", ()):
                if found["name"] == device.device:
                    return dict(found)
        return None

    def _counter(self, device: DeviceKey, counter_set: str, name: str) -> Decimal:
        sets = [found for spec in self._of_pool(device) for found in spec.get("sharedCounters", ())]
        amounts = (found["counters"].get(name, {"value": "0"}) for found in sets if found["name"] == counter_set)
        return sum((amount(found["value"]) for found in amounts), Decimal(0))

    def _of_pool(self, device: DeviceKey) -> Iterator[Json]:
        for found in self.slices.values():
            spec = found["spec"]
            if spec["driver"] == device.driver and spec["pool"]["name"] == device.pool:
                yield spec


def results_of(claim: Json) -> list[Json]:
    """Return the devices that a claim has."""
    allocation = claim.get("status", {}).get("allocation") or {}
    return list(allocation.get("devices", {}).get("results", ()))


def claims_of(pod: Json) -> list[str]:
    """Return the names of the claims that a pod has, those that were made for it included."""
    status = pod.get("status", {})
    made = {each["name"]: each.get("resourceClaimName") for each in status.get("resourceClaimStatuses", ())}
    names = [each.get("resourceClaimName") or made.get(each["name"]) for each in pod["spec"].get("resourceClaims", ())]
    names.append((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    return [name for name in names if name]


def _device_of(result: Json) -> DeviceKey:
    return DeviceKey(result["driver"], result["pool"], result["device"])
