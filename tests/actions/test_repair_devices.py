"""The host ports and the devices of a pod that a gang has lost are kept for a while, as its amounts are."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from tests.actions.rigs import conf, cycle, gone
from tests.actions.test_repair import ENQUEUE, TIERS, World, waits
from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from volsched.framework.engine.fast import FastEngine
from volsched.model.changes import Change, Deleted
from volsched.model.dra import api as dra
from volsched.model.plan import Bind
from volsched.testing.builders import CycleDecision, Rig, a_pod, a_rig, put
from volsched.testing.contract import ENGINES

GPU = "example.com/gpu"
engines = pytest.mark.parametrize("engine", ENGINES)
TEMPLATE = {
    "apiVersion": dra.GROUP_VERSION,
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu", "namespace": "default", "uid": "template"},
    "spec": {"spec": claim("any", exactly())["spec"]},
}


# -- host ports -------------------------------------------------------------------------------------------------------


def port(number: int, **more: Any) -> dict[str, Any]:
    return {"containerPort": number, "hostPort": number, **more}


def with_ports(name: str, group: str, *ports: dict[str, Any], on: str = "", cpu: float = 0.1) -> dict[str, Any]:
    made = a_pod(name, group, cpu=cpu, **({"on": on} if on else {}))
    made["spec"]["containers"][0]["ports"] = list(ports)
    return made


def with_port(engine: Any, ports: dict[str, Any]) -> Rig:
    """The gang v on three nodes with much room, its pods with a host port; one is gone."""
    world = World()
    world.queue("q").queue("p").group("v", "q", 3, "Running", created="2026-01-01T00:00:10Z")
    for number in range(3):
        world.node(f"n{number}", cpu=8, memory="8Gi")
        world.add(with_ports(f"v-{number}", "v", ports, on=f"n{number}"))
    on = a_rig(world, conf(ENQUEUE, *TIERS), engine)
    cycle(on)
    on.mirror.apply([gone(on, "v-2")])
    return on


@engines
@pytest.mark.parametrize(
    ("asked", "is_kept"),
    [
        (port(80), True),
        (port(80, hostIP="10.0.0.1"), True),
        (port(81), False),
        (port(80, protocol="UDP"), False),
    ],
)
def test_the_host_port_of_a_lost_pod_is_kept(engine: Any, asked: dict[str, Any], is_kept: bool) -> None:
    on = with_port(engine, port(80))
    group, _ = waits("x")

    decision = cycle(on, group, put(with_ports("x-0", "x", port(82), asked)))
    assert list(decision.bindings) == ([] if is_kept else ["x-0"])
    if is_kept:
        taken = "2 node(s) didn't have free ports for the requested pod ports"
        kept = "1 node(s) had room kept for default/v, which lost a pod"
        assert decision.waiting["x-0"] == f"0/3 nodes are available: {taken}, {kept}."
    assert cycle(on, put(with_ports("v-3", "v", port(80)))).bindings == {"v-3": "n2"}


@engines
@pytest.mark.parametrize(("queue", "level", "seconds"), [("p", "", 0), ("q", "high", 0), ("q", "", 30)])
def test_a_host_port_is_not_kept_from_others_than_the_rest_of_the_room(
    engine: Any, queue: str, level: str, seconds: float
) -> None:
    on = with_port(engine, port(80))
    cycle(on)
    on.clock.time += seconds
    group, _ = waits("x", queue, level)
    found = with_ports("x-0", "x", port(80))
    if level:
        found["spec"] |= {"priorityClassName": level, "priority": 100}

    assert cycle(on, group, put(found)).bindings == {"x-0": "n2"}


# -- devices ----------------------------------------------------------------------------------------------------------


def with_claim(name: str, group: str, on: str = "", level: str = "", *, extended: bool = False) -> list[dict[str, Any]]:
    """A pod with a claim from the template, and the claim; on a node it has the first device there.

    One for an extended resource gets its claim with its node.
    """
    spec: dict[str, Any] = {"priorityClassName": level, "priority": 100} if level else {}
    if not extended:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    found = a_pod(name, group, cpu=0.1, spec=spec, **({"on": on} if on else {}), **({GPU: 1} if extended else {}))
    found["status"] = {**found.get("status", {})}
    its = claim(f"{name}-gpu", exactly("container-0-request-0" if extended else "r0"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": found["metadata"]["uid"], "controller": True}
    its["metadata"]["ownerReferences"] = [owner]
    if extended:
        its["metadata"]["annotations"] = {dra.EXTENDED_CLAIM: "true"}
    else:
        found["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    if on:
        request = its["spec"]["devices"]["requests"][0]["name"]
        results = [{"request": request, "driver": "gpu.example.com", "pool": on, "device": "d0"}]
        consumer = {"resource": "pods", "name": name, "uid": found["metadata"]["uid"]}
        its["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": [consumer]}
    return [found, its] if on or not extended else [found]


def without_claim(name: str) -> Change:
    return Deleted("ResourceClaim", "default", f"{name}-gpu", f"uid-{name}-gpu")


def with_devices(
    engine: Any, each: int = 1, plugins: str = "predicates", *, extended: bool = False, **queue: Any
) -> Rig:
    """The gang v on three nodes with much room and these many devices; one pod is gone, and with it its claim."""
    world = World()
    world.queue("q", **queue).queue("p").group("v", "q", 3, "Running", created="2026-01-01T00:00:10Z")
    world.add(device_class(extendedResourceName=GPU)).add(TEMPLATE)
    for number in range(3):
        name = f"n{number}"
        world.node(name, cpu=8, memory="8Gi")
        world.add(part(f"s-{name}", [device(f"d{at}") for at in range(each)], node=name, pool=name))
        for found in with_claim(f"v-{number}", "v", on=name, extended=extended):
            world.add(found)
    on = a_rig(world, conf(ENQUEUE, "priority gang", plugins), engine)
    cycle(on)
    on.mirror.apply([gone(on, "v-2"), without_claim("v-2")])
    assert sum(on.cluster.devices.usage.taken.values()) == 2
    return on


def puts(*found: dict[str, Any]) -> list[Change]:
    return [put(each) for each in found]


def devices_given(decision: CycleDecision) -> dict[str, list[str]]:
    return {
        step.name: [f"{r.pool}/{r.device}" for w in step.claims if w.allocation for r in w.allocation.devices.results]
        for step in decision.steps
        if isinstance(step, Bind)
    }


@engines
@pytest.mark.parametrize("extended", [False, True])
def test_the_devices_of_a_lost_pod_are_kept(engine: Any, extended: bool) -> None:
    on = with_devices(engine, extended=extended)
    group, _ = waits("x")

    decision = cycle(on, group, *puts(*with_claim("x-0", "x", extended=extended)))
    assert decision.bindings == {}
    assert decision.waiting["x-0"] == "0/3 nodes are available: 3 cannot allocate all claims."
    assert on.cluster.devices.kept == {}, "only allocate lets them count as taken"
    assert devices_given(cycle(on, *puts(*with_claim("v-3", "v", extended=extended)))) == {"v-3": ["n2/d0"]}
    assert cycle(on).bindings == {}


@engines
def test_others_have_the_other_devices_of_its_node_and_the_gang_has_its_own(engine: Any) -> None:
    on = with_devices(engine, each=2)
    groups = [change for name in ("w", "x", "y", "z") for change in waits(name)[:1]]
    pods = [found for name in ("w", "x", "y", "z") for found in with_claim(f"{name}-0", name)]

    decision = cycle(on, *groups, *puts(*pods))
    assert sorted(chain.from_iterable(devices_given(decision).values())) == ["n0/d1", "n1/d1", "n2/d1"]
    assert devices_given(cycle(on, *puts(*with_claim("v-3", "v")))) == {"v-3": ["n2/d0"]}


@engines
@pytest.mark.parametrize("is_first", [True, False])
def test_in_one_session_the_gang_has_the_devices_whoever_comes_first(engine: Any, is_first: bool) -> None:
    on = with_devices(engine)
    group, _ = waits("x", created="2026-01-01T00:00:00Z" if is_first else "2026-01-03T00:00:00Z")

    decision = cycle(on, group, *puts(*with_claim("x-0", "x"), *with_claim("v-3", "v")))
    assert devices_given(decision) == {"v-3": ["n2/d0"]}


@engines
@pytest.mark.parametrize(("queue", "level", "seconds"), [("p", "", 0), ("q", "high", 0), ("q", "", 30)])
def test_devices_are_not_kept_from_others_than_the_rest_of_the_room(
    engine: Any, queue: str, level: str, seconds: float
) -> None:
    on = with_devices(engine)
    cycle(on)
    on.clock.time += seconds
    group, _ = waits("x", queue, level)

    assert devices_given(cycle(on, group, *puts(*with_claim("x-0", "x", level=level)))) == {"x-0": ["n2/d0"]}
    assert on.cluster.devices.kept == {}


@engines
def test_a_pod_that_waits_for_kept_devices_gets_them_when_they_are_kept_no_longer(engine: Any) -> None:
    on = with_devices(engine)
    group, _ = waits("x")
    assert cycle(on, group, *puts(*with_claim("x-0", "x"))).bindings == {}

    assert on.scheduler.wake_at() == on.clock.time + 30
    on.clock.time += 30
    assert devices_given(cycle(on)) == {"x-0": ["n2/d0"]}


def test_a_claim_that_goes_later_than_its_pod_has_its_devices_until_then() -> None:
    on = with_devices(ENGINES[0])
    again = with_claim("v-2", "v", on="n2")[1]
    group, _ = waits("x")

    assert cycle(on, put(again), group, *puts(*with_claim("x-0", "x"))).bindings == {}
    assert on.cluster.devices.kept == {}
    assert cycle(on, without_claim("v-2")).bindings == {}
    assert devices_given(cycle(on, *puts(*with_claim("v-3", "v")))) == {"v-3": ["n2/d0"]}


@engines
@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize(("limit", "bound"), [(3, []), (4, ["x-0"])])
def test_a_quota_of_devices_counts_those_that_are_kept(
    engine: Any, limit: int, bound: list[str], extended: bool
) -> None:
    quota = {"dra": {"capability": {"gpu": {"count": str(limit)}}}}
    on = with_devices(engine, 2 if bound else 1, "capacity-dra predicates", extended=extended, **quota)
    on.mirror.apply(puts(part("s-n3", [device("d0")], node="n3", pool="n3")) + World().node("n3", cpu=8).changes()[-1:])
    group, _ = waits("x")

    decision = cycle(on, group, *puts(*with_claim("x-0", "x", extended=extended)))
    assert list(decision.bindings) == bound
    if not bound:
        assert decision.waiting["x-0"] == "what is left of the quota is kept for default/v, which lost a pod"
    assert list(cycle(on, *puts(*with_claim("v-3", "v", extended=extended))).bindings) == ["v-3"]


@pytest.mark.parametrize(("asked", "first"), [(1, "v-3"), (2, "x-0")])
def test_a_gang_that_asks_for_other_devices_than_it_lost_does_not_come_first(asked: int, first: str) -> None:
    """As many claims as before may ask for more devices: its author may have deleted one of little."""
    on = with_devices(FastEngine, each=2)
    group, _ = waits("x")
    pod, its = with_claim("x-0", "x")
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n2"}
    again, larger = with_claim("v-3", "v")
    larger["spec"]["devices"]["requests"][0]["exactly"]["count"] = asked
    again["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n2"}

    assert next(iter(cycle(on, group, *puts(pod, its, again, larger)).bindings)) == first
