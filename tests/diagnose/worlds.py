"""Small clusters in which something waits for what a plugin counts, and what is said of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tests.framework.dra.worlds import device, device_class, exactly, part
from tests.plugins.capacity_card.nodes import GPU, card_node
from tests.simulation.clusters import Manifest, group, node, pod, queue, stock
from volsched.diagnose.advice import advise
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.explain import explain, find
from volsched.diagnose.records import Advice, Explanation, Subject

WAITS = Subject("podgroup", "waits", "default")
A100, H100 = "NVIDIA-A100", "NVIDIA-H100"


def configuration(*plugins: str) -> str:
    """Return a configuration with these plugins; a switch or arguments may follow a name."""
    listed = "".join(f"\n  - {{name: {plugin}}}" for plugin in ("gang", *plugins, "predicates"))
    return f'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins:{listed}\n'


def asked(config: str, *manifests: Manifest) -> Explanation:
    """Explain the gang that waits, with what would help; the search leaves everything as it was."""
    stage = ClusterSnapshot(tuple(stock(*manifests).objects), config).stage()
    simulation = stage.run()
    before = explain(simulation, WAITS)
    advice = advise(stage, find(simulation, WAITS), lambda: 60.0)
    assert explain(simulation, WAITS) == before
    return msgspec.structs.replace(before, advice=advice)


def advice_on(config: str, *manifests: Manifest) -> Advice:
    """Return what would help the gang that waits."""
    advice = asked(config, *manifests).advice
    assert advice is not None
    return advice


def by_sort(advice: Advice) -> dict[str, str]:
    """Return the sentences by the sort of change."""
    return {found.sort: found.sentence for found in advice.helps}


# --- devices --------------------------------------------------------------------------------------------------------


def devices(*, quota: dict[str, Any], memory: str = "") -> list[Manifest]:
    """One node with eight devices; a gang that runs holds two of them, or memory of two, and one waits."""
    more = {"allowMultipleAllocations": True} if memory else None
    offers = [device(f"d{number}", {"memory": "80Gi"}, more=more) for number in range(8)]
    found = [device_class("gpu"), node("n1"), part("s1", offers), queue("team", **quota)]
    for name, phase, on in (("runs", "Running", "n1"), ("waits", "Inqueue", None)):
        found.append(group(name, 2, "team", phase))
        for number in range(2):
            found += [_claim(f"{name}-{number}", f"d{number}" if on else "", memory), _using(name, number, on)]
    return found


def _claim(name: str, device: str, memory: str) -> Manifest:
    capacity = {"memory": memory} if memory else None
    spec = {"devices": {"requests": [exactly("r0", capacity=capacity)]}}
    found: Manifest = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
    if device:
        result = {"request": "r0", "driver": "gpu.example.com", "pool": "p1", "device": device}
        if memory:
            result |= {"consumedCapacity": capacity, "shareID": f"00000000-0000-0000-0000-00000000000{device[1:]}"}
        found["status"] = {"allocation": {"devices": {"results": [result]}}}
    return found


def _using(name: str, number: int, on: str | None) -> Manifest:
    claims = [{"name": "device", "resourceClaimName": f"{name}-{number}"}]
    return pod(f"{name}-{number}", name, on, resourceClaims=claims, **_running(on))


def _running(on: str | None) -> dict[str, Any]:
    return {"status": {"phase": "Running"}} if on else {}


# --- cards ----------------------------------------------------------------------------------------------------------


def cards(*, quota: dict[str, int], names: str = A100, a100: int = 8, h100: int = 8) -> list[Manifest]:
    """Two nodes of two models; a gang that runs holds two A100, one that waits wants four of what it names."""
    team = queue("team", capability={"cpu": "64", "memory": "512Gi"})
    team["metadata"]["annotations"] = {"volcano.sh/card.quota": json.dumps(quota)}
    found = [card_node("a", A100, {GPU: a100}), card_node("h", H100, {GPU: h100}), team]
    found += [group("runs", 1, "team", "Running"), _with_cards("runs-0", "runs", 2, A100, on="a")]
    return [
        *found,
        group("waits", 2, "team", "Inqueue"),
        *(_with_cards(f"waits-{n}", "waits", 2, names) for n in (0, 1)),
    ]


def _with_cards(name: str, of: str, count: int, names: str, on: str | None = None) -> Manifest:
    found = pod(name, of, on, annotations={"volcano.sh/card.name": names}, **_running(on))
    resources = found["spec"]["containers"][0]["resources"]
    resources["requests"][GPU] = count
    resources["limits"] = {GPU: count}
    return found


# --- CPU pods on GPU nodes ------------------------------------------------------------------------------------------

CROSSQUOTA = "crossquota, arguments: {gpu-resource-names: nvidia.com/gpu, quota-resources: cpu, quota.cpu: 4}"


def cpu_pods(*, nodes: int = 2, least: int = 2) -> list[Manifest]:
    """GPU nodes that are full of CPU pods as far as the quota goes, and a gang of such pods that waits."""
    found = [node(f"g{number}", cpu=32, extended={GPU: 8}) for number in range(nodes)]
    found.append(group("runs", nodes, phase="Running"))
    found += [pod(f"runs-{n}", "runs", f"g{n}", cpu=3, **_running("g")) for n in range(nodes)]
    return [*found, group("waits", least, phase="Inqueue"), *(pod(f"waits-{n}", "waits", cpu=4) for n in range(least))]
