"""What kube-scheduler 1.36 was seen to do in situations of which its own tests have none."""

from __future__ import annotations

from tests.cluster.native.stage import NativeStage

GATE = [{"name": "example.com/later"}]
OTHER = "some-other-scheduler"


def s_room_for_more_than_the_minimum(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.gang("a", 2)
    stage.pods("a", 4, group="a")
    stage.expect(a=3)
    stage.expect_condition("a", "True", "Scheduled")
    stage.expect_number_waiting(1)


def s_one_that_fits_nowhere(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.gang("a", 2)
    stage.pod("a-0", group="a", cpu="64")
    stage.pods("a", 2, group="a", start=1)
    stage.expect(a=2)
    stage.expect_bound("a-1", "a-2")


def s_gated_member_of_three(stage: NativeStage) -> None:
    _one_of_three_is_gated(stage, least=3, before=0)


def s_gated_member_beyond_two(stage: NativeStage) -> None:
    _one_of_three_is_gated(stage, least=2, before=2)


def _one_of_three_is_gated(stage: NativeStage, *, least: int, before: int) -> None:
    stage.node("n", 4)
    stage.gang("a", least)
    stage.pods("a", 2, group="a")
    stage.pod("a-2", group="a", schedulingGates=GATE)
    stage.expect(a=before)
    stage.ungate("a-2")
    stage.expect(a=3)


def s_member_of_another_scheduler(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.gang("a", 3)
    stage.pods("a", 2, group="a")
    stage.pod("foreign-0", group="a", schedulerName=OTHER)
    stage.expect_held_back("a", "foreign")
    assert stage.condition("a") is None
    stage.bind("foreign-0", "n")
    stage.expect(a=2, foreign=1)
    stage.expect_condition("a", "True", "Scheduled")


def s_group_that_nobody_answers_for(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.gang("a", 2)
    stage.pods("a", 2, group="a", schedulerName=OTHER)
    stage.expect_held_back("a")
    assert stage.condition("a") is None


def s_group_that_is_leaving(stage: NativeStage) -> None:
    """Its finalizer keeps it while members run, and new members still start."""
    stage.node("n", 4)
    stage.gang("a", 2)
    stage.pods("a", 2, group="a")
    stage.expect(a=2)
    stage.delete_group("a")
    stage.pods("a", 1, group="a", start=2)
    stage.expect(a=3)
    stage.delete("a-0", "a-1", "a-2")
    stage.expect_group_gone("a")


def s_group_made_anew(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.gang("a", 3)
    stage.pods("a", 2, group="a")
    stage.expect_held_back("a")
    stage.remove_group("a")
    stage.expect_held_back("a")
    stage.gang("a", 2)
    stage.expect(a=2)
    stage.expect_condition("a", "True", "Scheduled")


def s_members_that_are_replaced(stage: NativeStage) -> None:
    """Two of three known members wait; with the third both start, and the condition stayed True."""
    stage.node("n", 4)
    stage.gang("a", 3)
    stage.pods("a", 3, group="a")
    stage.expect(a=3)
    stage.expect_condition("a", "True", "Scheduled")
    stage.delete("a-1", "a-2")
    stage.expect_gone("a-1", "a-2")
    stage.pods("a", 1, group="a", start=3)
    stage.expect(a=1)
    stage.expect_condition("a", "True", "Scheduled")
    stage.pods("a", 1, group="a", start=4)
    stage.expect(a=3)


def s_basic_with_room_for_two(stage: NativeStage) -> None:
    stage.node("n", 2)
    stage.basic("a")
    stage.pods("a", 4, group="a")
    stage.expect(a=2)
    stage.expect_condition("a", "True", "Scheduled")


def s_basic_without_room(stage: NativeStage) -> None:
    stage.node("n", 2)
    stage.basic("a")
    stage.pods("a", 2, group="a", cpu="3")
    stage.expect_waiting({"a-0", "a-1"})
    stage.expect_condition("a", "False", "Unschedulable")


def s_queued_again_for_its_own_pod(stage: NativeStage) -> None:
    """A pod of another group starts nobody; one of its own does (``test/integration/scheduler/queueing``)."""
    stage.node("n", 4)
    stage.gang("a", 2)
    stage.gang("b", 2)
    stage.pods("a", 1, group="a")
    stage.pods("b", 2, group="b")
    stage.expect(a=0, b=2)
    stage.pods("a", 1, group="a", start=1)
    stage.expect(a=2, b=2)


CASES = (
    s_room_for_more_than_the_minimum,
    s_one_that_fits_nowhere,
    s_gated_member_of_three,
    s_gated_member_beyond_two,
    s_member_of_another_scheduler,
    s_group_that_nobody_answers_for,
    s_group_that_is_leaving,
    s_group_made_anew,
    s_members_that_are_replaced,
    s_basic_with_room_for_two,
    s_basic_without_room,
    s_queued_again_for_its_own_pod,
)
