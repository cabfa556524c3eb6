"""Services on a quota, whatever plugin minds it: they start with what there is, and an update goes on.

Each pod asks for one unit of what is limited; the PodGroup is as controllers make it, with one pod's minResources.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.framework.dra.worlds import claim, device, device_class, exactly, held, part
from tests.plugins.capacity_card.clusters import A
from tests.plugins.predicates.test_devices import using
from volsched.model.changes import Deleted
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster, a_rig, puts

GPU = "nvidia.com/gpu"
QUOTA = 4


def conf(plugin: str) -> str:
    listed = "\n".join(f"  - {{name: {name}}}" for name in ("priority", "gang", "predicates", plugin))
    return f'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins:\n{listed}\n'


CONFIGURATIONS = {
    "capacity-card": conf("capacity-card"),
    "capacity": conf("capacity"),
    "proportion": conf("proportion"),
    "capacity-dra": conf("capacity-dra"),
    "overcommit": conf("overcommit, arguments: {overcommit-factor: 1.0}"),
}


def a_world(plugin: str) -> ClusterBuilder:
    """A node and a queue; with overcommit it is the node that has no more."""
    labels = {f"{GPU}.product": A, f"{GPU}.count": "8", f"{GPU}.memory": "81920"}
    cluster = a_cluster().node("n1", labels=labels, **{GPU: QUOTA if plugin == "overcommit" else 8})
    capability = {} if plugin == "overcommit" else {"cpu": "64", "memory": "64Gi", GPU: str(QUOTA)}
    notes = {"volcano.sh/card.quota": f'{{"{A}": {QUOTA}}}'}
    cluster.queue("q", notes, capability=capability, dra={"capability": {"gpu": {"count": QUOTA}}})
    cluster.add(device_class()).add(part("of-n1", [device(f"d{number}") for number in range(8)], pool="n1"))
    return cluster


def service(plugin: str, name: str, count: int, on: str | None = None) -> tuple[list[Any], list[Any]]:
    """A PodGroup and what there is for it beside its pods; and its pods."""
    made = a_cluster().group(name, "q", 1, "Running" if on else "Pending", minResources={GPU: 1})
    pods = a_cluster()
    for number in range(count):
        spec, asked = {}, {GPU: 1}
        if plugin == "capacity-dra":
            of = f"{name}-{number}"
            made.add(held(of, f"d{number}", pool="n1") if on else claim(of, exactly()))
            spec, asked = using(of), {}
        pods.pod(f"{name}-{number}", name, on, annotations={"volcano.sh/card.name": A}, spec=spec, **asked)
    return made.objects, pods.objects


def starting(plugin: str, *objects: Any) -> Rig:
    cluster = a_world(plugin)
    for item in objects:
        cluster.add(item)
    return a_rig(cluster, CONFIGURATIONS[plugin])


@pytest.mark.parametrize("first", [0, 1, 5])
@pytest.mark.parametrize("plugin", list(CONFIGURATIONS))
def test_a_service_of_five_on_a_quota_of_four_gets_four(plugin: str, first: int) -> None:
    rest, pods = service(plugin, "chat", 5)
    on = starting(plugin, *rest, *pods[:first])

    bound = {**on.cycle().bindings, **on.cycle(*puts(*pods[first:])).bindings, **on.cycle().bindings}

    assert len(bound) == QUOTA


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("plugin", list(CONFIGURATIONS))
def test_an_update_goes_on_when_a_pod_of_the_old_version_has_gone(plugin: str, first: int) -> None:
    """Three pods of the old version hold three of four; two of the new one are there, or come."""
    old, holding = service(plugin, "old", 3, on="n1")
    new, pods = service(plugin, "new", 2)
    on = starting(plugin, *old, *holding, *new, *pods[:first])

    bound = {**on.cycle().bindings, **on.cycle(*puts(*pods[first:])).bindings}
    assert list(bound) == ["new-0"]

    assert list(on.cycle(Deleted("Pod", "default", "old-0", "pod-default-old-0")).bindings) == ["new-1"]
