"""Quotas of devices in what a simulation shows: queues above, sums of capacity, and entries that cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest

from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from tests.simulation.clusters import Manifest, group, node, pending, placed, pod, queue, result

CONFIG = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}]
- plugins: [{name: predicates}, {name: capacity-dra, enableHierarchy: true}]
"""
ROOM = {"memory": "64Gi", "cores": "2000"}


def world(*more: Manifest) -> Manifest:
    devices = [device(f"d{number}", ROOM) for number in range(4)]
    return result(node("n1"), device_class("gpu"), part("s1", devices), *more, config=CONFIG)


def using(name: str, queue_: str, claim_: str) -> list[Manifest]:
    uses = [{"name": "gpu", "resourceClaimName": claim_}]
    return [group(name, 1, queue_), pod(name, in_group=name, resourceClaims=uses)]


def test_a_claim_that_two_queues_share_counts_once_above_them() -> None:
    queues = [queue("dept"), queue("a", parent="dept"), queue("b", parent="dept")]
    shared = claim("c", exactly(count=2, capacity={"memory": "8Gi", "cores": "300"}))

    found = world(*queues, shared, *using("x", "a", "c"), *using("y", "b", "c"))

    assert placed(found) == {"x": "n1", "y": "n1"}
    for name in ("a", "b", "dept", "root"):
        allocated = found["queues"][name]["allocated"]
        amounts = {key: amount for key, amount in allocated.items() if "deviceclass/" in key}
        assert amounts == {
            "cores.deviceclass/gpu": "600",
            "deviceclass/gpu": "2",
            "memory.deviceclass/gpu": "16Gi",
        }, name
    assert found["queues"]["dept"]["allocated"]["cpu"] == "2"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"capability": {"deviceclass/gpu": "-1"}}, "spec.capability[deviceclass/gpu]: -1 is negative"),
        ({"capability": {"deviceclass/gpu": "few"}}, "spec.capability[deviceclass/gpu]: 'few' is not a quantity"),
        ({"dra": {"capability": {"gpu": {"count": -1}}}}, "spec.dra.capability[gpu].count: -1 is negative"),
    ],
)
def test_a_limit_that_cannot_be_meant_forbids_and_is_told(spec: Any, said: str) -> None:
    found = world(queue("q", **spec), claim("c", exactly()), *using("p", "q", "c"))

    assert placed(found) == {}
    assert "capability is 0" in pending(found)["p"]["message"]
    assert [e["message"] for e in found["events"] if e["object"] == "Queue/q"] == [f"{said}; it counts as 0"]


def test_a_refusal_at_admission_is_an_event_of_the_pod_too() -> None:
    quota = {"capability": {"gpu": {"count": 1}}}
    found = world(queue("q", dra=quota), claim("c", exactly(count=2)), *using("p", "q", "c"))

    entry = pending(found)["p"]
    assert (entry["step"], entry["reason"]) == ("enqueue", "InsufficientDRAQuota")
    told = [(e["object"], e["type"]) for e in found["events"] if e["message"] == entry["message"]]
    assert told == [("Pod/default/p", "Warning"), ("PodGroup/default/p", "Warning")]
