"""Random clusters in which room is promised: slots, host ports, parts of cards, not free as soon as the sums are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.actions.evictions import LEVELS, PREEMPT, World, nominations_in
from tests.plugins.mgpu import clusters
from tests.plugins.mgpu.clusters import configuration
from tests.properties.test_eviction import Play
from volsched.framework.engine.engine import FastEngine
from volsched.model.changes import Change
from volsched.model.plan import Bind, Evict
from volsched.testing.builders import a_group, puts
from volsched.testing.naive import NaiveEngine

pytestmark = pytest.mark.slow(reason="thousands of sessions on random clusters")

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


def arriving(play: Play, world: World) -> list[Change]:
    """What a world has besides priority classes, as changes; the play remembers it."""
    objects = [item for item in world.objects if item["kind"] != "PriorityClass"]
    play.objects.update({(item["kind"], item["metadata"]["name"]): item for item in objects})
    return puts(*objects)


def weak_ones(number: int, found: list[tuple[int, int]]) -> World:
    world = World()
    for place, pod in enumerate(found):
        world.wants(f"y{number}{place}", level="mid", spec=spec_of(pod))
    return world


def none_is_lost(plays: list[Any], arrivals: list[World], goes: float) -> None:
    """Play sessions into which weaker pods arrive; none of the strong ``x`` loses a promise or evicts twice."""
    promised: dict[str, str] = {}
    made_room: set[str] = set()
    for number, world in enumerate(arrivals):
        for play in plays:
            steps = play.session(*arriving(play, world), goes=goes, seed=number)
        evicting = {
            step.preemptor for step in steps if isinstance(step, Evict) and step.preemptor.startswith("default/x")
        }
        assert not evicting & made_room
        made_room |= evicting
        now = nominations_in(plays[0].cluster)
        bound = {pod for past in plays[0].history for pod in past["bound"]}
        assert {pod: node for pod, node in promised.items() if pod not in bound}.items() <= now.items()
        promised = {pod: node for pod, node in now.items() if pod not in bound and pod.startswith("x")}
    assert plays[0].history == plays[1].history


@settings(max_examples=150)
@given(worlds, st.floats(0.2, 0.8))
def test_a_promise_is_kept_until_it_is_taken_up(raw: Any, goes: float) -> None:
    """Nobody who is stronger arrives, no node changes and every victim leaves some day: so none is ever lost."""
    plays = [Play(build(raw), PREEMPT, engine) for engine in (FastEngine, NaiveEngine)]

    none_is_lost(plays, [World(), *(weak_ones(number, found) for number, found in enumerate(raw["weak"]))], goes)


# -- parts of cards ---------------------------------------------------------------------------------------------------

CORES = st.sampled_from([40, 50])
card_worlds = st.fixed_dictionaries(
    {
        "nodes": st.lists(st.lists(st.lists(CORES, max_size=2), min_size=2, max_size=3), min_size=1, max_size=2),
        "strong": st.lists(st.sampled_from([60, 100]), min_size=1, max_size=3),
        "weak": st.lists(st.lists(CORES, max_size=2), min_size=3, max_size=6),
    }
)


class CardPlay(Play):
    """A play in which bound pods have the annotations that their Bindings carried."""

    def _runs(self, step: Bind) -> Change:
        pod = self.objects["Pod", step.name]
        meta = {**pod["metadata"], "annotations": {**pod["metadata"]["annotations"], **step.annotations}}
        self.objects["Pod", step.name] = {**pod, "metadata": meta}
        return super()._runs(step)


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


@settings(max_examples=80)
@given(card_worlds, st.floats(0.2, 0.8))
def test_a_promise_of_cards_is_kept_until_it_is_taken_up(raw: Any, goes: float) -> None:
    text = configuration("enqueue, allocate, preempt, backfill")
    plays = [CardPlay(build_cards(raw), text, engine) for engine in (FastEngine, NaiveEngine)]

    none_is_lost(plays, [World(), *(weak_parts(number, found) for number, found in enumerate(raw["weak"]))], goes)
