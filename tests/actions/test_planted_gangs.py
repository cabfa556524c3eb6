"""Gangs in clusters that are nearly full, made around a placement that is known: nearly all of them start.

Each world is made backwards. The pods of a gang are put on nodes by the rules of its family. Running pods fill the rest
of all nodes. Then the gang's placement is taken away, and volsched has to find one. In worlds of this size it is
impossible to try every placement. A search with a budget may miss some; the bar is 95 % of each family.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import pytest
from hypothesis import settings

from volsched.testing.builders import HOSTNAME, ClusterBuilder, a_cluster, decide

RACK: Final = "example.com/rack"
NODES_OF_A_RACK: Final = 6
STARTED: Final = 0.95
CONFIGURATION: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}, {name: binpack}]
"""


@dataclass
class Machine:
    """A node, and how much cpu of it is left."""

    name: str
    rack: str
    pool: str
    left: int
    roles: Counter[str] = field(default_factory=Counter)
    has_port: bool = False


@dataclass(frozen=True)
class Role:
    """Equal pods of the gang: ``pools`` are those that they select, ``apart`` is the domain that each has alone."""

    name: str
    count: int
    cpu: int
    pools: str = ""
    apart: str = ""
    port: bool = False

    def takes(self, machine: Machine, machines: list[Machine]) -> bool:
        """True if one more pod of this role may be planted on the node."""
        if (
            machine.left < self.cpu
            or (self.pools and machine.pool not in self.pools)
            or (self.port and machine.has_port)
        ):
            return False
        near = [m for m in machines if m.rack == machine.rack] if self.apart == RACK else [machine]
        return not (self.apart and any(m.roles[self.name] for m in near))

    @property
    def spec(self) -> dict[str, Any]:
        """What the pods state beside their requests."""
        affinity: dict[str, Any] = {}
        if self.pools:
            rule = {"key": "pool", "operator": "In", "values": list(self.pools)}
            selected = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
            affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": selected}
        if self.apart:
            term = {"topologyKey": self.apart, "labelSelector": {"matchLabels": {"role": self.name}}}
            affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        ports = [{"containerPort": 80, "hostPort": 80}] if self.port else []
        asked = {"requests": {"cpu": str(self.cpu)}}
        return {"affinity": affinity, "containers": [{"name": "c", "image": "i", "resources": asked, "ports": ports}]}


def pinned(dice: Random) -> list[Role]:
    """Pods that select few nodes, beside pods that may take these nodes, too."""
    size = dice.randint(3, 5)
    return [
        Role("free", dice.randint(6, 10), size),
        Role("two", dice.randint(3, 5), size, pools="ab"),
        Role("one", dice.randint(2, 4), size, pools="a"),
    ]


def sized(dice: Random) -> list[Role]:
    """Large pods after small ones, which fill up the nodes that the large ones need."""
    return [
        Role("small", dice.randint(8, 12), dice.randint(1, 3)),
        Role("large", dice.randint(3, 5), dice.randint(6, 9)),
    ]


def apart(dice: Random) -> list[Role]:
    """Pods with a host port or a domain of their own."""
    return [
        Role("listener", dice.randint(3, 5), 2, port=True),
        Role("host", dice.randint(4, 8), 3, apart=HOSTNAME),
        Role("rack", dice.randint(2, 4), 2, apart=RACK, pools="ab"),
    ]


FAMILIES: Final = {"pinned": pinned, "sized": sized, "apart": apart}


def planted(roles: list[Role], dice: Random) -> ClusterBuilder | None:
    """Return a cluster with a gang for which there is room; None if these roles could not be planted."""
    machines = [
        Machine(f"n{number:03}", f"r{number // NODES_OF_A_RACK}", dice.choice("aabbcccc"), dice.choice([16, 32]))
        for number in range(dice.randint(30, 60))
    ]
    sizes = {machine.name: machine.left for machine in machines}
    chosen = dice.sample(machines, len(machines) // 3)
    for role in sorted(roles, key=lambda role: (-len(role.apart), role.pools or "abc", -role.cpu)):
        for _ in range(role.count):
            found = [machine for machine in chosen if role.takes(machine, machines)]
            if not found:
                return None
            machine = dice.choice(found)
            machine.left -= role.cpu
            machine.roles[role.name] += 1
            machine.has_port |= role.port
    return _filled(machines, sizes, roles, dice)


def _filled(machines: list[Machine], sizes: dict[str, int], roles: list[Role], dice: Random) -> ClusterBuilder:
    """Let running pods take all that is left; on some nodes there is room for one more pod of the first role."""
    cluster = a_cluster().queue("q")
    for machine in machines:
        labels = {HOSTNAME: machine.name, RACK: machine.rack, "pool": machine.pool}
        cluster.node(machine.name, cpu=sizes[machine.name], labels=labels)
        spare = roles[0].cpu if dice.random() < 0.1 else 0
        if machine.left > spare:
            cluster.pod(f"runs-{machine.name}", on=machine.name, cpu=machine.left - spare)
    cluster.group("g", "q", sum(role.count for role in roles))
    for role in roles:
        for number in range(role.count):
            cluster.pod(f"{role.name}-{number}", "g", cpu=role.cpu, labels={"role": role.name}, spec=role.spec)
    return cluster


@pytest.mark.slow(reason="each family has forty clusters of up to sixty nodes")
@pytest.mark.parametrize("family", FAMILIES)
def test_nearly_all_gangs_start_for_which_there_is_room(family: str) -> None:
    worlds = settings.default.max_examples if settings.default else 40
    dice, started, tried = Random(family), 0, 0  # noqa: S311 - a game
    while tried < worlds:
        roles = FAMILIES[family](dice)
        cluster = planted(roles, dice)
        if cluster is None:
            continue
        tried += 1
        bound = len(decide(cluster, CONFIGURATION).bindings)
        assert bound in (0, sum(role.count for role in roles))
        started += bound > 0
    assert started >= STARTED * tried
