"""Devices by what is deserved: who takes them back, from whom, and when they can be had."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.calls import call, text_of
from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from tests.plugins.capacity_dra.test_capacity_dra import wanting
from tests.plugins.predicates.test_devices import using
from volsched.framework.engine.fast import FastEngine
from volsched.model.changes import Deleted
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster, a_rig
from volsched.testing.contract import ENGINES
from volsched.testing.recount import faults

with_engines = pytest.mark.parametrize("engine", ENGINES)


def configuration(plugin: str = "name: capacity-dra", actions: str = "enqueue, allocate, reclaim, backfill") -> str:
    return f"""
actions: "{actions}"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - {plugin}
  - name: predicates
"""


CONFIGURATION = configuration("name: capacity-dra")


def dra(capability: int | None = 8, **said: int) -> dict[str, Any]:
    """spec.dra of a queue: what it may hold, deserves and is guaranteed."""
    limits = {} if capability is None else {"capability": {"gpu": {"count": capability}}}
    return {"dra": {**limits, **{block: {"gpu": {"count": count}} for block, count in said.items()}}}


def held(name: str, devices: tuple[str, ...], *users: str) -> dict[str, Any]:
    """A claim that has these devices, and the pods that use it."""
    found = claim(name, exactly(cls="gpu", count=len(devices)))
    results = [{"request": "r0", "driver": "gpu.example.com", "pool": "gpu", "device": one} for one in devices]
    reserved = [{"resource": "pods", "name": user, "uid": f"pod-default-{user}"} for user in users]
    found["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    return found


def a_world(
    q1: dict[str, Any], q2: dict[str, Any], *, minimum: int = 1, wanted: int = 3, cpu: Any = 64
) -> ClusterBuilder:
    """Four devices, each held by a pod of a gang of q1; pods of q2 want one each."""
    cluster = a_cluster().node("n1", cpu=cpu).queue("q1", **q1).queue("q2", **q2)
    cluster.add(device_class("gpu", driver="gpu.example.com"))
    offers = [device(f"d{number}") for number in range(4)]
    cluster.add(part("s", offers, driver="gpu.example.com", pool="gpu"))
    cluster.group("rich", "q1", minimum, "Running")
    for number in range(4):
        name = f"rich-{number}"
        cluster.add(held(name, (f"d{number}",), name)).pod(name, "rich", on="n1", cpu="1", spec=using(name))
    for number in range(wanted):
        wanting(cluster, f"w{number}", exactly(cls="gpu"), queue="q2")
    return cluster


def evicted(cluster: ClusterBuilder, text: str = CONFIGURATION, engine: Any = FastEngine) -> list[str]:
    rig = a_rig(cluster, text, engine)
    decision = rig.cycle()
    assert faults(rig.cluster) == []
    return sorted(decision.evictions)


@with_engines
@pytest.mark.parametrize(
    ("q1", "q2", "taken"),
    [
        (dra(), dra(), 0),
        (dra(deserved=2), dra(deserved=2), 2),
        (dra(), dra(deserved=2), 2),
        (dra(), dra(guarantee=1), 1),
        (dra(deserved=3), dra(deserved=4), 1),
        (dra(guarantee=2), dra(deserved=4), 2),
        (dra(deserved=4), dra(deserved=4), 0),
        (dra(deserved=2), dra(), 0),
        (dra(), dra(1, deserved=2), 1),
        ({**dra(), "reclaimable": False}, dra(deserved=2), 0),
        (dra(None), dra(None, deserved=2), 2),
    ],
)
def test_a_queue_takes_back_what_it_deserves(engine: Any, q1: Any, q2: Any, taken: int) -> None:
    assert len(evicted(a_world(q1, q2), engine=engine)) == taken


def test_the_devices_are_had_once_the_claims_of_victims_are_cleaned_up() -> None:
    """Between the pod's end and its claim's, the room is kept, nothing is bound, and nobody else goes."""
    rig = a_rig(a_world(dra(), dra(deserved=2)), CONFIGURATION)
    gone = rig.cycle().evictions
    assert len(gone) == 2

    assert rig.cycle().evictions == []
    after = rig.cycle(*[Deleted("Pod", "default", name, f"pod-default-{name}") for name in gone])
    assert (after.evictions, after.bindings) == ([], {})
    assert sorted(task.name for task in nominated(rig)) == ["w0", "w1"]

    clean = rig.cycle(*[Deleted("ResourceClaim", "default", name, f"uid-{name}") for name in gone])
    assert clean.bindings == {"w0": "n1", "w1": "n1"}
    assert rig.cluster.devices.unclean == {}


def nominated(rig: Rig) -> list[Any]:
    return [task for task in rig.cluster.tasks.values() if task.nominated]


def test_a_claim_that_others_use_as_well_frees_nothing() -> None:
    cluster = a_cluster().node("n1").queue("q1", **dra()).queue("q2", **dra(deserved=2))
    cluster.add(device_class("gpu", driver="gpu.example.com"))
    cluster.add(part("s", [device("d0")], driver="gpu.example.com", pool="gpu"))
    cluster.add(held("shared", ("d0",), "one", "two")).group("g", "q1", 1, "Running")
    for name in ("one", "two"):
        cluster.pod(name, "g", on="n1", cpu="1", spec=using("shared"))
    wanting(cluster, "w", exactly(cls="gpu"), queue="q2")

    assert evicted(cluster) == []


def test_a_gang_that_shares_a_claim_goes_as_a_whole() -> None:
    cluster = a_cluster().node("n1").queue("q1", **dra()).queue("q2", **dra(deserved=2))
    cluster.add(device_class("gpu", driver="gpu.example.com"))
    cluster.add(part("s", [device("d0")], driver="gpu.example.com", pool="gpu"))
    cluster.add(held("shared", ("d0",), "one", "two")).group("g", "q1", 2, "Running")
    for name in ("one", "two"):
        cluster.pod(name, "g", on="n1", cpu="1", spec=using("shared"))
    wanting(cluster, "w", exactly(cls="gpu"), queue="q2")

    assert evicted(cluster) == ["one", "two"]


def test_gangs_go_as_a_whole_and_not_below_what_their_queue_deserves() -> None:
    assert len(evicted(a_world(dra(), dra(deserved=1), minimum=4))) == 4
    assert evicted(a_world(dra(deserved=1), dra(deserved=1), minimum=4)) == []


def test_pods_without_devices_may_go_for_other_room_while_the_queue_does_not_say() -> None:
    cluster = a_world(dra(), dra(), wanted=0, cpu=5)
    cluster.group("plain", "q1", 0, "Running").pod("plain", "plain", on="n1", cpu="1")
    cluster.add(part("t", [device("e0")], driver="gpu.example.com", pool="more"))
    wanting(cluster, "w", exactly(cls="gpu"), queue="q2")

    assert evicted(cluster) == ["plain"]


@pytest.mark.parametrize("tree", ["false", "true"])
def test_with_capacity_a_queue_that_deserves_no_cpu_takes_devices_back(tree: str) -> None:
    text = configuration(f"{{name: capacity, enableHierarchy: {tree}}}")

    assert len(evicted(a_world(dra(), dra(deserved=2)), text)) == 2
    assert evicted(a_world(dra(), dra()), text) == []


def test_with_capacity_in_the_deciding_tier_both_have_to_agree() -> None:
    text = configuration("name: capacity").replace("- plugins:\n  - name: capacity\n", "  - name: capacity\n")
    q1 = {**dra(), "deserved": {"cpu": "4"}}

    assert evicted(a_world(q1, dra(deserved=2)), text) == []


def test_the_department_is_held_to_what_it_deserves() -> None:
    text = configuration("{name: capacity-dra, enableHierarchy: true}")
    for deserved, taken in ((None, 2), (4, 2), (1, 1), (0, 0)):
        above = dra() if deserved is None else dra(deserved=deserved)
        cluster = a_world(dra(), {**dra(deserved=2), "parent": "one"}).queue("one", **above)

        assert len(evicted(cluster, text)) == taken


def test_below_a_queue_with_a_quota_guarantees_of_others_are_kept() -> None:
    text = configuration("{name: capacity-dra, enableHierarchy: true}")
    cluster = a_cluster().node("n1").queue("one", **dra(4)).queue("q1", parent="one", **dra(8))
    cluster.queue("q2", parent="one", **dra(8, guarantee=1)).queue("q3", parent="one", **dra(8, guarantee=2))
    cluster.add(device_class("gpu", driver="gpu.example.com"))
    cluster.add(part("s", [device(f"d{n}") for n in range(8)], driver="gpu.example.com", pool="gpu"))
    for number in range(4):
        wanting(cluster, f"w{number}", exactly(cls="gpu"), queue="q1")

    decision = a_rig(cluster, text).cycle()

    assert len(decision.bindings) == 1
    assert "used 1, total would be 2, but capability is 1" in decision.waiting["w3"]


def test_the_queue_with_the_smaller_part_of_its_due_goes_first() -> None:
    cluster = a_cluster().node("n1").queue("q1", **dra(deserved=8)).queue("q2", **dra(deserved=4)).queue("q3", **dra())
    cluster.add(device_class("gpu", driver="gpu.example.com"))
    cluster.add(part("s", [device(f"d{n}") for n in range(4)], driver="gpu.example.com", pool="gpu"))
    for queue in ("q1", "q2"):
        cluster.add(held(f"h{queue}", (f"d{queue[1]}",), f"h{queue}")).group(f"h{queue}", queue, 1, "Running")
        cluster.pod(f"h{queue}", f"h{queue}", on="n1", cpu="1", spec=using(f"h{queue}"))
    for queue in ("q3", "q2", "q1"):
        wanting(cluster, f"w{queue}", exactly(cls="gpu"), queue=queue)

    assert list(a_rig(cluster, CONFIGURATION).cycle().bindings) == ["wq1", "wq2"]


def test_volsched_queue_shows_what_is_deserved_and_could_be_reclaimed() -> None:
    given = text_of(*a_world(dra(deserved=1, guarantee=1), dra(deserved=2)).objects)
    found = json.loads(call("queue", "list", "-o", "json", "-f", "-", given=given).stdout)["devices"]

    rows = {row["queue"]: [row.get(name) for name in ("deserved", "guarantee", "used", "reclaimable")] for row in found}
    assert (rows["q1"], rows["q2"]) == ([1, 1, 4, 3], [2, None, 0, 0])


def test_metrics_say_it_too() -> None:
    report = a_rig(a_world(dra(deserved=3), dra(deserved=2)), configuration(actions="allocate")).cycle().report
    numbers = {series.name: dict(values) for series, values in report.series}

    assert numbers["volcano_queue_dra_deserved"] == {("q1", "gpu", "count"): 3, ("q2", "gpu", "count"): 2}
    assert numbers["volsched_queue_dra_reclaimable"] == {("q1", "gpu", "count"): 1}
