"""Whatever claims come and go: no device is given to two, no counter and no capacity beyond what there is."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.framework.dra.worlds import allocate, claim, device, device_class, devices_of, exactly, part, search
from volsched.model import api
from volsched.model.dra import api as dra
from volsched.model.dra.devices import Devices
from volsched.model.values.quantity import parse

GI = 1 << 30
CARD = "card"

Part = tuple[int, int]
"""What a device takes of the counter of its card, and its own capacity, in Gi; 0 for one that is not shared."""


class Card:
    """A card that is divided: devices that take of one counter, some of which many claims may share."""

    def __init__(self, memory: int, parts: list[Part]) -> None:
        self.memory = memory
        self.parts = {f"d{number}": sizes for number, sizes in enumerate(parts)}
        counters = [{"name": CARD, "counters": {"memory": {"value": f"{memory}Gi"}}}]
        slices = (
            part("counters", count=2, sharedCounters=counters),
            part("devices", [self._device(name, *sizes) for name, sizes in self.parts.items()], count=2),
        )
        self.devices: Devices = devices_of(device_class(), *slices)
        self.held: dict[str, dra.Allocation] = {}

    @staticmethod
    def _device(name: str, counter: int, capacity: int) -> dict[str, Any]:
        takes = [{"counterSet": CARD, "counters": {"memory": {"value": f"{counter}Gi"}}}]
        if not capacity:
            return device(name, more={"consumesCounters": takes})
        policy = {"value": f"{capacity}Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}}
        return device(name, {"memory": policy}, more={"consumesCounters": takes, "allowMultipleAllocations": True})

    def ask(self, name: str, requests: list[tuple[int, int]]) -> None:
        """Let a claim come that wants so many devices, or so much of shared ones; it has them if it can."""
        wanted = claim(name, *(self._request(f"r{number}", *of) for number, of in enumerate(requests)))
        found = api.decode_as(dra.ResourceClaim, wanted)
        self.devices.put(found)
        if isinstance(search(self.devices, name), list):
            (self.held[name],) = allocate(self.devices, name)
            status = dra.ResourceClaimStatus(allocation=self.held[name])
            self.devices.put(msgspec.structs.replace(found, status=status))

    @staticmethod
    def _request(name: str, count: int, share: int) -> dict[str, Any]:
        return exactly(name, count=count, capacity={"memory": f"{share}Gi"} if share else None)

    def leave(self, name: str) -> None:
        del self.held[name]
        self.devices.drop("ResourceClaim", "default", name)

    def check(self) -> None:
        """Add up from nothing but what claims were told that they have."""
        results = [result for found in self.held.values() for result in found.devices.results]
        alone = Counter(result.device for result in results if result.share_id is None)
        shared: dict[str, Fraction] = {}
        for result in results:
            if result.share_id is not None:
                consumed = parse(result.consumed_capacity["memory"]) / GI
                shared[result.device] = shared.get(result.device, Fraction(0)) + consumed
        assert not alone or max(alone.values()) == 1
        assert not alone.keys() & shared.keys()
        assert all(taken <= self.parts[name][1] for name, taken in shared.items()), shared
        assert sum(self.parts[name][0] for name in {*alone, *shared}) <= self.memory


PARTS = st.lists(st.tuples(st.sampled_from([10, 20, 40, 80]), st.sampled_from([0, 0, 8, 20])), min_size=1, max_size=6)
REQUESTS = st.lists(st.one_of(st.tuples(st.integers(1, 3), st.just(0)), st.tuples(st.just(1), st.integers(1, 12))),
                    min_size=1, max_size=2)  # fmt: skip
STEPS = st.lists(st.one_of(REQUESTS, st.integers(0, 5)), min_size=2, max_size=14)


def test_such_claims_share_devices_and_go_without() -> None:
    """What is drawn below is worth drawing: there is one that is told off by each of the sums."""
    card = Card(40, [(20, 8), (20, 0), (10, 0)])
    for number, requests in enumerate([[(1, 5)], [(1, 3)], [(1, 1)], [(1, 0)], [(1, 0)]]):
        card.ask(f"c{number}", requests)
        card.check()

    found = {name: [result.device for result in held.devices.results] for name, held in card.held.items()}
    assert found == {"c0": ["d0"], "c1": ["d0"], "c3": ["d1"]}


@settings(max_examples=200, deadline=None)
@given(memory=st.sampled_from([40, 80, 100]), parts=PARTS, steps=STEPS)
def test_counters_and_capacities_are_never_given_away_twice(
    memory: int, parts: list[Part], steps: list[list[tuple[int, int]] | int]
) -> None:
    """A list of requests is a claim that comes, a number lets one of those go that have devices."""
    card = Card(memory, parts)
    for number, step in enumerate(steps):
        if isinstance(step, list):
            card.ask(f"c{number}", step)
        elif card.held:
            card.leave(sorted(card.held)[step % len(card.held)])
        card.check()

    for name in list(card.held):
        card.leave(name)
    ledger = card.devices.usage
    assert (ledger.taken, ledger.shares, ledger.consumed, ledger.held) == ({}, {}, {}, {})
