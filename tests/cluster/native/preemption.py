"""Cases of kube-scheduler's ``test/integration/scheduler/preemption/podgrouppreemption_test.go``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.cluster.native.stage import NativeStage


def p1(stage: NativeStage) -> None:
    _take_a_node(stage, stage.gang, 3)


def p2(stage: NativeStage) -> None:
    _take_a_node(stage, stage.basic)


def _take_a_node(stage: NativeStage, make: Callable[..., None], *least: int) -> None:
    stage.node("n", 3)
    stage.pods("low", 3, priority="low")
    stage.expect(low=3)
    make("a", *least, priorityClassName="high")
    stage.pods("a", 3, group="a", priority="high")
    stage.expect(a=3, low=0)


def p3(stage: NativeStage) -> None:
    _take_the_wide_one(stage, "low", stage.gang, 3)


def p4(stage: NativeStage) -> None:
    _take_the_wide_one(stage, "very-low", stage.basic)


def _take_the_wide_one(stage: NativeStage, priority: str, make: Callable[..., None], *least: int) -> None:
    stage.node("n", 2)
    stage.node("m", 2)
    stage.pod("wide-0", cpu="2", node="n", priority=priority)
    stage.pod("small-0", node="m", priority="low")
    stage.expect(wide=1, small=1)
    make("a", *least, priorityClassName="high")
    stage.pods("a", 3, group="a", priority="high")
    stage.expect(a=3, wide=0, small=1)


def p5(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.pods("kept", 2, priority="low", labels={"app": "kept"})
    stage.pod("free-0", priority="low")
    stage.expect(kept=2, free=1)
    stage.budget("kept", 2)
    stage.gang("a", 2, priorityClassName="high")
    stage.pods("a", 2, group="a", priority="high", cpu="500m")
    stage.expect(a=2, kept=2, free=0)


def p6(stage: NativeStage) -> None:
    stage.node("n", 2)
    stage.node("m", 2)
    stage.pods("low", 4, priority="low")
    stage.expect(low=4)
    stage.gang("a", 4, priorityClassName="high")
    stage.pods("a", 4, group="a", priority="high")
    stage.expect(a=4, low=0)


def p7(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.pod("top-0", priority="highest")
    stage.pods("low", 2, priority="low")
    stage.expect(top=1, low=2)
    stage.gang("a", 3, priorityClassName="high")
    stage.pods("a", 3, group="a", priority="high")
    stage.expect_waiting({"a-0", "a-1", "a-2"})
    stage.expect(a=0, top=1, low=2)


def p8(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.pod("middle-0", priority="middle")
    stage.pods("low", 2, priority="low")
    stage.expect(middle=1, low=2)
    stage.gang("a", 2, priorityClassName="high")
    stage.pods("a", 2, group="a", priority="high")
    stage.expect(a=2, middle=1, low=0)


def p9(stage: NativeStage) -> None:
    _whole_group_goes(stage, stage.gang, 3)


def p10(stage: NativeStage) -> None:
    _whole_group_goes(stage, stage.basic)


def _whole_group_goes(stage: NativeStage, make: Callable[..., None], *least: int) -> None:
    stage.node("n", 3)
    make("whole", *least, priorityClassName="low", disruptionMode="PodGroup")
    stage.pods("whole", 3, group="whole", priority="low")
    stage.expect(whole=3)
    _ask_for_one(stage, group="high", pods="high")
    stage.expect(a=1)
    stage.expect_gone("whole-0", "whole-1", "whole-2")


def _ask_for_one(stage: NativeStage, **priorities: Any) -> None:
    stage.gang("a", 1, priorityClassName=priorities["group"])
    stage.pods("a", 1, group="a", priority=priorities["pods"])


def p11(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.gang("whole", 3, priorityClassName="low", disruptionMode="PodGroup")
    stage.pods("whole", 3, group="whole", priority="high")
    stage.expect(whole=3)
    _ask_for_one(stage, group="high", pods="low")
    stage.expect(a=1)
    stage.expect_gone("whole-0", "whole-1", "whole-2")


def p12(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.gang("whole", 3, priorityClassName="high", disruptionMode="PodGroup")
    stage.pods("whole", 3, group="whole", priority="low")
    stage.expect(whole=3)
    _ask_for_one(stage, group="low", pods="high")
    stage.expect_waiting({"a-0"})
    stage.expect(a=0, whole=3)


def p13(stage: NativeStage) -> None:
    stage.node("n", 3)
    stage.gang("many", 3)
    for number, priority in enumerate(("middle", "low", "very-low")):
        stage.pod(f"many-{number}", group="many", priority=priority)
    stage.expect(many=3)
    stage.pod("lone-0", priority="high")
    stage.expect(lone=1, many=2)
    stage.expect_gone("many-2")


CASES = (p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13)
