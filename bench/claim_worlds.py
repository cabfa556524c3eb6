"""Clusters whose pods want devices by ResourceClaims: what devices nodes have, and what each pod asks for.

own         a claim of its own each, for one of eight devices
template    the same, but the claim was made from a ResourceClaimTemplate
partitions  eight cards in parts: a whole, two halves or four quarters of each, by shared counters; a quarter each
capacity    eight devices that many may share: a quarter of the memory of one each
constraint  eight devices on two NUMA nodes: two of the same one each (``matchAttribute``)
none        no claims at all: what the same pods cost without devices
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from bench import worlds
from bench.devices import DRIVER, PER_NODE, VERSION, device_class
from bench.worlds import Json

NAMESPACE: Final = "default"
GIB_PER_CARD: Final = 80
CONDITION: Final = "bench.example.com/attached"
EXTENDED: Final = "bench.example.com/gpu"
NUMA: Final = f"{DRIVER}/numa"
_SIZE: Final = f'device.attributes["{DRIVER}"].size'


@dataclass(frozen=True)
class ClaimVariant:
    """What a node offers in slices, and what the claim of each pod asks for; no ``request``: pods have no claims."""

    slices: Callable[[], list[Json]]
    per_node: int
    """Pods that the devices of one node serve."""
    request: Json | None = None
    constraints: list[Json] = field(default_factory=list)
    from_template: bool = False
    shared_by: int = 1
    """Pods that use one claim."""

    def spec(self) -> Json:
        """Return the spec of a claim."""
        exactly = {"deviceClassName": "gpu", **(self.request or {})}
        devices: Json = {"requests": [{"name": "gpu", "exactly": exactly}]}
        return {"devices": {**devices, **({"constraints": self.constraints} if self.constraints else {})}}


def _whole_cards() -> list[Json]:
    return [{"devices": [{"name": f"gpu-{number}"} for number in range(PER_NODE)]}]


def _cards_on_numa_nodes() -> list[Json]:
    numa = [{NUMA: {"int": number * 2 // PER_NODE}} for number in range(PER_NODE)]
    return [{"devices": [{"name": f"gpu-{number}", "attributes": found} for number, found in enumerate(numa)]}]


def _shared_cards() -> list[Json]:
    policy = {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}}
    memory = {"memory": {"value": f"{GIB_PER_CARD}Gi", "requestPolicy": policy}}
    names = [f"gpu-{number}" for number in range(PER_NODE)]
    return [{"devices": [{"name": name, "allowMultipleAllocations": True, "capacity": memory} for name in names]}]


def _cards_in_parts() -> list[Json]:
    sizes = [("whole", 1), ("half", 2), ("quarter", 4)]
    counters = {"memory": {"value": f"{GIB_PER_CARD}Gi"}}
    devices = [
        {
            "name": f"gpu-{number}-{size}-{place}",
            "attributes": {"size": {"string": size}},
            "consumesCounters": [
                {"counterSet": f"gpu-{number}", "counters": {"memory": {"value": f"{GIB_PER_CARD // parts}Gi"}}}
            ],
        }
        for number in range(PER_NODE)
        for size, parts in sizes
        for place in range(parts)
    ]
    sets = [{"name": f"gpu-{number}", "counters": counters} for number in range(PER_NODE)]
    return [{"sharedCounters": sets}, {"devices": devices}]


def _of_one_model() -> list[Json]:
    model = {"model": {"string": "h100"}}
    return [{"devices": [{"name": f"gpu-{number}", "attributes": model} for number in range(PER_NODE)]}]


def _with_conditions() -> list[Json]:
    conditions = {"bindingConditions": [CONDITION], "bindingFailureConditions": [f"{CONDITION}-failed"]}
    return [{"devices": [{"name": f"gpu-{number}", **conditions} for number in range(PER_NODE)]}]


VARIANTS: Final[dict[str, ClaimVariant]] = {
    "own": ClaimVariant(_whole_cards, PER_NODE, {}),
    "template": ClaimVariant(_whole_cards, PER_NODE, {}, from_template=True),
    "partitions": ClaimVariant(
        _cards_in_parts, 4 * PER_NODE, {"selectors": [{"cel": {"expression": f'{_SIZE} == "quarter"'}}]}
    ),
    "capacity": ClaimVariant(
        _shared_cards, 4 * PER_NODE, {"capacity": {"requests": {"memory": f"{GIB_PER_CARD // 4}Gi"}}}
    ),
    "constraint": ClaimVariant(
        _cards_on_numa_nodes, PER_NODE // 2, {"count": 2}, constraints=[{"matchAttribute": NUMA}]
    ),
    "none": ClaimVariant(list, PER_NODE),
}
"""What sessions decide about."""

SHARING: Final = 8
LIVE: Final[dict[str, ClaimVariant]] = {
    **{name: VARIANTS[name] for name in ("own", "template")},
    "shared": ClaimVariant(_whole_cards, SHARING * PER_NODE, {}, shared_by=SHARING),
    "match": ClaimVariant(_of_one_model, 1, {"count": PER_NODE}, [{"matchAttribute": f"{DRIVER}/model"}]),
    "extended": ClaimVariant(_whole_cards, PER_NODE),
    "conditions": ClaimVariant(_with_conditions, PER_NODE, {}),
}
"""What is raced for on a control plane."""


def slices(variant: ClaimVariant, nodes: int) -> Iterator[Json]:
    """Yield the slices of all nodes."""
    for number in range(nodes):
        node, parts = f"node-{number:05}", variant.slices()
        pool = {"name": node, "generation": 1, "resourceSliceCount": len(parts)}
        for place, part in enumerate(parts):
            meta = {"name": f"slice-{number:05}-{place}"}
            yield {"metadata": meta, "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, **part}}


def infrastructure(variant: ClaimVariant, nodes: int) -> Iterator[Json]:
    """Yield nodes, their devices, and the DeviceClass."""
    yield from worlds.nodes(nodes)
    yield worlds.a_queue(0)
    yield {"apiVersion": VERSION, "kind": "DeviceClass", **device_class()}
    for found in slices(variant, nodes):
        yield {"apiVersion": VERSION, "kind": "ResourceSlice", **found}


def backlog(variant: ClaimVariant, count: int, gang: int) -> Iterator[Json]:
    """Yield so many pods with their claims, in gangs of this size."""
    for number in range(count):
        group = f"gang-{number // gang:05}"
        if number % gang == 0:
            yield worlds.a_group(group, "queue-0", min(gang, count - number))
        pod = _a_pod(f"pod-{number:05}", group)
        if variant.request is not None:
            yield _claimed_by(pod, variant)
        yield pod


def _a_pod(name: str, group: str) -> Json:
    pod = worlds.a_pod(name, group, 0, "100m", 1, worlds.MODELS[0])
    del pod["spec"]["nodeSelector"]
    resources: dict[str, Any] = pod["spec"]["containers"][0]["resources"]
    for amounts in resources.values():
        amounts.pop(worlds.CARDS, None)
    return pod


def _claimed_by(pod: Json, variant: ClaimVariant) -> Json:
    """Return a claim, and have a pod use it."""
    name = f"claim-{pod['metadata']['name']}"
    meta: Json = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "resourceVersion": "1"}
    if variant.from_template:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        meta["ownerReferences"] = [owner | {"controller": True}]
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        pod["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": name}]
    else:
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    return {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": meta, "spec": variant.spec()}
