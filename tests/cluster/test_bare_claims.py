"""The bare claim binder of the benches sends what volsched sends: the same requests, and claims end alike."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from bench import bare_claims
from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import Installed, eventually
from tests.cluster.test_resource_claims import DIRECT, Json, Mapped, pod_with, requests_of, using
from tools.controlplane import ApiServerError, ControlPlane
from tools.controlplane.faults import FaultProxy

pytest_plugins = ["tests.cluster.scheduling_fixtures"]


@pytest.fixture
def mapped(control_plane: ControlPlane, namespace: str, make_nodes: MakeNodes) -> Iterator[Mapped]:
    made = Mapped(control_plane, namespace, make_nodes)
    yield made
    made.close()


def make_work(installed: Installed, fleet: Mapped, kind: str) -> None:
    """Make the pods of one row of the bench, and their claims."""
    if kind == "extended":
        installed.make_pods(fleet.namespace, [pod_with(installed, f"p{n}", fleet.resource, 2) for n in range(2)])
        return
    if kind == "shared":
        fleet.make_claim("c")
        installed.make_gang(fleet.namespace, "gang", 3, cpu="100m", spec=using("c"))
        return
    for name in ("c0", "c1"):
        fleet.make_claim(name)
    pods = [installed.pod(f"p{n}", cpu="100m", spec=using(f"c{n}")) for n in range(2)]
    installed.make_pods(fleet.namespace, pods)


def claims_of(fleet: Mapped) -> list[Json]:
    """What is written of the claims of a namespace: without what the API server adds, and which devices it were."""
    return sorted((_written(found) for found in fleet.api.items(fleet.claims)), key=str)


def _written(claim: Json) -> Json:
    meta, status = claim["metadata"], claim["status"]
    allocation = status["allocation"]
    results = [sorted(result) for result in allocation["devices"]["results"]]
    node = [
        requirement["key"]
        for term in allocation["nodeSelector"]["nodeSelectorTerms"]
        for requirement in term["matchFields"]
    ]
    return {
        "name": meta["name"].rpartition("-")[0] if "extended" in meta["name"] else meta["name"],
        "annotations": meta.get("annotations"),
        "owners": [sorted(owner) for owner in meta.get("ownerReferences", ())],
        "finalizers": meta["finalizers"],
        "requests": [request["name"] for request in claim["spec"]["devices"]["requests"]],
        "results": results,
        "keys": sorted(allocation),
        "node": node,
        "reserved": sorted(consumer["name"] for consumer in status["reservedFor"]),
    }


@pytest.mark.parametrize("kind", ["own", "shared", "extended"])
def test_the_bare_claim_binder_sends_the_requests_of_volsched(
    installed: Installed,
    control_plane: ControlPlane,
    namespace: str,
    mapped: Mapped,
    fault_proxy: FaultProxy,
    kind: str,
) -> None:
    pods = 3 if kind == "shared" else 2
    make_work(installed, mapped, kind)
    with FaultProxy(control_plane) as bare_proxy:
        asyncio.run(bare_claims.run(str(bare_proxy.kubeconfig()), namespace, 32))
        installed.wait_bound(namespace, pods)
        by_bare = claims_of(mapped)
        sent = requests_of(bare_proxy)
    _clear(installed, mapped)

    installed.start(*DIRECT, proxy=fault_proxy).wait_leading()
    make_work(installed, mapped, kind)
    installed.wait_bound(namespace, pods)

    eventually(lambda: requests_of(fault_proxy) == sent, what=f"volsched sends {sent}")
    assert claims_of(mapped) == by_bare


def _claims_are_gone(api: Any, claims: str) -> bool:
    """Take the finalizers off; a claim may be gone by then, as Kubernetes' controller takes them off as well."""
    for claim in api.items(claims):
        try:
            api.patch(f"{claims}/{claim['metadata']['name']}", {"metadata": {"finalizers": None}})
        except ApiServerError as error:
            if error.status != 404:
                raise
    return not api.items(claims)


def _clear(installed: Installed, fleet: Mapped) -> None:
    """Delete what one of the two has bound."""
    api: Any = fleet.api
    api.delete(f"/api/v1/namespaces/{fleet.namespace}/pods", grace_seconds=0)
    api.wait_for(f"/api/v1/namespaces/{fleet.namespace}/pods", lambda found: not found["items"])
    api.delete(fleet.claims)
    eventually(lambda: _claims_are_gone(api, fleet.claims), what="the claims are gone")
    groups = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{fleet.namespace}/podgroups"
    api.delete(groups)
