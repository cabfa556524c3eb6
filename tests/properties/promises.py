"""Random clusters in which room is promised: slots, host ports, parts of cards, not free as soon as the sums are."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.actions.evictions import LEVELS, PREEMPT, World, nominations_in
from tests.plugins.mgpu import clusters
from tests.plugins.mgpu.clusters import configuration
from tests.properties.eviction import Play
from tests.properties.lives import Property, Reader
from volsched.model.plan import Bind, Evict, PlanStep
from volsched.testing.builders import a_group

PORTS = (0, 0, 80, 81)

pods = st.tuples(st.integers(0, 3), st.sampled_from(PORTS))
nodes = st.tuples(st.integers(2, 6), st.integers(1, 4), st.lists(pods, min_size=1, max_size=4))
worlds = st.fixed_dictionaries(
    {
        "nodes": st.lists(nodes, min_size=1, max_size=3),
        "strong": st.lists(pods, min_size=1, max_size=4),
        "weak": st.lists(st.lists(pods, max_size=2), min_size=3, max_size=6),
    }
)


def spec_of(pod: tuple[int, int]) -> dict[str, Any]:
    cpu, port = pod
    requests = {"cpu": str(cpu)} if cpu else {}
    ports = [{"containerPort": port, "hostPort": port}] if port else []
    return {"containers": [{"name": "main", "image": "none", "resources": {"requests": requests}, "ports": ports}]}


def build(raw: dict[str, Any]) -> World:
    """Nodes with weak pods as far as they fit there, and strong ones that want in."""
    world = World()
    for number, (cpu, slots, there) in enumerate(raw["nodes"]):
        world.node(f"n{number}", cpu=cpu, pods=slots)
        taken: set[int] = set()
        left = cpu
        for place, (wants, port) in enumerate(there[:slots]):
            if wants > left or port in taken:
                continue
            left -= wants
            taken |= {port} - {0}
            world.runs(f"v{number}{place}", on=f"n{number}", spec=spec_of((wants, port)))
    for number, pod in enumerate(raw["strong"]):
        world.wants(f"x{number}", spec=spec_of(pod))
    return world


def weak_ones(number: int, found: list[tuple[int, int]]) -> World:
    world = World()
    for place, pod in enumerate(found):
        world.wants(f"y{number}{place}", level="mid", spec=spec_of(pod))
    return world


def plays() -> st.SearchStrategy[Play]:
    """Worlds into which weaker pods arrive. No stronger pod arrives, no node changes, and every victim leaves."""

    def told(raw: Any, goes: float) -> Play:
        arrivals = [weak_ones(number, found) for number, found in enumerate(raw["weak"])]
        return Play(build(raw), PREEMPT, 1 + len(arrivals), goes=goes, arrivals=arrivals, told=raw)

    return st.builds(told, worlds, st.floats(0.2, 0.8))


class KeepsPromises(Property):
    """None of the strong pods ``x`` loses a promise that was not taken up, or evicts twice."""

    def __init__(self, scenario: Any, reader: Reader) -> None:
        super().__init__(scenario, reader)
        self.promised: dict[str, str] = {}
        self.made_room: set[str] = set()
        self.bound: set[str] = set()

    def after(self, steps: list[PlanStep]) -> None:
        evicting = {step.preemptor for step in steps if isinstance(step, Evict)}
        strong = {key for key in evicting if key.startswith("default/x")}
        assert not strong & self.made_room
        self.made_room |= strong
        now = nominations_in(self.cluster)
        self.bound |= {step.name for step in steps if isinstance(step, Bind)}
        assert {pod: node for pod, node in self.promised.items() if pod not in self.bound}.items() <= now.items()
        self.promised = {pod: node for pod, node in now.items() if pod not in self.bound and pod.startswith("x")}


# -- parts of cards ---------------------------------------------------------------------------------------------------

CORES = st.sampled_from([40, 50])
card_worlds = st.fixed_dictionaries(
    {
        "nodes": st.lists(st.lists(st.lists(CORES, max_size=2), min_size=2, max_size=3), min_size=1, max_size=2),
        "strong": st.lists(st.sampled_from([60, 100]), min_size=1, max_size=3),
        "weak": st.lists(st.lists(CORES, max_size=2), min_size=3, max_size=6),
    }
)


def add_part(world: World, name: str, core: int, level: str, **more: Any) -> None:
    """Add a job of one pod that wants a part of a card, or a whole one."""
    spec = {"priority": LEVELS[level], "priorityClassName": level}
    minimum = 1 if level != "low" else 0
    world.add(a_group(name, minimum=minimum, priorityClassName=level))
    world.add(clusters.pod(name, "full1" if core == 100 else f"{core}/{core * 160}", group=name, spec=spec, **more))


def build_cards(raw: dict[str, Any]) -> World:
    """Cards with weak pods as far as they fit, and strong ones that want in."""
    world = World()
    for number, cards in enumerate(raw["nodes"]):
        world.add(clusters.node(f"n{number}", cards=len(cards)))
        for card, there in enumerate(cards):
            left = 100
            for place, core in enumerate(there):
                if core <= left:
                    left -= core
                    add_part(world, f"v{number}{card}{place}", core, "low", on=f"n{number}", cards=str(card))
    for number, core in enumerate(raw["strong"]):
        add_part(world, f"x{number}", core, "high")
    return world


def weak_parts(number: int, found: list[int]) -> World:
    world = World()
    for place, core in enumerate(found):
        add_part(world, f"y{number}{place}", core, "mid")
    return world


def card_plays() -> st.SearchStrategy[Play]:
    """The same with parts of cards."""
    text = configuration("enqueue, allocate, preempt, backfill")

    def told(raw: Any, goes: float) -> Play:
        arrivals = [weak_parts(number, found) for number, found in enumerate(raw["weak"])]
        return Play(build_cards(raw), text, 1 + len(arrivals), goes=goes, arrivals=arrivals, told=raw)

    return st.builds(told, card_worlds, st.floats(0.2, 0.8))
