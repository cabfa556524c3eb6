"""Small worlds of devices, written as the API has them, and the devices that claims get there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from volsched.framework.dra.pools import Pools
from volsched.framework.dra.results import allocation_of
from volsched.framework.dra.search import MOST_STEPS, Choice, Impossible, Unfit, choose
from volsched.framework.dra.selectors import Selectors
from volsched.model import api
from volsched.model.dra import api as dra
from volsched.model.dra.api import Allocation
from volsched.model.dra.device import Claim
from volsched.model.dra.devices import Devices

DRIVER = "gpu.example.com"
SELECTORS = Selectors()


def value(of: Any) -> dict[str, Any]:
    if isinstance(of, dict):
        return of
    if isinstance(of, bool):
        return {"bool": of}
    return {"int": of} if isinstance(of, int) else {"string": of}


def device(
    name: str, capacity: Mapping[str, Any] | None = None, *, more: Any = None, **attributes: Any
) -> dict[str, Any]:
    """A device; capacities are quantities or whole entries, attributes plain values."""
    found: dict[str, Any] = {"name": name, **(more or {})}
    if attributes:
        found["attributes"] = {key: value(of) for key, of in attributes.items()}
    if capacity:
        found["capacity"] = {key: of if isinstance(of, dict) else {"value": of} for key, of in capacity.items()}
    return found


def part(
    name: str, devices: Sequence[Any] = (), *, node: str | None = "n1", pool: str = "p1", **spec: Any
) -> dict[str, Any]:
    """A ResourceSlice, the only one of its pool unless ``count`` says otherwise."""
    where = {"nodeName": node} if node else {}
    numbers = {"generation": spec.pop("generation", 1), "resourceSliceCount": spec.pop("count", 1)}
    driver = spec.pop("driver", DRIVER)
    body = {"driver": driver, "pool": {"name": pool, **numbers}, "devices": list(devices), **where, **spec}
    return {"apiVersion": dra.GROUP_VERSION, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": body}


def taint_rule(
    name: str, *, effect: str = "NoSchedule", key: str = "example.com/broken", value: str = "yes", **selector: str
) -> dict[str, Any]:
    """A DeviceTaintRule for devices of this driver, pool, device; of none of these, for all."""
    spec = {"deviceSelector": selector, "taint": {"key": key, "value": value, "effect": effect}}
    return {"apiVersion": dra.RULES_VERSION, "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}


def device_class(name: str = "gpu", *expressions: str, driver: str = DRIVER, **spec: Any) -> dict[str, Any]:
    """A DeviceClass of the devices of a driver."""
    rules = [f'device.driver == "{driver}"', *expressions]
    selectors = [{"cel": {"expression": text}} for text in rules]
    body = {"selectors": selectors, **spec}
    return {"apiVersion": dra.GROUP_VERSION, "kind": "DeviceClass", "metadata": {"name": name}, "spec": body}


def asking(name: str = "r0", *expressions: str, cls: str = "gpu", capacity: Any = None, **more: Any) -> dict[str, Any]:
    """What stands under ``exactly``, or is one alternative; ``name`` is left for `exactly` to take."""
    body: dict[str, Any] = {"name": name, "deviceClassName": cls, **more}
    if expressions:
        body["selectors"] = [{"cel": {"expression": text}} for text in expressions]
    if capacity:
        body["capacity"] = {"requests": capacity}
    return body


def exactly(name: str = "r0", *expressions: str, **more: Any) -> dict[str, Any]:
    body = asking(name, *expressions, **more)
    return {"name": body.pop("name"), "exactly": body}


def first_of(name: str, *alternatives: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "firstAvailable": list(alternatives)}


def claim(name: str, *requests: dict[str, Any], constraints: Any = (), config: Any = ()) -> dict[str, Any]:
    devices: dict[str, Any] = {"requests": list(requests)}
    if constraints:
        devices["constraints"] = list(constraints)
    if config:
        devices["config"] = list(config)
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {
        "apiVersion": dra.GROUP_VERSION,
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": {"devices": devices},
    }


def held(name: str, *devices: str, pool: str = "p1", driver: str = DRIVER, **more: Any) -> dict[str, Any]:
    """A claim that has these devices."""
    results = [{"request": "r0", "driver": driver, "pool": pool, "device": d, **more} for d in devices]
    return {**claim(name, exactly(count=len(devices))), "status": {"allocation": {"devices": {"results": results}}}}


def devices_of(*objects: Mapping[str, Any]) -> Devices:
    """Return everything taken in."""
    devices = Devices()
    for found in objects:
        assert devices.put(api.decode_as(dra.KINDS[found["kind"]], found))
    return devices


def search(
    world: Devices, *names: str, node: str = "n1", labels: Mapping[str, str] | None = None, steps: int = MOST_STEPS
) -> Choice | Unfit | Impossible:
    """Serve these claims on a node."""
    labels = labels or {}
    pools = Pools(world).seen_from(node, labels)
    claims = [claim_of(world, name) for name in names]
    return choose(claims, pools, world.classes, world.usage, SELECTORS, steps)


def claim_of(world: Devices, name: str) -> Claim:
    return world.claims[f"default/{name}"]


def allocate(
    world: Devices, *names: str, node: str = "n1", labels: Mapping[str, str] | None = None
) -> list[Allocation]:
    """Return the allocations of these claims, which must come out."""
    found = search(world, *names, node=node, labels=labels)
    assert isinstance(found, list), found
    claims = [claim_of(world, name) for name in names]
    return [allocation_of(c, chosen, world.classes, node) for c, chosen in zip(claims, found, strict=True)]


def given(world: Devices, *names: str, **where: Any) -> dict[str, list[str]] | Unfit | Impossible:
    """Return the devices of each request, as ``pool/device`` for pools other than p1."""
    found = search(world, *names, **where)
    if not isinstance(found, list):
        return found
    devices: dict[str, list[str]] = {}
    for chosen in found:
        for one in chosen:
            name = (
                one.device.id.device if one.device.id.pool == "p1" else f"{one.device.id.pool}/{one.device.id.device}"
            )
            devices.setdefault(one.request.full_name(one.ask), []).append(name)
    return devices
