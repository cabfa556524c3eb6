"""The ceiling of the race with ResourceClaims: a program that allocates claims and binds pods, and decides nothing.

It lists slices, claims and pods, gives the claims devices in the order of their names, and sends what volsched sends
for them, through volsched's HTTP client, some pods at a time (docs/plugins/capacity-dra.md). It opens no watch.

  own claims           the finalizer, the status with allocation and reservations, and the Binding of each pod
  extended resources   the claim that is made for the pod, its status, the pod's status, and the Binding

Started by the benches as ``python -m bench.bare_claims``.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import MERGE_PATCH, Api
from volsched.kube.write.pod_bodies import binding_body
from volsched.model.plan import Bind

DEVICES: Final = "/apis/resource.k8s.io/v1"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_PAGE: Final = 500

Json = dict[str, Any]


@dataclass(slots=True)
class Work:
    """A claim with its devices, and the pods that use it; ``claim`` is None where it is made for extended resources."""

    claim: Json | None
    request: str
    count: int
    pods: list[Json] = field(default_factory=list)
    resource: str = ""
    devices: list[Json] = field(default_factory=list)
    """The results of the allocation, of one node."""
    node: str = ""


async def listed(api: Api, path: str) -> list[Json]:
    """Return all objects of a collection, page by page."""
    found: list[Json] = []
    rest = ""
    while True:
        page = await api.get(f"{path}?limit={_PAGE}{rest}", "list")
        found += page["items"]
        if not page["metadata"].get("continue"):
            return found
        rest = f"&continue={page['metadata']['continue']}"


def works(claims: list[Json], pods: list[Json], classes: list[Json]) -> Iterator[Work]:
    """Yield what there is to do, in order of names."""
    resources = {found["spec"].get("extendedResourceName"): found["metadata"]["name"] for found in classes}
    users: dict[str, list[Json]] = {}
    for pod in pods:
        entries = pod["spec"].get("resourceClaims", ())
        made = {one["name"]: one["resourceClaimName"] for one in pod["status"].get("resourceClaimStatuses", ())}
        for entry in entries:
            users.setdefault(entry.get("resourceClaimName") or made[entry["name"]], []).append(pod)
        if not entries:
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            resource = next(name for name in requests if name in resources)
            name = f"container-0-request-{sorted(set(requests) - {'cpu', 'memory'}).index(resource)}"
            yield Work(None, name, int(requests[resource]), [pod], resource)
    for claim in claims:
        if claim["metadata"]["name"] in users:
            [request] = claim["spec"]["devices"]["requests"]
            count = request["exactly"].get("count", 1)
            yield Work(claim, request["name"], count, users[claim["metadata"]["name"]])


def with_devices(work: list[Work], slices: list[Json]) -> Iterator[Work]:
    """Yield the works for which there are devices, each with some of one node."""
    free = deque(sorted(slices, key=lambda found: str(found["spec"]["nodeName"])))
    taken = 0
    for one in work:
        while free and taken + one.count > len(free[0]["spec"]["devices"]):
            free.popleft()
            taken = 0
        if not free:
            return
        spec = free[0]["spec"]
        one.node = spec["nodeName"]
        for device in spec["devices"][taken : taken + one.count]:
            found = {"request": one.request, "driver": spec["driver"], "pool": spec["pool"]["name"]}
            conditions = ("bindingConditions", "bindingFailureConditions")
            found |= {key: device[key] for key in conditions if key in device}
            one.devices.append({**found, "device": device["name"]})
        taken += one.count
        yield one


class PodWriter:
    """Sends the requests of one work after the other."""

    def __init__(self, api: Api, namespace: str, classes: list[Json]) -> None:
        self._api = api
        self._namespace = namespace
        self._claims = f"{DEVICES}/namespaces/{namespace}/resourceclaims"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._classes = {found["spec"].get("extendedResourceName"): found["metadata"]["name"] for found in classes}

    async def serve(self, work: Work) -> None:
        """Have a claim allocated and reserved, and bind its pods."""
        made = work.claim is None
        claim = await (self._made(work) if work.claim is None else self._protected(work.claim))
        path = f"{self._claims}/{claim['metadata']['name']}"
        await self._patch(f"{path}/status", {"metadata": _version(claim), "status": _status(work)})
        if made:
            await self._told(work, claim["metadata"]["name"])
        await asyncio.gather(*(self._bind(pod, work.node) for pod in work.pods))

    async def _protected(self, claim: Json) -> Json:
        body = {"metadata": {**_version(claim), "finalizers": [FINALIZER]}}
        return await self._patch(f"{self._claims}/{claim['metadata']['name']}", body)

    async def _made(self, work: Work) -> Json:
        [pod] = work.pods
        meta = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
        exactly = {"deviceClassName": self._classes[work.resource], "count": work.count}
        body = {
            "metadata": {
                "name": f"{meta['name']}-extended-resources-{hashlib.sha256(meta['uid'].encode()).hexdigest()[:10]}",
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
                "ownerReferences": [owner],
                "finalizers": [FINALIZER],
            },
            "spec": {"devices": {"requests": [{"name": work.request, "exactly": exactly}]}},
        }
        answer = await self._api.request("POST", self._claims, "claims", body=msgspec.json.encode(body))
        return msgspec.json.decode(answer)  # type: ignore[no-any-return]

    async def _told(self, work: Work, claim: str) -> None:
        [pod] = work.pods
        mapping = {"containerName": pod["spec"]["containers"][0]["name"], "resourceName": work.resource}
        told = {"resourceClaimName": claim, "requestMappings": [{**mapping, "requestName": work.request}]}
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": {"extendedResourceClaimStatus": told}}
        await self._patch(f"{self._pods}/{meta['name']}/status", body)

    async def _bind(self, pod: Json, node: str) -> None:
        meta = pod["metadata"]
        body = binding_body(Bind(meta["uid"], self._namespace, meta["name"], node))
        await self._api.request("POST", f"{self._pods}/{meta['name']}/binding", "bindings", body=body)

    async def _patch(self, path: str, body: Json) -> Json:
        encoded = msgspec.json.encode(body)
        answer = await self._api.request("PATCH", path, "claims", body=encoded, content_type=MERGE_PATCH)
        return msgspec.json.decode(answer)  # type: ignore[no-any-return]


def _version(claim: Json) -> Json:
    return {key: claim["metadata"][key] for key in ("uid", "resourceVersion")}


def _status(work: Work) -> Json:
    """Return the status that gives a claim its devices, and reserves it for all its pods."""
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [work.node]}]}
    allocation = {
        "devices": {"results": work.devices},
        "nodeSelector": {"nodeSelectorTerms": [only]},
        "allocationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    users = [{"resource": "pods", "name": p["metadata"]["name"], "uid": p["metadata"]["uid"]} for p in work.pods]
    return {"allocation": allocation, "reservedFor": users}


async def run(kubeconfig: str, namespace: str, in_flight: int) -> None:
    """Serve all claims and pods of a namespace; so many pods are in flight."""
    api = await Api.connect(Source(kubeconfig))
    classes = await listed(api, f"{DEVICES}/deviceclasses")
    slices = await listed(api, f"{DEVICES}/resourceslices")
    claims = await listed(api, f"{DEVICES}/namespaces/{namespace}/resourceclaims")
    pods = await listed(api, f"/api/v1/namespaces/{namespace}/pods")
    left = deque(with_devices(list(works(claims, pods, classes)), slices))
    pod_writer = PodWriter(api, namespace, classes)

    async def serve() -> None:
        while left:
            await pod_writer.serve(left.popleft())

    most = max((len(work.pods) for work in left), default=1)
    await asyncio.gather(*(serve() for _ in range(max(1, in_flight // most))))
    await api.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("namespace")
    options.add_argument("--kubeconfig", required=True)
    options.add_argument("--in-flight", type=int, default=32, help="pods at a time")
    options.add_argument("--stay", action="store_true", help="go on running until the caller ends the process")
    given = options.parse_args()
    asyncio.run(_work(given.kubeconfig, given.namespace, given.in_flight, stay=given.stay))


async def _work(kubeconfig: str, namespace: str, in_flight: int, *, stay: bool) -> None:
    await run(kubeconfig, namespace, in_flight)
    if stay:
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
