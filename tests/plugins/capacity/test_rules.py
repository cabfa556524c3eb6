"""Which queue goes first, who is admitted, and who is placed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actions.rigs import conf, decide, phases
from tests.plugins.admission import ADMISSION, a_job_to_admit
from tests.plugins.capacity.desk import Desk, a_world, tree_conf
from volsched.model.verdict import Scope, Step
from volsched.testing.builders import ClusterBuilder, a_cluster, a_queue, put

# -- placing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("held", "cpu", "expected"), [(3, "1", True), (3, "1001m", False), (4, "1m", False)])
def test_a_queue_takes_on_no_more_than_it_may_have(held: int, cpu: str, expected: bool) -> None:
    desk = Desk(a_world(held=held, capability={"cpu": "4"}).job("try", 1, queue="q", cpu=cpu))

    refusal = desk.refusal("q", "try-0")

    assert (refusal is None) is expected
    if refusal is not None:
        assert (refusal.reason, refusal.scope) == ("InsufficientQueueCapability", Scope.QUEUE)
        assert refusal.message.startswith('queue "q" may have no more: cpu: requested ')
        assert refusal.message.endswith(f"used {held}, limit 4")


def test_a_resource_that_the_task_does_not_ask_for_is_not_looked_at() -> None:
    desk = Desk(a_world(held=6, capability={"cpu": "4"}).job("memory", 1, queue="q", memory="1Gi"))

    assert desk.refusal("q", "memory-0") is None


def test_what_others_are_guaranteed_is_kept_from_a_queue() -> None:
    given = a_world(held=8).queue("s", guarantee={"resource": {"cpu": "2"}})

    assert Desk(given).refusal("q", "more-0") is not None
    assert Desk(given).refusal("s", "more-0") is None


def test_what_a_queue_deserves_refuses_nobody() -> None:
    assert Desk(a_world(held=6, deserved={"cpu": "1"})).refusal("q", "more-0") is None


def test_room_that_was_promised_in_this_session_counts_until_it_is_taken_back() -> None:
    desk = Desk(a_world(held=3, capability={"cpu": "4"}))
    statement = desk.session.statement()

    assert statement.pipeline(desk.stage.task("more-0"), desk.stage.node("n1")) is None
    assert desk.refusal("q", "more-1") is not None
    statement.discard()

    assert desk.refusal("q", "more-1") is None


def test_a_cluster_that_shrinks_below_what_is_held_denies_and_does_not_fail() -> None:
    given = a_world(held=8, deserved={"cpu": "8"})
    given.objects = [item for item in given.objects if item["kind"] != "Node"]
    desk = Desk(given.node("n1", cpu=2))

    assert desk.refusal("q", "more-0") is not None
    assert desk.may_preempt("q", "more-0") is False
    assert desk.order("q", "r") == ["r", "q"]


# -- a hierarchy ------------------------------------------------------------------------------------------------------


def a_tree(**department: Any) -> ClusterBuilder:
    """A department with teams a and b; three pods of a run. Pods of all want in."""
    given = a_cluster().node("n1", cpu=10, memory="10Gi").queue("department", **department)
    given.queue("a", parent="department").queue("b", parent="department").queue("c")
    given.group("run", "a", phase="Running")
    for index in range(3):
        given.pod(f"run-{index}", "run", on="n1", cpu=1)
    for name in ("department", "a", "b", "c"):
        given.job(f"more-{name}", 2, queue=name, cpu=1)
    return given


def test_what_a_queue_above_may_have_refuses_a_task() -> None:
    desk = Desk(a_tree(capability={"cpu": "3"}), tree=True)

    refusal = desk.refusal("b", "more-b-0")

    assert refusal is not None
    assert refusal.message == 'queue "department", above "b", may have no more: cpu: requested 1, used 3, limit 3'
    assert desk.refusal("c", "more-c-0") is None


def test_queues_above_do_not_count_without_the_switch() -> None:
    assert Desk(a_tree(capability={"cpu": "3"})).refusal("b", "more-b-0") is None


@pytest.mark.parametrize("queue", ["department", "root"])
def test_a_queue_with_others_below_it_takes_no_work(queue: str) -> None:
    given = a_tree().group("here", queue, phase="Pending").queue("root")
    desk = Desk(given, tree=True)

    refusal, not_admitted = desk.refusal(queue, "more-c-0"), desk.not_admitted("here")

    assert refusal is not None
    assert not_admitted is not None
    assert refusal.reason == not_admitted.reason == "NotALeafQueue"
    assert (refusal.step, not_admitted.step) == (Step.ALLOCATABLE, Step.ENQUEUE)
    assert f'queue "{queue}" has queues below it' in refusal.message
    assert Desk(given).not_admitted("here") is None


def test_work_in_a_queue_above_others_stops_nobody_else() -> None:
    decision = decide(a_tree(), tree_conf("enqueue, allocate", "gang", "predicates capacity"))

    assert {name.rsplit("-", 1)[0] for name in decision.bindings} == {"more-a", "more-b", "more-c"}


def test_a_queue_whose_parent_does_not_exist_takes_no_work_and_the_others_do() -> None:
    given = a_tree().queue("stray", parent="nowhere").queue("below", parent="stray")
    given.job("stray", 1, queue="stray", cpu=1).job("below", 1, queue="below", cpu=1)
    text = tree_conf("enqueue, allocate", "gang", "predicates capacity")

    decision = decide(given, text)

    assert decision.waiting["below-0"] == (
        'queue "below" has no place in the hierarchy of queues: "nowhere" above it does not exist; correct spec.parent'
    )
    assert "stray-0" in decision.waiting
    assert "more-c-0" in decision.bindings


def test_what_a_cluster_has_now_limits_no_queue_of_a_hierarchy() -> None:
    given = a_tree().group("large", "c", phase="Pending", minResources={"cpu": "64"})
    given.group("odd", "c", phase="Pending", minResources={"example.com/none": "1"})

    assert Desk(given, tree=True).not_admitted("large") is None
    assert Desk(given).not_admitted("large") is not None
    assert Desk(given, tree=True).not_admitted("odd") is not None


# -- admission --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ADMISSION)
def test_a_job_is_admitted_when_its_minimum_fits_into_what_its_queue_may_have(what: str) -> None:
    keywords, expected = ADMISSION[what]

    refusal = Desk(a_job_to_admit(**keywords)).not_admitted("new")

    assert (refusal is None) is expected
    if refusal is not None:
        assert refusal.message.startswith("queue resource quota insufficient: insufficient ")
        assert 'queue "q"' in refusal.message


def test_jobs_admitted_in_one_session_count_for_the_next_of_it_in_all_queues_above() -> None:
    given = a_cluster().node("n1", cpu=10).queue("above", capability={"cpu": "5"})
    given.queue("a", parent="above").queue("b", parent="above")
    for index in range(3):
        stamp = f"2026-01-01T00:00:0{index}Z"
        given.group(f"g{index}", "ab"[index % 2], phase="Pending", created=stamp, minResources={"cpu": "2"})

    decision = decide(given, tree_conf("enqueue", "capacity"))

    assert sorted(phases(decision).values()) == ["Inqueue", "Inqueue", "Pending"]
    [waiting] = [job.refusal for job in decision.cluster.jobs.values() if job.refusal is not None]
    assert waiting.message == (
        'queue resource quota insufficient: insufficient cpu (queue "above": cpu: requested 2, used 4, limit 5)'
    )


def test_a_reject_of_another_plugin_reserves_nothing() -> None:
    given = a_cluster().node("n1", cpu=4).queue("q", capability={"cpu": "10"})
    given.group("large", "q", phase="Pending", created="2026-01-01T00:00:00Z", minResources={"cpu": "8"})
    given.group("small", "q", phase="Pending", created="2026-01-01T00:00:01Z", minResources={"cpu": "4"})

    decision = decide(given, conf("enqueue", "capacity overcommit"))

    assert phases(decision) == {"large": "Pending", "small": "Inqueue"}


# -- order ------------------------------------------------------------------------------------------------------------


def test_priority_goes_before_share_and_what_deserves_nothing_comes_after_what_lacks_some() -> None:
    given = a_world(held=2, deserved={"cpu": "4"}).queue("low", priority=-1, deserved={"cpu": "9"})
    given.queue("high", priority=7).queue("fresh", deserved={"cpu": "1"}).queue("full", deserved={"cpu": "1"})
    given.group("fill", "full", phase="Running").pod("fill-0", "fill", on="n1", cpu=1)
    desk = Desk(given)

    assert desk.order("q", "r", "low", "high", "fresh", "full") == ["high", "fresh", "q", "full", "r", "low"]


def test_a_share_is_that_of_the_scarcest_resource_and_follows_placements() -> None:
    given = a_world(held=1, deserved={"cpu": "8", "memory": "2Gi"}).queue("s", deserved={"cpu": "4"})
    given.group("fill", "s", phase="Running").pod("fill-0", "fill", on="n1", cpu=1)
    given.job("wide", 1, queue="q", cpu="100m", memory="1Gi")
    desk = Desk(given)

    assert desk.order("q", "s") == ["q", "s"]
    assert desk.stage.place("wide-0") == "n1"
    assert desk.order("q", "s") == ["s", "q"]


def test_in_a_hierarchy_the_queues_are_compared_where_their_ways_part() -> None:
    given = a_cluster().node("n1", cpu=10).queue("x", deserved={"cpu": "4"}).queue("y", deserved={"cpu": "4"})
    given.queue("x1", parent="x", deserved={"cpu": "4"}).queue("x2", parent="x", deserved={"cpu": "1"})
    given.queue("y1", parent="y", deserved={"cpu": "1"})
    given.group("run", "x1", phase="Running").pod("run-0", "run", on="n1", cpu=3)
    given.group("fill", "y1", phase="Running").pod("fill-0", "fill", on="n1", cpu=1)
    desk = Desk(given, tree=True)

    assert desk.order("x1", "x2", "y1") == ["y1", "x2", "x1"]  # y has a quarter, x three; then x2 nothing
    assert Desk(given).order("x1", "x2", "y1") == ["x2", "x1", "y1"]


def test_of_equal_queues_above_all_below_the_older_go_first() -> None:
    given = a_cluster().node("n1", cpu=10).queue("y").queue("x")
    given.queue("y1", parent="y", deserved={"cpu": "4"}).queue("x1", parent="x").queue("x2", parent="x", priority=-1)
    for item in given.objects:
        late = item["metadata"]["name"] in ("y", "y1")
        item["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{int(late)}Z"

    assert Desk(given, tree=True).order("x1", "x2", "y1") == ["x1", "y1", "x2"]
    assert Desk(given).order("x1", "y1") == ["y1", "x1"]


def test_a_new_due_counts_in_the_next_session() -> None:
    given = a_world(held=2, deserved={"cpu": "4"}).queue("s", deserved={"cpu": "4"})
    given.group("fill", "s", phase="Running").pod("fill-0", "fill", on="n1", cpu=1)
    desk = Desk(given)
    first = desk.order("q", "s")

    desk.stage.apply(put(a_queue("s", deserved={"cpu": "1"})))
    desk.stage.reopen()

    assert (first, desk.order("q", "s")) == (["s", "q"], ["q", "s"])


def test_a_queue_that_is_put_below_another_one_takes_along_what_it_holds() -> None:
    given = a_tree(capability={"cpu": "4"}).group("fill", "c", phase="Running")
    desk = Desk(given.pod("fill-0", "fill", on="n1", cpu=1), tree=True)
    first = desk.refusal("c", "more-c-0")

    desk.stage.apply(put(a_queue("c", parent="department")))
    desk.stage.reopen()
    second = desk.refusal("c", "more-c-0")

    assert first is None
    assert second is not None
    assert second.message.endswith('"department", above "c", may have no more: cpu: requested 1, used 4, limit 4')
