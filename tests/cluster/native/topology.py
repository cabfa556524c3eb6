"""Cases of kube-scheduler's ``test/integration/scheduler/podgroup/topology_aware_scheduling/tas_test.go``.

Nodes have two cpus. The numbers say how full a rack would be: more members first, then the fuller rack.
"""

from __future__ import annotations

from tests.cluster.native.stage import KEY, NativeStage

ZONE = "zone"


def t1(stage: NativeStage) -> None:
    stage.racks(r1=3, r2=2, r3=1)
    _fill(stage, "r2-0")
    _gang(stage, "a", 3, cpu="2")
    stage.expect(a=3)
    assert stage.on_racks("a") == {"r1"}


def t2(stage: NativeStage) -> None:
    stage.racks(r1=2, r2=1, r3=1)
    _gang(stage, "a", 3, cpu="2")
    stage.expect_waiting({"a-0", "a-1", "a-2"})
    stage.expect(a=0)


def t3(stage: NativeStage) -> None:
    stage.racks(r1=3)
    _fill(stage, "r1-0", "r1-1")
    _gang(stage, "a", 3)
    stage.expect_waiting({"a-0", "a-1", "a-2"})
    stage.delete("filler-r1-0")
    stage.expect(a=3)


def t4(stage: NativeStage) -> None:
    """3/4 against 3/6."""
    stage.racks(r1=2, r2=3, r3=1)
    _gang(stage, "a", 3)
    stage.expect(a=3)
    assert stage.on_racks("a") == {"r1"}


def t5(stage: NativeStage) -> None:
    """3/4, 5/6, 4/6."""
    stage.racks(r1=2, r2=3, r3=3, r4=1)
    _fill(stage, "r2-0")
    _fill(stage, "r3-0", cpu="1")
    _gang(stage, "a", 3)
    stage.expect(a=3)
    assert stage.on_racks("a") == {"r2"}


def t6(stage: NativeStage) -> None:
    stage.racks(r1=3, r2=2)
    _gang(stage, "a", 3, cpu="2")
    stage.expect(a=3)
    _gang(stage, "b", 2, cpu="2")
    stage.expect(b=2)
    assert (stage.on_racks("a"), stage.on_racks("b")) == ({"r1"}, {"r2"})


def t7(stage: NativeStage) -> None:
    stage.racks(r1=3, r2=1)
    stage.gang("a", 2, KEY)
    stage.pod("a-0", group="a", cpu="2")
    stage.pod("a-1", group="a")
    stage.expect(a=2)
    _gang(stage, "b", 3)
    stage.expect(b=3)
    assert (stage.on_racks("a"), stage.on_racks("b")) == ({"r1"}, {"r1"})


def t8(stage: NativeStage) -> None:
    stage.racks({ZONE: "z1"}, r1=2, r2=1)
    stage.racks({ZONE: "z2"}, r3=3)
    _gang(stage, "a", 3, cpu="2")
    stage.expect(a=3)
    _gang(stage, "b", 3, ZONE, cpu="2")
    stage.expect(b=3)
    assert (stage.on_racks("a"), stage.on_racks("b")) == ({"r3"}, {"r1", "r2"})


def t9(stage: NativeStage) -> None:
    stage.racks(r1=2)
    _gang(stage, "a", 3)
    stage.expect(a=3)
    _gang(stage, "b", 2)
    stage.expect_waiting({"b-0", "b-1"})
    stage.expect(a=3, b=0)


def t10(stage: NativeStage) -> None:
    stage.racks(r1=2, r2=2)
    stage.gang("a", 2, KEY)
    stage.pods("a", 3, group="a")
    stage.expect(a=3)
    assert len(stage.on_racks("a")) == 1


def t11(stage: NativeStage) -> None:
    stage.racks(r1=3, r2=2, r3=1)
    _gang(stage, "a", 3)
    stage.expect(a=3)
    stage.pods("a", 1, group="a", start=3)
    stage.expect(a=4)
    stage.pods("a", 1, group="a", start=4)
    stage.expect_waiting({"a-4"})
    stage.expect(a=4)
    assert stage.on_racks("a") == {"r2"}


def t12(stage: NativeStage) -> None:
    stage.racks(r1=2)
    _fill(stage, "r1-0")
    _gang(stage, "a", 3)
    stage.expect_waiting({"a-0", "a-1", "a-2"})
    stage.expect(a=0)


def t13(stage: NativeStage) -> None:
    stage.racks(r1=2)
    _basic(stage, "a", 3)
    stage.expect(a=3)


def t14(stage: NativeStage) -> None:
    stage.racks(r1=2, r2=2, r3=2)
    _basic(stage, "a", 3)
    stage.expect(a=3)
    assert len(stage.on_racks("a")) == 1


def t15(stage: NativeStage) -> None:
    stage.racks(r1=1, r2=1)
    _basic(stage, "a", 3)
    stage.expect(a=2)
    assert len(stage.on_racks("a")) == 1


def t16(stage: NativeStage) -> None:
    stage.racks(r1=2)
    _basic(stage, "a", 2, cpu="3")
    stage.expect_waiting({"a-0", "a-1"})
    stage.expect(a=0)


def t17(stage: NativeStage) -> None:
    stage.racks(r1=2)
    stage.basic("a", KEY)
    stage.pod("a-0", group="a", cpu="3")
    stage.pod("a-1", group="a")
    stage.expect(a=1)
    stage.expect_bound("a-1")


def t18(stage: NativeStage) -> None:
    """1/4 against 1/6 with the first pod, 3/4 against 3/6 with all."""
    stage.racks(r1=2, r2=3)
    _basic(stage, "a", 3)
    stage.expect(a=3)
    assert stage.on_racks("a") == {"r1"}


def t19(stage: NativeStage) -> None:
    """1/4 against 3/6 with the first pod, 3/4 against 5/6 with all."""
    stage.racks(r1=2, r2=3)
    _fill(stage, "r2-0")
    _basic(stage, "a", 3)
    stage.expect(a=3)
    assert stage.on_racks("a") == {"r2"}


def t20(stage: NativeStage) -> None:
    """3/8 against 1/2."""
    stage.racks(r1=4, r2=1)
    _fill(stage, "r1-0")
    _basic(stage, "a", 1)
    stage.expect(a=1)
    stage.pods("a", 2, group="a", start=1)
    stage.expect(a=2)
    assert stage.on_racks("a") == {"r2"}


def t21(stage: NativeStage) -> None:
    stage.racks(r1=2, r2=2)
    for name in ("a", "b"):
        stage.pods(name, 3, group=name)
        stage.basic(name, KEY)
        stage.expect(**{name: 3})
    assert stage.on_racks("a") != stage.on_racks("b")


def t22(stage: NativeStage) -> None:
    stage.racks(r1=2)
    for name, bound in (("a", 3), ("b", 1)):
        _basic(stage, name, 3)
        stage.expect(**{name: bound})


def t23(stage: NativeStage) -> None:
    stage.racks({ZONE: "z1"}, r1=2)
    stage.racks({ZONE: "z2"}, r2=2)
    for name, key in (("a", KEY), ("b", ZONE)):
        stage.pods(name, 3, group=name)
        stage.basic(name, key)
        stage.expect(**{name: 3})
    assert stage.on_racks("a") != stage.on_racks("b")


def t24(stage: NativeStage) -> None:
    stage.racks(r1=2, r2=1)
    stage.pods("a", 3, group="a", cpu="2")
    stage.basic("a", KEY)
    stage.expect(a=2)
    _basic(stage, "b", 1, cpu="2")
    stage.expect(a=2, b=1)
    assert (stage.on_racks("a"), stage.on_racks("b")) == ({"r1"}, {"r2"})


def t25(stage: NativeStage) -> None:
    stage.racks(r1=1, r2=1)
    _fill(stage, "r1-0", cpu="1")
    _basic(stage, "a", 1)
    stage.expect(a=1)
    stage.pods("a", 1, group="a", start=1)
    stage.expect_waiting({"a-1"})
    stage.delete("filler-r1-0")
    stage.expect(a=2)
    assert stage.on_racks("a") == {"r1"}


def _fill(stage: NativeStage, *nodes: str, cpu: str = "2") -> None:
    for node in nodes:
        stage.pod(f"filler-{node}", cpu=cpu, node=node)
    for node in nodes:
        stage.expect_bound(f"filler-{node}")


def _gang(stage: NativeStage, name: str, size: int, key: str = KEY, cpu: str = "1") -> None:
    stage.gang(name, size, key)
    stage.pods(name, size, group=name, cpu=cpu)


def _basic(stage: NativeStage, name: str, size: int, cpu: str = "1") -> None:
    stage.basic(name, KEY)
    stage.pods(name, size, group=name, cpu=cpu)


CASES = (
    *(t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13),
    *(t14, t15, t16, t17, t18, t19, t20, t21, t22, t23, t24, t25),
)
