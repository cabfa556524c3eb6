"""preempt: whoever matters more gets room in its own queue, from as few and as unimportant pods as will do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actions.evictions import PREEMPT, World, all_gone, nominations, protected
from tests.actions.rigs import conf, cycle, decide, events, gone, leaving, quota, rig
from tests.framework.stage import standing
from volsched.framework.registration import Registrar
from volsched.framework.rules import Preemptable
from volsched.model import api
from volsched.model.changes import Deleted, EvictFailed
from volsched.model.plan import Evict, WritePodCondition
from volsched.model.status import TaskStatus
from volsched.testing.builders import CycleDecision, a_cluster, put, puts

BARE = conf("preempt", "priority gang conformance", "predicates")
AND_BACKFILL = conf("preempt, backfill", "priority gang conformance", "predicates")


def full(cpu: int = 4) -> World:
    """One node, full of pods of one core and low priority."""
    world = World()
    world.node("n1", cpu=cpu)
    return world.runs("v", cpu, cpu=1)


# -- whom it takes ----------------------------------------------------------------------------------------------------


def test_it_takes_no_more_than_it_needs() -> None:
    decision = decide(full().wants("x", cpu=2), PREEMPT)

    assert decision.evictions == ["v-3", "v-2"]
    assert nominations(decision) == {"x-0": "n1"}
    assert decision.bindings == {}


def test_what_volcanos_action_is_told_about_candidates_is_taken_and_changes_nothing() -> None:
    told = {"enableTopologyAwarePreemption": "true", "topologyAwarePreemptWorkerNum": "4"}
    told |= {"minCandidateNodesPercentage": "5", "minCandidateNodesAbsolute": "2", "maxCandidateNodesAbsolute": "9"}
    lines = "".join(f'\n    {key}: "{value}"' for key, value in told.items())

    decision = decide(full().wants("x", cpu=2), f"{PREEMPT}\nconfigurations:\n- name: preempt\n  arguments:{lines}")

    assert decision.evictions == ["v-3", "v-2"]


def test_it_takes_nobody_while_there_is_room() -> None:
    world = full()
    world.node("n2", cpu=2)

    decision = decide(world.wants("x", cpu=2), PREEMPT)

    assert (decision.evictions, decision.bindings) == ([], {"x-0": "n2"})


def test_it_takes_the_least_important() -> None:
    world = World()
    world.node("n1", cpu=3)
    world.runs("b", 1, "mid", cpu=1).runs("a", 1, "low", cpu=1).runs("c", 1, "mid", cpu=1).wants("x", cpu=1)

    assert decide(world, PREEMPT).evictions == ["a-0"]


def test_of_one_job_it_takes_the_least_important_pod() -> None:
    world = World()
    world.node("n1", cpu=3)
    world.group("v", minimum=0, phase="Running", priorityClassName="low")
    world.member("v-0", "v", "mid", on="n1", cpu=1).member("v-1", "v", "low", on="n1", cpu=1)
    world.member("v-2", "v", "mid", on="n1", cpu=1).wants("x", cpu=1)

    assert decide(world, PREEMPT).evictions == ["v-1"]


def test_it_spares_small_ones_when_a_large_one_does() -> None:
    world = World()
    world.node("n1", cpu=4)
    world.runs("small", 1, "low", cpu=1).runs("large", 1, "mid", cpu=3).wants("x", cpu=3)

    assert decide(world, PREEMPT).evictions == ["large-0"]


@pytest.mark.parametrize("level", ["low", "mid"])
def test_it_takes_nobody_of_its_own_priority_or_above(level: str) -> None:
    world = World()
    world.node("n1", cpu=1)

    decision = decide(world.runs("v", 1, "mid", cpu=1).wants("x", 1, level, cpu=1), PREEMPT)

    assert decision.evictions == []
    why = "preemption: 0/1 nodes are available: 1 pods that may not be evicted for it."
    assert decision.waiting["x-0"].endswith(why)


LAWS: dict[str, dict[str, Any]] = {
    "another queue's": {"queue": "other"},
    "the annotation says no": {"annotations": {"volcano.sh/preemptable": "false"}},
    "the label says no": {"labels": {"volcano.sh/preemptable": "false"}},
    "its gang needs it": {"minimum": 1},
    "the system needs it": {"spec": {"priorityClassName": "system-node-critical"}},
    "it has not been bound": {"phase": "Succeeded"},
}


@pytest.mark.parametrize("what", LAWS)
def test_it_takes_nobody_whom_it_may_not(what: str) -> None:
    world = World()
    world.node("n1", cpu=1).queue("other")
    world.runs("v", 1, **{"cpu": 1, **LAWS[what]}).wants("x", cpu=1 if what != "it has not been bound" else 2)

    decision = decide(world, PREEMPT)

    assert decision.evictions == []
    assert nominations(decision) == {}


def test_pods_of_the_system_stay() -> None:
    world = full(1)
    for item in world.objects:
        if item["metadata"]["name"] in ("v", "v-0"):
            item["metadata"]["namespace"] = "kube-system"

    assert decide(world.wants("x", cpu=1), PREEMPT).evictions == []


def test_a_gang_loses_what_it_has_beyond_its_minimum() -> None:
    world = World()
    world.node("n1", cpu=4)

    decision = decide(world.runs("v", 4, minimum=3, cpu=1).wants("x", 2, minimum=1, cpu=1), PREEMPT)

    assert decision.evictions == ["v-0"]  # by uid: the plugin is asked in that order, as with Volcano


def test_inside_a_job_the_more_important_pod_takes_the_place_of_a_less_important_one() -> None:
    world = World()
    world.node("n1", cpu=1)
    world.group("j", minimum=0, phase="Running", priorityClassName="mid")
    world.member("j-low", "j", "low", on="n1", cpu=1).member("j-high", "j", "high", cpu=1)

    decision = decide(world, conf("allocate, preempt", "priority conformance", "predicates"))

    assert decision.evictions == ["j-low"]
    assert nominations(decision) == {"j-high": "n1"}


# -- scenarios of Volcano's own tests ---------------------------------------------------------------------------------


def test_o17_one_of_the_lower_job() -> None:
    world = World()
    world.node("n1", cpu=2, memory="2G", pods=10).queue("q1")
    yes, no = ({"volcano.sh/preemptable": value} for value in ("true", "false"))
    world.group("pg1", "q1", 1, priorityClassName="low").group("pg2", "q1", 1, priorityClassName="high")
    world.member("v1", "pg1", "low", on="n1", annotations=yes, cpu=1, memory="1G")
    world.member("v2", "pg1", "low", on="n1", annotations=no, cpu=1, memory="1G")
    world.member("x1", "pg2", "high", cpu=1, memory="1G").member("x2", "pg2", "high", cpu=1, memory="1G")

    decision = decide(world, conf("preempt", "conformance gang priority proportion"))

    assert decision.evictions == ["v1"]


@pytest.mark.parametrize(("capability", "minimum", "evicted"), [("4", 0, ["v1"]), ("6", 1, [])])
def test_o18_when_the_queue_is_full_although_the_node_is_free(
    capability: str, minimum: int, evicted: list[str]
) -> None:
    world = World()
    most = {"cpu": capability, "memory": f"{capability}G"}
    world.node("n1", cpu=12, memory="12G", pods=10).queue("q1", capability=most)
    world.group("pg1", "q1", minimum, priorityClassName="low").group("pg2", "q1", 1, priorityClassName="high")
    world.member("v1", "pg1", "low", on="n1", cpu=3, memory="3G").member("x1", "pg2", "high", cpu=3, memory="3G")

    assert decide(world, conf("preempt", "conformance gang priority proportion")).evictions == evicted


def test_whoever_must_not_preempt_waits() -> None:
    decision = decide(full().wants("x", cpu=1, spec={"preemptionPolicy": "Never"}), PREEMPT)

    assert decision.evictions == []
    assert "preemption" not in decision.waiting["x-0"]


def test_a_best_effort_pod_gives_up_its_slot_on_the_node() -> None:
    world = World()
    world.node("n1", cpu=4, pods=1)

    assert decide(world.runs("v", 1).wants("x", cpu=3), PREEMPT).evictions == ["v-0"]


def test_a_best_effort_pod_takes_the_place_of_another_and_of_no_pod_that_asks_for_something() -> None:
    world = World()
    world.node("n1", cpu=4, pods=2)
    world.runs("busy", 1, cpu=1).runs("idle", 1).wants("x")

    decision = decide(world, AND_BACKFILL)

    assert decision.evictions == ["idle-0"]


def test_a_best_effort_pod_takes_the_slot_of_one_who_asks_for_something() -> None:
    world = World()
    world.node("n1", cpu=4, pods=1)

    decision = decide(world.runs("busy", 1, cpu=1).wants("x"), AND_BACKFILL)

    assert (decision.evictions, nominations(decision)) == (["busy-0"], {"x-0": "n1"})


def test_free_room_is_promised_to_nobody_over_sessions() -> None:
    world = World()
    world.node("n1", cpu=1).wants("x", cpu=1)

    decision = decide(world, BARE)

    assert (decision.evictions, nominations(decision)) == ([], {})


def test_nor_is_room_that_others_leave_to_a_part_of_a_gang() -> None:
    world = World()
    world.node("n1", cpu=2).wants("x", 3, cpu=1)
    world.add(leaving("old", "n1", cpu="1"))

    assert nominations(decide(world, BARE)) == {}


def test_nobody_goes_for_best_effort_members_when_one_of_them_finds_no_room() -> None:
    world = World()
    world.node("n1", cpu=4, pods=1)

    decision = decide(world.runs("busy", 1, cpu=1).wants("x", 2), AND_BACKFILL)

    assert (decision.evictions, nominations(decision)) == ([], {})


def test_spare_the_protected_of_three_stays() -> None:
    world = World()
    world.node("n1", cpu=6)
    world.group("v", minimum=0, phase="Running", priorityClassName="low")
    for index, says in enumerate(("true", "true", "false")):
        world.member(f"v-{index}", "v", "low", on="n1", cpu=1, annotations={"volcano.sh/preemptable": says})

    assert sorted(decide(world.wants("x", cpu=5), PREEMPT).evictions) == ["v-0", "v-1"]


def test_spare_work_in_one_queue_leaves_the_other_queue_its_turn() -> None:
    world = World()
    world.node("n1", cpu=2).queue("q1").queue("q2")
    world.runs("v1", 1, queue="q1", cpu=1).runs("v2", 1, queue="q2", cpu=1)
    world.wants("x1", queue="q1", cpu=1).wants("x2", queue="q2", cpu=1)

    assert sorted(decide(world, PREEMPT).evictions) == ["v1-0", "v2-0"]


def test_spare_nobody_goes_for_a_pod_that_a_more_important_one_keeps_away() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "boss"}}, "topologyKey": "kubernetes.io/hostname"}
    away = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    world = World()
    world.node("n1", cpu=3)
    world.runs("boss", 1, "top", cpu=1, labels={"app": "boss"}).runs("v", 2, cpu=1).wants("x", cpu=1, spec=away)

    decision = decide(world, PREEMPT)

    assert decision.evictions == []


def test_a_less_important_pod_that_keeps_it_away_goes_and_others_stay() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
    away = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    world = World()
    world.node("n1", cpu=4)
    world.runs("calm", 2, cpu=1).runs("noisy", 1, "mid", cpu=1, labels={"app": "noisy"}).wants("x", cpu=1, spec=away)

    assert decide(world, PREEMPT).evictions == ["noisy-0"]


def test_a_host_port_is_room_too() -> None:
    container = {"name": "main", "image": "none", "ports": [{"containerPort": 80, "hostPort": 80}]}
    world = World()
    world.node("n1", cpu=4)
    world.runs("v", 2, cpu=1).runs("web", 1, "mid", spec={"containers": [container]})

    assert decide(world.wants("x", spec={"containers": [container]}, level="high"), PREEMPT).evictions == ["web-0"]


# -- gangs ------------------------------------------------------------------------------------------------------------


def test_a_gang_gets_all_its_room_or_takes_nobody() -> None:
    world = World()
    world.node("n1", cpu=4).node("n2", cpu=4)
    world.runs("v", 4, on="n1", cpu=1).runs("w", 4, "high", on="n2", cpu=1).wants("x", 3, cpu=2)
    on = rig(world, PREEMPT)
    before = standing(on.cluster)

    decision = cycle(on)

    assert decision.evictions == []
    assert nominations(decision) == {}
    assert standing(on.cluster) == {**before, "jobs": standing(on.cluster)["jobs"]}


def test_a_gang_that_gets_its_room_gets_it_at_once() -> None:
    world = World()
    world.node("n1", cpu=4).node("n2", cpu=4)
    world.runs("v", 4, on="n1", cpu=1).runs("w", 4, on="n2", cpu=1).wants("x", 3, cpu=2)
    on = rig(world, PREEMPT)

    decision = cycle(on)

    assert len(decision.evictions) == 6
    assert set(nominations(decision)) == {"x-0", "x-1", "x-2"}
    assert cycle(on).evictions == []
    done = cycle(on, *(gone(on, s.name) for s in decision.steps if isinstance(s, Evict)))
    assert set(done.bindings) == {"x-0", "x-1", "x-2"}


def test_a_gang_takes_room_for_its_minimum_only() -> None:
    decision = decide(full(4).wants("x", 4, minimum=2, cpu=1), PREEMPT)

    assert len(decision.evictions) == 2
    assert len(nominations(decision)) == 2


def test_two_gangs_do_not_count_on_the_same_room() -> None:
    world = full(4)
    world.wants("x", 3, cpu=1).wants("y", 3, cpu=1)

    decision = decide(world, PREEMPT)

    assert len(decision.evictions) == 3
    assert len(nominations(decision)) == 3


def test_what_is_tried_and_fails_is_not_tried_again_until_something_changes() -> None:
    world = World()
    world.node("n1", cpu=1)
    on = rig(world.runs("v", 1, "high", cpu=1).wants("x", cpu=1), PREEMPT)
    assert cycle(on).report.victim_searches

    assert cycle(on).report.victim_searches == {}
    assert cycle(on, *a_cluster().node("n2", cpu="500m").changes()).report.victim_searches


# -- promises over sessions -------------------------------------------------------------------------------------------


def promised(*, room: int = 2, **more: Any) -> Any:
    """A rig in which x-0 has just been promised the room of all pods of n1; the decision."""
    world = full(room)
    on = rig(world.wants("x", cpu=room, **more), PREEMPT)
    decision = cycle(on)
    assert nominations(decision) == {"x-0": "n1"}
    return on, decision


def written(decision: CycleDecision, name: str) -> list[str]:
    return [s.nominated for s in decision.steps if isinstance(s, WritePodCondition) and s.name == name]


def test_the_room_is_kept_until_it_is_free_and_then_taken() -> None:
    on, decision = promised()
    other = World()
    other.wants("y", cpu=1, level="high")
    changes = [c for c in other.changes() if not isinstance(c.object, api.PriorityClass)]  # type: ignore[union-attr]

    assert written(decision, "x-0") == ["n1"]
    later = cycle(on, *changes)
    assert (later.bindings, later.evictions) == ({}, [])
    half = cycle(on, gone(on, "v-0"))
    assert (half.bindings, half.evictions) == ({}, [])
    done = cycle(on, gone(on, "v-1"))

    assert done.bindings == {"x-0": "n1"}


def test_it_goes_elsewhere_when_there_is_room_sooner() -> None:
    on, _ = promised()

    decision = cycle(on, *a_cluster().node("n2", cpu=2).changes())

    assert decision.bindings == {"x-0": "n2"}
    assert nominations(cycle(on)) == {}


def test_the_promise_ends_with_the_node() -> None:
    on, _ = promised()

    decision = cycle(on, gone(on, "v-0"), gone(on, "v-1"), Deleted("Node", "", "n1", "node--n1"))

    assert nominations(decision) == {}
    assert written(decision, "x-0")[-1] == ""


def test_the_promise_ends_when_the_room_is_gone() -> None:
    on, decision = promised()

    later = cycle(on, *all_gone(on, decision), *a_cluster().node("n1", cpu=1).changes())

    assert nominations(later) == {}
    assert later.bindings == {}
    assert written(later, "x-0")[-1] == ""


def test_the_promise_ends_with_the_pod_and_others_have_the_room() -> None:
    on, decision = promised()
    others = a_cluster().job("y", 1, cpu=2).changes()

    later = cycle(on, gone(on, "x-0"), *all_gone(on, decision), *others)

    assert nominations(later) == {}
    assert later.bindings == {"y-0": "n1"}


def test_a_stronger_task_takes_a_weaker_ones_promise() -> None:
    on, decision = promised()
    boss = World()
    boss.wants("boss", 1, "top", cpu=2)

    later = cycle(on, *boss.changes())

    assert later.evictions == []
    assert nominations(later) == {"boss-0": "n1"}
    assert written(later, "x-0")[-1] == ""
    assert written(later, "boss-0")[-1] == "n1"
    assert cycle(on, *all_gone(on, decision)).bindings == {"boss-0": "n1"}


def test_an_equal_one_does_not() -> None:
    on, _ = promised()
    other = World()
    other.wants("other", 1, "high", cpu=2)

    assert nominations(cycle(on, *other.changes())) == {"x-0": "n1"}


def test_a_nomination_that_the_api_server_shows_is_honoured_after_a_restart() -> None:
    world = World()
    world.node("n1", cpu=2)
    world.add(leaving("v", "n1", cpu="2")).wants("x", cpu=2).wants("y", 1, "mid", cpu=2)
    next(o for o in world.objects if o["metadata"]["name"] == "x-0")["status"]["nominatedNodeName"] = "n1"
    on = rig(world, PREEMPT)

    first = cycle(on)
    assert (first.bindings, first.evictions, nominations(first)) == ({}, [], {"x-0": "n1"})
    done = cycle(on, Deleted("Pod", "default", "v", "v"))

    assert done.bindings == {"x-0": "n1"}


def test_nobody_more_goes_while_room_is_on_its_way() -> None:
    on, decision = promised()
    for _ in range(3):
        assert cycle(on).evictions == []
    shown = [s for s in decision.steps if isinstance(s, Evict)]

    assert len(shown) == 2
    assert cycle(on, *a_cluster().node("n9", cpu="100m").changes()).evictions == []


def test_a_gang_does_not_keep_a_place_for_which_its_queue_has_no_quota_left() -> None:
    """One of its two places is lost, and while it has neither, another job takes a part of the quota."""
    world = World()
    world.node("n1", cpu=4).node("n2", cpu=4)
    world.runs("v", 4, cpu=1).runs("w", 4, on="n2", cpu=1).wants("x", 2, cpu=4)
    on = rig(world, PREEMPT, quota({"default": 8000}))
    assert set(nominations(cycle(on)).values()) == {"n1", "n2"}
    more = World()
    more.node("n3", cpu=4).node("n4", cpu=1)
    more.runs("u", 4, on="n3", cpu=1).wants("y", level="mid", cpu=1)

    left = [gone(on, f"w-{index}") for index in range(4)]
    later = cycle(on, *left, Deleted("Node", "", "n2", "node--n2"), *more.changes())

    assert (later.bindings, later.evictions) == ({"y-0": "n4"}, [])


def test_a_victim_that_could_not_be_evicted_is_put_back_and_the_promise_ends() -> None:
    on, decision = promised()
    uid = next(s.uid for s in decision.steps if isinstance(s, Evict) and s.name == "v-0")
    assert on.cluster.tasks[uid].status is TaskStatus.RELEASING

    on.mirror.apply([EvictFailed(uid, "denied by a webhook")])

    assert on.cluster.tasks[uid].status is TaskStatus.RUNNING
    later = cycle(on)
    assert later.evictions == ["v-0"]  # it is tried again, and whose room it is is written anew
    assert nominations(later) == {"x-0": "n1"}


def test_nobody_is_evicted_for_a_pod_that_is_deleted() -> None:
    world = full(1).wants("x", cpu=1)
    world.objects[-1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert decide(world, PREEMPT).evictions == []


# -- disruption budgets -----------------------------------------------------------------------------------------------


def guarded(allowed: int) -> World:
    """A node of three cores, with two pods of one budget and one of none, which is more important."""
    world = World()
    world.node("n1", cpu=3)
    world.runs("web", 2, cpu=1, labels={"app": "web"}).runs("free", 1, "mid", cpu=1)
    return world.budget("pdb", allowed, app="web")


def test_pods_whose_budget_allows_no_more_go_last() -> None:
    assert decide(guarded(0).wants("x", cpu=1), PREEMPT).evictions == ["free-0"]
    assert decide(guarded(1).wants("x", cpu=1), PREEMPT).evictions == ["web-1"]


def test_a_broken_budget_is_told() -> None:
    decision = decide(guarded(0).wants("x", cpu=3), PREEMPT)

    told = {who: message for who, reason, message in events(decision) if reason == "Preempted"}
    assert sorted(decision.evictions) == ["free-0", "web-0", "web-1"]
    assert told["Pod/free-0"] == (
        'preempt: pod "default/x-0" (queue "default", priority 100) needs the room of this pod '
        '(queue "default", priority 50)'
    )
    assert told["Pod/web-0"].endswith("; this breaks the disruption budget default/pdb")


def test_only_those_beyond_the_budget_are_said_to_break_it() -> None:
    decision = decide(guarded(1).wants("x", cpu=3), PREEMPT)

    told = [(who, message) for who, reason, message in events(decision) if reason == "Preempted"]
    assert [who for who, message in told if "breaks the disruption budget" in message] == ["Pod/web-0"]


def test_when_told_so_no_budget_is_ever_broken() -> None:
    decision = decide(guarded(1).wants("x", cpu=3), protected(PREEMPT))

    assert decision.evictions == []
    assert "1 pods protected by disruption budgets" in decision.waiting["x-0"]


def test_several_victims_of_one_budget_in_one_session_count_together() -> None:
    world = World()
    world.node("n1", cpu=1).node("n2", cpu=1).node("n3", cpu=1)
    for node in ("n1", "n2", "n3"):
        world.runs(f"web{node}", 1, on=node, cpu=1, labels={"app": "web"})
    world.budget("pdb", 2, app="web").wants("x", 3, minimum=1, cpu=1).wants("y", 1, cpu=1).wants("z", 1, cpu=1)

    assert len(decide(world, protected(PREEMPT)).evictions) == 2


def test_a_budget_that_was_used_up_in_an_earlier_session_is_used_up_before_its_status_says_so() -> None:
    world = World()
    world.node("n1", cpu=1).node("n2", cpu=1)
    world.runs("web1", 1, on="n1", cpu=1, labels={"app": "web"}).runs("web2", 1, on="n2", cpu=1, labels={"app": "web"})
    on = rig(world.budget("pdb", 1, app="web").wants("x", cpu=1), protected(PREEMPT))
    assert len(cycle(on).evictions) == 1
    other = World()
    other.wants("y", cpu=1)

    assert cycle(on, *other.changes()).evictions == []


# -- what is said -----------------------------------------------------------------------------------------------------


def test_a_pod_that_eviction_cannot_help_says_why_node_by_node() -> None:
    world = World()
    world.node("n1", cpu=4).node("n2", cpu=4).node("n3", cpu=4).node("n4", cpu=1).node("n5", cpu=4, labels={"a": "b"})
    world.runs("equal", 4, "high", on="n1", cpu=1).runs("few", 1, on="n2", cpu=1).runs("top", 3, "top", on="n2", cpu=1)
    world.add(leaving("foreign", "n3", cpu="4") | {"metadata": {"name": "foreign", "namespace": "d", "uid": "foreign"}})
    world.objects[-1]["spec"]["schedulerName"] = "other"
    world.wants("x", cpu=4, spec={"nodeSelector": {"kubernetes.io/os": "linux"}})
    for item in world.objects:
        if item["kind"] == "Node" and item["metadata"]["name"] != "n5":
            item["metadata"]["labels"]["kubernetes.io/os"] = "linux"

    message = decide(world, PREEMPT).waiting["x-0"]

    assert message.startswith("0/5 nodes are available: ")
    said = message.partition(" preemption: ")[2]
    assert said.startswith("0/5 nodes are available: ")
    for part in (
        "1 pods that may not be evicted for it",
        "1 too little room even without the pods that may be evicted",
        "1 No preemption victims found for incoming pod",
        "2 Preemption is not helpful for scheduling",
    ):
        assert part in said


def test_the_victim_is_told_who_needs_the_room_and_its_group_too() -> None:
    decision = decide(full(1).wants("x", cpu=1), PREEMPT)

    said = {(who, reason) for who, reason, _ in events(decision)}
    assert {("Pod/v-0", "Preempted"), ("PodGroup/v", "Evict")} <= said
    [step] = [s for s in decision.steps if isinstance(s, Evict)]
    assert (step.action, step.preemptor) == ("preempt", "default/x-0")
    assert decision.report.victims == {("preempt", "default"): 1}


def test_a_plugin_that_names_nobody_is_obeyed() -> None:
    def nobody(registrar: Registrar) -> None:
        registrar.register(Preemptable(lambda task, candidates: []))

    assert decide(full().wants("x", cpu=1), conf("preempt", "priority gang", "predicates"), nobody).evictions == []


def test_a_session_that_evicts_leaves_the_same_decision_whatever_the_order_of_input() -> None:
    world = full().wants("x", cpu=2)
    for second, item in enumerate(world.objects):
        item["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second:02}Z"
    first = decide(world, PREEMPT)
    world.objects.reverse()
    on = rig(a_cluster(), PREEMPT)

    second = cycle(on, *puts(*world.objects))

    assert second.evictions == first.evictions == ["v-3", "v-2"]


@pytest.mark.parametrize("more", [{}, {"labels": {"a": "b"}}, {"cpu": "500m"}])
def test_a_victim_that_is_not_yet_shown_as_being_deleted_is_leaving_all_the_same(more: dict[str, Any]) -> None:
    """Its condition DisruptionTarget is written before it is deleted, and a kubelet may say something meanwhile."""
    on, decision = promised()
    seen = World().member("v-0", "v", "low", **{"on": "n1", "cpu": 1, **more}).objects[-1]
    seen["metadata"]["resourceVersion"] = "7"
    seen["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]

    later = cycle(on, put(seen))

    assert later.evictions == []
    assert nominations(later) == {"x-0": "n1"}
    seen = {
        **seen,
        "metadata": {**seen["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "8"},
    }
    assert nominations(cycle(on, put(seen))) == {"x-0": "n1"}
    assert cycle(on, *all_gone(on, decision)).bindings == {"x-0": "n1"}
