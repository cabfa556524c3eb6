"""Cases of kube-scheduler's integration tests of PodGroups: ``test/integration/scheduler/podgroup/podgroup_test.go``.

G11 is G10 here, as all gates are on. G15 and G16 are differences of volsched's (`tests.cluster.native.ours`). G17 looks
into kube-scheduler's own process.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.cluster.native.stage import NativeStage

NOT_FEASIBLE = "0/1 placements are available, first placement status: pod group is unschedulable"


def g1(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.gang("a", 3)
    stage.pods("a", 3, group="a")
    stage.expect(a=3)
    stage.expect_condition("a", "True", "Scheduled")


def g2(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.gang("a", 3)
    stage.pods("a", 2, group="a")
    stage.expect_held_back("a")
    assert stage.condition("a") is None
    stage.pods("a", 1, group="a", start=2)
    stage.expect(a=3)


def g3(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.pod("filler-0", cpu="2")
    stage.expect(filler=1)
    stage.pods("a", 3, group="a")
    stage.expect_held_back("a")
    stage.gang("a", 3)
    stage.expect_waiting({"a-0", "a-1", "a-2"})
    stage.expect_condition("a", "False", "Unschedulable", NOT_FEASIBLE)
    stage.delete("filler-0")
    stage.expect(a=3)
    stage.expect_condition("a", "True", "Scheduled")


def g4(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.pod("filler-0")
    stage.expect(filler=1)
    stage.pods("a", 4, group="a")
    stage.gang("a", 3)
    stage.expect(a=3)
    stage.delete("filler-0")
    stage.expect(a=4)


def g5(stage: NativeStage) -> None:
    _two_gangs(stage, "a", "b")
    stage.expect(a=3, b=0)
    stage.expect_waiting({"b-0", "b-1", "b-2"})


def g6(stage: NativeStage) -> None:
    _two_gangs(stage, "b", "a")
    stage.expect(a=0, b=3)
    stage.expect_waiting({"a-0", "a-1", "a-2"})


def _two_gangs(stage: NativeStage, first: str, second: str) -> None:
    stage.node("n", 4)
    stage.gang("a", 3)
    stage.gang("b", 3)
    for number in range(3):
        stage.pod(f"{first}-{number}", group=first)
        stage.pod(f"{second}-{number}", group=second)


def g7(stage: NativeStage) -> None:
    _preempt_the_filler(stage, stage.gang, 3)


def _preempt_the_filler(stage: NativeStage, make: Callable[..., None], *least: int) -> None:
    stage.node("n", 4)
    stage.pod("filler-0", cpu="2", priority="low")
    stage.expect(filler=1)
    make("a", *least, priorityClassName="high")
    stage.pods("a", 4, group="a", priority="high")
    stage.expect(a=4, filler=0)
    stage.expect_condition("a", "True", "Scheduled")


def g8(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.basic("a")
    stage.pods("a", 1, group="a")
    stage.expect(a=1)
    stage.pods("a", 2, group="a", start=1)
    stage.expect(a=3)


def g9(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.pod("filler-0", cpu="2")
    stage.expect(filler=1)
    stage.pods("a", 3, group="a")
    stage.expect_held_back("a")
    stage.basic("a")
    stage.expect(a=2)
    stage.delete("filler-0")
    stage.expect(a=3)


def g10(stage: NativeStage) -> None:
    _preempt_the_filler(stage, stage.basic)


def g12(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.pods("low", 4, priority="low")
    stage.expect(low=4)
    stage.gang("a", 3, priorityClassName="high")
    stage.pods("a", 4, group="a", priority="high")
    stage.expect(a=4, low=0)


def g13(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.pods("least", 2, priority="very-low")
    stage.pods("low", 2, priority="low")
    stage.expect(least=2, low=2)
    stage.gang("a", 2, priorityClassName="middle")
    stage.pods("a", 2, group="a", priority="middle")
    stage.expect(a=2, least=0, low=2)


def g14(stage: NativeStage) -> None:
    stage.node("n", 4)
    stage.pods("low", 4, priority="low")
    stage.expect(low=4)
    stage.gang("a", 3, priorityClassName="high", disruptionMode="PodGroup")
    stage.pods("a", 4, group="a", priority="high")
    stage.expect(a=4, low=0)
    for number in range(4):
        stage.expect_event(f"low-{number}", "Preempted")
    messages = [each["message"] for number in range(4) for each in stage.events(f"low-{number}", "Preempted")]
    assert all(text.startswith("Preempted by podgroup ") for text in messages), messages


CASES = (g1, g2, g3, g4, g5, g6, g7, g8, g9, g10, g12, g13, g14)
