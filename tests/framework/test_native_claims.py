"""Claims of native groups: one entry for all pods, kept as they come and go, given back by one that cannot start."""

from __future__ import annotations

from typing import Any

from tests.framework.dra.worlds import claim as a_claim
from tests.framework.dra.worlds import device, device_class, exactly, part
from tests.framework.test_native_groups import members, rig_of
from volsched.model.changes import Change
from volsched.model.dra import api as dra
from volsched.model.plan import Bind, ReleaseClaim
from volsched.testing.builders import ClusterBuilder, CycleDecision, Rig, a_cluster, a_native_group, put

ENTRY = {"name": "shared", "resourceClaimName": "c"}
GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "podgroup-default-g"}
ON_N = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
ALLOCATION = {
    "devices": {"results": [{"request": "r0", "driver": "gpu.example.com", "pool": "p1", "device": "d0"}]},
    "nodeSelector": {"nodeSelectorTerms": [ON_N]},
}


def world(cpu: int = 8) -> ClusterBuilder:
    cluster = a_cluster().node("n", cpu=cpu).queue("default")
    return cluster.add(device_class()).add(part("s", [device("d0")], node="n"))


def claim(status: Any = None, name: str = "c", **meta: Any) -> Change:
    made = a_claim(name, exactly())
    metadata = {"namespace": "default", "uid": f"claim-{name}", **made["metadata"], **meta}
    return put({**made, "metadata": metadata, "status": status or {}})


def group(minimum: int = 2, **spec: Any) -> Change:
    return put(a_native_group("g", minimum, resourceClaims=[ENTRY], **spec))


def pods(count: int, start: int = 0, entry: Any = None, **more: Any) -> list[Change]:
    return members("g", count, start=start, spec={"resourceClaims": [entry or ENTRY]}, **more)


def consumers(decision: CycleDecision) -> list[str]:
    """For whom claims are reserved, by bound pod: the group's uid, or nothing for the pod's own."""
    binds = [step for step in decision.steps if isinstance(step, Bind)]
    return [write.reserved_for.uid if write.reserved_for else "" for bind in binds for write in bind.claims]


def test_all_pods_of_a_group_share_one_entry() -> None:
    decision = rig_of(world()).cycle(claim(), group(), *pods(3))

    assert len(decision.bindings) == 3
    assert consumers(decision) == ["podgroup-default-g"] * 3


def test_an_entry_that_the_group_does_not_have_is_the_pods_own() -> None:
    other = {"name": "mine", "resourceClaimName": "c"}

    assert consumers(rig_of(world()).cycle(claim(), group(1), *pods(1, entry=other))) == [""]


def test_more_pods_than_a_claim_may_have_consumers() -> None:
    count = dra.MOST_CONSUMERS + 4
    cluster = a_cluster().node("n", cpu=count, pods=str(count)).queue("default")
    rig = rig_of(cluster.add(device_class()).add(part("s", [device("d0")], node="n")))

    assert len(rig.cycle(claim(), group(count), *pods(count)).bindings) == count


def test_a_pod_that_comes_later_needs_nothing_more() -> None:
    rig = rig_of(world())
    there = {"allocation": ALLOCATION, "reservedFor": [GROUP]}

    decision = rig.cycle(claim(there), group(1), *pods(1, on="n"), *pods(1, start=1))

    assert decision.bindings == {"g-1": "n"}
    assert consumers(decision) == []


def test_a_claim_from_a_template_belongs_to_the_group() -> None:
    entry = {"name": "shared", "resourceClaimTemplateName": "t"}
    owner = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g", "controller": True}
    owner["uid"] = "podgroup-default-g"
    made = claim(name="g-shared-1", ownerReferences=[owner])
    told = {"resourceClaimStatuses": [{"name": "shared", "resourceClaimName": "g-shared-1"}]}
    spec = {"resourceClaims": [entry]}
    named = put(a_native_group("g", 2, resourceClaims=[entry]))

    decision = rig_of(world()).cycle(made, named, *members("g", 2, spec=spec, status=told))

    assert consumers(decision) == ["podgroup-default-g"] * 2
    alien = {**owner, "uid": "another"}
    assert rig_of(world()).cycle(
        claim(name="g-shared-1", ownerReferences=[alien]), named, *members("g", 2, spec=spec, status=told)
    ).bindings == {}  # fmt: skip


def releases(rig: Rig, *changes: Change) -> list[str]:
    return [step.pod.uid for step in rig.cycle(*changes).steps if isinstance(step, ReleaseClaim)]


def test_a_group_that_cannot_start_gives_its_claim_back() -> None:
    there = {"allocation": ALLOCATION, "reservedFor": [GROUP]}

    assert releases(rig_of(world(1)), claim(there), group(), *pods(2)) == ["podgroup-default-g"]


def test_one_with_a_pod_on_a_node_keeps_it() -> None:
    there = {"allocation": ALLOCATION, "reservedFor": [GROUP]}

    assert releases(rig_of(world(1)), claim(there), group(1), *pods(1, on="n"), *pods(1, start=1)) == []
