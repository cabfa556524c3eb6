"""Random clusters with every sort of card, and pods that want them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from plugins.fragmentation.demand import Demand
from plugins.fragmentation.plugin import NAME
from plugins.mgpu.devices import CORE, MEMORY
from volsched.framework.engine.engine import Engine, FastEngine
from volsched.mirror.settings import MirrorSettings
from volsched.model.cluster import Cluster
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster, a_rig

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


def cards(count: int) -> dict[str, Any]:
    """Whole cards, as keywords of a node or a pod."""
    return {GPU: count}


def shared(core: int, memory: int) -> dict[str, Any]:
    """Cards that mgpu shares: percent, and MiB."""
    return {CORE: core, MEMORY: memory}


def a_plain_rig(
    world: ClusterBuilder, configuration: str = CONFIGURATION, engine: Callable[[Cluster], Engine] = FastEngine
) -> Rig:
    """A scheduler that takes pods without a PodGroup, too."""
    return a_rig(world, configuration, engine, MirrorSettings(plain_pods=True))


def demand_of(rig: Rig) -> Demand:
    """The account of the plugin in a scheduler that has had a session."""

    def never(_: Cluster) -> Demand:
        raise AssertionError("no session was opened")

    return rig.scheduler._accounts.get(NAME, never)


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
