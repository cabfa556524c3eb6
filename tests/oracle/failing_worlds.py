"""Random worlds in which the selector of a claim fails on some devices, and the pod may go to some of the nodes."""

from __future__ import annotations

from random import Random
from typing import Any, Final

Json = dict[str, Any]

DRIVER: Final = "gpu.example.com"
NAMESPACE: Final = "default"
WORLD: Final = "world"
"""The label of all nodes of a world: the pod of another world cannot go there."""
RISKY: Final = f'device.attributes["{DRIVER}"].model == "x"'
"""Fails for a device without the attribute."""
SAFE: Final = f'device.attributes["{DRIVER}"].?model.orValue("") == "x"'
_SLICES: Final = "resource.k8s.io/v1"


def a_world(name: str, rng: Random) -> list[Json]:
    """Return nodes, devices, and one pod with its claims; all names begin with the name of the world."""
    objects: list[Json] = []
    nodes = [f"{name}-n{number}" for number in range(rng.randint(2, 4))]
    for node in nodes:
        objects += [_node(rng, name, node), *_devices(rng, name, node)]
    if rng.random() < 0.3:
        objects.append(_slice(rng, f"{name}-zone", {"nodeSelector": _zone(name, rng.choice("ab"))}))
    selectors = [f'device.driver == "{DRIVER}"', *([RISKY] if rng.random() < 0.15 else [])]
    cel = [{"cel": {"expression": text}} for text in selectors]
    objects.append(_object("DeviceClass", f"{name}-gpu", spec={"selectors": cel}))
    claims = [_claim(rng, f"{name}-c{number}", f"{name}-gpu") for number in range(rng.choice((1, 1, 2)))]
    return [*objects, *claims, _pod(rng, name, [claim["metadata"]["name"] for claim in claims])]


def _object(kind: str, name: str, **rest: Any) -> Json:
    version = _SLICES if kind.startswith(("Device", "Resource")) else "v1"
    meta: Json = {"name": name, "uid": f"uid-{name}"}
    if kind in ("ResourceClaim", "Pod"):
        meta["namespace"] = NAMESPACE
    return {"apiVersion": version, "kind": kind, "metadata": meta, **rest}


def _node(rng: Random, world: str, name: str) -> Json:
    amounts = {"cpu": rng.choice(("1", "8", "8", "8")), "memory": "64Gi", "pods": "110"}
    found = _object("Node", name, status={"allocatable": amounts, "capacity": amounts}, spec={})
    found["metadata"]["labels"] = {WORLD: world, "zone": rng.choice("ab"), "kubernetes.io/hostname": name}
    if rng.random() < 0.2:
        found["spec"]["taints"] = [{"key": "busy", "effect": "NoSchedule"}]
    return found


def _zone(world: str, zone: str) -> Json:
    labels = {WORLD: world, "zone": zone}
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return {"nodeSelectorTerms": [{"matchExpressions": terms}]}


def _devices(rng: Random, world: str, node: str) -> list[Json]:
    """Return the slice of a node, and claims that have some of its devices."""
    found = _slice(rng, f"{world}-p-{node}", {"nodeName": node})
    taken = [device["name"] for device in found["spec"]["devices"] if rng.random() < 0.3]
    return [found, *(_taken(world, found, device) for device in taken)]


def _slice(rng: Random, name: str, place: Json) -> Json:
    devices: list[Json] = []
    for number in range(rng.randint(1, 3)):
        device: Json = {"name": f"d{number}"}
        if rng.random() < 0.75:
            device["attributes"] = {"model": {"string": rng.choice("xxy")}}
        devices.append(device)
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return _object("ResourceSlice", name, spec={"driver": DRIVER, "pool": pool, "devices": devices, **place})


def _taken(world: str, part: Json, device: str) -> Json:
    asks = [{"name": "r", "exactly": {"deviceClassName": f"{world}-gpu"}}]
    pool = part["spec"]["pool"]["name"]
    result = {"request": "r", "driver": DRIVER, "pool": pool, "device": device}
    status = {"allocation": {"devices": {"results": [result]}}}
    return _object("ResourceClaim", f"{pool}-{device}", spec={"devices": {"requests": asks}}, status=status)


def _claim(rng: Random, name: str, device_class: str) -> Json:
    requests: list[Json] = []
    for number in range(rng.choice((1, 1, 2))):
        if rng.random() < 0.25:
            subs = [{"name": sub, **_ask(rng, device_class)} for sub in "ab"]
            requests.append({"name": f"r{number}", "firstAvailable": subs})
        else:
            requests.append({"name": f"r{number}", "exactly": _ask(rng, device_class)})
    return _object("ResourceClaim", name, spec={"devices": {"requests": requests}})


def _ask(rng: Random, device_class: str) -> Json:
    asked: Json = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": rng.choice((1, 1, 2))}
    expression = rng.choice((RISKY, SAFE, ""))
    return asked | ({"selectors": [{"cel": {"expression": expression}}]} if expression else {})


def _pod(rng: Random, world: str, claims: list[str]) -> Json:
    selector = {WORLD: world, **({"zone": rng.choice("ab")} if rng.random() < 0.3 else {})}
    container: Json = {"name": "main", "image": "none", "resources": {"requests": {"cpu": rng.choice(("100m", "4"))}}}
    spec: Json = {
        "nodeSelector": selector,
        "containers": [container],
        "resourceClaims": [{"name": name, "resourceClaimName": name} for name in claims],
        "automountServiceAccountToken": False,
    }
    return _object("Pod", f"{world}-pod", spec=spec, status={"phase": "Pending"})
