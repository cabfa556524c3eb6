"""How many equal tasks each plugin lets be placed in one go: as many as it would take on one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.testing.builders import ClusterBuilder, a_cluster, a_rig

GPU: Final = "nvidia.com/gpu"
A, H = "NVIDIA-A100", "NVIDIA-H100"
GANG: Final = 8
ALL: Final = [GANG]
NONE: Final[list[int]] = []


def plugins(*names: str) -> str:
    """gang and these; what comes after the name of one belongs to its entry, too."""
    listed = "\n".join(f"  - {{name: {name}}}" for name in ("gang", *names))
    return f'actions: "enqueue, allocate"\ntiers:\n- plugins:\n{listed}\n'


def a_world(*queues: dict[str, Any], quota: dict[str, int] | None = None) -> ClusterBuilder:
    """Eight nodes of either card, and queues: the last one takes the gang."""
    world = a_cluster()
    for number in range(16):
        labels = {f"{GPU}.product": A if number % 2 else H, f"{GPU}.count": "8", f"{GPU}.memory": "81920"}
        world.node(f"n{number}", cpu="64", memory="1Ti", labels=labels, **{GPU: 8})
    for spec in queues or ({"name": "q", "capability": {"cpu": "900", "memory": "9Ti", GPU: "900"}},):
        notes = {"volcano.sh/card.quota": json.dumps(quota)} if quota is not None else None
        world.queue(annotations=notes, **spec)
    return world


def a_gang(world: ClusterBuilder, card: str = "", minimum: int = GANG, **requests: Any) -> ClusterBuilder:
    """Pods that wait in the last of the queues."""
    queue = world.objects[-1]["metadata"]["name"]
    world.group("gang", queue, minimum=minimum, phase="Inqueue")
    notes = {"volcano.sh/card.name": card} if card else {}
    for number in range(GANG):
        world.pod(f"gang-{number}", "gang", annotations=notes, **{"cpu": "2", **requests})
    return world


def runs(world: ClusterBuilder, configuration: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many tasks it was tried to place them in one go, each time."""
    tried: list[int] = []
    allocate = Cluster.allocate

    def noted(cluster: Cluster, tasks: Sequence[TaskInfo], nodes: Iterator[NodeInfo]) -> int:
        if len(tasks) > 1:
            tried.append(len(tasks))
        return allocate(cluster, tasks, nodes)

    monkeypatch.setattr(Cluster, "allocate", noted)
    a_rig(world, configuration).cycle()
    return tried


def with_spec(world: ClusterBuilder, **spec: Any) -> ClusterBuilder:
    for item in world.objects:
        if item["kind"] == "Pod":
            item["spec"].update(spec)
    return world


MGPU = "mgpu, arguments: {predicate.MGPUEnable: true}"
BASE = ("predicates", "nodeorder", "binpack")
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "x"}},
}
TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
VOLUME = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
CLAIM = [{"name": "c", "resourceClaimTemplateName": "t"}]
AMOUNTS = {"vke.volcengine.com/mgpu-core": "10", "vke.volcengine.com/mgpu-memory": "1024"}
SHARE = [{"name": "main", "image": "none", "resources": {"requests": AMOUNTS, "limits": AMOUNTS}}]
LIMITED = {"name": "q", "capability": {"cpu": "11", "memory": "9Ti"}}


@pytest.mark.parametrize(
    ("world", "names", "expected"),
    [
        pytest.param(a_gang(a_world()), BASE, ALL, id="base"),
        pytest.param(a_gang(a_world(), minimum=3), BASE, [3], id="gang: up to its minimum, the rest takes turns"),
        pytest.param(a_gang(a_world()), ("drf", *BASE), ALL, id="drf"),
        pytest.param(with_spec(a_gang(a_world()), volumes=VOLUME), BASE, NONE, id="predicates: volumes"),
        pytest.param(with_spec(a_gang(a_world()), resourceClaims=CLAIM), BASE, NONE, id="predicates: devices"),
        pytest.param(
            with_spec(
                a_gang(a_world()),
                affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
            ),
            BASE,
            NONE,
            id="predicates: neighbours",
        ),
        pytest.param(
            with_spec(a_gang(a_world()), topologySpreadConstraints=[SPREAD]),
            ("nodeorder",),
            NONE,
            id="nodeorder: spread",
        ),
        pytest.param(a_gang(a_world(LIMITED)), ("proportion", *BASE), [5], id="proportion: what is deserved"),
        pytest.param(a_gang(a_world(LIMITED)), ("capacity", *BASE), [5], id="capacity: what the queue may have"),
        pytest.param(
            a_gang(
                a_world({"name": "up", "parent": "root", "capability": {"cpu": "7"}}, {"name": "q", "parent": "up"}),
            ),
            ("capacity, enableHierarchy: true", *BASE),
            [3],
            id="capacity: what the queue above may have",
        ),
        pytest.param(
            a_gang(a_world(quota={A: 5, H: 0}), A, **{GPU: 1}), ("capacity-card", *BASE), [5], id="card: quota"
        ),
        pytest.param(
            a_gang(a_world(quota={A: 5, H: 0}), A, **{GPU: 2}), ("capacity-card", *BASE), [2], id="card: several each"
        ),
        pytest.param(
            a_gang(a_world(quota={A: 3, H: 6}), f"{A}|{H}", **{GPU: 1}),
            ("capacity-card", *BASE),
            [3, 5],
            id="card: as long as the same cards are open",
        ),
        pytest.param(
            a_gang(a_world(LIMITED, quota={A: 8}), A, **{GPU: 1}), ("capacity-card", *BASE), [5], id="card: cpu"
        ),
        pytest.param(a_gang(a_world(quota={A: 8})), ("capacity-card", *BASE), ALL, id="card: pods without any"),
        pytest.param(a_gang(a_world()), ("capacity-dra", MGPU, "crossquota", *BASE), ALL, id="who has no say"),
        pytest.param(
            with_spec(a_gang(a_world()), resourceClaims=CLAIM), ("capacity-dra",), NONE, id="capacity-dra: claims"
        ),
        pytest.param(with_spec(a_gang(a_world()), containers=SHARE), (MGPU,), ALL, id="mgpu: shares of cards"),
    ],
)
def test_a_run_is_as_long_as_every_plugin_can_stand(
    world: ClusterBuilder, names: tuple[str, ...], expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runs(world, plugins(*names), monkeypatch)[: len(expected) or None] == expected
