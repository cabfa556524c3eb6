"""Every plugin keeps the contract of engines: with its callbacks all of them decide the same, whatever changes."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from plugins import BUILDERS
from volsched.model.changes import Change, Deleted
from volsched.testing.builders import ClusterBuilder, a_cluster
from volsched.testing.contract import decided_alike

GPU: Final = "nvidia.com/gpu"
A, H = "NVIDIA-A100", "NVIDIA-H100"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
MGPU_CORE, MGPU_MEMORY = "vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory"

ARGUMENTS: Final[dict[str, str]] = {
    "mgpu": "{predicate.MGPUEnable: true}",
    "crossquota": '{gpu-resource-names: "nvidia.com/gpu", quota.cpu: "6"}',
    "sla": "{sla-waiting-time: 1h}",
    "binpack": "{binpack.weight: 5}",
}
"""What a plugin has to be told to do anything, or more."""
BASE: Final = ("priority", "gang", "conformance", "predicates", "nodeorder")


def configuration(plugin: str) -> str:
    """The plugins that every configuration has, and this one behind them."""
    listed = [f"{{name: {name}}}" for name in BASE if name != plugin]
    arguments = f", arguments: {ARGUMENTS[plugin]}" if plugin in ARGUMENTS else ""
    own = f"{{name: {plugin}{arguments}}}"
    tiers = "\n".join(f"- plugins: [{entries}]" for entries in (", ".join(listed[:3]), ", ".join([*listed[3:], own])))
    return f'actions: "enqueue, allocate, preempt, reclaim, backfill"\ntiers:\n{tiers}\n'


def a_farm() -> ClusterBuilder:
    """Nodes of two cards in two zones, one with parts of cards, some without; two queues of which one is small."""
    farm = a_cluster()
    for number in range(6):
        card = A if number % 2 else H
        labels = {HOST: f"n{number}", ZONE: "ab"[number % 2], f"{GPU}.product": card, f"{GPU}.count": "4",
                  f"{GPU}.memory": "81920"}  # fmt: skip
        farm.node(f"n{number}", cpu="16", memory="64Gi", labels=labels, **{GPU: 4})
    farm.node("plain", cpu="8", memory="32Gi", labels={HOST: "plain", ZONE: "a"})
    farm.node("parts", cpu="32", memory="64Gi", labels={HOST: "parts"}, **{MGPU_CORE: 200, MGPU_MEMORY: 32768})
    notes = {"volcano.sh/card.quota": json.dumps({A: 6, H: 5})}
    amounts = {"cpu": "40", "memory": "200Gi", GPU: "11"}
    farm.queue("big", annotations=notes, capability=amounts, deserved={"cpu": "20", GPU: "6"})
    return farm.queue("small", annotations=notes, capability={"cpu": "6", "memory": "64Gi", GPU: "3"})


def with_jobs(farm: ClusterBuilder) -> ClusterBuilder:
    """Gangs of equal pods, of pods that mind others, and of such as no queue, or no node, has room for."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "apart"}}}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    even = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "even"}}}  # fmt: skip
    either = {"volcano.sh/card.name": f"{A}|{H}"}
    farm.group("old", "small", phase="Running").pod("old-0", "old", on="n0", annotations=either, cpu=1, **{GPU: 1})
    farm.job("equal", 6, 4, "big", annotations={"volcano.sh/card.name": A}, cpu=2, memory="4Gi", **{GPU: 1})
    farm.job("either", 4, 4, "big", annotations=either, cpu=2, memory="4Gi", **{GPU: 2})
    farm.job("short", 3, 2, "small", annotations=either, cpu=2, memory="4Gi", **{GPU: 1})
    farm.job("apart", 3, 3, "big", labels={"app": "apart"}, spec=apart, cpu=1)
    farm.job("even", 3, 1, "small", labels={"app": "even"}, spec={"topologySpreadConstraints": [even]}, cpu=1)
    farm.job("parts", 3, 2, "big", **{MGPU_CORE: 50, MGPU_MEMORY: 8192})
    return farm.job("vast", 2, 2, "big", cpu=30)


def happenings() -> list[list[Change]]:
    """What changes between cycles: a pod ends, a node comes and one says something else of itself."""
    more: Any = a_cluster().node("n9", cpu="64", memory="64Gi", labels={HOST: "n9", ZONE: "b"}).changes()
    other: Any = a_cluster().node("plain", cpu="8", memory="32Gi", labels={HOST: "plain", ZONE: "b"}).changes()
    return [[Deleted("Pod", "default", "old-0", "pod-default-old-0")], [*more, *other], []]


@pytest.mark.parametrize("plugin", BUILDERS)
def test_all_engines_decide_the_same_with_a_plugin(plugin: str) -> None:
    decisions = decided_alike(with_jobs(a_farm()), configuration(plugin), *happenings())

    assert decisions[0].bindings
    assert any(name.startswith("vast") for name in decisions[0].waiting)
