"""What a promise of room holds until it is taken up: all that the pod would have on the node, and not amounts alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.actions.evictions import PREEMPT, World, nominations, nominations_in
from tests.actions.rigs import conf, cycle, gone, leaving
from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from volsched.model import api
from volsched.model.changes import Change, Deleted
from volsched.testing.builders import Rig, a_cluster, a_rig
from volsched.testing.contract import ENGINES

HOST = "kubernetes.io/hostname"

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def port(number: int = 80, cpu: int = 1) -> dict[str, Any]:
    """The spec of a pod that takes a host port."""
    requests = {"cpu": str(cpu)} if cpu else {}
    ports = [{"containerPort": number, "hostPort": number}]
    return {"containers": [{"name": "main", "image": "none", "resources": {"requests": requests}, "ports": ports}]}


def near(app: str, rule: str = "podAffinity") -> dict[str, Any]:
    """The spec of a pod that has to be on a node with such pods, or (podAntiAffinity) must not."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}
    return {"affinity": {rule: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def coming(world: World) -> list[Change]:
    """What a world has besides the priority classes that every world begins with."""
    return [c for c in world.changes() if not isinstance(c.object, api.PriorityClass)]  # type: ignore[union-attr]


def wanting(name: str, level: str = "mid", **pod: Any) -> list[Change]:
    """A job of one pod that wants in."""
    return coming(World().wants(name, level=level, **pod))


def of_a_port(engine: Any, *more: Sequence[Change]) -> Rig:
    """A rig in which x-0 has just been promised port 80, which v-0 holds; three cores are free, and x-0 wants three."""
    world = World()
    world.node("n1", cpu=4)
    on = a_rig(world.runs("v", spec=port()).wants("x", spec=port(cpu=3)), PREEMPT, engine)
    decision = cycle(on)
    assert (decision.evictions, nominations(decision)) == (["v-0"], {"x-0": "n1"})
    return on


# -- while others leave -----------------------------------------------------------------------------------------------


def test_nothing_of_the_room_goes_to_a_weaker_pod_while_a_port_is_still_held(engine: Any) -> None:
    on = of_a_port(engine)

    later = cycle(on, *wanting("y", cpu=2))
    assert (later.bindings, later.evictions, nominations(later)) == ({}, [], {"x-0": "n1"})
    assert later.waiting["x-0"].endswith('can go to node "n1" once pods that are being deleted there are gone')

    done = cycle(on, gone(on, "v-0"))
    assert (done.bindings, done.evictions) == ({"x-0": "n1"}, [])


def test_nor_while_a_pod_is_there_that_keeps_it_away(engine: Any) -> None:
    world = World()
    world.node("n1", cpu=4)
    world.runs("v", cpu=1, labels={"app": "loud"}).wants("x", cpu=3, spec=near("loud", "podAntiAffinity"))
    on = a_rig(world, PREEMPT, engine)
    assert cycle(on).evictions == ["v-0"]

    assert cycle(on, *wanting("y", cpu=2)).bindings == {}
    assert cycle(on, gone(on, "v-0")).bindings == {"x-0": "n1"}


@pytest.mark.parametrize("cpu", [1, 0])
def test_a_port_that_has_become_free_is_not_taken_by_a_weaker_pod_that_is_tried_first(engine: Any, cpu: int) -> None:
    """Without an order of queues their names decide; pods that ask for nothing are placed by backfill."""
    world = World()
    world.node("n1", cpu=4).queue("early").queue("late")
    world.runs("v", queue="late", spec=port(cpu=cpu)).wants("x", queue="late", spec=port(cpu=cpu))
    on = a_rig(world, PREEMPT, engine)
    assert cycle(on).evictions == ["v-0"]

    waits = cycle(on, *wanting("y", queue="early", spec=port(cpu=cpu)))
    assert (waits.bindings, waits.evictions, nominations(waits)) == ({}, [], {"x-0": "n1"})
    assert cycle(on, gone(on, "v-0")).bindings == {"x-0": "n1"}


def test_devices_are_held_with_the_rest(engine: Any) -> None:
    """The device is free all the time, the port is not; the weaker pod wants the device alone."""
    world = World()
    world.node("n1", cpu=4)
    for item in (device_class(), part("s", [device("gpu-0")], node="n1", pool="n1")):
        world.add(item)
    for name in ("mine", "theirs"):
        world.add(claim(name, exactly()))
    entries = {name: {"resourceClaims": [{"name": "e", "resourceClaimName": name}]} for name in ("mine", "theirs")}
    on = a_rig(world.runs("v", spec=port()).wants("x", spec={**port(), **entries["mine"]}), PREEMPT, engine)
    assert cycle(on).evictions == ["v-0"]

    assert cycle(on, *wanting("y", cpu=1, spec=entries["theirs"])).bindings == {}
    assert cycle(on, gone(on, "v-0")).bindings == {"x-0": "n1"}


def test_a_gang_waits_as_a_whole_for_ports_that_are_freed_one_by_one(engine: Any) -> None:
    world = World()
    world.node("n1", cpu=4).node("n2", cpu=4)
    world.runs("v", spec=port()).runs("w", on="n2", spec=port()).wants("x", 2, spec=port(cpu=3))
    on = a_rig(world, PREEMPT, engine)
    assert set(nominations(cycle(on)).values()) == {"n1", "n2"}

    half = cycle(on, gone(on, "v-0"), *wanting("y", cpu=2))
    assert (half.bindings, half.evictions) == ({}, [])
    done = cycle(on, gone(on, "w-0"))

    assert set(done.bindings) == {"x-0", "x-1"}


def test_half_a_gang_keeps_nobody_from_the_room(engine: Any) -> None:
    world = World()
    world.node("n1", cpu=4).node("n2", cpu=4)
    world.runs("v", spec=port()).runs("w", on="n2", spec=port()).wants("x", 2, spec=port(cpu=3))
    on = a_rig(world, PREEMPT, engine)
    cycle(on)

    half = cycle(on, gone(on, "v-0"), gone(on, "w-0"), Deleted("Node", "", "n2", "node--n2"), *wanting("y", cpu=3))

    assert half.bindings == {"y-0": "n1"}
    assert nominations(cycle(on)) == {}


def test_a_gang_that_lost_one_of_its_places_keeps_the_other_and_finds_another(engine: Any) -> None:
    world = World()
    world.node("n1", cpu=4).node("n2", cpu=4)
    world.runs("v", 4, cpu=1).runs("w", 4, on="n2", cpu=1).wants("x", 2, cpu=4)
    on = a_rig(world, PREEMPT, engine)
    before = nominations(cycle(on))
    assert set(before.values()) == {"n1", "n2"}
    (stays,) = (pod for pod, node in before.items() if node == "n1")
    more = World()
    more.node("n3", cpu=4)
    more.runs("u", 4, on="n3", cpu=1)

    left = [gone(on, f"w-{index}") for index in range(4)]
    later = cycle(on, *left, Deleted("Node", "", "n2", "node--n2"), *coming(more))

    assert sorted(later.evictions) == ["u-0", "u-1", "u-2", "u-3"]
    now = nominations(later)
    assert (now[stays], set(now.values())) == ("n1", {"n1", "n3"})
    assert nominations(cycle(on)) == now


def test_what_it_costs_to_keep_one_does_not_grow_with_what_happens_on_other_nodes(engine: Any) -> None:
    def moves(others: int) -> int:
        world = World()
        world.node("n1", cpu=4)
        world.runs("v", spec=port()).wants("x", spec=port(cpu=3))
        for number in range(others):
            world.node(f"o{number}", cpu=2).add(leaving(f"l{number}", f"o{number}", cpu="2"))
        on = a_rig(world, PREEMPT, engine)
        assert nominations(cycle(on)) == {"x-0": "n1"}
        before = on.cluster.generations.move
        cycle(on)
        return on.cluster.generations.move - before

    assert moves(1) == moves(20) > 0


# -- whose promise counts ---------------------------------------------------------------------------------------------


def test_a_stronger_pod_takes_the_port_while_it_is_still_held(engine: Any) -> None:
    on = of_a_port(engine)

    taken = cycle(on, *wanting("boss", "top", spec=port()))
    assert (taken.evictions, nominations(taken)) == ([], {"boss-0": "n1"})

    assert cycle(on, gone(on, "v-0")).bindings == {"boss-0": "n1"}


def test_an_equally_strong_pod_does_not(engine: Any) -> None:
    on = of_a_port(engine)

    assert nominations(cycle(on, *wanting("peer", "high", spec=port()))) == {"x-0": "n1"}


def test_where_a_stronger_pod_takes_another_port_the_promise_stands(engine: Any) -> None:
    world = World()
    world.node("n1", cpu=4)
    world.runs("v", spec=port()).runs("w", spec=port(81)).wants("x", spec=port())
    on = a_rig(world, PREEMPT, engine)
    cycle(on)

    taken = cycle(on, *wanting("boss", "top", spec=port(81)))

    assert taken.evictions == ["w-0"]
    assert nominations(taken) == {"boss-0": "n1", "x-0": "n1"}


def test_of_two_that_wait_the_stronger_goes_as_soon_as_there_is_room_for_one(engine: Any) -> None:
    """Two slots are being freed; the weaker one's promise does not keep the stronger waiting for both."""
    world = World()
    world.node("n1", cpu=8, pods=2)
    on = a_rig(world.runs("v", 2, cpu=1).wants("x", cpu=1), PREEMPT, engine)
    first = cycle(on).evictions
    second = cycle(on, *wanting("y", cpu=1)).evictions
    assert len({*first, *second}) == 2

    half = cycle(on, gone(on, second[0]))
    assert (half.bindings, nominations(half)["y-0"]) == ({"x-0": "n1"}, "n1")
    assert cycle(on, gone(on, first[0])).bindings == {"y-0": "n1"}


def test_to_let_the_stronger_go_first_helps_nobody_who_was_tried_before(engine: Any) -> None:
    world = World()
    world.node("n1", cpu=8, pods=2).queue("early").queue("late")
    on = a_rig(world.runs("v", 2, queue="late", cpu=1).wants("x", queue="late", cpu=1), PREEMPT, engine)
    cycle(on)
    second = cycle(on, *wanting("y", queue="late", cpu=1)).evictions

    half = cycle(on, gone(on, second[0]), *wanting("big", queue="early", cpu=100))

    assert half.bindings == {"x-0": "n1"}
    assert on.cluster.jobs["default/big"].unschedulable_at == on.cluster.generations.requeue


# -- the end of a promise ---------------------------------------------------------------------------------------------


def test_it_ends_when_somebody_else_has_the_port(engine: Any) -> None:
    on = of_a_port(engine)
    world = World()
    stranger = world.pod("stranger", on="n1", spec={**port(), "schedulerName": "other"})

    later = cycle(on, gone(on, "v-0"), *coming(stranger), *wanting("y", cpu=2))  # type: ignore[arg-type]

    assert nominations(later) == {}
    assert later.bindings == {"y-0": "n1"}


def test_it_ends_when_the_node_will_not_do_any_more_and_room_is_made_elsewhere(engine: Any) -> None:
    on = of_a_port(engine)
    tainted = a_cluster().node("n1", cpu=4, taints=[{"key": "broken", "effect": "NoSchedule"}])
    other = World()
    other.node("n2", cpu=4)
    other.runs("w", on="n2", spec=port())

    later = cycle(on, *tainted.changes(), *coming(other))

    assert (later.evictions, nominations(later)) == (["w-0"], {"x-0": "n2"})


def shown(world: World, engine: Any, *names: str) -> dict[str, str]:
    """What a session without evictions leaves of nominations to n1 that the API server shows of these pods."""
    for item in world.objects:
        if item["metadata"]["name"] in names:
            item["status"]["nominatedNodeName"] = "n1"
    on = a_rig(world, conf("allocate", "priority gang", "predicates"), engine)
    assert nominations_in(on.cluster) == dict.fromkeys(names, "n1")
    return nominations(cycle(on))


def test_of_two_the_stronger_keeps_it_when_the_node_has_room_for_one_only(engine: Any) -> None:
    world = World()
    world.node("n1", cpu=2)
    world.add(leaving("v", "n1", cpu="2")).wants("a", level="mid", cpu=2).wants("x", cpu=2)

    assert shown(world, engine, "a-0", "x-0") == {"x-0": "n1"}


def test_it_stands_when_it_counts_on_another_that_is_kept_after_it(engine: Any) -> None:
    """The follower is older, so its promise is looked at first; it may go only where its leader is."""
    world = World()
    world.node("n1", cpu=4).group("x", minimum=2, priorityClassName="high")
    world.add(leaving("v", "n1", cpu="4"))
    old, young = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    world.member("follower", "x", "high", near("lead"), created=old, cpu=2)
    world.member("leader", "x", "high", labels={"app": "lead"}, created=young, cpu=2)

    assert shown(world, engine, "follower", "leader") == {"follower": "n1", "leader": "n1"}
