"""Extended resources that a DeviceClass stands for (KEP 5004), on nodes that do not offer them themselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from volsched.framework.dra.extended import claim_name
from volsched.model.changes import BindFailed, Deleted
from volsched.model.plan import Bind, ClaimWrite, ReleaseClaim
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
GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
with_engines = pytest.mark.parametrize("engine", ENGINES)


def mapped(name: str = "gpu", created: str = "2026-01-01T00:00:00Z", **spec: Any) -> dict[str, Any]:
    found = device_class(name, extendedResourceName=GPU, **spec)
    return {**found, "metadata": {"name": name, "creationTimestamp": created}}


def cards(node: str, count: int) -> dict[str, Any]:
    return part(f"s-{node}", [device(f"d{number}") for number in range(count)], node=node, pool=node)


def two_nodes(*objects: dict[str, Any], devices: int = 2) -> ClusterBuilder:
    cluster = a_cluster().node("n1").node("n2")
    for found in (cards("n1", devices), cards("n2", devices), *objects):
        cluster.add(found)
    return cluster


def writes(decision: CycleDecision) -> dict[str, ClaimWrite]:
    return {s.name: s.claims[0] for s in decision.steps if isinstance(s, Bind) and s.claims}


def devices_of(write: ClaimWrite) -> list[str]:
    assert write.allocation is not None
    return [f"{r.pool}/{r.device}" for r in write.allocation.devices.results]


def gone(found: dict[str, Any]) -> Deleted:
    meta = found["metadata"]
    return Deleted(found["kind"], meta.get("namespace", ""), meta["name"], meta.get("uid", ""))


def is_untouched(rig: Rig) -> bool:
    return not rig.cluster.devices.in_flight and not rig.cluster.devices.usage.taken and faults(rig.cluster) == []


def container(name: str, count: int = 0, *, sidecar: bool = False, resource: str = GPU) -> dict[str, Any]:
    amounts = {resource: str(count)} if count else {}
    more = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "image": "x", "resources": {"requests": amounts, "limits": amounts}, **more}


@with_engines
@pytest.mark.parametrize("name", [GPU, IMPLICIT])
def test_nodes_serve_them_from_their_devices_until_these_are_gone(engine: Any, name: str) -> None:
    cluster = two_nodes(mapped()).job("a", tasks=5, minimum=1, cpu="1", **{name: 1})

    rig = a_rig(cluster, CONFIGURATION, engine)
    decision = rig.cycle()

    assert sorted(decision.bindings.values()) == ["n1", "n1", "n2", "n2"]
    given = writes(decision)
    assert sorted(d for write in given.values() for d in devices_of(write)) == ["n1/d0", "n1/d1", "n2/d0", "n2/d1"]
    assert all(devices_of(write)[0].startswith(decision.bindings[pod]) for pod, write in given.items())
    [waiting] = decision.waiting.values()
    assert "0/2 nodes are available: 2 cannot allocate all claims." in waiting
    assert faults(rig.cluster) == []


@with_engines
def test_a_node_that_offers_them_itself_serves_them_as_ever(engine: Any) -> None:
    cluster = a_cluster().node("n1", **{GPU: 1}).node("n2").add(mapped()).add(cards("n1", 4)).add(cards("n2", 1))
    cluster.job("a", tasks=3, minimum=1, cpu="1", **{GPU: 1})

    decision = a_rig(cluster, CONFIGURATION, engine).cycle()

    assert sorted(decision.bindings.values()) == ["n1", "n2"]
    assert [devices_of(write) for write in writes(decision).values()] == [["n2/d0"]]
    assert "1 Insufficient example.com/gpu" in next(iter(decision.waiting.values()))
    assert "1 cannot allocate all claims" in next(iter(decision.waiting.values()))


@with_engines
def test_beside_claims_of_the_pods_own(engine: Any) -> None:
    cluster = two_nodes(mapped(), claim("c", exactly()), devices=3)
    spec = {"resourceClaims": [{"name": "own", "resourceClaimName": "c"}]}
    cluster.job("a", cpu="1", spec=spec, **{GPU: 2})

    [step] = [s for s in a_rig(cluster, CONFIGURATION, engine).cycle().steps if isinstance(s, Bind)]

    assert [devices_of(write) for write in step.claims] == [["n1/d0"], ["n1/d1", "n1/d2"]]
    assert [write.made is not None for write in step.claims] == [False, True]


def test_without_a_class_that_stands_for_it_nobody_serves_it() -> None:
    cluster = two_nodes(device_class()).job("a", cpu="1", **{GPU: 1})

    assert "2 Insufficient example.com/gpu" in a_rig(cluster, CONFIGURATION).cycle().waiting["a-0"]


@with_engines
def test_a_class_that_comes_or_goes_changes_the_answer(engine: Any) -> None:
    rig = a_rig(two_nodes().job("a", cpu="1", **{GPU: 1}).job("b", cpu="1", **{GPU: 2}), CONFIGURATION, engine)
    assert set(rig.cycle().waiting) == {"a-0", "b-0"}

    assert set(rig.cycle(put(mapped())).bindings) == {"a-0", "b-0"}

    again = a_rig(two_nodes(mapped()).job("a", cpu="1", **{GPU: 4}), CONFIGURATION, engine)
    assert "cannot allocate all claims" in again.cycle().waiting["a-0"]
    assert "2 Insufficient example.com/gpu" in again.cycle(gone(mapped())).waiting["a-0"]


def test_of_several_classes_the_newest_stands_for_it_then_the_first_by_name() -> None:
    old, new = mapped("a-old", "2025-01-01T00:00:00Z"), mapped("new", "2026-01-01T00:00:00Z")
    cluster = two_nodes(old, new, mapped("newer-name")).job("a", cpu="1", **{GPU: 1})

    [write] = writes(a_rig(cluster, CONFIGURATION).cycle()).values()

    assert write.made is not None
    assert write.made.requests[0].exactly is not None
    assert write.made.requests[0].exactly.device_class_name == "new"


def test_without_the_switch_for_devices_nodes_have_to_offer_it() -> None:
    off = CONFIGURATION.replace(
        "- name: predicates", "- name: predicates\n    arguments: {predicate.DynamicResourceAllocationEnable: false}"
    )
    cluster = two_nodes(mapped()).job("a", cpu="1", **{GPU: 1})

    assert "2 Insufficient example.com/gpu" in a_rig(cluster, off).cycle().waiting["a-0"]


def test_containers_have_a_request_each_and_those_that_end_first_use_devices_of_later_ones() -> None:
    spec = {
        "initContainers": [container("fetch", 1), container("side", 1, sidecar=True), container("warm", 3)],
        "containers": [container("main", 1), container("idle"), container("other", 1)],
    }
    cluster = two_nodes(mapped(), devices=8).job("a", spec=spec)

    [write] = writes(a_rig(cluster, CONFIGURATION).cycle()).values()

    assert write.made is not None
    counts = {r.name: r.exactly.count for r in write.made.requests if r.exactly is not None}
    side, warm, main, other = (f"container-{place}-request-0" for place in (1, 2, 3, 5))
    assert counts == {side: 1, warm: 1, main: 1, other: 1}
    assert sorted(write.made.mappings) == sorted(
        [
            *[("fetch", GPU, side), ("side", GPU, side), ("main", GPU, main), ("other", GPU, other)],
            *[("warm", GPU, main), ("warm", GPU, other), ("warm", GPU, warm)],
        ]
    )
    assert len(devices_of(write)) == 4


def test_of_containers_that_end_first_only_the_largest_rest_is_asked_for() -> None:
    spec = {"initContainers": [container("a", 2), container("b", 5)], "containers": [container("main", 1)]}
    cluster = two_nodes(mapped(), devices=8).job("a", spec=spec)

    [write] = writes(a_rig(cluster, CONFIGURATION).cycle()).values()

    assert write.made is not None
    counts = {r.name: r.exactly.count for r in write.made.requests if r.exactly is not None}
    assert counts == {"container-1-request-0": 4, "container-2-request-0": 1}
    assert ("a", GPU, "container-1-request-0") in write.made.mappings
    assert ("b", GPU, "container-1-request-0") in write.made.mappings


@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=4),
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
)
def test_a_pod_gets_as_many_devices_as_it_requests(init: list[tuple[int, bool]], main: list[int]) -> None:
    spec = {
        "initContainers": [container(f"i{n}", count, sidecar=side) for n, (count, side) in enumerate(init)],
        "containers": [container(f"c{n}", count) for n, count in enumerate(main)],
    }
    cluster = two_nodes(mapped(), devices=32).job("a", spec=spec)

    rig = a_rig(cluster, CONFIGURATION)
    decision = rig.cycle()
    [task] = rig.cluster.tasks.values()

    given = [d for write in writes(decision).values() for d in devices_of(write)]
    assert len(given) * 1000 >= task.template.request.get(GPU, 0)
    for write in writes(decision).values():
        assert write.made is not None
        counts = {r.name: r.exactly.count or 0 for r in write.made.requests if r.exactly is not None}
        for name, asked in [(f"i{n}", c) for n, (c, _) in enumerate(init)] + [(f"c{n}", c) for n, c in enumerate(main)]:
            assert sum(counts[request] for user, _, request in set(write.made.mappings) if user == name) >= asked


def test_a_gang_that_does_not_fit_leaves_no_trace() -> None:
    rig = a_rig(two_nodes(mapped()).job("a", tasks=5, cpu="1", **{GPU: 1}), CONFIGURATION)

    assert rig.cycle().bindings == {}
    assert is_untouched(rig)


def test_a_pod_that_could_not_be_bound_gives_its_devices_back() -> None:
    rig = a_rig(one(4), CONFIGURATION)
    [step] = [s for s in rig.cycle().steps if isinstance(s, Bind)]
    assert len(rig.cluster.devices.usage.taken) == 2

    rig.mirror.apply([BindFailed(step.uid, step.node, "refused", None)])

    assert is_untouched(rig)


def one(devices: int) -> ClusterBuilder:
    return two_nodes(mapped(), devices=devices).job("a", cpu="1", **{GPU: 2})


def made_claim(step: Bind, *, allocated: bool = True) -> dict[str, Any]:
    """The claim of a step as the API server shows it."""
    [write] = step.claims
    owner = {"apiVersion": "v1", "kind": "Pod", "name": step.name, "uid": step.uid, "controller": True}
    found = claim(write.claim.partition("/")[2], exactly("container-0-request-0", count=2))
    found["metadata"] |= {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [owner],
    }
    if allocated:
        results = [
            {"request": "container-0-request-0", "driver": "gpu.example.com", "pool": pool, "device": name}
            for pool, name in (d.split("/") for d in devices_of(write))
        ]
        found["status"] = {"allocation": {"devices": {"results": results}}}
    return found


def test_devices_count_once_when_the_claim_is_there() -> None:
    rig = a_rig(one(4), CONFIGURATION)
    [step] = [s for s in rig.cycle().steps if isinstance(s, Bind)]

    rig.mirror.apply([put(made_claim(step, allocated=False))])
    assert sorted(rig.cluster.devices.usage.taken.values()) == [1, 1]
    rig.mirror.apply([put(made_claim(step))])

    assert sorted(rig.cluster.devices.usage.taken.values()) == [1, 1]
    assert rig.cluster.devices.in_flight == {}
    rig.mirror.apply([gone(made_claim(step))])
    assert rig.cluster.devices.usage.taken == {}


def test_a_claim_of_an_attempt_that_came_to_nothing_is_deleted_before_the_next() -> None:
    [step] = [s for s in a_rig(one(4), CONFIGURATION).cycle().steps if isinstance(s, Bind)]
    left = made_claim(step)
    rig = a_rig(one(4).add(left), CONFIGURATION)

    decision = rig.cycle()

    name = left["metadata"]["name"]
    assert decision.waiting == {"a-0": f'waiting for resourceclaim "{name}" of an earlier attempt to be deleted'}
    assert [s for s in decision.steps if isinstance(s, ReleaseClaim)] == [
        ReleaseClaim(left["metadata"]["uid"], "default", name, as_pod("default", step.name, step.uid), delete=True)
    ]
    assert set(rig.cycle(gone(left)).bindings) == {"a-0"}


@pytest.mark.parametrize(
    "forged", [{"namespace": "elsewhere"}, {"name": "b-0"}, {"kind": "Job"}, {"apiVersion": "x/v1"}]
)
def test_a_claim_that_names_the_uid_of_a_pod_and_is_not_of_that_pod_keeps_it_from_nothing(
    forged: dict[str, str],
) -> None:
    [step] = [s for s in a_rig(one(4), CONFIGURATION).cycle().steps if isinstance(s, Bind)]
    left = made_claim(step, allocated=False)
    left["metadata"]["namespace"] = forged.get("namespace", "default")
    left["metadata"]["ownerReferences"][0] |= {key: value for key, value in forged.items() if key != "namespace"}

    assert set(a_rig(one(4).add(left), CONFIGURATION).cycle().bindings) == {"a-0"}


def test_what_is_in_flight_for_a_pod_is_not_let_go_for_a_claim_of_another_namespace() -> None:
    rig = a_rig(one(4), CONFIGURATION)
    [step] = [s for s in rig.cycle().steps if isinstance(s, Bind)]
    forged = made_claim(step)
    forged["metadata"] |= {"namespace": "elsewhere", "uid": "forged"}
    del forged["status"]["allocation"]["devices"]["results"][:]

    rig.mirror.apply([put(forged)])

    assert sorted(rig.cluster.devices.usage.taken.values()) == [1, 1]


def test_too_many_containers_for_one_claim_are_named() -> None:
    spec = {"containers": [container(f"c{number}", 1) for number in range(33)]}
    cluster = two_nodes(mapped(), devices=64).job("a", spec=spec)

    said = 'containers ask for "example.com/gpu" in 33 requests, one ResourceClaim may have 32'
    assert a_rig(cluster, CONFIGURATION).cycle().waiting == {"a-0": said}


def test_a_class_that_is_not_understood_is_named() -> None:
    cluster = two_nodes({**mapped(), "spec": {"extendedResourceName": GPU, "selectors": [{"new": {}}]}})
    cluster.job("a", cpu="1", **{IMPLICIT: 1})

    assert 'DeviceClass "gpu": ' in a_rig(cluster, CONFIGURATION).cycle().waiting["a-0"]


@pytest.mark.parametrize("plugin", ["proportion", "overcommit", "capacity"])
def test_plugins_that_share_out_the_cluster_leave_the_number_of_devices_to_these(plugin: str) -> None:
    with_plugin = CONFIGURATION.replace("- name: predicates", f"- name: {plugin}\n  - name: predicates")
    cluster = two_nodes(mapped()).job("a", tasks=2, cpu="1", **{GPU: 1})
    [group] = [found for found in cluster.objects if found["kind"] == "PodGroup"]
    group["spec"]["minResources"] = {GPU: "2", "cpu": "2"}
    group["status"] = {"phase": "Pending"}

    decision = a_rig(cluster, with_plugin).cycle()

    assert (set(decision.bindings), decision.waiting) == ({"a-0", "a-1"}, {})


def test_a_capability_of_them_limits_a_queue_all_the_same() -> None:
    with_plugin = CONFIGURATION.replace("- name: predicates", "- name: capacity\n  - name: predicates")
    cluster = two_nodes(mapped()).queue("q", capability={GPU: "1"}).job("a", queue="q", cpu="1", **{GPU: 1})
    cluster.job("b", queue="q", cpu="1", **{GPU: 1})

    decision = a_rig(cluster, with_plugin).cycle()

    assert len(decision.bindings) == 1
    [message] = decision.waiting.values()
    assert message == f'queue "q" may have no more: {GPU}: requested 1, used 1, limit 1'


def test_names_of_claims_are_as_short_as_api_servers_make_them_and_differ_between_pods() -> None:
    assert claim_name("web-0", "u1").startswith("web-0-extended-resources-")
    assert claim_name("x" * 253, "u1") != claim_name("x" * 253, "u2")
    assert max(len(claim_name("x" * size, "u")) for size in range(1, 254)) <= 63
    assert "--" not in claim_name("x" * 49, "u")
    assert ".-" not in claim_name("x" * 49 + ".y", "u")
