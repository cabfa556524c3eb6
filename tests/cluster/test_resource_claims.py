"""ResourceClaims on a real API server: allocated, reserved and bound in this order, whatever comes in between."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import QUICK_LEASE, Installed, eventually
from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from tools.controlplane import ControlPlane
from tools.controlplane.faults import (
    BlackHole,
    FaultProxy,
    InjectedFault,
    Latency,
    Reset,
    Respond,
    conflict,
    server_error,
    too_many_requests,
)

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

DIRECT = ("--plain-pods", "direct")
DEVICES = "/apis/resource.k8s.io/v1"
BINDING = "/api/v1/namespaces/*/pods/*/binding"
STATUS = "/apis/resource.k8s.io/v1/namespaces/*/resourceclaims/*/status"
CLAIM = "/apis/resource.k8s.io/v1/namespaces/*/resourceclaims/*"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/*/resourceclaims"
POD_STATUS = "/api/v1/namespaces/*/pods/*/status"
Json = dict[str, Any]


class Fleet:
    """Nodes with devices of a driver of the test's own, and the claims of one namespace."""

    def __init__(self, control_plane: ControlPlane, namespace: str, make_nodes: MakeNodes) -> None:
        self.api = control_plane.api
        self.namespace = namespace
        self.name = f"gpu-{uuid.uuid4().hex[:8]}.example.com"
        self.claims = f"{DEVICES}/namespaces/{namespace}/resourceclaims"
        self.nodes = make_nodes(2)
        self.slices = [f"{node}-{self.name}" for node in self.nodes]
        self.api.create(f"{DEVICES}/deviceclasses", device_class(self.name, driver=self.name))
        for node, name in zip(self.nodes, self.slices, strict=True):
            devices = [device("d0"), device("d1")]
            self.api.create(f"{DEVICES}/resourceslices", part(name, devices, node=node, pool=node, driver=self.name))

    def make_claim(self, name: str, count: int = 1) -> Json:
        body = claim(name, exactly(cls=self.name, count=count))
        return self.api.create(self.claims, {**body, "metadata": {"name": name}})

    def make_template(self, name: str) -> None:
        spec = {"spec": claim("x", exactly(cls=self.name))["spec"]}
        path = f"{DEVICES}/namespaces/{self.namespace}/resourceclaimtemplates"
        self.api.create(path, {"metadata": {"name": name}, "spec": spec})

    def get(self, name: str) -> Json:
        return self.api.get(f"{self.claims}/{name}")

    def close(self) -> None:
        for name in self.slices:
            self.api.delete(f"{DEVICES}/resourceslices/{name}")
        self.api.delete(f"{DEVICES}/deviceclasses/{self.name}")


@pytest.fixture
def fleet(control_plane: ControlPlane, namespace: str, make_nodes: MakeNodes) -> Iterator[Fleet]:
    made = Fleet(control_plane, namespace, make_nodes)
    yield made
    made.close()


def using(*claims: str) -> Json:
    return {"resourceClaims": [{"name": f"e{n}", "resourceClaimName": name} for n, name in enumerate(claims)]}


def from_template(name: str) -> Json:
    return {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}]}


def devices_of(found: Json) -> list[str]:
    results = found.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return sorted(f"{result['pool']}/{result['device']}" for result in results)


def reserved_for(found: Json) -> list[str]:
    return sorted(consumer["name"] for consumer in found.get("status", {}).get("reservedFor", []))


def test_claims_made_from_templates_are_allocated_reserved_and_their_pods_bound(
    installed: Installed, namespace: str, fleet: Fleet, fault_proxy: FaultProxy
) -> None:
    fleet.make_template("one")
    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()

    installed.make_pods(namespace, [installed.pod(f"p{n}", cpu="1", spec=from_template("one")) for n in range(5)])
    bound = installed.wait_bound(namespace, 4)

    pods = installed.pods(namespace)
    given = {}
    for found in fleet.api.items(fleet.claims):
        if not devices_of(found):
            continue
        [pod] = reserved_for(found)
        given[pod] = devices_of(found)
        assert found["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        assert found["status"]["allocation"]["allocationTimestamp"]
        assert found["status"]["reservedFor"][0]["uid"] == pods[pod]["metadata"]["uid"]
        assert devices_of(found)[0].startswith(f"{bound[pod]}/")
    assert given.keys() == bound.keys()
    assert len({devices[0] for devices in given.values()}) == 4
    [waiting] = set(pods) - set(bound)
    eventually(lambda: "cannot allocate all claims" in installed.condition(namespace, waiting).get("message", ""))

    freed = next(iter(bound))
    fleet.api.delete(f"/api/v1/namespaces/{namespace}/pods/{freed}", grace_seconds=0)

    fleet.api.wait_for(f"/api/v1/namespaces/{namespace}/pods/{waiting}", lambda pod: "nodeName" in pod["spec"])


def test_a_gang_shares_one_claim_and_a_second_gang_comes_later(
    installed: Installed, namespace: str, fleet: Fleet, fault_proxy: FaultProxy
) -> None:
    fleet.make_claim("shared")
    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()

    installed.make_pods(namespace, [installed.pod(f"p{n}", cpu="1", spec=using("shared")) for n in range(3)])
    bound = installed.wait_bound(namespace, 3)

    found = fleet.get("shared")
    assert len(set(bound.values())) == 1
    assert reserved_for(found) == ["p0", "p1", "p2"]
    assert len(devices_of(found)) == 1


def test_parameters_for_drivers_are_handed_on_in_the_order_in_which_they_were_written(
    installed: Installed, namespace: str, fleet: Fleet, fault_proxy: FaultProxy
) -> None:
    def opaque(number: int, *requests: str) -> Json:
        parameters = {"number": number, "list": [[]] * 100, "text": "x" * 1_000}
        return {"requests": [*requests], "opaque": {"driver": fleet.name, "parameters": parameters}}

    of_class = {"opaque": opaque(0)["opaque"]}
    path = f"{DEVICES}/deviceclasses/{fleet.name}"
    fleet.api.patch(path, {"spec": {"config": [of_class]}})
    body = claim("c", exactly(cls=fleet.name))
    name = body["spec"]["devices"]["requests"][0]["name"]
    body["spec"]["devices"]["config"] = [opaque(1), opaque(2, name), opaque(3, name)]
    fleet.api.create(fleet.claims, {**body, "metadata": {"name": "c"}})
    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()

    installed.make_pods(namespace, [installed.pod(f"p{n}", cpu="1", spec=using("c")) for n in range(2)])
    installed.wait_bound(namespace, 2)

    given = fleet.get("c")["status"]["allocation"]["devices"]["config"]
    assert [(one["source"], one.get("requests", [])) for one in given] == [
        ("FromClass", [name]),
        ("FromClaim", []),
        ("FromClaim", [name]),
        ("FromClaim", [name]),
    ]
    assert [one["opaque"] for one in given] == [opaque(number)["opaque"] for number in range(4)]
    assert fault_proxy.counts.count("get", CLAIM) == 0  # the answer to the finalizer has them


FAULTS: dict[str, tuple[InjectedFault, str]] = {
    "conflicts on the claim": (conflict(), "resourceclaims/[^/]*$"),
    "conflicts on its status": (conflict(), "resourceclaims/.*/status$"),
    "conflicts, yet done": (conflict(after=True), "resourceclaims/.*/status$"),
    "server errors": (server_error(), "resourceclaims/"),
    "resets, yet done": (Reset(after=True), "resourceclaims/.*/status$"),
}


@pytest.mark.no_retry(reason="double binding")
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_write_that_is_not_confirmed_is_made_once(
    installed: Installed, namespace: str, fleet: Fleet, fault_proxy: FaultProxy, fault: tuple[InjectedFault, str]
) -> None:
    trouble, path = fault
    fleet.make_claim("c")
    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()
    fault_proxy.inject(trouble, method="PATCH", path=path, times=2)

    installed.make_pods(namespace, [installed.pod("p", cpu="1", spec=using("c"))])
    installed.wait_bound(namespace, 1)

    assert reserved_for(fleet.get("c")) == ["p"]
    assert len(devices_of(fleet.get("c"))) == 1


def requests_of(proxy: FaultProxy) -> dict[str, int]:
    """What was asked of claims, bindings and statuses of pods, and how often; claims are listed beside that."""
    asked = [(CLAIMS, ("create",)), (CLAIM, ("get", "patch")), (STATUS, ("patch",)), (POD_STATUS, ("patch",))]
    asked.append((BINDING, ("create",)))
    counted = {f"{verb} {shape}": proxy.counts.count(verb, shape) for shape, verbs in asked for verb in verbs}
    return {what: count for what, count in counted.items() if count}


def test_a_pod_costs_two_requests_for_each_claim_of_its_own_and_one_to_bind_it(
    installed: Installed, namespace: str, fleet: Fleet, fault_proxy: FaultProxy
) -> None:
    for name in ("c0", "c1"):
        fleet.make_claim(name)
    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()

    installed.make_pods(namespace, [installed.pod("p", cpu="1", spec=using("c0", "c1"))])
    installed.wait_bound(namespace, 1)

    expected = {f"patch {CLAIM}": 2, f"patch {STATUS}": 2, f"create {BINDING}": 1}
    eventually(lambda: requests_of(fault_proxy) == expected)  # the API server shows it before the proxy counts it


def test_a_pod_whose_claim_is_allocated_costs_two_requests(
    installed: Installed, namespace: str, fleet: Fleet, fault_proxy: FaultProxy
) -> None:
    fleet.make_claim("c")
    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()
    installed.make_pods(namespace, [installed.pod("first", cpu="1", spec=using("c"))])
    installed.wait_bound(namespace, 1)
    eventually(lambda: fault_proxy.counts.count("create", BINDING) == 1)  # the API server shows it before it is counted
    fault_proxy.counts.clear()

    installed.make_pods(namespace, [installed.pod("second", cpu="1", spec=using("c"))])
    installed.wait_bound(namespace, 2)

    eventually(lambda: requests_of(fault_proxy) == {f"patch {STATUS}": 1, f"create {BINDING}": 1})


def test_a_gang_that_shares_a_claim_costs_two_requests_beside_its_bindings(
    installed: Installed, namespace: str, fleet: Fleet, fault_proxy: FaultProxy
) -> None:
    fleet.make_claim("c")
    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()

    installed.make_gang(namespace, "gang", 6, cpu="100m", spec=using("c"))
    installed.wait_bound(namespace, 6)

    expected = {f"patch {CLAIM}": 1, f"patch {STATUS}": 1, f"create {BINDING}": 6}
    eventually(lambda: requests_of(fault_proxy) == expected)
    assert reserved_for(fleet.get("c")) == [f"gang-{n}" for n in range(6)]


def test_a_scheduler_killed_between_claim_and_binding_is_followed_by_one_that_ends_the_same(
    installed: Installed, namespace: str, fleet: Fleet, fault_proxy: FaultProxy
) -> None:
    fleet.make_claim("c")
    first = installed.start(*DIRECT, *QUICK_LEASE, proxy=fault_proxy).wait_leading()
    rule = fault_proxy.inject(BlackHole(), method="POST", path="/binding$")
    installed.make_pods(namespace, [installed.pod("p", cpu="1", spec=using("c"))])
    rule.wait()
    before = fleet.get("c")
    first.kill()
    rule.remove()

    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()
    bound = installed.wait_bound(namespace, 1)

    assert fleet.get("c")["status"] == before["status"]
    assert devices_of(before)[0].startswith(f"{bound['p']}/")


OWN_REQUESTS = {
    "finalizer": ("PATCH", "/resourceclaims/[^/]+$"),
    "allocation": ("PATCH", "/resourceclaims/[^/]+/status$"),
    "binding": ("POST", "/binding$"),
}


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("wanted", OWN_REQUESTS.values(), ids=OWN_REQUESTS)
def test_a_leader_killed_after_any_of_its_requests_is_followed_by_one_that_ends_the_same(
    installed: Installed,
    namespace: str,
    fleet: Fleet,
    fault_proxy: FaultProxy,
    wanted: tuple[str, str],
    shared: bool,
) -> None:
    method, path = wanted
    claims = {f"gang-{n}": "c" if shared else f"c{n}" for n in range(2)}
    for name in dict.fromkeys(claims.values()):
        fleet.make_claim(name)
    first = installed.start(*DIRECT, *QUICK_LEASE, proxy=fault_proxy).wait_leading()
    rule = fault_proxy.inject(BlackHole(after=True), method=method, path=path)
    installed.make_group(namespace, "gang", minMember=2, queue="default")
    pods = [installed.pod(name, group="gang", cpu="1", spec=using(claim_)) for name, claim_ in claims.items()]
    installed.make_pods(namespace, pods)
    rule.wait()
    first.kill()
    rule.remove()

    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()
    bound = installed.wait_bound(namespace, 2)

    found = {name: fleet.get(name) for name in dict.fromkeys(claims.values())}
    given = [device for each in found.values() for device in devices_of(each)]
    assert len(given) == len(set(given)) == len(found)
    for pod, name in claims.items():
        assert pod in reserved_for(found[name])
        assert devices_of(found[name])[0].startswith(f"{bound[pod]}/")
        assert found[name]["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]


def test_claims_are_written_before_their_pods_are_bound_however_long_that_takes(
    installed: Installed, namespace: str, fleet: Fleet, fault_proxy: FaultProxy
) -> None:
    for number in range(2):
        fleet.make_claim(f"c{number}")
    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()
    fault_proxy.counts.keep_journal()
    fault_proxy.inject(Latency(5.0), method="PATCH", path="/resourceclaims/")
    fault_proxy.inject(too_many_requests(1), method="PATCH", path="/resourceclaims/", times=1)

    installed.make_pods(namespace, [installed.pod("p", cpu="1", spec=using("c0", "c1"))])
    installed.wait_bound(namespace, 1)

    paths = [write.path for write in fault_proxy.counts.take_journal() if write.status in (200, 201)]
    base = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    binding = paths.index(f"/api/v1/namespaces/{namespace}/pods/p/binding")
    for number in range(2):
        claim_ = f"{base}/c{number}"
        assert paths.index(claim_) < paths.index(f"{claim_}/status") < binding


def allocate_as_kube_scheduler_does(fleet: Fleet, name: str, parameters: Json) -> None:
    """Have a claim allocated by an update, which keeps opaque parameters in the order of the claim."""
    found = fleet.get(name)
    path, status = f"{fleet.claims}/{name}/status", found["status"]
    fleet.api.request("PUT", path, {**found, "status": {}})
    status["allocation"]["devices"]["config"][0]["opaque"]["parameters"] = parameters
    fleet.api.request("PUT", path, {**fleet.get(name), "status": status})


def test_only_the_reservation_of_a_pod_that_is_not_bound_is_taken_back(
    installed: Installed, namespace: str, fleet: Fleet, fault_proxy: FaultProxy
) -> None:
    body = claim("c", exactly(cls=fleet.name))
    parameters = {"z": 1, "a": {"y": [], "b": 2}}
    body["spec"]["devices"]["config"] = [{"opaque": {"driver": fleet.name, "parameters": parameters}}]
    of_others = {"metadata": {"name": "c", "finalizers": ["example.com/other"]}}
    fleet.api.create(fleet.claims, {**body, **of_others})
    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()
    installed.make_pods(namespace, [installed.pod("good", cpu="1", spec=using("c"))])
    installed.wait_bound(namespace, 1)
    allocate_as_kube_scheduler_does(fleet, "c", parameters)
    denied = Respond(422, '{"kind":"Status","reason":"Invalid","message":"denied by a policy"}')
    rule = fault_proxy.inject(denied, method="POST", path="/pods/bad/binding$")

    installed.make_pods(namespace, [installed.pod("bad", cpu="1", spec=using("c"))])
    rule.wait()
    eventually(lambda: reserved_for(fleet.get("c")) == ["good"], what="only the pod that is bound has the claim")
    rule.remove()

    installed.wait_bound(namespace, 2)
    found = fleet.get("c")
    assert reserved_for(found) == ["bad", "good"]
    assert len(devices_of(found)) == 1
    assert sorted(found["metadata"]["finalizers"]) == ["example.com/other", "resource.kubernetes.io/delete-protection"]
    fleet.api.patch(f"{fleet.claims}/c", {"metadata": {"finalizers": None}})


def test_a_claim_whose_devices_are_elsewhere_is_released_and_allocated_anew(
    installed: Installed, namespace: str, fleet: Fleet
) -> None:
    here, there = fleet.nodes
    fleet.make_claim("c")
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [there]}]}
    result = {"request": "r0", "driver": fleet.name, "pool": there, "device": "d0"}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [only]}}
    fleet.api.patch(f"{fleet.claims}/c/status", {"status": {"allocation": allocation}})
    installed.start(*DIRECT).wait_leading()

    pinned = {**using("c"), "nodeSelector": {"kubernetes.io/hostname": here}}
    installed.make_pods(namespace, [installed.pod("p", cpu="1", spec=pinned)])

    assert installed.wait_bound(namespace, 1) == {"p": here}
    assert devices_of(fleet.get("c")) == [f"{here}/d0"]


def test_a_selector_that_fails_is_told_and_a_mended_slice_is_tried(
    installed: Installed, namespace: str, fleet: Fleet
) -> None:
    expression = f'device.attributes["{fleet.name}"].model == "x"'
    body = claim("c", exactly("r0", expression, cls=fleet.name))
    fleet.api.create(fleet.claims, {**body, "metadata": {"name": "c"}})
    installed.start(*DIRECT).wait_leading()

    installed.make_pods(namespace, [installed.pod("p", cpu="1", spec=using("c"))])
    eventually(lambda: "CEL runtime error" in installed.condition(namespace, "p").get("message", ""))
    for name in fleet.slices:
        path = f"{DEVICES}/resourceslices/{name}"
        found = fleet.api.get(path)
        for item in found["spec"]["devices"]:
            item["attributes"] = {"model": {"string": "x"}}
        fleet.api.replace(path, found)

    installed.wait_bound(namespace, 1)


class Mapped(Fleet):
    """The same, with an extended resource that the class stands for."""

    def __init__(self, control_plane: ControlPlane, namespace: str, make_nodes: MakeNodes) -> None:
        super().__init__(control_plane, namespace, make_nodes)
        self.resource = f"{self.name}/card"
        body = {"spec": {"extendedResourceName": self.resource}}
        self.api.patch(f"{DEVICES}/deviceclasses/{self.name}", body)


@pytest.fixture
def mapped(control_plane: ControlPlane, namespace: str, make_nodes: MakeNodes) -> Iterator[Mapped]:
    made = Mapped(control_plane, namespace, make_nodes)
    yield made
    made.close()


def pod_with(installed: Installed, name: str, resource: str, count: int) -> Json:
    amounts = {resource: str(count)}
    container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    return installed.pod(name, spec={"containers": [container]})


def test_extended_resources_come_from_devices_by_a_claim_that_is_made_for_the_pod(
    installed: Installed, namespace: str, mapped: Mapped
) -> None:
    installed.start(*DIRECT).wait_leading()

    wanted = {"p0": mapped.resource, "p1": f"deviceclass.resource.kubernetes.io/{mapped.name}", "p2": mapped.resource}
    installed.make_pods(namespace, [pod_with(installed, name, of, 2) for name, of in wanted.items()])
    bound = installed.wait_bound(namespace, 2)

    pods = installed.pods(namespace)
    assert len(mapped.api.items(mapped.claims)) == 2
    for name, node in bound.items():
        said = pods[name]["status"]["extendedResourceClaimStatus"]
        [mapping] = said["requestMappings"]
        assert (mapping["containerName"], mapping["resourceName"]) == ("main", wanted[name])
        found = mapped.get(said["resourceClaimName"])
        assert [request["name"] for request in found["spec"]["devices"]["requests"]] == [mapping["requestName"]]
        assert found["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
        [owner] = found["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (pods[name]["metadata"]["uid"], True)
        assert devices_of(found) == [f"{node}/d0", f"{node}/d1"]
        assert reserved_for(found) == [name]
    [waiting] = set(pods) - set(bound)
    eventually(lambda: "cannot allocate all claims" in installed.condition(namespace, waiting).get("message", ""))

    mapped.api.delete(f"/api/v1/namespaces/{namespace}/pods/{next(iter(bound))}", grace_seconds=0)

    mapped.api.wait_for(f"/api/v1/namespaces/{namespace}/pods/{waiting}", lambda pod: "nodeName" in pod["spec"])


def test_a_pod_whose_extended_resources_come_from_devices_costs_four_requests(
    installed: Installed, namespace: str, mapped: Mapped, fault_proxy: FaultProxy
) -> None:
    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()

    installed.make_pods(namespace, [pod_with(installed, "p", mapped.resource, 2)])
    installed.wait_bound(namespace, 1)

    expected = {f"create {CLAIMS}": 1, f"patch {STATUS}": 1, f"patch {POD_STATUS}": 1, f"create {BINDING}": 1}
    eventually(lambda: requests_of(fault_proxy) == expected)


@pytest.mark.parametrize("trouble", [server_error(), Reset(after=True)], ids=["500", "reset, yet done"])
def test_a_claim_for_extended_resources_is_made_once_whatever_the_trouble(
    installed: Installed, namespace: str, mapped: Mapped, fault_proxy: FaultProxy, trouble: InjectedFault
) -> None:
    fault_proxy.inject(trouble, method="POST", path="/resourceclaims$", times=1)
    fault_proxy.inject(trouble, method="PATCH", path="/pods/p0/status$", times=1)
    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()

    installed.make_pods(namespace, [pod_with(installed, "p0", mapped.resource, 1)])
    installed.wait_bound(namespace, 1)

    assert len(mapped.api.items(mapped.claims)) == 1
    assert "extendedResourceClaimStatus" in installed.pods(namespace)["p0"]["status"]


EXTENDED_REQUESTS = {
    "claim": ("POST", "/resourceclaims$"),
    "allocation": ("PATCH", "/resourceclaims/[^/]+/status$"),
    "status of the pod": ("PATCH", "/pods/p/status$"),
    "binding": ("POST", "/binding$"),
}


@pytest.mark.parametrize("wanted", EXTENDED_REQUESTS.values(), ids=EXTENDED_REQUESTS)
def test_a_leader_killed_while_it_serves_extended_resources_is_followed_by_one_that_ends_the_same(
    installed: Installed, namespace: str, mapped: Mapped, fault_proxy: FaultProxy, wanted: tuple[str, str]
) -> None:
    method, path = wanted
    first = installed.start(*DIRECT, *QUICK_LEASE, proxy=fault_proxy).wait_leading()
    rule = fault_proxy.inject(BlackHole(after=True), method=method, path=path)
    installed.make_pods(namespace, [pod_with(installed, "p", mapped.resource, 2)])
    rule.wait()
    first.kill()
    rule.remove()

    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()
    bound = installed.wait_bound(namespace, 1)

    [found] = mapped.api.items(mapped.claims)
    told = installed.pods(namespace)["p"]["status"]["extendedResourceClaimStatus"]
    assert told["resourceClaimName"] == found["metadata"]["name"]
    assert devices_of(found) == [f"{bound['p']}/d0", f"{bound['p']}/d1"]
    assert reserved_for(found) == ["p"]


def test_a_claim_for_extended_resources_goes_when_its_pod_is_not_bound(
    installed: Installed, namespace: str, mapped: Mapped, fault_proxy: FaultProxy
) -> None:
    denied = Respond(422, '{"kind":"Status","reason":"Invalid","message":"denied by a policy"}')
    rule = fault_proxy.inject(denied, method="POST", path="/pods/bad/binding$")
    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()

    installed.make_pods(namespace, [pod_with(installed, "bad", mapped.resource, 2)])
    rule.wait()
    eventually(lambda: mapped.api.items(mapped.claims) == [], what="the claim is gone")
    installed.make_pods(namespace, [pod_with(installed, f"p{n}", mapped.resource, 2) for n in range(2)])

    installed.wait_bound(namespace, 2)


def test_a_claim_for_extended_resources_that_nobody_came_to_use_is_made_anew(
    installed: Installed, namespace: str, mapped: Mapped, fault_proxy: FaultProxy
) -> None:
    first = installed.start(*DIRECT, *QUICK_LEASE, proxy=fault_proxy).wait_leading()
    rule = fault_proxy.inject(BlackHole(), method="POST", path="/binding$")
    installed.make_pods(namespace, [pod_with(installed, "p0", mapped.resource, 2)])
    rule.wait()
    [before] = mapped.api.items(mapped.claims)
    first.kill()
    rule.remove()

    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()
    bound = installed.wait_bound(namespace, 1)

    [after] = mapped.api.items(mapped.claims)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert devices_of(after) == [f"{bound['p0']}/d0", f"{bound['p0']}/d1"]
