"""Where volsched differs from kube-scheduler on purpose (docs/native-gangs.md)."""

from __future__ import annotations

from tests.cluster.native.situations import GATE
from tests.cluster.native.stage import KEY, NativeStage


def v_finished_members_count(stage: NativeStage) -> None:
    """So that an index of a Job whose fellows are done can come back."""
    stage.node("n", 4)
    stage.gang("a", 3)
    stage.pods("a", 3, group="a", annotations={"volsched.test/run-for": "100ms"})
    stage.expect_finished("a-0", "a-1", "a-2")
    stage.pods("late", 1, group="a")
    stage.expect(late=1)


def v_group_that_lacks_members_reports_it(stage: NativeStage) -> None:
    """On the group alone: a condition of its pods would make an autoscaler act."""
    stage.node("n", 4)
    stage.gang("a", 3)
    stage.pods("a", 2, group="a")
    stage.expect_event("a", "NotEnoughTasks")
    stage.expect_held_back("a")


def v_gated_member_is_waited_for_without_a_condition(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.gang("a", 3)
    stage.pods("a", 2, group="a")
    stage.pod("a-2", group="a", schedulingGates=GATE)
    stage.expect_held_back("a")
    assert stage.condition("a") is None


def v_lone_pod_takes_a_whole_group_or_none_of_it(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.gang("whole", 3, priorityClassName="low", disruptionMode="PodGroup")
    stage.pods("whole", 3, group="whole", priority="low")
    stage.expect(whole=3)
    stage.pod("lone-0", priority="high")
    stage.expect(lone=1, whole=0)


def v_group_with_a_topology_key_preempts(stage: NativeStage) -> None:
    """G15 and G16: kube-scheduler preempts for none that has a key."""
    stage.racks(r1=2)
    stage.pods("least", 2, priority="very-low")
    stage.pods("low", 2, priority="low")
    stage.expect(least=2, low=2)
    stage.gang("a", 2, KEY, priorityClassName="middle")
    stage.pods("a", 2, group="a", priority="middle")
    stage.expect(a=2, least=0, low=2)


CASES = (
    v_finished_members_count,
    v_group_that_lacks_members_reports_it,
    v_gated_member_is_waited_for_without_a_condition,
    v_lone_pod_takes_a_whole_group_or_none_of_it,
    v_group_with_a_topology_key_preempts,
)
