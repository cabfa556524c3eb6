"""Engines score cards alike, and what is kept equals what is counted anew."""

from __future__ import annotations

from plugins.fragmentation.plugin import NAME
from tests.plugins.fragmentation.worlds import CONFIGURATION, a_plain_rig, a_random_world, cards, demand_of
from volsched.framework.engine.fast import FastEngine
from volsched.mirror.apply import Mirror
from volsched.model.changes import Deleted
from volsched.testing.builders import a_cluster, put
from volsched.testing.contract import engine_contract
from volsched.testing.naive import NaiveEngine


def test_a_cluster_without_cards_is_scored_too() -> None:
    world = a_cluster().node("n1", cpu="8").node("n2", cpu="4").node("n3", cpu="2").pod("full", on="n1", cpu="6")
    world.pod("waits", cpu="2").pod("late", cpu="1")

    bindings = engine_contract(lambda engine: a_plain_rig(world, CONFIGURATION, engine).cycle().bindings)

    assert set(bindings) == {"waits", "late"}


def test_scores_are_equal_to_the_bit_where_many_nodes_are_asked_at_once() -> None:
    world = a_cluster()
    for number in range(60):
        world.node(f"n{number:02}", cpu=16 + number, memory=f"{64 + 3 * number}Gi", **cards(1 + number % 8))
    world.pod("waits", cpu=7, memory="9Gi", **cards(2)).pod("mate", cpu=3, **cards(1))

    totals = []
    for engine in (FastEngine, NaiveEngine):
        rig = a_plain_rig(world, CONFIGURATION.replace("  - name: gang\n", ""), engine)
        rig.cycle()
        task = next(task for task in rig.cluster.tasks.values() if task.name == "waits")
        totals.append(rig.scheduler.engine.scores(task))

    assert totals[0] == totals[1]
    assert len({found[NAME] for found in totals[0].values()}) > 5


def test_after_a_restart_the_same_is_known() -> None:
    world = a_random_world(7)
    rig = a_plain_rig(world, CONFIGURATION)
    rig.cycle()
    pods = [m for m in world.objects if m["kind"] == "Pod"]

    mirrored = a_plain_rig(world, CONFIGURATION)
    mirrored.mirror.apply(Deleted("Pod", "default", m["metadata"]["name"], m["metadata"]["uid"]) for m in pods)
    mirrored.cycle()
    mirrored.cycle(*[put(m) for m in reversed(pods)])

    assert isinstance(mirrored.mirror, Mirror)
    assert demand_of(mirrored).average_demand == demand_of(rig).average_demand
    assert demand_of(mirrored).scarce.tolist() == demand_of(rig).scarce.tolist()
