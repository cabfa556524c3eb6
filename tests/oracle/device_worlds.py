"""Random worlds of devices and random selectors: all that decides which devices a claim gets, in small numbers."""

from __future__ import annotations

from random import Random
from typing import Any

Json = dict[str, Any]

DRIVERS = ("gpu.example.com", "nic.example.com")
ZONES = ("z1", "z2")
SELECTORS = (
    'device.attributes["gpu.example.com"].?model.orValue("") == "x"',
    "device.attributes[device.driver].?numa.orValue(0) == 1",
    'device.capacity[device.driver].?memory.orValue(quantity("0")).compareTo(quantity("40Gi")) >= 0',
    "!device.allowMultipleAllocations",
    '"numa" in device.attributes[device.driver]',
)
RISKY = 'device.attributes["gpu.example.com"].model == "x"'
"""Fails for a device without the attribute."""

POLICIES: tuple[Json | None, ...] = (
    None,
    {"default": "10Gi"},
    {"default": "10Gi", "validRange": {"min": "5Gi", "step": "5Gi", "max": "40Gi"}},
    {"default": "10Gi", "validRange": {"min": "4Gi"}},
    {"default": "20Gi", "validValues": ["10Gi", "20Gi", "60Gi"]},
)
TAINT = {"key": "example.com/hot", "value": "yes"}
EFFECTS = ("NoSchedule", "NoExecute", "None")
TOLERATIONS = (
    {"operator": "Exists"},
    {"key": "example.com/hot", "operator": "Equal", "value": "yes"},
    {"key": "example.com/hot", "operator": "Equal", "value": "no"},
    {"key": "example.com/cold", "operator": "Exists"},
    {"key": "example.com/hot", "operator": "Exists", "effect": "NoExecute"},
)


def a_world(rng: Random) -> Json:
    """Nodes, slices, classes, claims that have devices already, and the claims of one pod."""
    nodes = [
        {"metadata": {"name": f"n{number}", "labels": {"zone": rng.choice(ZONES)}}}
        for number in range(rng.randint(1, 3))
    ]
    slices = [
        part
        for number in range(rng.randint(1, 4))
        for part in _pool(rng, f"p{number}", rng.choice(DRIVERS), [node["metadata"]["name"] for node in nodes])
    ]
    classes = [_class(name, f'device.driver == "{name}"') for name in DRIVERS]
    classes.append(_class("any", *rng.sample(SELECTORS, rng.randint(0, 1))))
    rules = [_rule(rng, f"rule{number}", slices) for number in range(rng.randint(1, 3))] if rng.random() < 0.1 else []
    return {
        "nodes": nodes,
        "slices": slices,
        "rules": rules,
        "classes": classes,
        "taken": _taken(rng, slices),
        "claims": [_claim(rng, f"c{number}") for number in range(rng.randint(1, 2))],
    }


def _rule(rng: Random, name: str, slices: list[Json]) -> Json:
    """A DeviceTaintRule about devices of one of the slices, or of more; now and then about all, or about none."""
    spec = rng.choice(slices)["spec"]
    device = rng.choice(spec.get("devices") or [{"name": "d0"}])["name"]
    values = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device}
    selector = {key: value if rng.random() < 0.9 else "none" for key, value in values.items() if rng.random() < 0.7}
    taint = {**rng.choice((TAINT, {"key": "example.com/cold"})), "effect": rng.choice(EFFECTS)}
    meta = {"name": name, "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": {"taint": taint, **({"deviceSelector": selector} if rng.random() < 0.9 else {})}}


def _class(name: str, *expressions: str) -> Json:
    config = [{"opaque": {"driver": DRIVERS[0], "parameters": {"from": name}}}]
    return {
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": text}} for text in expressions], "config": config},
    }


def _pool(rng: Random, name: str, driver: str, nodes: list[str]) -> list[Json]:
    """One pool: on a node, in a zone, everywhere, or each device for itself; now and then not whole, or renewed."""
    count = rng.choice((1, 1, 2))
    where = rng.choice(("node", "node", "zone", "all", "device"))
    place = _place(rng, where, nodes)
    counters = rng.random() < 0.25
    total = count + (1 if counters else 0)
    said = total + 1 if rng.random() < 0.05 else total
    generation = rng.choice((1, 1, 1, 2))
    parts: list[Json] = []
    if counters:
        parts.append({"sharedCounters": [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}], **place})
    number = 0
    for _ in range(count):
        devices = []
        for _ in range(rng.randint(1, 4)):
            devices.append(_device(rng, f"d{number}", counters))
            number += 1
            if where == "device":
                devices[-1] |= _place(rng, rng.choice(("node", "zone", "all")), nodes)
        parts.append({"devices": devices, **place})
    if rng.random() < 0.03:
        parts[-1]["devices"].append({"name": "d0"})
    slices = []
    for index, part in enumerate(parts):
        pool = {"name": name, "generation": generation, "resourceSliceCount": said}
        slices.append({"metadata": {"name": f"{name}-{9 - index}"}, "spec": {"driver": driver, "pool": pool, **part}})
    if generation == 2:
        old = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "pool": old, "devices": [{"name": "old"}], **place}
        if where != "device":
            slices.append({"metadata": {"name": f"{name}-old"}, "spec": spec})
    rng.shuffle(slices)
    return slices


def _place(rng: Random, where: str, nodes: list[str]) -> Json:
    if where == "node":
        return {"nodeName": rng.choice(nodes)}
    if where == "zone":
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [rng.choice(ZONES)]}]}
        return {"nodeSelector": {"nodeSelectorTerms": [term]}}
    return {"allNodes": True} if where == "all" else {"perDeviceNodeSelection": True}


def _device(rng: Random, name: str, counters: bool) -> Json:
    found: Json = {"name": name}
    attributes: Json = {}
    if rng.random() < 0.8:
        attributes["numa"] = {"int": rng.randint(0, 1)}
    if rng.random() < 0.95:
        attributes["model"] = {"string": rng.choice("xy")}
    if rng.random() < 0.3:
        attributes["gpu.example.com/root"] = {"string": rng.choice("ab")}
    if rng.random() < 0.2:
        attributes["version"] = {"version": rng.choice(("1.2.3", "2.0.0-rc.1"))}
    found["attributes"] = attributes
    shared = rng.random() < 0.3
    if shared:
        found["allowMultipleAllocations"] = True
    if shared or rng.random() < 0.6:
        memory: Json = {"value": rng.choice(("40Gi", "80Gi"))}
        policy = rng.choice(POLICIES)
        if shared and policy is not None:
            memory["requestPolicy"] = policy
        found["capacity"] = {"memory": memory}
    if counters and rng.random() < 0.8:
        takes = {"memory": {"value": rng.choice(("20Gi", "40Gi", "80Gi"))}}
        found["consumesCounters"] = [{"counterSet": "card" if rng.random() < 0.97 else "none", "counters": takes}]
    if rng.random() < 0.15:
        found["taints"] = [{**TAINT, "effect": rng.choice(EFFECTS)}]
    if rng.random() < 0.1:
        found["bindsToNode"] = True
    if rng.random() < 0.2:
        found["bindingConditions"] = rng.choice((["Attached"], ["Attached", "Powered"]))
        found["bindingFailureConditions"] = ["Broken"]
    return found


def _taken(rng: Random, slices: list[Json]) -> list[Json]:
    """Claims that have some of these devices."""
    found = []
    for part in slices:
        spec = part["spec"]
        for device in spec.get("devices", ()):
            if rng.random() > 0.2:
                continue
            result: Json = {
                "request": "r",
                "driver": spec["driver"],
                "pool": spec["pool"]["name"],
                "device": device["name"],
            }
            if rng.random() < 0.1:
                result["adminAccess"] = True
            elif device.get("allowMultipleAllocations"):
                result["shareID"] = f"00000000-0000-0000-0000-{len(found):012}"
                result["consumedCapacity"] = {"memory": rng.choice(("5Gi", "10Gi", "30Gi"))}
            name = f"taken{len(found)}"
            asks = [{"name": "r", "exactly": {"deviceClassName": "any"}}]
            status = {"allocation": {"devices": {"results": [result]}}}
            found.append({"metadata": _meta(name), "spec": {"devices": {"requests": asks}}, "status": status})
    return found


def _meta(name: str) -> Json:
    return {"name": name, "namespace": "default", "uid": f"uid-{name}"}


def _claim(rng: Random, name: str) -> Json:
    requests = [_request(rng, f"r{number}") for number in range(rng.choice((1, 1, 2, 3)))]
    devices: Json = {"requests": requests}
    if rng.random() < 0.4:
        devices["constraints"] = [_constraint(rng, requests)]
    if rng.random() < 0.3:
        own = {"opaque": {"driver": DRIVERS[0], "parameters": {"from": "claim"}}}
        devices["config"] = [{**own, "requests": [rng.choice(_names(requests))]} if rng.random() < 0.7 else own]
    return {"metadata": _meta(name), "spec": {"devices": devices}}


def _names(requests: list[Json]) -> list[str]:
    names = [request["name"] for request in requests]
    return names + [f"{r['name']}/{sub['name']}" for r in requests for sub in r.get("firstAvailable", ())]


def _constraint(rng: Random, requests: list[Json]) -> Json:
    """Upstream compares only the last device of a request for several under distinctAttribute: these are left out."""
    attribute = rng.choice(("gpu.example.com/numa", "gpu.example.com/root", "nic.example.com/model"))
    names = rng.sample(_names(requests), rng.randint(0, len(requests)))
    single = all(r.get("exactly", {}).get("count") == 1 for r in requests)
    kind = rng.choice(("matchAttribute", "distinctAttribute")) if single else "matchAttribute"
    return {kind: attribute, **({"requests": names} if names else {})}


def _request(rng: Random, name: str) -> Json:
    if rng.random() < 0.3:
        return {"name": name, "firstAvailable": [{"name": sub, **_ask(rng)} for sub in "abc"[: rng.randint(1, 3)]]}
    asked = _ask(rng)
    if rng.random() < 0.08:
        asked["adminAccess"] = True
    return {"name": name, "exactly": asked}


def _ask(rng: Random) -> Json:
    asked: Json = {"deviceClassName": rng.choice((*DRIVERS, "any", "any")) if rng.random() < 0.99 else "missing"}
    if rng.random() < 0.12:
        asked["allocationMode"] = "All"
    else:
        asked |= {"allocationMode": "ExactCount", "count": rng.choice((1, 1, 1, 2, 3))}
    if rng.random() < 0.4:
        expression = RISKY if rng.random() < 0.15 else rng.choice(SELECTORS)
        asked["selectors"] = [{"cel": {"expression": expression}}]
    if rng.random() < 0.2:
        asked["tolerations"] = [rng.choice(TOLERATIONS)]
    if rng.random() < 0.25:
        asked["capacity"] = {
            "requests": {rng.choice(("memory", "memory", "cores")): rng.choice(("3Gi", "12Gi", "50Gi"))}
        }
    return asked


# --- selectors -------------------------------------------------------------------------------------------------------

OWN = 'device.attributes["gpu.example.com"]'
MEMORY = 'device.capacity["gpu.example.com"].memory'
ATOMS = (
    "device.driver == 'gpu.example.com'",
    "device.driver.startsWith('gpu')",
    f"{OWN}.model == 'x'",
    f"{OWN}.model == 'y'",
    f"{OWN}.model in ['x', 'z']",
    f"{OWN}.numa > 0",
    f"{OWN}.numa + 1 == 2",
    f"{OWN}.flag",
    f"{OWN}.absent == 1",
    f"has({OWN}.absent)",
    f"has({OWN}.model)",
    "has(device.attributes['nobody.example.com'].x)",
    "device.attributes['nobody.example.com'].x == 1",
    "'gpu.example.com' in device.attributes",
    "'nobody.example.com' in device.attributes",
    f"'model' in {OWN}",
    f"{OWN}.?absent.orValue(7) == 7",
    f"{OWN}[?'model'].hasValue()",
    "device.attributes[?'nobody.example.com'].?x.hasValue()",
    "device.attributes['other.example.com'].speed == 100",
    "device.attributes['other.example.com'].speed < 99.5",
    f"{MEMORY}.compareTo(quantity('40Gi')) > 0",
    f"{MEMORY}.isLessThan(quantity('80Gi'))",
    f"{MEMORY} == quantity('81920Mi')",
    f"{MEMORY}.add(quantity('1Gi')) == quantity('81Gi')",
    f"{MEMORY}.sub(1).isLessThan({MEMORY})",
    f"{MEMORY}.asInteger() == 85899345920",
    f"{MEMORY}.isInteger()",
    f"sign({MEMORY}) == 1",
    "quantity('1.5k') == quantity('1500')",
    "isQuantity('1 Gi')",
    f"{OWN}.cuda.isGreaterThan(semver('11.8.0'))",
    f"{OWN}.cuda == semver('12.1.0+other')",
    f"{OWN}.cuda.major() == 12",
    f"{OWN}.cuda.compareTo(semver('12.2.0-rc.1')) < 0",
    "isSemver('1.2')",
    "isSemver('v1.2', true)",
    "semver('v1', true) == semver('1.0.0')",
    f"{OWN}.model.matches('^[w-z]$')",
    f"{OWN}.model.lowerAscii().size() == 1",
    f"{OWN}.model + 'y' == 'xy'",
    f"{OWN}.model == 3",
    f"{OWN}.numa == 1.0",
    f"cel.bind(own, {OWN}, own.model == 'x' && own.numa == 1)",
    f"{OWN}.exists(name, name == 'numa')",
    "device.attributes.all(domain, domain.endsWith('.example.com'))",
    "[1, 2, 3].exists(n, n == 3)",
    "['a', 'b'].all(s, s < 'c')",
    "sets.contains([1, 2], [2])",
    "[1, 2].sum() == 3",
    "'a,b'.split(',').size() == 2",
    "'hello'.substring(1, 3) == 'el'",
    "device.allowMultipleAllocations",
    "1 / 0 == 1",
    "9223372036854775807 + 1 > 0",
    "undeclared == 1",
    "'text'",
    "1 + 1",
    "true",
    "false",
)

DEVICE: Json = {
    "name": "d",
    "attributes": {
        "model": {"string": "x"},
        "numa": {"int": 1},
        "flag": {"bool": True},
        "cuda": {"version": "12.1.0"},
        "other.example.com/speed": {"int": 100},
    },
    "capacity": {"memory": {"value": "80Gi"}},
}


def an_expression(rng: Random, depth: int = 3) -> str:
    """Combine such atoms."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(ATOMS)
    one, other = an_expression(rng, depth - 1), an_expression(rng, depth - 1)
    return rng.choice(
        (
            f"({one}) && ({other})",
            f"({one}) || ({other})",
            f"!({one})",
            f"({one}) ? ({other}) : ({an_expression(rng, depth - 1)})",
            f"({one}) == ({other})",
        )
    )
