"""Devices of a DRA driver for the clusters of the benches: slices of nodes, and claims of pods.

Each node has eight devices in one ResourceSlice. A DeviceClass selects all devices by CEL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from bench.worlds import CARDS, Json

VERSION: Final = "resource.k8s.io/v1"
DRIVER: Final = "gpu.example.com"
PER_NODE: Final = 8


def device_class() -> Json:
    """Return the DeviceClass of all devices."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}


def slices(nodes: int) -> Iterator[Json]:
    """Yield the slice of each node's devices."""
    devices = [{"name": f"gpu-{number}"} for number in range(PER_NODE)]
    for number in range(nodes):
        node = f"node-{number:05}"
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        yield {"metadata": {"name": f"slice-{number:05}"}, "spec": spec}


def spec(count: int = 1) -> Json:
    """Return the spec of a claim of so many devices."""
    exactly: dict[str, Any] = {"deviceClassName": "gpu"}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly | ({"count": count} if count > 1 else {})}]}}


def in_place_of_cards(objects: Iterable[Json]) -> Iterator[Json]:
    """Return the same objects, but nodes have devices, and each pod claims devices instead of cards."""
    yield {"apiVersion": VERSION, "kind": "DeviceClass", **device_class()}
    nodes = 0
    for item in objects:
        if item["kind"] == "Node":
            nodes += 1
            for amounts in (item["status"]["allocatable"], item["status"]["capacity"]):
                amounts.pop(CARDS, None)
        elif item["kind"] == "Pod":
            yield _claim_of(item)
        yield item
    for found in slices(nodes):
        yield {"apiVersion": VERSION, "kind": "ResourceSlice", **found}


def _claim_of(pod: Json) -> Json:
    """Return a claim that was made for a pod from a template, and have the pod use the claim instead of its cards."""
    meta, resources = pod["metadata"], pod["spec"]["containers"][0]["resources"]
    cards = int(resources["requests"].pop(CARDS))
    resources["limits"].pop(CARDS, None)
    name = f"{meta['name']}-gpu"
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": f"cards-{cards}"}]
    pod["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": name}]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
    claim = {"name": name, "namespace": meta["namespace"], "uid": f"claim-{name}", "ownerReferences": [owner]}
    return {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": claim, "spec": spec(cards)}
