"""Pods behind the gate of their queue: let in by the queue alone, and Unschedulable only once they are in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actions.rigs import conf, cycle, quota, rig
from tests.mirror import objects
from volsched.model.changes import Put
from volsched.model.plan import Bind, LiftGate, RecordEvent, WritePodCondition
from volsched.testing.builders import ClusterBuilder, CycleDecision, Rig, a_cluster

GATE = "scheduling.volcano.sh/queue-allocation-gate"
CONFIGURATION = conf("enqueue, allocate, backfill")


def a_world(**group: Any) -> ClusterBuilder:
    return a_cluster().node("n1", cpu="4").queue("q").group("g", "q", **group)


def gated(cpu: int, *gates: str) -> Put:
    return objects.pod("p", "g", gates=gates, cpu=cpu)


def kinds(decision: CycleDecision) -> set[type]:
    """What is done about the pod."""
    about = (Bind, LiftGate, WritePodCondition, RecordEvent)
    return {type(step) for step in decision.steps if isinstance(step, about) and step.name == "p"}


def a_rig_with_quota() -> Rig:
    return rig(a_world(), CONFIGURATION, quota({"q": 8_000}))


def test_the_gate_is_lifted_then_the_pod_is_placed() -> None:
    on = a_rig_with_quota()

    assert kinds(cycle(on, gated(1, GATE))) == {LiftGate}
    assert kinds(cycle(on)) == set(), "it is being lifted"
    assert kinds(cycle(on, gated(1))) == {Bind}


@pytest.mark.parametrize("cpu", [0, 5])
def test_no_room_on_nodes_keeps_no_gate_and_the_pod_is_unschedulable_once_it_is_gone(cpu: int) -> None:
    on = rig(a_world(), CONFIGURATION)

    nowhere = {"nodeSelector": {"a": "b"}}

    assert kinds(cycle(on, objects.pod("p", "g", gates=[GATE], spec=nowhere, cpu=cpu))) == {LiftGate}
    decision = cycle(on, objects.pod("p", "g", spec=nowhere, cpu=cpu))
    assert kinds(decision) == {WritePodCondition, RecordEvent}


def test_a_queue_that_does_not_take_it_on_says_so_and_the_pod_stays_gated() -> None:
    on = a_rig_with_quota()

    assert kinds(cycle(on, gated(9, GATE))) == {RecordEvent}
    assert kinds(cycle(on, gated(9))) == {WritePodCondition, RecordEvent}, "somebody else took the gate away"


def test_a_job_that_waits_as_a_whole_does_not_make_gated_pods_unschedulable() -> None:
    on = rig(a_world(minimum=2), CONFIGURATION)

    assert WritePodCondition not in kinds(cycle(on, gated(1, GATE)))


def test_gates_of_others_come_first() -> None:
    on = a_rig_with_quota()

    assert kinds(cycle(on, gated(1, GATE, "example.com/wait"))) == set()
    assert kinds(cycle(on, gated(1, GATE))) == {LiftGate}
