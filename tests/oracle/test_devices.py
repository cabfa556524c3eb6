"""volsched gives claims the very devices that Kubernetes' allocator gives, and selectors mean the same devices.

Kubernetes' answers are recorded; it is asked again when they are out of date (`tests.judges.answers`).
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.framework.dra.worlds import claim_of, devices_of, search
from volsched.framework.dra.results import allocation_of
from volsched.framework.dra.search import Impossible
from volsched.framework.dra.selectors import compiled
from volsched.model.dra.api import ResourceSlice
from volsched.model.dra.reading import amount, slice_of

from .device_worlds import DEVICE
from .questions import DEVICES, SELECTORS, simplified

pytestmark = pytest.mark.slow(reason="1,000 worlds")

Json = dict[str, Any]
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


def test_claims_get_the_same_devices_on_the_same_nodes() -> None:
    worlds = DEVICES.cases()
    answers = DEVICES.answers(worlds)

    different = []
    kinds = {"error": 0, "none": 0, "served": 0, "with conditions": 0}
    for name, world in worlds.items():
        expected = answers[name]
        found = ours(world)
        for given in expected.values():
            kinds["error" if given == "error" else "served" if given else "none"] += 1
            kinds["with conditions"] += '"bindingConditions": [' in json.dumps(given)
        if found != expected:
            different.append((name, found, expected))
    assert different == [], f"{len(different)} of {len(worlds)}; the first: {json.dumps(different[0])[:3000]}"
    assert min(kinds.values()) > len(worlds) // 20, kinds


def test_selectors_mean_the_same_devices() -> None:
    selectors = SELECTORS.cases()
    spec = {
        "driver": "gpu.example.com",
        "pool": {"name": "p", "resourceSliceCount": 1},
        "allNodes": True,
        "devices": [DEVICE],
    }
    [device] = slice_of(ResourceSlice(spec=spec)).devices
    assert amount("80Gi") == device.capacity["memory"].value

    verdicts = SELECTORS.answers(selectors)

    different = []
    for selector in selectors:
        answer = compiled(selector).select(device)
        said = "error" if isinstance(answer, str) else str(answer).lower()
        if said != verdicts[selector]:
            different.append((selector, answer, verdicts[selector]))
    assert different == [], f"{len(different)}: {different[:5]}"
