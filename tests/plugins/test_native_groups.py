"""Quota plugins and mgpu decide Kubernetes' own gangs as they decide Volcano's.

Each world is decided twice, once for each kind of group. What is bound is the same, and is what the quota says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from tests.framework.dra.worlds import claim, exactly
from tests.plugins.capacity_card import clusters as card_worlds
from tests.plugins.capacity_dra import test_capacity_dra as device_worlds
from tests.plugins.crossquota import worlds as cross_worlds
from tests.plugins.mgpu import clusters as shared_card_worlds
from volsched.model.api import native_groups as native
from volsched.model.changes import KindServed
from volsched.model.plan import Bind
from volsched.testing.builders import ClusterBuilder, a_cluster, a_group, a_member, a_native_group, a_pod, a_rig, put
from volsched.testing.contract import ENGINES
from volsched.testing.recount import faults

QUEUE_NAME = "scheduling.volcano.sh/queue-name"


class Gang(NamedTuple):
    """A gang of pods that are all alike; ``pod`` is what each asks for and has."""

    name: str
    size: int
    queue: str = "q"
    pod: Mapping[str, Any] = {"cpu": 1}
    claim: Mapping[str, Any] | None = None


class World(NamedTuple):
    """A cluster, its configuration, gangs in the order in which they come, and those that start."""

    configuration: str
    cluster: Callable[[], ClusterBuilder]
    gangs: tuple[Gang, ...]
    start: frozenset[str]


def of_plugin(*names: str) -> str:
    plugins = "".join(f"\n  - name: {name}" for name in ("priority", "gang", "predicates", *names))
    return f'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins:{plugins}\n'


def _two_queues() -> ClusterBuilder:
    cluster = a_cluster().node("n", cpu=8)
    return cluster.queue("q", weight=1, capability={"cpu": "3"}).queue("r", weight=3)


def _device_quota() -> ClusterBuilder:
    return device_worlds.a_world().queue("q", **device_worlds.quota(gpu=3))


def _cross_quota() -> ClusterBuilder:
    node = cross_worlds.gpu_node("n", {f"{cross_worlds.ANN}cpu": "3"}, cpu="64")
    return a_cluster().queue("q").add(node)


def _shared_cards() -> ClusterBuilder:
    return a_cluster().queue("q").add(shared_card_worlds.node("n", cards=3))


def _a_pod_of_shared_cards(text: str) -> dict[str, Any]:
    found, notes = shared_card_worlds.containers(text)
    return {"spec": {"containers": found}, "annotations": notes}


CARD = {card_worlds.GPU: 1, "annotations": {"volcano.sh/card.name": card_worlds.A}}
ONE_DEVICE = exactly(cls="gpu")
OWN = _a_pod_of_shared_cards("60/1000")

WORLDS = {
    "capacity": World(
        of_plugin("capacity"), _two_queues, (Gang("a", 2), Gang("b", 2), Gang("c", 4, "r")), frozenset("ac")
    ),
    "proportion": World(
        of_plugin("proportion"), _two_queues, (Gang("a", 2), Gang("b", 2), Gang("c", 6, "r")), frozenset("ac")
    ),
    "drf": World(
        of_plugin("drf"), lambda: a_cluster().node("n", cpu=5).queue("q"), (Gang("a", 3), Gang("b", 3)), frozenset("a")
    ),
    "capacity-card": World(
        card_worlds.configuration(),
        lambda: card_worlds.Cards().cards("n", card_worlds.A, 8).quota("q", {card_worlds.A: 3}),
        (Gang("a", 2, pod=CARD), Gang("b", 2, pod=CARD), Gang("c", 1, pod=CARD)),
        frozenset("ac"),
    ),
    "capacity-dra": World(
        device_worlds.configuration(),
        _device_quota,
        (Gang("a", 2, claim=ONE_DEVICE), Gang("b", 2, claim=ONE_DEVICE), Gang("c", 1, claim=ONE_DEVICE)),
        frozenset("ac"),
    ),
    "crossquota": World(
        cross_worlds.configuration(), _cross_quota, (Gang("a", 2), Gang("b", 2), Gang("c", 1)), frozenset("ac")
    ),
    "mgpu": World(
        shared_card_worlds.configuration(),
        _shared_cards,
        (Gang("a", 2, pod=OWN), Gang("b", 2, pod=OWN), Gang("c", 1, pod=OWN)),
        frozenset("ac"),
    ),
}


def _objects(gang: Gang, kind: str) -> list[dict[str, Any]]:
    """The group, its claims and its pods."""
    if kind == "volcano":
        found = [a_group(gang.name, gang.queue, gang.size)]
        make: Callable[..., dict[str, Any]] = a_pod
    else:
        found = [a_native_group(gang.name, gang.size, annotations={QUEUE_NAME: gang.queue})]
        make = a_member
    for number in range(gang.size):
        name, more = f"{gang.name}-{number}", dict(gang.pod)
        if gang.claim is not None:
            found.append(claim(name, gang.claim))
            more["spec"] = {"resourceClaims": [{"name": "e", "resourceClaimName": name}]}
        found.append(make(name, gang.name, **more))
    return found


def _bound(world: World, kind: str, engine: Any) -> dict[str, str]:
    """Where pods are after gangs have come one after the other."""
    rig, bound = a_rig(world.cluster(), world.configuration, engine), {}
    rig.mirror.apply([KindServed(native.KIND, "scheduling.k8s.io/v1alpha2")])
    pods = {}
    for gang in world.gangs:
        objects = _objects(gang, kind)
        pods |= {each["metadata"]["name"]: each for each in objects if each["kind"] == "Pod"}
        for changes in ([put(each) for each in objects], []):
            steps = [step for step in rig.cycle(*changes).steps if isinstance(step, Bind)]
            bound |= {step.name: step.node for step in steps}
            rig.mirror.apply([put(_running(pods[step.name], step)) for step in steps])
        assert faults(rig.cluster) == []
    return bound


def _running(pod: dict[str, Any], step: Bind) -> dict[str, Any]:
    notes = {**pod["metadata"].get("annotations", {}), **step.annotations}
    metadata = {**pod["metadata"], "annotations": notes}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": step.node}, "status": {"phase": "Running"}}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("plugin", WORLDS)
def test_a_plugin_treats_both_kinds_alike(plugin: str, engine: Any) -> None:
    world = WORLDS[plugin]

    bound = _bound(world, "volcano", engine)

    assert set(bound) == {
        f"{g.name}-{number}" for g in world.gangs if g.name in world.start for number in range(g.size)
    }
    assert _bound(world, "native", engine) == bound
