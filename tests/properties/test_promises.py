"""Random clusters in which room is promised: of slots and host ports, which are not free as soon as the amounts are."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.actions.evictions import PREEMPT, World, nominations_in
from tests.properties.test_eviction import Play
from volsched.framework.engine import FastEngine
from volsched.model import api
from volsched.model.changes import Change, Put
from volsched.testing.naive import NaiveEngine

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


def arrivals(play: Play, number: int, found: list[tuple[int, int]]) -> list[Change]:
    world = World()
    for place, pod in enumerate(found):
        world.wants(f"y{number}{place}", level="mid", spec=spec_of(pod))
    objects = [item for item in world.objects if item["kind"] != "PriorityClass"]
    play.objects.update({(item["kind"], item["metadata"]["name"]): item for item in objects})
    return [Put(api.decode_object(item)) for item in objects]


@settings(max_examples=150)
@given(worlds, st.floats(0.2, 0.8))
def test_a_promise_is_kept_until_it_is_taken_up(raw: Any, goes: float) -> None:
    """Nobody who is stronger arrives, no node changes and every victim leaves some day: so none is ever lost."""
    plays = [Play(build(raw), PREEMPT, engine) for engine in (FastEngine, NaiveEngine)]
    promised: dict[str, str] = {}
    for number, found in enumerate([[], *raw["weak"]]):
        for play in plays:
            play.session(*arrivals(play, number, found), goes=goes, seed=number)
        now = nominations_in(plays[0].cluster)
        bound = {pod for past in plays[0].history for pod in past["bound"]}

        assert {pod: node for pod, node in promised.items() if pod not in bound}.items() <= now.items()
        promised = {pod: node for pod, node in now.items() if pod not in bound and pod.startswith("x")}

    assert plays[0].history == plays[1].history
