"""A gang that has lost a pod comes first, and the room of the pod is kept for a while."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actions.evictions import LEVELS, World
from tests.actions.rigs import conf, cycle, gone, rig
from volsched.framework.config.loading import ConfigurationError
from volsched.model.changes import Change, Deleted
from volsched.model.job import PodGroupCondition
from volsched.model.lost_pods import LostPod, condition_of, held_in, lost_pods_in
from volsched.model.plan import WriteGroupStatus
from volsched.registry import load_profile
from volsched.testing.builders import CycleDecision, Rig, a_group, a_pod, put

TIERS = ("priority gang", "predicates")
DRF = ("priority gang drf", "predicates")
SHARES = ("priority gang", "drf proportion predicates")
ENQUEUE = "enqueue, allocate, backfill"


def three(**queue: Any) -> World:
    """Three nodes of two cores; the gang v runs on all of them."""
    world = World()
    world.queue("q", **queue).queue("p").group("v", "q", 3, "Running", created="2026-01-01T00:00:10Z")
    for number in range(1, 4):
        world.node(f"n{number}", cpu=2, memory="8Gi")
        world.pod(f"v-{number - 1}", "v", on=f"n{number}", cpu=2)
    return world


def pod(name: str, group: str, level: str = "", **more: Any) -> Change:
    spec = {"priorityClassName": level, "priority": LEVELS[level]} if level else {}
    return put(a_pod(name, group, cpu=2, spec={**spec, **more.pop("spec", {})}, **more))


def waits(name: str, queue: str = "q", level: str = "", created: str = "2026-01-01T00:00:00Z") -> list[Change]:
    """A job of one pod, older than all others."""
    classed = {"priorityClassName": level} if level else {}
    group = a_group(name, queue, 1, "Inqueue", created=created, **classed)
    return [put(group), pod(f"{name}-0", name, level, created=created)]


def broken(world: World, configuration: str) -> Rig:
    """A rig on which the third pod of v is gone."""
    on = rig(world, configuration)
    cycle(on)
    on.mirror.apply([gone(on, "v-2")])
    return on


REPLACEMENT = pod("v-3", "v", created="2026-01-02T00:00:00Z")
"""Younger than whatever waits."""


# -- D1 to D3 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tiers", [TIERS, DRF, SHARES, ("gang drf", "priority predicates"), ("predicates",)])
@pytest.mark.parametrize("actions", ["allocate", ENQUEUE])
def test_d1_the_replacement_has_the_room_before_an_older_job_of_the_queue(tiers: tuple[str, ...], actions: str) -> None:
    on = broken(three(), conf(actions, *tiers))

    decision = cycle(on, *waits("x"), REPLACEMENT)

    assert decision.bindings.get("v-3") == "n3"
    assert "x-0" not in decision.bindings


@pytest.mark.parametrize("tiers", [TIERS, DRF, SHARES])
def test_d2_a_more_important_job_of_the_queue_has_it(tiers: tuple[str, ...]) -> None:
    on = broken(three(), conf(ENQUEUE, *tiers))

    assert cycle(on, *waits("x", level="high"), REPLACEMENT).bindings == {"x-0": "n3"}


@pytest.mark.parametrize("more", [[REPLACEMENT], []])
@pytest.mark.parametrize("plugins", ["proportion", "drf proportion"])
def test_d3_the_order_of_queues_comes_first(plugins: str, more: list[Change]) -> None:
    on = broken(three(), conf(ENQUEUE, "priority gang", f"{plugins} predicates"))

    assert cycle(on, *waits("x", "p"), *more).bindings == {"x-0": "n3"}


@pytest.mark.parametrize("tiers", [TIERS, DRF, SHARES])
def test_the_gang_goes_first_also_where_no_room_is_kept(tiers: tuple[str, ...]) -> None:
    on = broken(three(), repairing("0s", ENQUEUE, *tiers))

    assert cycle(on, *waits("x"), REPLACEMENT).bindings == {"v-3": "n3"}
    told = (
        "the gang has lost pods and comes first in its queue; no room is kept for them; when it was whole it held cpu 6"
    )
    assert lost(on) == [told]
    cycle(on)
    assert lost(on) == []


# -- how long ---------------------------------------------------------------------------------------------------------


def repairing(seconds: str, actions: str = ENQUEUE, *tiers: str) -> str:
    text = conf(actions, *(tiers or TIERS))
    return f"{text}\nconfigurations:\n- name: allocate\n  arguments: {{repairTimeout: {seconds}}}\n"


def test_until_the_pod_is_made_again_its_room_is_kept_and_then_it_is_not() -> None:
    on = broken(three(), conf(ENQUEUE, *TIERS))

    decision = cycle(on, *waits("x"))
    assert decision.bindings == {}
    kept = "node(s) had room kept for default/v, which lost a pod"
    assert decision.waiting["x-0"] == f"0/3 nodes are available: 2 Insufficient cpu, 1 {kept}."
    assert on.scheduler.wake_at() == on.clock.time + 30
    on.clock.time += 29
    assert cycle(on).bindings == {}
    on.clock.time += 1
    assert cycle(on).bindings == {"x-0": "n3"}


@pytest.mark.parametrize(("seconds", "bound"), [("0s", True), ("1m", False), ("10s", True)])
def test_how_long_is_configured(seconds: str, bound: bool) -> None:
    on = broken(three(), repairing(seconds))
    cycle(on, *waits("x"))
    on.clock.time += 20

    cycle(on)
    assert (on.cluster.tasks["pod-default-x-0"].node is not None) is bound


def test_once_the_gang_is_whole_nothing_is_kept() -> None:
    on = broken(three(), conf(ENQUEUE, *TIERS))
    on.mirror.apply(World().node("n4", cpu=2).changes()[-1:])
    assert cycle(on, REPLACEMENT).bindings == {"v-3": "n3"}
    other = cycle(on, *waits("x"))

    assert other.bindings == {"x-0": "n4"}
    assert lost(on) == []


def test_once_the_gang_is_whole_others_have_the_room_in_the_same_session() -> None:
    world = three()
    world.node("n4", cpu=4, memory="8Gi", taints=[{"key": "k", "effect": "NoSchedule"}])
    on = broken(world, conf(ENQUEUE, *TIERS))
    chosen = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n4"]}]}]}}}  # fmt: skip
    given = pod("v-3", "v", spec={"tolerations": [{"operator": "Exists"}], "affinity": chosen})

    assert cycle(on, *waits("x"), given).bindings == {"v-3": "n4", "x-0": "n3"}


def test_a_room_is_kept_beside_others() -> None:
    world = three()
    world.node("n3", cpu=3, memory="8Gi")
    on = broken(world, conf(ENQUEUE, *TIERS))
    small = a_group("x", "q", 2, "Inqueue")
    pods = [put(a_pod(f"x-{number}", "x", cpu=0.5)) for number in range(2)]

    assert cycle(on, put(small), *pods).bindings == {"x-0": "n3", "x-1": "n3"}
    assert cycle(on, REPLACEMENT).bindings == {"v-3": "n3"}


# -- for how much -----------------------------------------------------------------------------------------------------


def small_gang(cpu: float = 0.1, **queue: Any) -> Rig:
    """A rig on which two small pods of a gang of three are gone; two nodes of two cores are free."""
    world = World().queue("q", **queue).queue("p").group("v", "q", 3, "Running", created="2026-01-01T00:00:10Z")
    world.node("n0", cpu=2, memory="8Gi")
    for number in range(1, 3):
        world.node(f"n{number}", cpu=2, memory="8Gi")
    for number in range(3):
        world.pod(f"v-{number}", "v", on="n0", cpu=cpu)
    on = rig(world, conf(ENQUEUE, "priority gang", "proportion predicates"))
    cycle(on)
    on.mirror.apply([gone(on, "v-1"), gone(on, "v-2")])
    return on


@pytest.mark.parametrize(("cpu", "first"), [(0.1, ["v-3", "v-4"]), (2, ["x-0"])])
def test_a_gang_that_makes_larger_pods_than_it_lost_does_not_come_first(cpu: float, first: list[str]) -> None:
    """A tenant may lose small pods on purpose."""
    on = small_gang()
    again = [put(a_pod(f"v-{number}", "v", cpu=cpu)) for number in (3, 4)]

    assert sorted(cycle(on, *again, *waits("x")).bindings)[: len(first)] == first


def test_a_gang_whose_minimum_was_raised_does_not_come_first() -> None:
    on = small_gang()
    more = put(a_group("v", "q", 30, "Running", created="2026-01-01T00:00:10Z"))
    again = [put(a_pod(f"v-{number}", "v", cpu=0.13)) for number in range(3, 32)]
    others = [change for name in "xy" for change in waits(name)]

    assert set(cycle(on, more, *again, *others).bindings) == {"x-0", "y-0"}


def test_a_gang_that_makes_larger_pods_has_no_more_than_the_share_of_its_queue() -> None:
    on = small_gang()
    hog = [put(a_group("h", "q", 1, "Running")), put(a_pod("h-0", "h", on="n1", cpu=2))]
    again = [put(a_pod(f"v-{number}", "v", cpu=1.9)) for number in (3, 4)]
    of_others = [
        change
        for name in "xyz"
        for change in (
            put(a_group(name, "p", 1, "Inqueue")),
            pod(f"{name}-0", name, spec={"nodeSelector": {"no": "1"}}),
        )
    ]

    assert not set(cycle(on, *hog, *again, *of_others).bindings) & {"v-3", "v-4"}


# -- which pods leave room --------------------------------------------------------------------------------------------


def leaving(name: str = "v-2", on: str = "n3", **status: Any) -> Change:
    made = a_pod(name, "v", on=on, cpu=2)
    made["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "2"}
    made["status"] |= status
    return put(made)


def lost(on: Rig) -> list[str]:
    """What the PodGroup of v states of lost pods."""
    return [c.message for c in on.cluster.jobs["default/v"].conditions if c.type == "LostPods"]


def test_a_failed_pod_is_lost_too() -> None:
    on = rig(three(), conf(ENQUEUE, *TIERS))
    cycle(on)
    failed = a_pod("v-2", "v", on="n3", cpu=2, phase="Failed")
    failed["metadata"]["resourceVersion"] = "2"

    assert cycle(on, put(failed), *waits("x")).bindings == {}
    assert cycle(on, REPLACEMENT).bindings == {"v-3": "n3"}


def test_while_the_pod_terminates_nobody_of_the_queue_is_promised_its_room() -> None:
    on = rig(three(), conf(ENQUEUE, *TIERS))
    cycle(on)

    assert "room kept for default/v" in cycle(on, leaving(), *waits("x")).waiting["x-0"]
    on.clock.time += 300
    assert cycle(on, REPLACEMENT).bindings == {}
    assert cycle(on, gone(on, "v-2")).bindings == {"v-3": "n3"}


EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_pod_that_was_evicted_for_another_leaves_no_room(restarts: bool) -> None:
    world = three()
    on = rig(world, conf(ENQUEUE, *TIERS))
    cycle(on, leaving(conditions=[EVICTED]))
    if restarts:
        on = rig(world, conf(ENQUEUE, *TIERS))
        cycle(on, leaving(conditions=[EVICTED]))

    assert cycle(on, gone(on, "v-2"), *waits("x")).bindings == {"x-0": "n3"}


def test_a_pod_that_preempt_evicts_leaves_no_room() -> None:
    text = conf("enqueue, allocate, preempt", *TIERS).replace("name: gang", "name: gang\n    enablePreemptable: false")
    world = three()
    on = rig(world, text)

    evicted = cycle(on, *waits("y", level="high")).evictions
    assert len(evicted) == 1
    assert lost(on) == []
    cycle(on, gone(on, evicted[0]))
    assert not any("until" in message for message in lost(on))


@pytest.mark.parametrize("first", ["node", "pod"])
def test_on_a_node_that_is_gone_nothing_is_kept(first: str) -> None:
    on = rig(three(), conf(ENQUEUE, *TIERS))
    cycle(on)
    changes = [Deleted("Node", "", "n3", ""), gone(on, "v-2")]
    cycle(on, *(changes if first == "node" else reversed(changes)))

    assert not any("until" in message for message in lost(on))
    assert cycle(on, *World().node("n3", cpu=2, memory="8Gi").changes()[-1:], *waits("x")).bindings == {"x-0": "n3"}


@pytest.mark.parametrize(("minimum", "gone_pods", "kept"), [(2, 1, 0), (2, 2, 1), (3, 2, 2), (3, 3, 0), (1, 2, 0)])
def test_kept_is_what_the_gang_lacks_and_only_while_it_holds_some(minimum: int, gone_pods: int, kept: int) -> None:
    world = three()
    world.group("v", "q", minimum, "Running")
    on = rig(world, conf(ENQUEUE, *TIERS))
    cycle(on)
    cycle(on, *(gone(on, f"v-{number}") for number in range(gone_pods)))

    assert " ".join(lost(on)).count(" until ") == kept


# -- over a restart ---------------------------------------------------------------------------------------------------


def restarted(on: Rig, world: World, configuration: str, decision: CycleDecision) -> Rig:
    """Another scheduler, which reads the PodGroups as the last one wrote them."""
    [status] = [s for s in decision.steps if isinstance(s, WriteGroupStatus) and s.name == "v"]
    conditions = [
        {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message} for c in status.conditions
    ]
    world.objects = [o for o in world.objects if o["metadata"]["name"] not in ("v", "v-2")]
    world.group("v", "q", 3, status.phase, status={"conditions": conditions}, created="2026-01-01T00:00:10Z")
    again = rig(world, configuration)
    again.clock.time = on.clock.time
    return again


@pytest.mark.parametrize(("seconds", "bound"), [(29, {}), (30, {"x-0": "n3"})])
def test_another_leader_keeps_the_room_for_as_long_as_was_stated(seconds: int, bound: dict[str, str]) -> None:
    world = three()
    on = broken(world, conf(ENQUEUE, *TIERS))
    decision = cycle(on)
    assert lost(on)[0].startswith(
        "the gang has lost pods and comes first in its queue; room is kept for v-2 on node n3 un"
    )
    again = restarted(on, world, conf(ENQUEUE, *TIERS), decision)
    again.clock.time += seconds

    assert cycle(again, *waits("x")).bindings == bound


def test_room_is_kept_for_no_longer_than_is_configured_whatever_is_stated() -> None:
    stated = condition_of([LostPod("v-2", "n3", 9e9)])
    status = {"conditions": [{"type": stated.type, "status": "True", "reason": "LostPods", "message": stated.message}]}
    world = three()
    world.objects = [each for each in world.objects if each["metadata"]["name"] not in ("v", "v-2")]
    on = rig(world.group("v", "q", 3, "Pending", status=status), conf(ENQUEUE, *TIERS))

    assert cycle(on, *waits("x")).bindings == {}
    on.clock.time += 30
    assert cycle(on).bindings == {"x-0": "n3"}


def test_what_is_stated_is_read_again_and_nothing_else_is() -> None:
    lost = [LostPod("v-2", "n3", 1_800_000_000.0), LostPod("v-10", "n.4", 1_800_000_007.0)]

    assert lost_pods_in(condition_of(lost)) == lost
    assert lost_pods_in(condition_of([])) == []
    broken = condition_of(lost).message.replace("2027-01-15", "2027-02-31")
    assert lost_pods_in(PodGroupCondition("LostPods", "True", "LostPods", broken)) == []
    assert lost_pods_in(PodGroupCondition("Reserved", "True", "LostPods", condition_of(lost).message)) == []


@pytest.mark.parametrize("given", ["soon", "-1s", "[]"])
def test_what_is_no_duration_is_refused(given: str) -> None:
    with pytest.raises(ConfigurationError, match="repairTimeout"):
        load_profile(repairing(given))


@pytest.mark.parametrize(("cpu", "bound"), [(2, {"v-3": "n3"}), (0.5, {"v-3": "n3"}), (2.5, {"x-0": "n3"})])
def test_another_leader_knows_what_the_gang_held(cpu: float, bound: dict[str, str]) -> None:
    """Its author has made the lost pod larger while leaders changed."""
    world = three()
    world.objects[-1 - 1]["status"]["allocatable"]["cpu"] = "3"
    on = broken(world, repairing("0s"))
    again = restarted(on, world, repairing("0s"), cycle(on))

    replacement = put(a_pod("v-3", "v", created="2026-01-02T00:00:00Z", cpu=cpu))
    assert dict(list(cycle(again, *waits("x"), replacement).bindings.items())[:1]) == bound


def test_a_gang_of_which_nothing_is_stated_has_no_precedence_after_a_restart() -> None:
    """It has lost a pod while no scheduler ran, or an earlier version has stated what it lost."""
    stated = condition_of([LostPod("v-2", "n3", 9e9)])
    status = {"conditions": [{"type": stated.type, "status": "True", "reason": "LostPods", "message": stated.message}]}
    world = three()
    world.objects = [each for each in world.objects if each["metadata"]["name"] not in ("v", "v-2")]
    world.group("v", "q", 3, "Unknown", status=status, created="2026-01-01T00:00:10Z")
    on = rig(world, repairing("0s"))

    assert cycle(on, *waits("x"), REPLACEMENT).bindings == {"x-0": "n3"}


def test_room_is_as_large_after_a_restart_as_a_pod_that_runs() -> None:
    """Pods that wait may have been made larger."""
    world = three()
    on = broken(world, conf(ENQUEUE, *TIERS))
    again = restarted(on, world, conf(ENQUEUE, *TIERS), cycle(on))
    large = put(a_pod("v-3", "v", cpu=2, memory="7Gi", created="2026-01-02T00:00:00Z"))
    spec = {"nodeSelector": {"kubernetes.io/hostname": "n3"}}
    other = [put(a_group("x", "q", 1, "Inqueue")), put(a_pod("x-0", "x", memory="6Gi", spec=spec))]

    again.mirror.apply([large])
    assert cycle(again, *other).bindings["x-0"] == "n3"


def test_what_the_gang_held_is_stated_exactly_and_read_again() -> None:
    held = {"cpu": 1_001, "memory": 1_234_567, "nvidia.com/gpu": 8_000, "resourceclaims/0a1b": 2}

    assert held_in(condition_of([LostPod("v-2", "n3", 1_800_000_000.0)], held)) == held
    assert held_in(condition_of([], {f"example.com/r{number}": 1_000 for number in range(33)})) == {}
    assert held_in(condition_of([])) == {}
    broken = condition_of([], held).message.replace("cpu 1001m", "cpu 1001x")
    assert held_in(PodGroupCondition("LostPods", "True", "LostPods", broken)) == {}


def test_another_leader_lets_the_gang_go_first() -> None:
    world = three()
    on = broken(world, repairing("0s"))
    again = restarted(on, world, repairing("0s"), cycle(on))

    assert cycle(again, *waits("x"), REPLACEMENT).bindings == {"v-3": "n3"}


# -- quotas -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quota", ["capacity", "proportion"])
def test_what_the_pod_held_of_the_quota_is_kept_too(quota: str) -> None:
    world = three(capability={"cpu": "6", "memory": "100Gi"})
    world.node("n4", cpu=2, memory="8Gi")
    on = broken(world, conf(ENQUEUE, "priority gang", f"{quota} predicates"))

    decision = cycle(on, *waits("x"))
    assert decision.bindings == {}
    assert decision.waiting["x-0"] == "what is left of the quota is kept for default/v, which lost a pod"
    assert list(cycle(on, *waits("y", "p")).bindings) == ["y-0"]
    assert list(cycle(on, REPLACEMENT).bindings) == ["v-3"]
    assert cycle(on).bindings == {}


def test_equal_jobs_that_start_in_one_session_do_not_use_up_what_is_kept() -> None:
    world = three(capability={"cpu": "10", "memory": "100Gi"})
    world.node("n4", cpu=20, memory="8Gi")
    on = broken(world, conf(ENQUEUE, "priority gang", "capacity predicates"))

    decision = cycle(on, *(change for name in "abc" for change in waits(name)))

    assert sorted(decision.bindings) == ["a-0", "b-0"]
    assert "kept for default/v" in decision.waiting["c-0"]


def test_the_search_for_a_placement_of_a_whole_gang_leaves_what_is_kept() -> None:
    world = three(capability={"cpu": "8", "memory": "100Gi"})
    world.node("n4", cpu=20, memory="8Gi")
    on = broken(world, conf(ENQUEUE, "priority gang", "capacity predicates"))
    gang = [put(a_group("x", "q", 2, "Inqueue")), pod("x-0", "x"), pod("x-1", "x", memory="1Gi")]

    assert cycle(on, *gang).bindings == {}
    assert sorted(cycle(on, REPLACEMENT).bindings) == ["v-3"]


def test_the_gang_is_let_in_although_the_cluster_is_full_for_others() -> None:
    world = three()
    world.group("v", "q", 3, "Running", minResources={"cpu": "6"})
    on = broken(world, conf(ENQUEUE, "priority gang", "overcommit predicates").replace(
        "name: overcommit", "name: overcommit\n    arguments: {overcommit-factor: 1}"))  # fmt: skip
    full = a_group("x", "p", 1, "Inqueue", minResources={"cpu": "2"})
    cycle(on, put(full))

    assert cycle(on, REPLACEMENT).bindings == {"v-3": "n3"}


def test_a_queue_that_has_its_due_is_given_back_what_it_held() -> None:
    world = three()
    world.group("w", "p", 1, "Inqueue")
    on = rig(world, conf("allocate", *SHARES))
    cycle(on)
    more = [put(a_pod(f"w-{number}", "w", cpu=2, spec={"nodeSelector": {"a": "b"}})) for number in range(9)]

    assert cycle(on, gone(on, "v-2"), *more, REPLACEMENT).bindings == {"v-3": "n3"}


def test_nodes_may_go_while_room_is_kept() -> None:
    world = three()
    for number in range(4, 8):
        world.node(f"n{number}", cpu=1, memory="8Gi").pod(f"w-{number}", on=f"n{number}", cpu=1)
    on = broken(world, conf(ENQUEUE, *TIERS))
    cycle(on, *waits("x"))

    for number in range(7, 3, -1):
        left = [gone(on, f"w-{number}"), Deleted("Node", "", f"n{number}", "")]
        assert cycle(on, *left, *waits(f"y{number}")).bindings == {}
    assert cycle(on, REPLACEMENT).bindings == {"v-3": "n3"}
