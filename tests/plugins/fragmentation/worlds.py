"""Random clusters with every sort of card, and pods that want them."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from plugins.mgpu.devices import CORE, MEMORY
from volsched.testing.builders import ClusterBuilder, a_cluster

GPU: Final = "nvidia.com/gpu"
MPS: Final = "nvidia.com/gpu.shared"
MIG: Final = "nvidia.com/mig-3g.20gb"

CONFIGURATION: Final = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: fragmentation
  - name: mgpu
    arguments: {predicate.MGPUEnable: true, predicate.MGPUWeightOfCore: 100}
"""


def a_random_world(seed: int) -> ClusterBuilder:
    """Draw a cluster that is about full when all pods have come."""
    random, world = Random(seed), a_cluster()  # noqa: S311 - nothing here is secret
    for number in range(random.randint(3, 9)):
        labels = {"model": random.choice("ab")}
        if random.random() < 0.3:
            labels["nvidia.com/gpu.replicas"] = "4"
        taints = [{"key": "gpu", "value": "x", "effect": "NoSchedule"}] if random.random() < 0.2 else []
        cpu, memory = random.choice((16, 32, 64)), random.choice(("64Gi", "256Gi"))
        world.node(f"n{number}", cpu=cpu, memory=memory, labels=labels, taints=taints, **_cards(random))
    for number in range(random.randint(8, 30)):
        spec: dict[str, Any] = {"nodeSelector": {"model": random.choice("ab")}} if random.random() < 0.3 else {}
        if random.random() < 0.5:
            spec["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
        wanted = {"cpu": random.choice((0, 1, 4, 9)), "memory": random.choice(("1Gi", "30Gi")), **_wanted(random)}
        if random.random() < 0.2:
            world.job(f"j{number}", tasks=random.randint(2, 4), spec=spec, **wanted)
        else:
            world.pod(f"p{number}", spec=spec, **wanted)
    return world


def _cards(random: Random) -> dict[str, Any]:
    cards = random.choice((1, 2, 4, 8))
    sorts: tuple[dict[str, Any], ...] = (
        {GPU: cards},
        {CORE: 100 * cards, MEMORY: 16384 * cards},
        {CORE: 100 * cards, MEMORY: 16384 * cards},
        {MPS: 4 * cards},
        {MIG: 2 * cards, GPU: 1},
        {},
    )
    return random.choice(sorts)


def _wanted(random: Random) -> dict[str, Any]:
    share = random.choice((10, 25, 46, 81))
    sorts: tuple[dict[str, Any], ...] = (
        {GPU: random.choice((1, 2, 4))},
        {CORE: 100 * random.choice((1, 2))},
        {CORE: share, MEMORY: 16384 * share // 100},
        {MPS: 2},
        {MIG: 1},
        {},
    )
    return random.choice(sorts)
