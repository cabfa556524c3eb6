"""Devices with binding conditions in sessions: who is bound, and what comes of claims that never get ready."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from plugins.predicates.plugin import build
from tests.framework.dra.worlds import DRIVER, claim, device, exactly, part
from tests.plugins.predicates.test_devices import CONFIGURATION, a_world, chosen, using
from volsched.model.changes import BindFailed
from volsched.model.plan import Bind, ClaimWrite, ReleaseClaim
from volsched.testing.builders import CycleDecision, Rig, SteadyClock, a_rig, put
from volsched.testing.contract import ENGINES

Json = dict[str, Any]
WITHIN = 600.0
FABRIC = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
QUICK = CONFIGURATION.replace(
    "- name: predicates", "- name: predicates\n    arguments: {dynamicresources.bindingTimeoutSeconds: 20}"
)


def fabric(*nodes: str) -> list[Json]:
    return [part(f"s-{name}", [device("d1", more=FABRIC)], node=name, pool=name) for name in nodes]


def given(pod: str = "", *, ago: float = 0.0, now: float, **conditions: str) -> Json:
    """The claim c with the device of n1 since so many seconds, reserved for a pod of that uid."""
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    result = {"request": "r0", "driver": DRIVER, "pool": "n1", "device": "d1", **FABRIC}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [only]},
        "allocationTimestamp": datetime.fromtimestamp(now - ago, UTC).isoformat(),
    }
    said = [{"type": kind, "status": status} for kind, status in conditions.items()]
    status: Json = {"allocation": allocation}
    if conditions:
        status["devices"] = [{"driver": DRIVER, "pool": "n1", "device": "d1", "conditions": said}]
    if pod:
        status["reservedFor"] = [{"resource": "pods", "name": "x", "uid": pod}]
    return {**claim("c", exactly()), "status": status}


def writes_of(decision: CycleDecision) -> list[ClaimWrite]:
    return [write for step in decision.steps if isinstance(step, Bind) for write in step.claims]


def released(decision: CycleDecision) -> list[str]:
    return [step.name for step in decision.steps if isinstance(step, ReleaseClaim)]


def a_pod_with(*objects: Json, engine: Any = ENGINES[0], configuration: str = CONFIGURATION) -> Rig:
    cluster = a_world(*fabric("n1", "n2"), *objects).job("a", cpu="1", spec=using("c"))
    return a_rig(cluster, configuration, engine)


NOW = SteadyClock().now()
POD = "pod-default-a-0"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_pod_is_bound_with_the_time_that_its_devices_have(engine: Any) -> None:
    decision = a_pod_with(claim("c", exactly()), engine=engine).cycle()

    [write] = writes_of(decision)
    assert chosen(decision) == {"a-0": ["n1/d1"]}
    assert write.within == WITHIN
    assert write.allocation is not None
    assert write.allocation.devices.results[0].binding_conditions == ("Attached",)


def test_the_time_is_configured() -> None:
    [write] = writes_of(a_pod_with(claim("c", exactly()), configuration=QUICK).cycle())

    assert write.within == 20
    assert build({})._arguments.devices_within == WITHIN


@pytest.mark.parametrize(
    ("found", "is_written"),
    [
        (given(POD, now=NOW), True),
        (given(POD, now=NOW, Attached="False"), True),
        (given(POD, now=NOW, Attached="True"), False),
        (given(now=NOW, Attached="True"), True),
    ],
)
def test_a_claim_that_has_its_devices_is_waited_for_until_they_are_ready(found: Json, is_written: bool) -> None:
    """Also by a scheduler that was started after another one had reserved the claim for the pod."""
    decision = a_pod_with(found).cycle()

    assert decision.bindings == {"a-0": "n1"}
    assert [(w.claim, w.allocation) for w in writes_of(decision)] == [("default/c", None)] * is_written


UNREADY = "0/2 nodes are available: 2 resourceclaim not available on the node."


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("found", "is_given_up"),
    [
        (given(POD, now=NOW, ago=599), False),
        (given(POD, now=NOW, ago=601), True),
        (given(POD, now=NOW, ago=601, Attached="True"), False),
        (given(POD, now=NOW, Broken="True"), True),
        (given(POD, now=NOW, Broken="True", Attached="True"), True),
        (given(POD, now=NOW, Broken="False"), False),
    ],
)
def test_a_claim_whose_devices_failed_or_took_too_long_is_released(engine: Any, found: Json, is_given_up: bool) -> None:
    decision = a_pod_with(found, engine=engine).cycle()

    assert released(decision) == ["c"] * is_given_up
    assert decision.bindings == ({} if is_given_up else {"a-0": "n1"})
    assert decision.waiting.get("a-0", UNREADY).startswith(UNREADY)


def test_devices_that_somebody_else_uses_are_not_taken_away() -> None:
    decision = a_pod_with(given("another", now=NOW, Broken="True")).cycle()

    assert released(decision) == []
    assert decision.bindings == {}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pod_comes_back_when_its_wait_is_over_and_gets_other_devices(engine: Any) -> None:
    rig = a_pod_with(claim("c", exactly()), engine=engine)
    assert rig.cycle().bindings == {"a-0": "n1"}
    assert rig.cycle(put(given(POD, now=NOW))).bindings == {}

    rig.clock.time += 700
    failed = BindFailed(POD, "n1", "resourceclaim default/c: not true within 600s", rig.clock.now())
    back = rig.cycle(failed, put(given(now=NOW, ago=0)))
    assert (back.bindings, released(back)) == ({}, ["c"])

    broken = part(
        "s-n1", [device("d1", more={**FABRIC, "taints": [{"key": "lost", "effect": "NoExecute"}]})], pool="n1"
    )
    again = rig.cycle(put(claim("c", exactly())), put(broken))
    assert again.bindings == {"a-0": "n2"}
    assert chosen(again) == {"a-0": ["n2/d1"]}


def anywhere(found: Json) -> Json:
    """The same claim with a device that every node can use."""
    del found["status"]["allocation"]["nodeSelector"]
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("made", [given, lambda *about, **said: anywhere(given(*about, **said))])
def test_the_clock_alone_ends_the_wait_of_a_pod_that_is_looked_at_again(engine: Any, made: Any) -> None:
    """The same claim, told once: what was found out about it and about nodes must not outlive its time."""
    rig = a_pod_with(made(POD, now=NOW), engine=engine)
    assert rig.cycle().bindings == {"a-0": "n1"}

    rig.clock.time += 601
    back = rig.cycle(BindFailed(POD, "n1", "not true within 600s", rig.clock.now()))

    assert (back.bindings, released(back)) == ({}, ["c"])
    assert back.waiting["a-0"].startswith(UNREADY)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_word_of_the_driver_alone_ends_it_too(engine: Any) -> None:
    rig = a_pod_with(given(POD, now=NOW), engine=engine)
    assert rig.cycle().bindings == {"a-0": "n1"}

    failed = BindFailed(POD, "n1", "device has failed", rig.clock.now())
    back = rig.cycle(put(given(POD, now=NOW, Broken="True")), failed)

    assert (back.bindings, released(back)) == ({}, ["c"])
