"""Clusters whose cards are devices: whole ones, MIG slices, partitions that share counters, shares of capacity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Final

from tests.framework.dra.worlds import asking, claim, device, device_class, exactly, first_of, part
from tests.plugins.fragmentation.worlds import CORE, GPU, MEMORY, Wave
from volsched.model.changes import Change, Deleted
from volsched.testing.builders import ClusterBuilder, a_cluster

NVIDIA: Final = "gpu.nvidia.com"
CLASS: Final = "gpu"
_PROFILE: Final = f'device.attributes["{NVIDIA}"].profile'
"""What only slices have: a selector that reads it fails on other devices, unless it asks first."""
_HAS_MEMORY: Final = "has(device.capacity['gpu.nvidia.com'].memory)"
IN_EIGHTHS: Final = _HAS_MEMORY + " && device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('{}Gi')) == 0"
"""A selector for devices of so much memory."""


def template(name: str, *requests: dict[str, Any]) -> dict[str, Any]:
    """A ResourceClaimTemplate."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": claim(name, *requests)["spec"]},
    }


def of_model(model: str) -> str:
    """A selector for devices of a model."""
    return f'device.attributes["{NVIDIA}"].productName == "{model}"'


def of_profile(profile: str) -> str:
    """A selector for MIG slices."""
    return f'has({_PROFILE}) && {_PROFILE} == "{profile}"'


def gpus(node: str, count: int, model: str = "A100", driver: str = NVIDIA) -> dict[str, Any]:
    """Whole cards of a node."""
    names = [device(f"gpu-{number}", productName=model, uuid=f"{node}-{number}") for number in range(count)]
    return part(f"s-{node}", names, node=node, pool=node, driver=driver)


def slices(node: str, profiles: Sequence[str]) -> dict[str, Any]:
    """MIG slices that were made beforehand."""
    names = [device(f"mig-{number}", profile=profile, productName="A100") for number, profile in enumerate(profiles)]
    return part(f"m-{node}", names, node=node, pool=f"m-{node}", driver=NVIDIA)


def partitions(node: str, count: int) -> list[dict[str, Any]]:
    """Cards of 80 GiB, each as a whole, as halves and as eighths."""
    counters = [{"name": f"c{card}", "counters": {"memory": {"value": "80Gi"}, "slices": {"value": "8"}}}
                for card in range(count)]  # fmt: skip
    found = [
        device(
            f"d{card}-{size}-{number}",
            {"memory": f"{size}0Gi"},
            more={"consumesCounters": [{"counterSet": f"c{card}", "counters": {
                "memory": {"value": f"{size}0Gi"}, "slices": {"value": f"{size}"}}}]},
            productName="H100",
        )
        for card in range(count)
        for size in (8, 4, 1)
        for number in range(8 // size)
    ]  # fmt: skip
    where = {"node": node, "pool": f"p-{node}", "driver": NVIDIA, "count": 2}
    return [part(f"pc-{node}", sharedCounters=counters, **where), part(f"pd-{node}", found, **where)]


def shareable(node: str, count: int) -> dict[str, Any]:
    """Cards of 40 GiB that many may share by memory."""
    names = [
        device(f"v{number}", {"memory": "40Gi"}, more={"allowMultipleAllocations": True}, productName="T4")
        for number in range(count)
    ]
    return part(f"v-{node}", names, node=node, pool=f"v-{node}", driver=NVIDIA)


def using(*, made: Sequence[str] = (), **entries: str) -> dict[str, Any]:
    """The claims of a pod by entry: of this name, or of a template where ``made`` names the entry."""
    key = {True: "resourceClaimTemplateName", False: "resourceClaimName"}
    return {"resourceClaims": [{"name": name, key[name in made]: of} for name, of in entries.items()]}


def with_own_claim(world: ClusterBuilder, name: str, *requests: dict[str, Any], **pod: Any) -> ClusterBuilder:
    """A pod with a claim of its own."""
    return world.add(claim(f"c-{name}", *requests)).pod(name, spec=using(c=f"c-{name}"), **pod)


def a_random_world(seed: int) -> ClusterBuilder:
    """Draw a cluster with devices, cards of other sorts, and pods for all of them."""
    random, world = Random(seed), a_cluster()  # noqa: S311 - nothing here is secret
    world.add(device_class(CLASS, driver=NVIDIA, extendedResourceName=GPU))
    world.add(device_class("nic", driver="dra.net"))
    for number in range(random.randint(3, 6)):
        name = f"n{number}"
        cpu, memory = random.choice((16, 32, 64)), random.choice(("64Gi", "256Gi"))
        own = random.choice(({}, {}, {}, {}, {GPU: 2}, {CORE: 200, MEMORY: 32768}))
        world.node(name, cpu=cpu, memory=memory, **own)
        for found in _devices(random, name):
            world.add(found)
    for number in range(random.randint(8, 16)):
        _pods(random, world, number)
    return world


def _devices(random: Random, node: str) -> list[dict[str, Any]]:
    sort = random.randrange(6)
    if sort < 2:
        return [gpus(node, random.choice((1, 2, 4, 8)), random.choice(("A100", "H100")))]
    if sort == 2:
        return [slices(node, random.choices(("1g.10gb", "2g.20gb", "3g.40gb"), k=4))]
    if sort == 3:
        return partitions(node, random.choice((1, 2)))
    if sort == 4:
        return [shareable(node, 2), gpus(f"{node}", 1), part(f"x-{node}", [device("e0")], node=node, driver="dra.net")]
    return []


def _pods(random: Random, world: ClusterBuilder, number: int) -> None:
    name = f"p{number}"
    wanted = {"cpu": random.choice((0, 1, 4, 9)), "memory": random.choice(("1Gi", "30Gi"))}
    sort = random.randrange(10)
    if sort == 0:
        world.pod(name, **wanted)
    elif sort == 1:
        world.pod(name, **wanted, **{GPU: random.choice((1, 2))})
    elif sort == 2:
        world.pod(name, **wanted, **{CORE: 50, MEMORY: 4096})
    elif sort == 3:
        world.add(claim(f"shared-{number}", _request(random)))
        world.job(f"j{number}", tasks=2, spec=using(c=f"shared-{number}"), **wanted)
    else:
        with_own_claim(world, name, *(_request(random, f"r{n}") for n in range(random.choice((1, 1, 2)))), **wanted)


def _request(random: Random, name: str = "r0") -> dict[str, Any]:
    return random.choice(
        (
            exactly(name, count=random.choice((1, 2, 4))),
            exactly(name, of_model(random.choice(("A100", "H100", "none")))),
            exactly(name, of_profile("2g.20gb")),
            exactly(name, f'{_PROFILE} == "1g.10gb"'),
            exactly(name, IN_EIGHTHS.format(random.choice((10, 40, 80)))),
            exactly(name, capacity={"memory": random.choice(("10Gi", "25Gi"))}),
            exactly(name, of_model("A100"), allocationMode="All"),
            exactly(name, "device.attributes.size() > 0"),
            first_of(name, asking("a", of_model("H100"), count=2), asking("b")),
            exactly(name, adminAccess=True),
            exactly(name, cls="nic"),
        )
    )


class DeviceWave(Wave):
    """Two sessions, between which some pods leave with their claims."""

    def world(self, seed: int) -> ClusterBuilder:
        return a_random_world(seed)

    def leaving(self, names: Iterable[str]) -> list[Change]:
        gone = super().leaving(names)
        return [*gone, *(Deleted("ResourceClaim", "default", f"c-{name}", f"uid-c-{name}") for name in names)]

    def late(self) -> list[Change]:
        return []
