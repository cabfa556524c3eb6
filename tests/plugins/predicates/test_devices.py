"""ResourceClaims in sessions: what gangs share, what is taken back, and what the executor is told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.framework.dra.worlds import asking, claim, device, device_class, exactly, first_of, held, part
from volsched.framework.dra.search import MOST_STEPS, _AllocationSearch
from volsched.framework.engine.fast import FastEngine
from volsched.model.changes import BindFailed, Bound, Deleted
from volsched.model.plan import Bind, ReleaseClaim
from volsched.model.pods.owners import as_pod
from volsched.testing.builders import ClusterBuilder, CycleDecision, Rig, a_cluster, a_rig, put
from volsched.testing.contract import ENGINES
from volsched.testing.recount import faults

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
  - name: binpack
"""


def cards(node: str, *names: str) -> dict[str, Any]:
    return part(f"s-{node}", [device(name) for name in names], node=node, pool=node)


def using(*claims: str, templates: dict[str, str] | None = None) -> dict[str, Any]:
    entries = [{"name": f"e{number}", "resourceClaimName": name} for number, name in enumerate(claims)]
    entries += [{"name": e, "resourceClaimTemplateName": t} for e, t in (templates or {}).items()]
    return {"resourceClaims": entries}


def a_world(*objects: dict[str, Any], nodes: tuple[str, ...] = ("n1", "n2")) -> ClusterBuilder:
    cluster = a_cluster()
    for name in nodes:
        cluster.node(name)
    for found in (device_class(), *objects):
        cluster.add(found)
    return cluster


def chosen(decision: CycleDecision) -> dict[str, list[str]]:
    """The devices that each bound pod's claims are to be given, and those that they have already as nothing."""
    found: dict[str, list[str]] = {}
    for step in decision.steps:
        if isinstance(step, Bind):
            results = [r for w in step.claims if w.allocation is not None for r in w.allocation.devices.results]
            found[step.name] = [f"{r.pool}/{r.device}" for r in results]
    return found


def is_untouched(rig: Rig) -> bool:
    devices = rig.cluster.devices
    return devices.in_flight == {} and devices.usage.taken == {} and faults(rig.cluster) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_gang_shares_a_claim_that_nobody_has_allocated(engine: Any) -> None:
    cluster = a_world(cards("n1", "d1"), claim("c", exactly()))
    cluster.job("gang", tasks=2, cpu="1", spec=using("c")).job("other", cpu="1", spec=using("c"))

    decision = a_rig(cluster, CONFIGURATION, engine).cycle()

    assert decision.bindings == {"gang-0": "n1", "gang-1": "n1"}
    assert chosen(decision) == {"gang-0": ["n1/d1"], "gang-1": ["n1/d1"]}
    assert decision.waiting == {"other-0": 'resourceclaim "c" is being allocated for another pod'}


def test_the_other_pod_follows_once_the_allocation_is_seen() -> None:
    cluster = a_world(cards("n1", "d1"), claim("c", exactly()))
    cluster.job("gang", tasks=2, cpu="1", spec=using("c")).job("other", cpu="1", spec=using("c"))
    rig = a_rig(cluster, CONFIGURATION)
    first = rig.cycle()
    written = next(s for s in first.steps if isinstance(s, Bind)).claims[0].allocation
    assert written is not None
    selector = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
    status = {**held("c", "d1", pool="n1")["status"], "reservedFor": [{"resource": "pods", "name": "x", "uid": "x"}]}
    status["allocation"]["nodeSelector"] = selector

    second = rig.cycle(put({**claim("c", exactly()), "status": status}))

    assert second.bindings == {"other-0": "n1"}
    assert [w.allocation for s in second.steps if isinstance(s, Bind) for w in s.claims] == [None]
    assert rig.cluster.devices.in_flight == {}
    assert sum(rig.cluster.devices.usage.taken.values()) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_gang_that_does_not_get_its_devices_leaves_no_trace(engine: Any) -> None:
    cluster = a_world(cards("n1", "d1"), cards("n2", "d1"), *(claim(f"c{n}", exactly()) for n in range(3)))
    cluster.group("gang", minimum=3)
    for number in range(3):
        cluster.pod(f"gang-{number}", "gang", cpu="1", spec=using(f"c{number}"))
    rig = a_rig(cluster, CONFIGURATION, engine)

    decision = rig.cycle()

    assert decision.bindings == {}
    assert is_untouched(rig)
    assert "2 cannot allocate all claims" in decision.waiting["gang-2"]


@pytest.mark.parametrize("engine", ENGINES)
def test_no_device_is_given_twice_in_one_session(engine: Any) -> None:
    cluster = a_world(cards("n1", "d1", "d2"), cards("n2", "d1"), *(claim(f"c{n}", exactly()) for n in range(4)))
    for number in range(4):
        cluster.job(f"job{number}", cpu="1", spec=using(f"c{number}"))

    decision = a_rig(cluster, CONFIGURATION, engine).cycle()

    assert sorted(device for devices in chosen(decision).values() for device in devices) == ["n1/d1", "n1/d2", "n2/d1"]


def test_a_binding_that_fails_gives_the_devices_back() -> None:
    cluster = a_world(cards("n1", "d1"), claim("c", exactly()), claim("d", exactly()))
    cluster.job("a", cpu="1", spec=using("c")).job("b", cpu="1", spec=using("d"))
    rig = a_rig(cluster, CONFIGURATION)
    assert rig.cycle().bindings == {"a-0": "n1"}

    second = rig.cycle(BindFailed("pod-default-a-0", "n1", "no", rig.clock.now() + 60))

    assert second.bindings == {"b-0": "n1"}


def test_a_pod_that_is_deleted_gives_back_what_nobody_has_written() -> None:
    cluster = a_world(cards("n1", "d1"), claim("c", exactly()))
    cluster.job("a", cpu="1", spec=using("c"))
    rig = a_rig(cluster, CONFIGURATION)
    rig.cycle()

    rig.cycle(Deleted("Pod", "default", "a-0", "pod-default-a-0"))

    assert is_untouched(rig)


def test_a_pod_that_is_bound_keeps_its_devices_until_the_claim_is_seen() -> None:
    cluster = a_world(cards("n1", "d1"), claim("c", exactly()), claim("d", exactly()))
    cluster.job("a", cpu="1", spec=using("c")).job("b", cpu="1", spec=using("d"))
    rig = a_rig(cluster, CONFIGURATION)
    rig.cycle()

    decision = rig.cycle(Bound("pod-default-a-0", "n1"))

    assert decision.bindings == {}
    assert len(rig.cluster.devices.in_flight) == 1


def test_claims_from_templates_are_waited_for_and_may_be_none() -> None:
    cluster = a_world(cards("n1", "d1"))
    cluster.job("a", cpu="1", spec=using(templates={"gpu": "t"}))
    rig = a_rig(cluster, CONFIGURATION)
    pod = cluster.objects[-1]

    waiting = rig.cycle().waiting
    statuses = [{"name": "gpu"}]
    second = rig.cycle(put({**pod, "status": {"phase": "Pending", "resourceClaimStatuses": statuses}}))

    assert waiting == {"a-0": 'waiting for the claim of entry "gpu" to be made from template "t"'}
    assert list(second.bindings) == ["a-0"]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, 'waiting for resourceclaim "a-gpu": it does not exist'),
        ({}, 'resourceclaim "a-gpu" was not created for pod "default/a-0" (pod is not owner)'),
        ({"ownerReferences": [{"kind": "Pod", "name": "a-0", "uid": "an-older-one", "controller": True}]}, "not owner"),
        (
            {
                "ownerReferences": [{"kind": "Pod", "name": "a-0", "uid": "pod-default-a-0", "controller": True}],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            },
            'resourceclaim "a-gpu" is being deleted',
        ),
    ],
)
def test_the_claim_of_a_template_has_to_be_the_pod_s_own(made: dict[str, Any] | None, said: str) -> None:
    own = claim("a-gpu", exactly())
    objects = [{**own, "metadata": {**own["metadata"], **made}}] if made is not None else []
    cluster = a_world(cards("n1", "d1"), *objects)
    cluster.job("a", cpu="1", spec=using(templates={"gpu": "t"}))
    statuses = [{"name": "gpu", "resourceClaimName": "a-gpu"}]
    cluster.objects[-1]["status"]["resourceClaimStatuses"] = statuses

    assert said in a_rig(cluster, CONFIGURATION).cycle().waiting["a-0"]


def on(node: str, name: str, *consumers: str) -> dict[str, Any]:
    """A claim that has a device of a node, and the pods that it is reserved for."""
    found = held(name, "d1", pool=node)
    match = {"key": "metadata.name", "operator": "In", "values": [node]}
    found["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [match]}]}
    found["status"]["reservedFor"] = [{"resource": "pods", "name": uid, "uid": uid} for uid in consumers]
    return found


@pytest.mark.parametrize(("consumers", "is_released"), [((), True), (("pod-default-a-0",), True), (("other",), False)])
def test_a_claim_that_is_in_the_way_is_released_unless_others_use_it(
    consumers: tuple[str, ...], is_released: bool
) -> None:
    cluster = a_world(cards("n2", "d1"), on("n2", "c", *consumers))
    cluster.job("a", cpu="1", spec={**using("c"), "nodeSelector": {"kubernetes.io/hostname": "n1"}})

    decision = a_rig(cluster, CONFIGURATION).cycle()

    released = [step for step in decision.steps if isinstance(step, ReleaseClaim)]
    expected = (
        [ReleaseClaim("uid-c", "default", "c", as_pod("default", "a-0", "pod-default-a-0"))] if is_released else []
    )
    assert decision.bindings == {}
    assert released == expected


def test_a_claim_is_reserved_for_so_many_pods_and_no_more() -> None:
    cluster = a_world(cards("n1", "d1"), on("n1", "c", *(f"uid{number}" for number in range(256))))
    cluster.job("a", cpu="1", spec=using("c"))

    said = 'resourceclaim "c" is reserved for 256 pods already, and more are not allowed'
    assert a_rig(cluster, CONFIGURATION).cycle().waiting == {"a-0": said}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_selector_that_fails_on_one_node_keeps_the_pod_off_all(engine: Any) -> None:
    good = part("s1", [device("d1", model="x")], node="n1", pool="n1")
    unbound = exactly("r0", 'device.attributes["gpu.example.com"].model == "x"')
    cluster = a_world(good, cards("n2", "d1"), claim("c", unbound))
    cluster.job("a", cpu="1", spec=using("c"))
    rig = a_rig(cluster, CONFIGURATION, engine)

    waiting = rig.cycle().waiting
    second = rig.cycle(put(part("s-n2", [device("d1", model="y")], node="n2", pool="n2")))

    assert "CEL runtime error" in waiting["a-0"]
    assert second.bindings == {"a-0": "n1"}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_node_where_the_pod_cannot_go_says_nothing_about_its_selectors(engine: Any) -> None:
    good = part("s1", [device("d1", model="x")], node="n1", pool="n1")
    unbound = exactly("r0", 'device.attributes["gpu.example.com"].model == "x"')
    cluster = a_world(good, cards("n2", "d1"), cards("n3", "d1"), claim("c", unbound), nodes=("n1", "n2"))
    cluster.pod("fills", on="n2", cpu="64").node("n3", taints=[{"key": "k", "effect": "NoSchedule"}])
    cluster.job("a", cpu="1", spec=using("c"))
    rig = a_rig(cluster, CONFIGURATION, engine)

    assert rig.cycle().bindings == {"a-0": "n1"}


@pytest.mark.parametrize("engine", ENGINES)
def test_nodes_that_serve_an_earlier_alternative_are_preferred(engine: Any) -> None:
    big = part("s2", [device("d1", size="big")], node="n2", pool="n2")
    small = part("s1", [device("d1", size="small")], node="n1", pool="n1")
    size = 'device.attributes["gpu.example.com"].size == "%s"'
    cluster = a_world(big, small, claim("c", first_of("r", asking("a", size % "big"), asking("b", size % "small"))))
    cluster.job("a", cpu="1", spec=using("c"))

    assert a_rig(cluster, CONFIGURATION, engine).cycle().bindings == {"a-0": "n2"}


def test_a_class_that_is_made_later_is_tried() -> None:
    cluster = a_world(cards("n1", "d1"), claim("c", exactly(cls="late")))
    cluster.job("a", cpu="1", spec=using("c"))
    rig = a_rig(cluster, CONFIGURATION)

    assert rig.cycle().waiting == {"a-0": 'resourceclaim "c": device class late does not exist'}
    assert rig.cycle(put(device_class("late"))).bindings == {"a-0": "n1"}


def test_a_claim_that_is_not_understood_is_named() -> None:
    cluster = a_world(cards("n1", "d1"), claim("c", {**exactly(), "mode": "new"}))
    cluster.job("a", cpu="1", spec=using("c"))

    said = 'resourceclaim "c": spec.devices.requests[0]: Object contains unknown field `mode`'
    assert a_rig(cluster, CONFIGURATION).cycle().waiting == {"a-0": said}


def test_pods_with_claims_wait_where_their_allocation_is_switched_off() -> None:
    cluster = a_world(cards("n1", "d1"), claim("c", exactly()))
    cluster.job("a", cpu="1", spec=using("c"))
    off = "  - name: predicates\n    arguments: {predicate.DynamicResourceAllocationEnable: false}"

    decision = a_rig(cluster, CONFIGURATION.replace("  - name: predicates", off)).cycle()

    assert "predicate.DynamicResourceAllocationEnable is false" in decision.waiting["a-0"]


def test_only_the_node_whose_devices_changed_is_asked_again() -> None:
    names = tuple(f"n{number:03}" for number in range(200))
    cluster = a_world(
        *(cards(name, "d1") for name in names), *(claim(f"c{n}", exactly()) for n in range(2)), nodes=names
    )
    cluster.job("a", cpu="1", spec=using("c0"))
    rig = a_rig(cluster, CONFIGURATION)
    rig.cycle()
    version = rig.cluster.devices.version

    cluster.objects.clear()
    cluster.job("b", cpu="1", spec=using("c1"))
    decision = rig.cycle(*cluster.changes())

    assert list(decision.bindings) == ["b-0"]
    assert rig.cluster.devices.version == version


def test_pods_whose_claims_ask_for_the_same_share_what_is_known_of_nodes() -> None:
    """Each names a claim of its own. What one more pod costs is the node that the one before it has changed."""
    names = tuple(f"n{number:03}" for number in range(200))
    cluster = a_world(
        *(cards(name, "d1") for name in names), *(claim(f"c{n}", exactly()) for n in range(50)), nodes=names
    )
    for number in range(50):
        cluster.job(f"j{number}", cpu="1", spec=using(f"c{number}"))
    rig = a_rig(cluster, CONFIGURATION)

    assert len(rig.cycle().bindings) == 50
    engine = rig.scheduler.engine
    assert isinstance(engine, FastEngine)
    assert len(rig.mirror.templates) == 1
    assert engine.nodes.rows_scored <= 200 + 50 * 2


@pytest.mark.parametrize("engine", ENGINES)
def test_pods_that_differ_in_what_their_claims_say_alone_are_placed_each_for_itself(engine: Any) -> None:
    given_there = held("given", "d1", pool="n2")
    node = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    given_there["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [node]}
    cluster = a_world(
        cards("n1", "d1"),
        cards("n2", "d1", "d2"),
        cards("n3", "d1", "d2", "d3"),
        claim("three", exactly(count=3)),
        claim("two", exactly(count=2)),
        claim("one", exactly()),
        given_there,
        nodes=("n1", "n2", "n3"),
    )
    for name in ("given", "three", "two", "one", "missing"):
        cluster.job(name, cpu="1", spec=using(name))

    decision = a_rig(cluster, CONFIGURATION, engine).cycle()

    assert decision.bindings == {"given-0": "n2", "three-0": "n3", "one-0": "n2"}
    assert set(decision.waiting) == {"two-0", "missing-0"}


@pytest.mark.slow(reason="a search of half a million combinations")
def test_a_search_without_end_is_given_up_for_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty devices of which no fifteen will do are half a million combinations, on each of twenty nodes."""
    steps = 0

    def counted(search: _AllocationSearch) -> None:
        nonlocal steps
        steps += 1
        take_step(search)

    take_step = _AllocationSearch._step
    monkeypatch.setattr(_AllocationSearch, "_step", counted)
    names = tuple(f"n{number:02}" for number in range(20))
    slices = [cards(name, *(f"d{number:02}" for number in range(30))) for name in names]
    wanted = claim("c", exactly("a", count=15), exactly("b", "false"))
    cluster = a_world(*slices, wanted, nodes=names).job("a", cpu="1", spec=using("c"))

    decision = a_rig(cluster, CONFIGURATION).cycle()

    assert "too many combinations of devices to try" in decision.waiting["a-0"]
    assert steps <= 3 * (MOST_STEPS + 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_shared_claim_goes_where_all_that_wait_for_it_have_room(engine: Any) -> None:
    """The first pod alone would fill up the small node, and its devices would keep the others from every other."""
    cluster = a_cluster().node("n1", cpu="2").node("n2", cpu="64")
    for found in (device_class(), cards("n1", "d1"), cards("n2", "d1"), claim("c", exactly())):
        cluster.add(found)
    cluster.job("gang", tasks=3, cpu="1", spec=using("c"))

    assert set(a_rig(cluster, CONFIGURATION, engine).cycle().bindings.values()) == {"n2"}


@pytest.mark.parametrize("engine", ENGINES)
def test_equal_pods_that_share_a_claim_go_where_all_of_them_fit(engine: Any) -> None:
    """The first pod alone would choose the node with one slot, and its devices would keep the other from every node."""
    cluster = a_cluster().node("n1", cpu="8", pods=1).node("n2", cpu="8")
    for found in (device_class(), cards("n1", "d1"), cards("n2", "d1"), claim("c", exactly())):
        cluster.add(found)
    cluster.job("gang", tasks=2, cpu="1", spec=using("c"))

    assert set(a_rig(cluster, CONFIGURATION, engine).cycle().bindings.values()) == {"n2"}


def test_an_extended_resource_that_nodes_offer_is_theirs() -> None:
    cluster = a_cluster().node("n1", **{"example.com/gpu": 1})
    cluster.add(device_class(extendedResourceName="example.com/gpu")).job("a", cpu="1", **{"example.com/gpu": 1})

    assert a_rig(cluster, CONFIGURATION).cycle().bindings == {"a-0": "n1"}
