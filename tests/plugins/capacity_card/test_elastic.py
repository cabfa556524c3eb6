"""Cards by what is deserved: who takes them back, from whom, and how many have to go for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.capacity_card.clusters import A, H, refusal, some
from tests.plugins.capacity_card.elastic import Elastic, by_job, decided, elastic, world
from volsched.model.plan import Evict, RecordEvent
from volsched.testing.builders import a_rig
from volsched.testing.contract import ENGINES

RECLAIM_BESIDE = """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enableReclaimable: false
  - name: conformance
- plugins:
  - name: predicates
  - name: capacity-card
"""
"""The configuration of the issue: those who have a say in reclaim let everybody go."""


def two_queues(q1: Any = None, q2: Any = None, wanting: str = "q1", count: int = 3) -> Elastic:
    """Eight cards: q1 holds six of them, q2 two. More are wanted."""
    cluster = world().due("q1", {A: 8}, q1).due("q2", {A: 8}, q2)
    cluster.cards("a1", A, 8)
    cluster.runs("rich", 6, A, "q1", "a1").runs("poor", 2, A, "q2", "a1")
    return cluster.wants("want", count, A, wanting)


# -- until a queue says what it deserves ------------------------------------------------------------------------------


@pytest.mark.parametrize("wanting", ["q1", "q2"])
def test_nobody_is_evicted_for_a_queue_that_does_not_say_what_it_deserves(wanting: str) -> None:
    """The issue's numbers: 6 of 8 cards, and 2 of 8."""
    assert decided(two_queues(wanting=wanting), RECLAIM_BESIDE).evictions == []


def test_the_richer_queue_takes_nothing_from_the_poorer() -> None:
    cluster = two_queues({A: 4}, {A: 4}, wanting="q1")

    assert decided(cluster, RECLAIM_BESIDE).evictions == []


def test_a_pod_without_cards_takes_no_room_from_those_that_hold_some() -> None:
    cluster = world().due("q1", {A: 8}, {A: 8}).due("q2", {A: 8})
    cluster.objects[0]["spec"]["deserved"] = {"cpu": "100"}
    cluster.cards("a1", A, 8)
    cluster.objects[-1]["status"]["allocatable"]["cpu"] = "8"
    cluster.runs("cards", 6, A, "q2", "a1", cpu=1).gang("plain", 2, queue="q2", on="a1", cpu=1)
    cluster.gang("want", 4, queue="q1", cpu=1)

    assert by_job(decided(cluster)) == {"plain": 2}


def test_nor_does_one_whose_queue_deserves_no_cpu() -> None:
    cluster = world().due("q1", {A: 8}, {A: 8}).due("q2", {A: 8})
    cluster.cards("a1", A, 8)
    cluster.objects[-1]["status"]["allocatable"]["cpu"] = "2"
    cluster.gang("plain", 2, queue="q2", on="a1", cpu=1).gang("want", 2, queue="q1", cpu=1)

    assert decided(cluster).evictions == []


# -- what is deserved -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("q1", "q2", "taken"),
    [
        ({A: 4}, {A: 4}, 2),
        (None, {A: 4}, 2),
        ({A: 5}, {A: 8}, 1),
        ({A: 6}, {A: 8}, 0),
        ({A: 4}, {A: 3}, 1),
        ({A: 0}, {A: 2}, 0),
        ({H: 4}, {A: 8}, 3),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_queue_takes_back_what_it_deserves_of_what_others_hold_beyond_theirs(
    engine: Any, q1: Any, q2: Any, taken: int
) -> None:
    decision = a_rig(two_queues(q1, q2, wanting="q2"), elastic(), engine).cycle()

    assert by_job(decision) == ({"rich": taken} if taken else {})


def test_the_room_is_promised_and_taken_once_the_victims_are_gone() -> None:
    rig = a_rig(two_queues({A: 4}, {A: 4}, wanting="q2"), elastic())
    evicted = [step for step in rig.cycle().steps if isinstance(step, Evict)]

    assert [(step.action, step.preemptor) for step in evicted] == [
        ("reclaim", "default/want-0"),
        ("reclaim", "default/want-1"),
    ]
    assert all(
        step.message.startswith("reclaim: pod ") and "needs the room of this pod" in step.message for step in evicted
    )
    assert rig.cycle().evictions == []


def test_events_tell_the_victim_for_whom_it_goes() -> None:
    decision = decided(two_queues({A: 4}, {A: 4}, wanting="q2"))

    told = [step.message for step in decision.steps if isinstance(step, RecordEvent) and step.name == "rich-5"]
    assert any('pod "default/want-0" (queue "q2"' in message for message in told)


def test_beyond_what_it_deserves_a_queue_has_what_is_free_only() -> None:
    cluster = world().due("q1", {A: 8}, {A: 2}).due("q2", {A: 8}, {A: 6}).cards("a1", A, 8)
    cluster.gang("mine", 4, card=A, queue="q1", on="a1").gang("want", 6, card=A, queue="q1", created=9)

    decision = decided(cluster)

    assert len(decision.bindings) == 4
    assert decision.evictions == []


def test_no_quota_is_exceeded_however_much_is_deserved() -> None:
    cluster = two_queues({A: 2}, {A: 8}, wanting="q2", count=8)
    cluster.objects[1]["metadata"]["annotations"]["volcano.sh/card.quota"] = f'{{"{A}": 3}}'

    assert by_job(decided(cluster)) == {"rich": 1}


def test_a_queue_that_is_not_reclaimable_gives_nothing() -> None:
    cluster = two_queues(None, {A: 4}, wanting="q2")
    cluster.objects[0]["spec"]["reclaimable"] = False

    assert decided(cluster).evictions == []


def test_the_queue_with_the_smaller_part_of_its_due_goes_first() -> None:
    """q2 has half of what it deserves, q1 a quarter; alone by quotas q2 would have gone first."""
    cluster = world().due("q1", {A: 2}, {A: 2}).due("q2", {A: 40}, {A: 4}).cards("a1", A, 5)
    cluster.runs("r1", 1, A, "q1", "a1", each=1).runs("r2", 3, A, "q2", "a1")
    cluster.wants("w1", 1, A, "q1").wants("w2", 1, A, "q2")

    assert list(decided(cluster, actions="allocate").bindings) == ["w1-0"]


def test_a_queue_that_deserves_nothing_comes_after_those_that_hold_less_than_their_due() -> None:
    cluster = world().due("borrows", {A: 100}).due("owns", {A: 8}, {A: 4}).cards("a1", A, 4)
    cluster.runs("r", 3, A, "owns", "a1").wants("b", 1, A, "borrows").wants("o", 1, A, "owns")

    assert list(decided(cluster, actions="allocate").bindings) == ["o-0"]


# -- victims ----------------------------------------------------------------------------------------------------------


def test_only_those_go_that_hold_the_card_that_is_wanted() -> None:
    cluster = world().due("q1", {A: 8, H: 8}).due("q2", {A: 4, H: 4}, {A: 4})
    cluster.cards("a1", A, 2).cards("h1", H, 2)
    cluster.runs("ours", 2, A, "q1", "a1").runs("others", 2, H, "q1", "h1").gang(
        "plain", 3, queue="q1", on="a1", cpu=300
    )

    assert by_job(decided(cluster.wants("want", 2, A, "q2"))) == {"ours": 2}


@pytest.mark.parametrize(
    ("due", "gone"),
    [({A: 1, H: 1}, {"a": 1, "h": 1}), ({H: 2}, {"h": 2}), ({A: 2}, {"a": 2})],
)
def test_for_a_list_any_of_its_cards_that_the_queue_deserves(due: Any, gone: Any) -> None:
    cluster = world().due("q1", {A: 8, H: 8}).due("q2", {A: 4, H: 4}, due)
    cluster.cards("a1", A, 2).cards("h1", H, 2)
    cluster.runs("a", 2, A, "q1", "a1").runs("h", 2, H, "q1", "h1")

    assert by_job(decided(cluster.wants("want", 3, f"{A}|{H}", "q2"))) == gone


def test_a_pod_with_a_list_goes_for_the_card_that_it_has() -> None:
    cluster = world().due("q1", {A: 8, H: 8}).due("q2", {A: 4, H: 4}, {H: 4}).cards("a1", A, 1)
    cluster.runs("r", 1, f"{H}|{A}", "q1", "a1").cards("h1", H, 0)

    assert decided(cluster.wants("want", 1, f"{A}|{H}", "q2")).evictions == []


def test_the_fewest_go_wherever_they_are() -> None:
    """On a1 two pods of one card each would have to go, on a2 one of two cards, which matters more."""
    cluster = world().due("q1", {A: 8}).due("q2", {A: 4}, {A: 4}).cards("a1", A, 2).cards("a2", A, 2)
    cluster.runs("small", 2, A, "q1", "a1").runs("large", 1, A, "q1", "a2", each=2).of_priority("large", 10)

    assert decided(cluster.wants("want", 1, A, "q2", each=2)).evictions == ["large-0"]


def test_the_fewest_go_on_one_node() -> None:
    cluster = world().due("q1", {A: 8}).due("q2", {A: 4}, {A: 4}).cards("a1", A, 4)
    cluster.runs("small", 2, A, "q1", "a1").runs("large", 1, A, "q1", "a1", each=2).of_priority("large", 10)

    assert decided(cluster.wants("want", 1, A, "q2", each=2)).evictions == ["large-0"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("large", [1, 2])
def test_of_equally_many_on_nodes_that_are_as_good_those_go_that_do_not_run(large: int, engine: Any) -> None:
    cluster = world().due("q1", {A: 8}).due("q2", {A: 4}, {A: 4}).cards("a1", A, 2).cards("a2", A, 2)
    cluster.runs("busy", 1, A, "q1", "a1", each=2).runs("idle", 2 // large, A, "q1", "a2", each=large).starting("idle")

    decision = a_rig(cluster.wants("want", 1, A, "q2", each=2), elastic(), engine).cycle()

    assert by_job(decision) == ({"idle": 1} if large == 2 else {"busy": 1})


def test_of_equally_many_the_least_important_go() -> None:
    cluster = world().due("q1", {A: 8}).due("q2", {A: 4}, {A: 4}).cards("a1", A, 2)
    cluster.runs("dear", 1, A, "q1", "a1").of_priority("dear", 10).runs("cheap", 1, A, "q1", "a1")

    assert decided(cluster.wants("want", 1, A, "q2")).evictions == ["cheap-0"]


# -- gangs ------------------------------------------------------------------------------------------------------------


def gangs(**q1: Any) -> Elastic:
    """q1 runs a gang of four on two nodes, and q2 deserves one card."""
    cluster = world().due("q1", {A: 8}, **q1).due("q2", {A: 4}, {A: 1}).cards("a1", A, 2).cards("a2", A, 2)
    cluster.gang("gang", 2, card=A, queue="q1", on="a1", minimum=4)
    for index in (2, 3):
        cluster.pod(
            f"gang-{index}", "gang", on="a2", annotations={"volcano.sh/card.name": A}, **some({"nvidia.com/gpu": 1})
        )
    return cluster


def test_a_gang_that_would_break_goes_as_a_whole() -> None:
    decision = decided(gangs().wants("want", 1, A, "q2"))

    assert by_job(decision) == {"gang": 4}
    words = [step.message for step in decision.steps if isinstance(step, Evict)]
    assert sum("without which its gang is below its minimum: this pod" in reason for reason in words) == 3


def test_rather_one_that_does_not_break_anything() -> None:
    cluster = gangs().cards("a3", A, 1).runs("single", 1, A, "q1", "a3").wants("want", 1, A, "q2")

    assert decided(cluster).evictions == ["single-0"]


def test_not_if_its_queue_would_hold_less_than_it_deserves_then() -> None:
    assert decided(gangs(deserved={A: 2}).wants("want", 1, A, "q2")).evictions == []


def test_not_if_one_of_its_pods_may_not_go() -> None:
    cluster = gangs().wants("want", 1, A, "q2")
    cluster.objects[-4]["metadata"]["annotations"]["volcano.sh/preemptable"] = "false"

    assert decided(cluster).evictions == []


def test_members_beyond_the_minimum_go_one_by_one() -> None:
    cluster = world().due("q1", {A: 8}).due("q2", {A: 8}, {A: 2}).cards("a1", A, 4)
    cluster.gang("gang", 4, card=A, queue="q1", on="a1", minimum=2)

    assert by_job(decided(cluster.wants("want", 2, A, "q2"))) == {"gang": 2}


def test_a_gang_takes_room_for_all_that_it_starts_with_or_for_none() -> None:
    cluster = two_queues({A: 4}, {A: 4}, wanting="q2", count=0).wants("three", 3, A, "q2", minimum=3)

    assert decided(cluster).evictions == []


def test_a_deployment_gets_more_than_its_first_pod() -> None:
    """gang says that it does not starve once one pod runs; its queue is below its due still."""
    cluster = world().due("q1", {A: 8}).due("q2", {A: 8}, {A: 4}).cards("a1", A, 8)
    cluster.runs("rich", 7, A, "q1", "a1").gang("web", 1, card=A, queue="q2", on="a1")
    for index in range(1, 5):
        cluster.pod(f"web-{index}", "web", annotations={"volcano.sh/card.name": A}, **some({"nvidia.com/gpu": 1}))

    assert by_job(decided(cluster)) == {"rich": 3}


# -- inside a queue ---------------------------------------------------------------------------------------------------


def test_preemption_takes_from_those_that_hold_the_card() -> None:
    cluster = world().due("q", {A: 2, H: 2}).cards("a1", A, 2).cards("h1", H, 2)
    cluster.runs("other", 2, H, "q", "h1").runs("same", 2, A, "q", "a1").gang("plain", 2, queue="q", on="a1", cpu=1)
    cluster.wants("want", 1, A, "q").of_priority("want", 10)

    assert by_job(decided(cluster)) == {"same": 1}


def test_preemption_makes_room_in_the_quota_too_and_never_exceeds_it() -> None:
    cluster = world().due("q", {A: 2}).cards("a1", A, 8)
    cluster.runs("low", 2, A, "q", "a1").wants("high", 2, A, "q", minimum=2).of_priority("high", 10)

    assert by_job(decided(cluster)) == {"low": 2}


def test_preemption_takes_whole_gangs_too() -> None:
    cluster = world().due("q", {A: 2}).cards("a1", A, 2)
    cluster.gang("low", 2, card=A, queue="q", on="a1", minimum=2)
    cluster.wants("high", 1, A, "q").of_priority("high", 10)

    assert by_job(decided(cluster)) == {"low": 2}


# -- guarantees -------------------------------------------------------------------------------------------------------


def test_nothing_is_taken_below_a_guarantee_and_it_counts_as_deserved() -> None:
    cluster = world().due("q1", {A: 8}, guarantee={A: 5}).due("q2", {A: 8}, guarantee={A: 3}).cards("a1", A, 8)
    cluster.runs("rich", 7, A, "q1", "a1").runs("poor", 1, A, "q2", "a1")

    assert by_job(decided(cluster.wants("want", 4, A, "q2"))) == {"rich": 2}


def test_what_one_queue_is_guaranteed_no_other_takes() -> None:
    cluster = world().due("q1", {A: 8}).due("q2", {A: 8}, guarantee={A: 3}).cards("a1", A, 8)
    decision = decided(cluster.wants("want", 8, A, "q1"))

    assert len(decision.bindings) == 5
    reason, message = refusal(decision, "want-7")
    assert reason == "InsufficientScalarQuota"
    assert "total would be <6000>, but capability is <5000>" in message
    assert f"what other queues are guaranteed of {A} is kept for them" in message


def test_its_own_queue_takes_it() -> None:
    cluster = world().due("q1", {A: 8}).due("q2", {A: 8}, guarantee={A: 3}).cards("a1", A, 8)

    assert len(decided(cluster.wants("want", 8, A, "q2")).bindings) == 8


def test_without_guarantees_quotas_are_not_held_against_what_there_is() -> None:
    """Seed 001, 2.3.2: the sum of quotas may be more than the cluster has, and a queue's admission minds its own."""
    cluster = world().due("q1", {A: 8}).due("q2", {A: 8}, {A: 3}).cards("a1", A, 2)
    cluster.probe("g", {A: 8}, queue="q1")

    assert decided(cluster).cluster.jobs["default/g"].phase == "Inqueue"


def test_nodes_that_come_leave_more_beside_guarantees() -> None:
    cluster = world().due("q1", {A: 8}).due("q2", {A: 8}, guarantee={A: 3}).cards("a1", A, 3)
    rig = a_rig(cluster.wants("want", 4, A, "q1"), elastic())
    assert rig.cycle().bindings == {}

    more = world().cards("a2", A, 2)

    assert len(rig.cycle(*more.changes()).bindings) == 2


# -- over a hierarchy -------------------------------------------------------------------------------------------------


def departments(one: Any = None, two: Any = None) -> Elastic:
    """Two departments with two teams each, and eight cards, of which team c holds six, and team b two."""
    cluster = world()
    cluster.due("one", {A: 8}, one).due("two", {A: 8}, two)
    for name, parent in (("a", "one"), ("b", "one"), ("c", "two"), ("d", "two")):
        cluster.due(name, {A: 8}, {A: 2}, parent=parent)
    cluster.cards("a1", A, 8)
    cluster.runs("c", 6, A, "c", "a1").runs("b", 2, A, "b", "a1")
    return cluster


@pytest.mark.parametrize(
    ("one", "two", "taken"),
    [
        (None, None, 2),
        ({A: 4}, {A: 4}, 2),
        ({A: 3}, {A: 4}, 1),
        ({A: 4}, {A: 5}, 1),
        ({A: 2}, {A: 4}, 0),
        ({A: 4}, {A: 6}, 0),
        ({}, None, 0),
    ],
)
def test_the_departments_are_held_to_what_they_deserve_as_well(one: Any, two: Any, taken: int) -> None:
    decision = decided(departments(one, two).wants("want", 3, A, "a"), tree=True)

    assert by_job(decision) == ({"c": taken} if taken else {})


def test_inside_a_department_only_the_teams_count() -> None:
    decision = decided(departments({A: 2}, {A: 4}).wants("want", 3, A, "d"), tree=True)

    assert by_job(decision) == {"c": 2}


def test_room_in_the_quota_of_a_queue_above_is_made_as_well() -> None:
    cluster = world().due("one", {A: 4}).due("a", {A: 4}, {A: 2}, parent="one").due("b", {A: 4}, {A: 2}, parent="one")
    cluster.cards("a1", A, 8).runs("b", 4, A, "b", "a1")

    assert by_job(decided(cluster.wants("want", 2, A, "a"), tree=True)) == {"b": 2}


@pytest.mark.parametrize(("queue", "most"), [("a", 6), ("b", 4), ("c", 6)])
def test_guarantees_keep_others_off_below_a_queue_and_beside_it(queue: str, most: int) -> None:
    cluster = world().due("one", {A: 6}).due("a", {A: 8}, parent="one", guarantee={A: 2})
    cluster.due("b", {A: 8}, parent="one").due("c", {A: 8}).cards("a1", A, 8)

    assert len(decided(cluster.wants("want", 8, A, queue), tree=True).bindings) == most


@pytest.mark.parametrize("told", [{"tree": True}, {"checkAncestors": True}])
def test_the_switch_and_its_other_name_mean_the_same(told: Any) -> None:
    cluster = world().due("one", {A: 1}).due("a", {A: 8}, parent="one").cards("a1", A, 8)
    cluster.wants("above", 1, A, "one").wants("want", 2, A, "a")

    decision = decided(cluster, **told)

    assert len(decision.bindings) == 1
    assert refusal(decision, "above-0")[0] == "NotALeafQueue"
    assert decided(cluster).evictions == []
    assert len(decided(cluster).bindings) == 3
