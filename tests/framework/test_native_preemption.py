"""Native groups that take room from others, and as victims: the cases of kube-scheduler's own tests.

Nodes and pods are in cpu. ``filler`` pods run; the group wants room. (`test/integration/scheduler/preemption` and
`test/integration/scheduler/podgroup` of Kubernetes 1.36.)
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.framework.test_native_groups import conditions, members, rig_of
from volsched.framework.config.loading import IN_KUBE_SCHEDULERS_PLACE
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Change
from volsched.model.plan import Evict, RecordEvent
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster, a_member, a_native_group, a_pod, a_rig, put
from volsched.testing.recount import faults

LOW, HIGH = 10, 100


def nodes(*cpus: int) -> ClusterBuilder:
    cluster = a_cluster().queue("default")
    for number, cpu in enumerate(cpus):
        cluster.node(f"n{number}", cpu=cpu)
    return cluster


def filler(name: str, priority: int = LOW, cpu: Any = 1, on: str = "n0", **more: Any) -> Change:
    return put(a_pod(name, on=on, cpu=cpu, spec={"priority": priority, **more}))


def running(group: str, priorities: list[int], mode: str = "Pod", priority: int = 0, **more: Any) -> list[Change]:
    """A group whose pods run on the first node."""
    pods = [
        put(a_member(f"{group}-{n}", group, on="n0", cpu=1, spec={"priority": own})) for n, own in enumerate(priorities)
    ]
    return [put(a_native_group(group, disruptionMode=mode, priority=priority, **more)), *pods]


def wanting(
    count: int, minimum: int | None = None, pods: int = HIGH, group: int = HIGH, cpu: Any = 1, **more: Any
) -> list[Change]:
    spec = {"priority": pods, **more}
    return [put(a_native_group("want", minimum, priority=group)), *members("want", count, cpu=cpu, spec=spec)]


def evicted(cluster: ClusterBuilder, *changes: Change) -> list[str]:
    rig = a_rig(cluster, IN_KUBE_SCHEDULERS_PLACE, settings=MirrorSettings(plain_pods=True))
    found = rig.cycle(*changes).evictions
    assert faults(rig.cluster) == []
    return sorted(found)


LOWS = [filler(f"low-{n}") for n in range(4)]


@pytest.mark.parametrize("minimum", [3, None])
def test_a_group_takes_what_it_needs(minimum: int | None) -> None:
    assert evicted(nodes(3), *LOWS[:3], *wanting(3, minimum)) == ["low-0", "low-1", "low-2"]


@pytest.mark.parametrize("minimum", [3, None])
def test_only_the_pod_that_is_in_the_way_goes(minimum: int | None) -> None:
    large = filler("large", LOW if minimum else 1, cpu=2)

    assert evicted(nodes(2, 2), large, filler("small", on="n1"), *wanting(3, minimum)) == ["large"]


def test_members_beyond_the_minimum_take_room_too() -> None:
    assert len(evicted(nodes(4), *LOWS, *wanting(4, 3))) == 4
    assert evicted(nodes(4), filler("low", cpu=2), *wanting(4, 3)) == ["low"]


def test_over_several_nodes() -> None:
    fillers = [filler(f"low-{n}", on=f"n{n // 2}") for n in range(4)]

    assert len(evicted(nodes(2, 2), *fillers, *wanting(4, 4))) == 4


def test_nobody_goes_when_the_group_could_not_start_anyway() -> None:
    assert evicted(nodes(3), filler("strong", 500), *LOWS[:2], *wanting(3, 3)) == []


def test_the_less_important_go() -> None:
    assert evicted(nodes(3), filler("middle", 50), *LOWS[:2], *wanting(2, 2)) == ["low-0", "low-1"]
    very = [filler(f"very-{n}", 1) for n in range(2)]
    assert evicted(nodes(4), *very, *LOWS[:2], *wanting(2, 2, 50, 50)) == ["very-0", "very-1"]


@pytest.mark.parametrize("minimum", [3, None])
def test_a_group_goes_whole_or_not_at_all(minimum: int | None) -> None:
    policy = {"schedulingPolicy": {"gang": {"minCount": 3}}} if minimum else {}

    found = evicted(nodes(3), *running("low", [LOW] * 3, "PodGroup", LOW, **policy), *wanting(1, 1))

    assert found == ["low-0", "low-1", "low-2"]


def test_priorities_of_groups_decide() -> None:
    weak = running("weak", [HIGH] * 3, "PodGroup", LOW)
    assert len(evicted(nodes(3), *weak, *wanting(1, 1, pods=LOW, group=HIGH))) == 3
    strong = running("strong", [LOW] * 3, "PodGroup", HIGH)
    assert evicted(nodes(3), *strong, *wanting(1, 1, pods=HIGH, group=LOW)) == []


def test_pods_of_a_group_without_priority_take_nothing() -> None:
    assert evicted(nodes(1), *LOWS[:1], *wanting(1, 1, pods=1000, group=0)) == []


def test_a_lone_pod_takes_one_pod_of_a_group_whose_pods_go_one_by_one() -> None:
    lone = put(a_pod("lone", cpu=1, spec={"priority": HIGH}))

    assert evicted(nodes(3), *running("g", [30, 20, 10]), lone) == ["g-2"]
    assert len(evicted(nodes(3), *running("g", [30, 20, 10], "PodGroup"), lone)) == 3


def test_nobody_goes_for_a_group_of_which_a_pod_preempts_never() -> None:
    assert evicted(nodes(3), *LOWS[:3], *wanting(3, 3, preemptionPolicy="Never")) == []


def test_victims_of_another_namespace_are_told_the_queue_of_the_group() -> None:
    rig: Rig = rig_of(nodes(1))
    other = put(a_pod("low", on="n0", cpu=1, spec={"priority": LOW}, metadata={"namespace": "else"}))

    decision = rig.cycle(other, *wanting(1, 1))

    told = [step.message for step in decision.steps if isinstance(step, RecordEvent) and step.reason == "Preempted"]
    assert len(told) == 1
    assert told[0].startswith('Preempted by podgroup of queue "default" on node cluster; preempt: a job of queue ')
    assert [step.preemptor for step in decision.steps if isinstance(step, Evict)] == ["default/want-0"]


def test_what_victims_and_the_group_are_told() -> None:
    rig: Rig = rig_of(nodes(3))

    decision = rig.cycle(*LOWS[:3], *wanting(3, 3))

    told = [step for step in decision.steps if isinstance(step, RecordEvent) and step.reason == "Preempted"]
    assert {step.message.partition(";")[0] for step in told} == {
        "Preempted by podgroup podgroup-default-want on node cluster"
    }
    said = {step.message for step in decision.steps if isinstance(step, Evict)}
    assert said == {"volsched: preempting to accommodate a higher priority podgroup"}
    assert conditions(decision) == [
        (
            "want",
            "False",
            "Unschedulable",
            "0/1 placements are available, first placement status: pod group is unschedulable",
        )
    ]
