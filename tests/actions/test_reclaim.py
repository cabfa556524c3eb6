"""reclaim: a queue below its due takes room back from queues that hold more than theirs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actions.evictions import RECLAIM, World, nominations, protected
from tests.actions.rigs import conf, cycle, decide, events, gone, rig
from tests.framework.stage import standing
from volsched.model.changes import EvictFailed
from volsched.model.plan import Evict
from volsched.testing.builders import a_cluster

LOOSE = conf("reclaim", "conformance gang", "predicates proportion")


def greedy(pods: int = 4, **pod: Any) -> World:
    """One node of four cores, full of pods of queue a; queues a and b have equal weights."""
    world = World()
    world.node("n1", cpu=4).queue("a").queue("b")
    return world.runs("v", pods, queue="a", **{"cpu": 1, **pod})


# -- what it takes ----------------------------------------------------------------------------------------------------


def test_a_queue_gets_its_due_back_and_no_more() -> None:
    decision = decide(greedy().wants("x", 4, minimum=1, queue="b", cpu=1), RECLAIM)

    assert decision.evictions == ["v-1", "v-3"]  # the job starts with one
    assert nominations(decision) == {"x-0": "n1", "x-1": "n1"}


@pytest.mark.parametrize("starts", range(4))
def test_a_pod_that_does_not_run_yet_goes_first(starts: int) -> None:
    world = World()
    world.node("n1", cpu=4).queue("a").queue("b").group("v", "a", 0, "Running", priorityClassName="low")
    for index in range(4):
        world.member(f"v-{index}", "v", "low", on="n1", cpu=1, phase="Pending" if index == starts else "Running")

    assert decide(world.wants("x", queue="b", cpu=1), RECLAIM).evictions == [f"v-{starts}"]


def test_jobs_of_a_queue_have_their_minimum_before_one_has_more() -> None:
    world = greedy().wants("x", 2, minimum=1, queue="b", cpu=1).wants("y", 2, minimum=1, queue="b", cpu=1)

    assert nominations(decide(world, RECLAIM)) == {"x-0": "n1", "y-0": "n1"}


def test_beyond_the_minimum_a_pod_for_which_nothing_is_to_be_had_keeps_no_other_from_its_room() -> None:
    world = greedy().wants("x", 1, queue="b", cpu=0.5)
    world.member("x-large", "x", "high", cpu=9).member("x-small", "x", "high", cpu=1)

    assert nominations(decide(world, RECLAIM)) == {"x-0": "n1", "x-small": "n1"}


def test_several_jobs_get_the_due_of_their_queue_together() -> None:
    world = greedy()
    for name in "xyz":
        world.wants(name, queue="b", cpu=1)

    decision = decide(world, RECLAIM)

    assert len(decision.evictions) == 2
    assert len(nominations(decision)) == 2


def test_nothing_is_taken_from_a_queue_at_its_due() -> None:
    world = greedy(2)
    world.runs("own", 2, queue="b", cpu=1).wants("x", queue="b", cpu=1).wants("more", queue="a", cpu=1)

    decision = decide(world, RECLAIM)

    assert decision.evictions == []


def test_a_queue_at_its_due_takes_nothing() -> None:
    world = World()
    world.node("n1", cpu=4).queue("a").queue("b", weight=3)
    world.runs("v", 3, queue="b", cpu=1).runs("own", 1, queue="a", cpu=1).wants("x", queue="a", cpu=1)

    assert decide(world, RECLAIM).evictions == []


def test_weights_say_what_is_due() -> None:
    world = World()
    world.node("n1", cpu=4).queue("a").queue("b", weight=3)
    world.runs("v", 4, queue="a", cpu=1)
    for name in "wxyz":
        world.wants(name, queue="b", cpu=1)

    assert len(decide(world, RECLAIM).evictions) == 3


def test_nobody_goes_while_there_is_room() -> None:
    decision = decide(greedy(3).wants("x", queue="b", cpu=1), RECLAIM)

    assert (decision.evictions, decision.bindings) == ([], {"x-0": "n1"})


LAWS: dict[str, dict[str, Any]] = {
    "the annotation says no": {"annotations": {"volcano.sh/preemptable": "false"}},
    "the label says no": {"labels": {"volcano.sh/preemptable": "false"}},
    "its gang needs it": {"minimum": 4},
    "the system needs it": {"spec": {"priorityClassName": "system-cluster-critical"}},
}


@pytest.mark.parametrize("what", LAWS)
def test_it_takes_nobody_whom_it_may_not(what: str) -> None:
    decision = decide(greedy(**LAWS[what]).wants("x", queue="b", cpu=1), RECLAIM)

    assert decision.evictions == []


def test_a_queue_that_is_not_reclaimable_loses_nobody() -> None:
    world = World()
    world.node("n1", cpu=4).queue("a", reclaimable=False).queue("b")

    assert decide(world.runs("v", 4, queue="a", cpu=1).wants("x", queue="b", cpu=1), RECLAIM).evictions == []


def test_without_a_plugin_that_says_so_nobody_goes() -> None:
    assert decide(greedy().wants("x", queue="b", cpu=1), conf("reclaim", "priority", "predicates")).evictions == []


def test_the_queue_of_least_priority_loses_first() -> None:
    world = World()
    world.node("n1", cpu=6).queue("a", priority=5).queue("b", priority=1).queue("c")
    world.runs("high", 3, queue="a", cpu=1).runs("less", 3, queue="b", cpu=1).wants("x", queue="c", cpu=1)

    assert [name[:4] for name in decide(world, RECLAIM).evictions] == ["less"]


# -- scenarios of Volcano's own tests ---------------------------------------------------------------------------------


def test_o19_only_the_preemptable_pod() -> None:
    world = World()
    world.node("n1", cpu=3, memory="3Gi", pods=10).queue("q1").queue("q2").group("pg1", "q1").group("pg2", "q2")
    for name, says in (("v1", "false"), ("v2", "true"), ("v3", "false")):
        notes = {"volcano.sh/preemptable": says}
        world.pod(name, "pg1", on="n1", cpu=1, memory="1G", annotations=notes)
    world.pod("x1", "pg2", cpu=1, memory="1G")

    assert decide(world, LOOSE).evictions == ["v2"]


def test_spare_only_the_less_important_queues_pod_when_that_frees_what_is_short() -> None:
    world = World()
    world.node("n1", cpu=10, memory="2Gi", pods=10)
    world.queue("q1", priority=1).queue("q2", priority=2).queue("q3")
    world.group("pg1", "q1", 0).group("pg2", "q2", 0).group("pg3", "q3")
    world.pod("v1", "pg1", on="n1", cpu=1, memory="1G").pod("v2", "pg2", on="n1", cpu=1, memory="1G")
    world.pod("x", "pg3", cpu=2, memory="1G")
    text = conf("reclaim", "conformance gang", "predicates proportion").replace(
        "- name: proportion", "- name: proportion\n    enablePreemptive: false"
    )

    assert set(decide(world, text).evictions) <= {"v1"}


def test_spare_whoever_must_not_preempt_is_passed_over_and_the_next_gets_room() -> None:
    world = greedy()
    world.group("x", "b", 1, priorityClassName="high")
    world.member("x-0", "x", "high", cpu=1, spec={"preemptionPolicy": "Never"}).member("x-1", "x", "high", cpu=1)

    decision = decide(world, RECLAIM)

    assert len(decision.evictions) == 1
    assert nominations(decision) == {"x-1": "n1"}


# -- gangs and promises -----------------------------------------------------------------------------------------------


def test_a_gang_that_cannot_have_its_minimum_takes_nobody_and_leaves_no_trace() -> None:
    on = rig(greedy().wants("x", 3, queue="b", cpu=1), RECLAIM)
    before = standing(on.cluster)

    decision = cycle(on)

    assert (decision.evictions, nominations(decision)) == ([], {})
    assert {**standing(on.cluster), "jobs": 0} == {**before, "jobs": 0}


def test_what_was_reclaimed_is_taken_once_it_is_free_and_the_other_queue_does_not_take_it_back() -> None:
    world = greedy()
    world.wants("more", 2, minimum=1, queue="a", cpu=1).wants("x", 2, queue="b", cpu=1)
    on = rig(world, RECLAIM)
    first = cycle(on)
    assert len(first.evictions) == 2

    half = cycle(on, gone(on, first.evictions[0]))
    done = cycle(on, gone(on, first.evictions[1]))

    assert {**half.bindings, **done.bindings} == {"x-0": "n1", "x-1": "n1"}
    for _ in range(3):
        assert cycle(on).evictions == []


def test_a_victim_that_could_not_be_evicted_is_put_back() -> None:
    on = rig(greedy().wants("x", queue="b", cpu=1), RECLAIM)
    [step] = [s for s in cycle(on).steps if isinstance(s, Evict)]
    before = on.cluster.queues["a"].allocated["cpu"]

    later = cycle(on, EvictFailed(step.uid, "refused"))

    assert before == 3000
    assert later.evictions == [step.name]


# -- budgets and words ------------------------------------------------------------------------------------------------


def test_budgets_go_last_or_never() -> None:
    def world() -> World:
        made = greedy(0)
        made.runs("web", 2, queue="a", cpu=1, labels={"app": "web"}).runs("free", 2, "mid", queue="a", cpu=1)
        return made.budget("pdb", 0, app="web").wants("x", 1, queue="b", cpu=1).wants("y", 1, queue="b", cpu=1)

    assert sorted(decide(world(), RECLAIM).evictions) == ["free-0", "free-1"]
    only_web = world()
    only_web.objects = [o for o in only_web.objects if not o["metadata"]["name"].startswith("free")]
    only_web.runs("web2", 2, queue="a", cpu=1, labels={"app": "web"})
    assert len(decide(only_web, RECLAIM).evictions) == 2
    refused = decide(only_web, protected(RECLAIM))
    assert refused.evictions == []
    assert "reclaim: 0/1 nodes are available: 1 pods protected by disruption budgets." in refused.waiting["x-0"]


def test_the_victim_is_told_of_both_queues() -> None:
    decision = decide(greedy().wants("x", queue="b", cpu=1), RECLAIM)

    [told] = [message for _, reason, message in events(decision) if reason == "Preempted"]
    assert told == (
        'reclaim: pod "default/x-0" (queue "b", priority 100) needs the room of this pod (queue "a", priority 10)'
    )
    assert decision.report.victims == {("reclaim", "b"): 1}


def test_a_pod_that_reclaiming_cannot_help_says_why() -> None:
    world = World()
    world.node("n1", cpu=1).queue("a", reclaimable=False).queue("b")

    waiting = decide(world.runs("v", 1, queue="a", cpu=1).wants("x", queue="b", cpu="500m"), RECLAIM).waiting

    assert waiting["x-0"].endswith("reclaim: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")


def test_a_hopeless_reclaimer_is_not_tried_again_until_something_changes() -> None:
    world = World()
    world.node("n1", cpu=1).queue("a", reclaimable=False).queue("b")
    on = rig(world.runs("v", 1, queue="a", cpu=1).wants("x", queue="b", cpu="500m"), RECLAIM)

    assert cycle(on).report.victim_searches == {("reclaim", "b"): 1}
    assert cycle(on).report.victim_searches == {}
    assert cycle(on, *a_cluster().queue("a").changes()).evictions == ["v-0"]


def test_beyond_the_minimum_nobody_goes_while_there_is_room_that_allocate_has_not_looked_for_yet() -> None:
    world = greedy()
    world.node("n2", cpu=1).group("x", "b", 0, "Inqueue", priorityClassName="high")
    for index in range(3):
        world.member(f"x-{index}", "x", "high", cpu=1)

    decision = decide(world, RECLAIM.replace("allocate, reclaim", "reclaim, allocate"))

    assert (decision.evictions, decision.bindings) == ([], {"x-0": "n2"})


def test_beyond_the_minimum_no_queue_is_brought_below_its_due() -> None:
    world = World()
    world.node("n1", cpu=4).queue("a").queue("b").runs("big", 1, queue="a", cpu=3).runs("small", 1, queue="a", cpu=1)

    decision = decide(world.wants("x", 2, minimum=0, queue="b", cpu=1), RECLAIM)

    assert decision.evictions == ["small-0"]
