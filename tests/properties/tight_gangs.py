"""Small worlds in which a gang hardly fits: it starts if, and only if, some placement of its pods keeps all rules.

Whether there is one is found out by trying all of them. The judge knows the rules by heart and asks no plugin.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from tests.properties.lives import Property, Scenario
from volsched.model.changes import Change
from volsched.model.plan import Bind, PlanStep
from volsched.testing.builders import HOSTNAME, ClusterBuilder, a_cluster

GPU: Final = "nvidia.com/gpu"
MODELS: Final = ("A100", "H100", "L40S")
FAMILIES: Final = ("amounts", "apart", "cards", "near", "even")
MOST_PLACEMENTS: Final = 20_000
_HOPELESS: Final = 0.3
"""Of the worlds into which the gang does not fit so many are kept."""
CONFIGURATION: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}, {name: binpack}%s]
"""
CARDS: Final = ", {name: capacity-card, arguments: {cardUnlimitedCpuMemory: true}}"


@dataclass(frozen=True)
class Machine:
    """A node."""

    name: str
    cpu: int
    gpu: int
    labels: Mapping[str, str]
    tainted: bool
    model: str = ""


@dataclass(frozen=True)
class Role:
    """Equal pods of the gang."""

    name: str
    count: int
    cpu: int
    gpu: int = 0
    selector: Mapping[str, str] = field(default_factory=dict)
    tolerates: bool = False
    port: bool = False
    apart: bool = False
    near: str = ""
    """The role whose pods must be in the same rack."""
    even: bool = False
    """Whether its pods spread evenly over zones."""
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class TightWorld:
    """Nodes, the roles of one gang, how many of its pods must start, and the card quota of its queue."""

    machines: tuple[Machine, ...]
    roles: tuple[Role, ...]
    minimum: int
    quota: Mapping[str, int]

    @property
    def pods(self) -> list[Role]:
        """The role of each pod."""
        return [role for role in self.roles for _ in range(role.count)]

    # -- what is told -------------------------------------------------------------------------------------------------

    @property
    def configuration(self) -> str:
        """With card quotas where the world has cards."""
        return CONFIGURATION % (CARDS if self.quota else "")

    def cluster(self) -> ClusterBuilder:
        """All manifests."""
        notes = {"volcano.sh/card.quota": json.dumps(self.quota)} if self.quota else {}
        cluster = a_cluster().queue("q", notes).group("g", "q", self.minimum)
        for machine in self.machines:
            cluster.node(machine.name, labels=_labels(machine), taints=_taints(machine), **_offer(machine))
        for role in self.roles:
            for number in range(role.count):
                asked = {"cpu": role.cpu, **({GPU: role.gpu} if role.gpu else {})}
                notes = {"volcano.sh/card.name": "|".join(role.models)} if role.models else {}
                labels, spec = {"role": role.name}, _spec(role)
                cluster.pod(f"{role.name}-{number}", "g", labels=labels, annotations=notes, spec=spec, **asked)
        return cluster

    # -- what is right ------------------------------------------------------------------------------------------------

    def fits(self) -> bool:
        """Whether some placement lets the gang start."""
        return any(self.is_allowed(placed) for placed in self._placements())

    def _placements(self) -> Iterator[list[tuple[Role, Machine]]]:
        pods = self.pods
        of_pods = [[*self._homes(role), *([None] if self.minimum < len(pods) else [])] for role in pods]
        for chosen in product(*of_pods):
            placed = [(role, machine) for role, machine in zip(pods, chosen, strict=True) if machine is not None]
            if len(placed) >= self.minimum:
                yield placed

    def size(self) -> int:
        """How many placements there are to try."""
        total = 1
        for role in self.pods:
            total *= len(self._homes(role)) + (self.minimum < len(self.pods))
        return total

    def _homes(self, role: Role) -> list[Machine]:
        return [machine for machine in self.machines if _takes(machine, role)]

    def is_allowed(self, placed: Sequence[tuple[Role, Machine]]) -> bool:
        """Whether some pods may be on some nodes together."""
        cpu, gpu, ports, hosts, models = Counter[str](), Counter[str](), Counter[str](), Counter[str](), Counter[str]()
        racks: dict[str, set[str]] = {}
        for role, machine in placed:
            if not _takes(machine, role):
                return False
            cpu[machine.name] += role.cpu
            gpu[machine.name] += role.gpu
            ports[machine.name] += role.port
            models[machine.model] += role.gpu
            racks.setdefault(role.name, set()).add(machine.labels.get("rack", ""))
            if role.apart:
                hosts[f"{role.name} {machine.name}"] += 1
        return (
            all(cpu[m.name] <= m.cpu and gpu[m.name] <= m.gpu and ports[m.name] <= 1 for m in self.machines)
            and all(count <= 1 for count in hosts.values())
            and (not self.quota or all(count <= self.quota.get(model, 0) for model, count in models.items()))
            and all(_is_near(role, racks) for role, _ in placed)
            and all(self._is_even(role, placed) for role in self.roles if role.even)
        )

    def _is_even(self, role: Role, placed: Sequence[tuple[Role, Machine]]) -> bool:
        """Whether zones differ by one pod at most; zones without a node that the role selects do not count."""
        chosen = [m for m in self.machines if all(m.labels.get(k) == v for k, v in role.selector.items())]
        zones = {m.labels["zone"]: 0 for m in chosen if "zone" in m.labels}
        for other, machine in placed:
            if other.name == role.name:
                zones[machine.labels["zone"]] += 1
        return not zones or max(zones.values()) - min(zones.values()) <= 1


def _takes(machine: Machine, role: Role) -> bool:
    if machine.tainted and not role.tolerates:
        return False
    if any(machine.labels.get(key) != value for key, value in role.selector.items()):
        return False
    if (role.near and "rack" not in machine.labels) or (role.even and "zone" not in machine.labels):
        return False
    return machine.cpu >= role.cpu and machine.gpu >= role.gpu and (not role.models or machine.model in role.models)


def _is_near(role: Role, racks: Mapping[str, set[str]]) -> bool:
    """Whether all pods of a role are in racks where the pods are that they want to be near; these are in one rack."""
    return not role.near or (role.near in racks and len(racks[role.near]) == 1 and racks[role.name] == racks[role.near])


def _labels(machine: Machine) -> dict[str, str]:
    card = {f"{GPU}.product": machine.model, f"{GPU}.count": str(machine.gpu), f"{GPU}.memory": "81920"}
    return {**machine.labels, **(card if machine.model else {})}


def _taints(machine: Machine) -> list[dict[str, str]]:
    return [{"key": "dedicated", "value": "yes", "effect": "NoSchedule"}] if machine.tainted else []


def _offer(machine: Machine) -> dict[str, int]:
    return {"cpu": machine.cpu, **({GPU: machine.gpu} if machine.gpu else {})}


def _spec(role: Role) -> dict[str, Any]:
    spec: dict[str, Any] = {"nodeSelector": dict(role.selector)} if role.selector else {}
    if role.tolerates:
        spec["tolerations"] = [{"operator": "Exists"}]
    affinity = {}
    if role.apart:
        affinity["podAntiAffinity"] = _required(role.name, HOSTNAME)
    if role.near:
        affinity["podAffinity"] = _required(role.near, "rack")
    if affinity:
        spec["affinity"] = affinity
    if role.even:
        selector = {"matchLabels": {"role": role.name}}
        rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        spec["topologySpreadConstraints"] = [rule]
    if role.port:
        asked = {"cpu": str(role.cpu), **({GPU: str(role.gpu)} if role.gpu else {})}
        ports = [{"containerPort": 8000, "hostPort": 8000}]
        spec["containers"] = [{"name": "main", "image": "none", "resources": {"requests": asked}, "ports": ports}]
    return spec


def _required(role: str, key: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"role": role}}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


# -- drawing ----------------------------------------------------------------------------------------------------------


def a_world(family: str, dice: Random) -> TightWorld:
    """Draw a world of a family."""
    machines = tuple(_machine(family, f"n{number}", dice) for number in range(dice.randint(1, 4)))
    roles, left = [], dice.randint(2, 5)
    while left:
        count = dice.randint(1, left)
        left -= count
        roles.append(_role(family, f"r{len(roles)}", count, dice))
    if family == "near":
        team = dice.choice(roles).name
        roles = [_with_team(role, team, dice) for role in roles]
    dice.shuffle(roles)
    total = sum(role.count for role in roles)
    minimum = total if dice.random() < 0.8 else total - 1
    quota = {model: dice.choice([1, 2, 4, 6, 8]) for model in MODELS} if family == "cards" else {}
    return TightWorld(machines, tuple(roles), minimum, quota)


def _machine(family: str, name: str, dice: Random) -> Machine:
    keys = ("zone", "disk", "rack") if family == "near" else ("zone", "disk")
    labels = {key: dice.choice("ab") for key in keys if dice.random() < (0.95 if family in ("near", "even") else 0.7)}
    model = dice.choice(MODELS) if family == "cards" else ""
    gpu = dice.choice([2, 4, 8]) if family == "cards" else dice.choice([0, 2, 4])
    return Machine(name, dice.randint(2, 10), gpu, labels, dice.random() < 0.25, model)


def _role(family: str, name: str, count: int, dice: Random) -> Role:
    gpu = dice.choice([1, 1, 2, 4]) if family == "cards" else dice.choice([0, 0, 1, 2])
    return Role(
        name,
        count,
        cpu=dice.randint(1, 5),
        gpu=gpu,
        selector={dice.choice(["zone", "disk"]): dice.choice("ab")} if dice.random() < 0.3 else {},
        tolerates=dice.random() < 0.4,
        port=family == "apart" and dice.random() < 0.3,
        apart=family == "apart" and dice.random() < 0.5,
        even=family == "even" and dice.random() < 0.6,
        models=tuple(dice.sample(MODELS, dice.randint(1, 2))) if family == "cards" else (),
    )


def _with_team(role: Role, team: str, dice: Random) -> Role:
    """Have pods of the team near one another, and some others near them."""
    if role.name != team and dice.random() < 0.5:
        return role
    return Role(role.name, role.count, role.cpu, role.gpu, role.selector, role.tolerates, near=team)


class Attempt(Scenario):
    """Two sessions with a gang, on an idle cluster."""

    sessions = 2

    def __init__(self, world: TightWorld) -> None:
        self.world, self.configuration = world, world.configuration
        self._told = False

    def __repr__(self) -> str:
        return repr(self.world)

    def changes(self) -> list[Change]:
        told, self._told = self._told, True
        return [] if told else self.world.cluster().changes()


def attempts(family: str) -> st.SearchStrategy[Attempt]:
    """Worlds of a family; most of those into which the gang does not fit are drawn again."""
    return st.integers(0, 1 << 30).map(lambda seed: Attempt(_worth_a_try(family, Random(f"{family} {seed}"))))  # noqa: S311 - a game


def _worth_a_try(family: str, dice: Random) -> TightWorld:
    while True:
        world = a_world(family, dice)
        if world.size() <= MOST_PLACEMENTS and (world.fits() or dice.random() < _HOPELESS):
            return world


class StartsIfItCan(Property):
    """The gang starts whole, on nodes that may be, if there is a placement; else nothing of it starts."""

    scenario: Attempt

    def after(self, steps: list[PlanStep]) -> None:
        world = self.scenario.world
        machines = {machine.name: machine for machine in world.machines}
        roles = {role.name: role for role in world.roles}
        bound = [step for step in steps if isinstance(step, Bind)]
        placed = [(roles[step.name.rpartition("-")[0]], machines[step.node]) for step in bound]
        self._everything = [*getattr(self, "_everything", []), *placed]
        assert world.is_allowed(self._everything)
        assert not self._everything or len(self._everything) >= world.minimum

    def end(self) -> None:
        fits = self.scenario.world.fits()
        assert bool(self._everything) == fits
        self.reader.seen["fits" if fits else "does not fit"] += 1
