"""The auditor finds what it is there to find of devices, each kind once; and nothing where all is well."""

from __future__ import annotations

from typing import Any

from drills.device_audit import FINALIZER, DeviceAudit
from tests.framework.dra.worlds import device, part

Json = dict[str, Any]
SHARED = {"allowMultipleAllocations": True}


def a_claim(name: str, version: int, *devices: str, pods: tuple[str, ...] = (), **more: Any) -> Json:
    """A claim with these devices of the pool p1, reserved for pods."""
    results = [{"request": "r0", "driver": "gpu.example.com", "pool": "p1", "device": d, **more} for d in devices]
    reserved = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods]
    meta = {"name": name, "namespace": "team", "resourceVersion": str(version), "finalizers": [FINALIZER]}
    return {"metadata": meta, "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}}


def a_pod(name: str, version: int, *claims: str) -> Json:
    """A pod that was bound in this version."""
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": str(version)}
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    return {"metadata": meta, "spec": {"nodeName": "n1", "resourceClaims": entries}}


def an_audit(*slices: Json) -> DeviceAudit:
    audit = DeviceAudit()
    for found in slices:
        audit.see_slice(found, is_deleted=False)
    return audit


def found_in(audit: DeviceAudit, *claims: Json) -> list[str]:
    return [words for claim in claims for words in audit.see_claim(claim, is_deleted=False)]


def test_a_device_may_be_given_out_once_and_again_when_it_was_given_back() -> None:
    audit = an_audit(part("s", [device("d0"), device("d1")]))

    assert found_in(audit, a_claim("a", 1, "d0"), a_claim("b", 2, "d1")) == []
    assert found_in(audit, a_claim("c", 3, "d0")) == ["claim team/c: device gpu.example.com/p1/d0 is given out 2 times"]
    for name in "ac":
        assert list(audit.see_claim(a_claim(name, 4, "d0"), is_deleted=True)) == []
    assert found_in(audit, a_claim("d", 5, "d0"), a_claim("admin", 6, "d0", adminAccess=True)) == []


def test_a_shared_device_has_as_much_as_it_has() -> None:
    audit = an_audit(part("s", [device("d0", {"memory": "80Gi"}, more=SHARED)]))
    half: Json = {"shareID": "x", "consumedCapacity": {"memory": "40Gi"}}

    assert found_in(audit, a_claim("a", 1, "d0", **half), a_claim("b", 2, "d0", **half)) == []
    [words] = found_in(audit, a_claim("c", 3, "d0", **half))
    assert words.endswith("memory given away")


def test_counters_of_a_pool_are_added_up() -> None:
    sets = [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]
    takes = {"consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": "40Gi"}}}]}
    devices = [device(f"d{number}", more=takes) for number in range(3)]
    audit = an_audit(part("s0", count=2, sharedCounters=sets), part("s1", devices, count=2))

    assert found_in(audit, a_claim("a", 1, "d0"), a_claim("b", 2, "d1")) == []
    [words] = found_in(audit, a_claim("c", 3, "d2"))
    assert words.endswith("card/memory given away")


def test_devices_without_finalizer_are_found() -> None:
    audit = an_audit(part("s", [device("d0")]))
    claim = a_claim("a", 1, "d0")
    del claim["metadata"]["finalizers"]

    assert found_in(audit, claim) == ["claim team/a has devices and no finalizer"]


def test_a_claim_is_reserved_before_its_pod_is_bound() -> None:
    audit = an_audit(part("s", [device("d0")]))
    audit.see_binding(a_pod("p", 5, "a"))
    audit.see_binding(a_pod("q", 6, "a"))
    audit.see_binding(a_pod("listed", 7, "a"))
    audit.list_claims([a_claim("a", 9, "d0", pods=("listed",))])
    assert found_in(audit, a_claim("a", 4, "d0", pods=("p",)), a_claim("a", 8, "d0", pods=("p", "q", "listed"))) == []

    assert list(audit.judge_bindings()) == ["pod team/q was bound before claim team/a was reserved for it"]
    assert list(audit.judge_bindings()) == []
