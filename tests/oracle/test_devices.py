"""volsched gives claims the very devices that Kubernetes' allocator gives, and selectors mean the same devices."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import msgspec

from tests.framework.dra.worlds import claim_of, devices_of, search
from volsched.framework.dra.results import allocation_of
from volsched.framework.dra.search import Impossible
from volsched.framework.dra.selectors import compiled
from volsched.model.dra.api import ResourceSlice
from volsched.model.dra.reading import amount, slice_of
from volsched.model.values.quantity import parse

from .device_worlds import ATOMS, DEVICE, a_world, an_expression
from .oracle import Oracle

Json = dict[str, Any]
KEPT = ("request", "driver", "pool", "device", "adminAccess", "bindingConditions", "bindingFailureConditions")
WORLDS = 1000
KINDS = {
    "slices": "ResourceSlice",
    "rules": "DeviceTaintRule",
    "classes": "DeviceClass",
    "taken": "ResourceClaim",
    "claims": "ResourceClaim",
}


def ours(world: Json) -> Json:
    """What volsched gives on each node, in the words of the oracle; what cannot be served anywhere as an error."""
    devices = devices_of(*({"kind": kind, **found} for name, kind in KINDS.items() for found in world[name]))
    names = [found["metadata"]["name"] for found in world["claims"]]
    answers: Json = {}
    for node in world["nodes"]:
        name, labels = node["metadata"]["name"], node["metadata"]["labels"]
        found = search(devices, *names, node=name, labels=labels)
        if isinstance(found, Impossible):
            answers[name] = "error"
        elif isinstance(found, list):
            claims = [claim_of(devices, claim) for claim in names]
            given = [allocation_of(c, chosen, devices.classes, name) for c, chosen in zip(claims, found, strict=True)]
            answers[name] = [simplified(json.loads(json.dumps(_wire(allocation)))) for allocation in given]
        else:
            answers[name] = []
    return answers


def _wire(allocation: Any) -> Json:

    raw: Json = msgspec.to_builtins(allocation)
    return raw


def theirs(served: Json) -> Json:
    """The oracle's answer, reduced to what is compared."""
    return {
        node: "error" if "error" in answer else [simplified(a) for a in answer.get("allocations", ())]
        for node, answer in served.items()
    }


def simplified(allocation: Json) -> Json:
    """An allocation without what is drawn (shares) and with amounts as numbers."""
    results = []
    for result in allocation["devices"].get("results", ()):
        consumed = {key: str(parse(text)) for key, text in result.get("consumedCapacity", {}).items()}
        kept = {key: result.get(key) for key in KEPT}
        tolerations = [
            {k: v for k, v in t.items() if (k, v) != ("operator", "Equal")} for t in result.get("tolerations", ())
        ]
        results.append({**kept, "consumed": consumed, "isShare": "shareID" in result, "tolerations": tolerations})
    config = [
        {"source": c["source"], "requests": c.get("requests", []), "parameters": c["opaque"]["parameters"]}
        for c in allocation["devices"].get("config", ())
    ]
    return {"results": results, "config": config, "nodeSelector": allocation.get("nodeSelector")}


def test_claims_get_the_same_devices_on_the_same_nodes(oracle: Oracle) -> None:
    worlds = [a_world(Random(seed)) for seed in range(WORLDS)]  # noqa: S311 - not a secret

    answers = oracle.serve(worlds)

    different = []
    kinds = {"error": 0, "none": 0, "served": 0, "with conditions": 0}
    for seed, (world, answer) in enumerate(zip(worlds, answers, strict=True)):
        expected = theirs(answer)
        found = ours(world)
        for given in expected.values():
            kinds["error" if given == "error" else "served" if given else "none"] += 1
            kinds["with conditions"] += '"bindingConditions": [' in json.dumps(given)
        if found != expected:
            different.append((seed, found, answer))
    assert different == [], (
        f"{len(different)} of {WORLDS}; the first: {json.dumps(different[0][1:], default=str)[:3000]}"
    )
    assert min(kinds.values()) > WORLDS // 20, kinds


def test_selectors_mean_the_same_devices(oracle: Oracle) -> None:
    rng = Random(1)  # noqa: S311 - not a secret
    expressions = [*ATOMS, *(an_expression(rng) for _ in range(WORLDS))]
    spec = {
        "driver": "gpu.example.com",
        "pool": {"name": "p", "resourceSliceCount": 1},
        "allNodes": True,
        "devices": [DEVICE],
    }
    [device] = slice_of(ResourceSlice(spec=spec)).devices
    assert amount("80Gi") == device.capacity["memory"].value

    verdicts = oracle.select("gpu.example.com", DEVICE, expressions)

    different = []
    for expression, verdict in zip(expressions, verdicts, strict=True):
        answer = compiled(expression).select(device)
        said = "error" if isinstance(answer, str) else str(answer).lower()
        if said != verdict.partition(":")[0]:
            different.append((expression, answer, verdict))
    assert different == [], f"{len(different)}: {different[:5]}"
