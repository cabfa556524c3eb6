"""Random clusters with every sort of card, and pods that want them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from plugins.fragmentation.demand import Demand
from plugins.fragmentation.plugin import NAME
from plugins.mgpu.devices import CORE, MEMORY
from tests.properties.lives import Reader, Scenario
from volsched.framework.engine.fast import Engine, FastEngine
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Change, Deleted
from volsched.model.cluster import Cluster
from volsched.model.plan import Bind
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster, a_rig, put

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
    for number in range(random.randint(3, 6)):
        labels = {"model": random.choice("ab")}
        if random.random() < 0.3:
            labels["nvidia.com/gpu.replicas"] = "4"
        taints = [{"key": "gpu", "value": "x", "effect": "NoSchedule"}] if random.random() < 0.2 else []
        cpu, memory = random.choice((16, 32, 64)), random.choice(("64Gi", "256Gi"))
        world.node(f"n{number}", cpu=cpu, memory=memory, labels=labels, taints=taints, **_cards(random))
    for number in range(random.randint(8, 20)):
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


class Wave(Scenario):
    """Two sessions, between which every third pod that was bound leaves and others come."""

    configuration = CONFIGURATION
    sessions = 2
    plain_pods = True

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.coming: list[Change] = self.world(seed).changes()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.seed})"

    def world(self, seed: int) -> ClusterBuilder:
        return a_random_world(seed)

    def changes(self) -> list[Change]:
        return self.coming

    def carry_out(self, reader: Reader) -> None:
        bound = sorted(step.name for step in reader.steps[-1] if isinstance(step, Bind))
        self.coming = [*self.leaving(bound[::3]), *self.late()]

    def leaving(self, names: Iterable[str]) -> list[Change]:
        """Pods that go; those of gangs stay."""
        return [Deleted("Pod", "default", name, f"pod-default-{name}") for name in names if name.startswith("p")]

    def late(self) -> list[Change]:
        """Pods of another world that come after the first session."""
        pods = [m for m in self.world(self.seed + 1_000).objects if m["kind"] == "Pod"]
        return [
            put({**m, "metadata": {**m["metadata"], "name": f"late-{m['metadata']['name']}", "uid": f"late-{number}"}})
            for number, m in enumerate(pods)
        ]
