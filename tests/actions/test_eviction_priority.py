"""With how much priority a job evicts others: its PodGroup's class, as far as its pods have one as high."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.actions.evictions import LEVELS, PREEMPT, World
from tests.actions.rigs import decide, rig
from volsched.model.cluster import Cluster

SYSTEM: Final = "system-node-critical"
ABOVE_USERS: Final = 2_000_001_000


def full(level: str = "high") -> World:
    """One node of four cores, full of another team's pods; and the class that anybody may name in a PodGroup."""
    world = World()
    meta = {"name": SYSTEM, "uid": SYSTEM}
    world.add({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": ABOVE_USERS})
    world.node("n1", cpu=4)
    return world.runs("v", 4, level, cpu=1)


def wants(world: World, group_class: str, *pods: int | None) -> World:
    """Add a job whose pods have these priorities, as the API server gave them."""
    world.group("x", "default", len(pods), priorityClassName=group_class)
    for index, priority in enumerate(pods):
        spec: dict[str, Any] = {} if priority is None else {"priority": priority}
        world.pod(f"x-{index}", "x", cpu=1, spec=spec)
    return world


def values(cluster: Cluster) -> list[int]:
    return [task.eviction_priority for task in cluster.jobs["default/x"].tasks.values()]


@pytest.mark.parametrize("group_class", ["top", SYSTEM])
@pytest.mark.parametrize("pod", [None, 0])
def test_a_class_that_only_the_podgroup_has_evicts_nobody(group_class: str, pod: int | None) -> None:
    assert decide(wants(full(), group_class, pod), PREEMPT).evictions == []


def test_a_class_that_one_of_its_pods_has_counts_for_all_of_them() -> None:
    decision = decide(wants(full("mid"), "high", 0, LEVELS["high"]), PREEMPT)

    assert sorted(decision.evictions) == ["v-2", "v-3"]


def test_pods_above_their_podgroup_count_with_its_class() -> None:
    assert decide(wants(full(), "mid", LEVELS["top"]), PREEMPT).evictions == []


def test_classes_of_the_system_count_for_pods_that_have_one() -> None:
    cluster = rig(wants(full(), SYSTEM, 7, ABOVE_USERS), PREEMPT).cluster

    assert values(cluster) == [7, ABOVE_USERS]


def test_a_class_that_only_the_podgroup_has_keeps_nobody_from_being_evicted() -> None:
    world = World()
    world.node("n1", cpu=1)
    world.group("v", "default", 0, "Running", priorityClassName="top")
    world.pod("v-0", "v", cpu=1, on="n1", spec={"priority": 0})

    assert decide(world.wants("x", level="mid", cpu=1), PREEMPT).evictions == ["v-0"]


def test_what_a_pod_says_of_its_priority_itself_evicts_nobody() -> None:
    world = full().group("x", "default", 1)
    world.pod("x-0", "x", cpu=1, annotations={"volcano.sh/task-priority": "2000000000"})

    assert decide(world, PREEMPT).evictions == []


@given(st.sampled_from([*LEVELS, SYSTEM]), st.lists(st.sampled_from([0, *LEVELS.values(), ABOVE_USERS]), min_size=1))
def test_nobody_counts_more_than_the_api_server_said_of_a_pod(group_class: str, pods: list[int]) -> None:
    for own, value in zip(pods, values(rig(wants(full(), group_class, *pods), PREEMPT).cluster), strict=True):
        assert value <= max(pods)
        assert value <= 1_000_000_000 or value <= own
