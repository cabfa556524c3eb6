"""Pods in the mirror: how they come, change, are assumed, finish and go."""

from __future__ import annotations

from typing import Any

import pytest

from tests.amounts import future_idle
from tests.mirror.objects import Believer, gone, group, node, pod, queue
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import BindFailed, Bound, Deleted, EvictFailed
from volsched.model.pods.claim_use import ResourceClaimUse
from volsched.model.status import TaskStatus

PLAIN = MirrorSettings(plain_pods=True)


# -- whose pods, and how they stand -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "standing"),
    [
        ({}, ("PENDING", None)),
        ({"on": "n1", "phase": "Pending"}, ("BOUND", "n1")),
        ({"on": "n1"}, ("RUNNING", "n1")),
        ({"on": "n1", "phase": "Unknown"}, ("UNKNOWN", "n1")),
        ({"on": "n1", "deleted": True}, ("RELEASING", "n1")),
        ({"on": "n1", "phase": "Pending", "deleted": True}, ("RELEASING", "n1")),
        ({"deleted": True}, ("PENDING", None)),
        ({"on": "n1", "phase": "Succeeded"}, ("SUCCEEDED", None)),
        ({"on": "n1", "phase": "Failed"}, ("FAILED", None)),
        ({"on": "n1", "phase": "Succeeded", "deleted": True}, ("SUCCEEDED", None)),
        ({"on": "elsewhere"}, ("RUNNING", None)),
    ],
)
def test_a_pod_stands_as_its_phase_its_node_and_its_deletion_say(
    given: dict[str, Any], standing: tuple[str, str | None]
) -> None:
    believer = Believer(node("n1"), pod("p", cpu=1, **given))

    assert believer.standing("p") == standing
    assert believer.used("n1") == (1_000 if standing[1] else 0)


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ({}, True),
        ({"scheduler": "volcano"}, True),
        ({"scheduler": "default-scheduler"}, False),  # waits for somebody else
        ({"scheduler": "default-scheduler", "on": "n1"}, True),  # takes room
        ({"scheduler": "default-scheduler", "on": "n1", "phase": "Succeeded"}, False),
        ({"scheduler": "default-scheduler", "group": "g"}, True),  # a member of one of our groups
        ({"phase": "Succeeded"}, True),  # counts in its group
    ],
)
def test_our_pods_are_known_in_every_state_and_others_when_they_take_room(given: dict[str, Any], known: bool) -> None:
    believer = Believer(node("n1"), pod("p", cpu=1, **given))

    assert len(believer.cluster.tasks) == known


def test_a_pod_of_another_scheduler_is_taken_in_when_it_gets_a_node_and_never_placed_by_us() -> None:
    believer = Believer(node("n1"), pod("p", cpu=1, scheduler="other"))
    believer.apply(pod("p", cpu=1, scheduler="other", on="n1"))

    assert believer.standing("p") == ("RUNNING", "n1")
    assert (believer.used("n1"), believer.task("p").spec.is_managed, believer.task("p").job) == (1_000, False, None)

    believer.apply(pod("p", cpu=1, scheduler="other", on="n1", phase="Failed"))

    assert (believer.standing("p"), believer.used("n1")) == (("FAILED", None), 0)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_gives_its_room_and_its_quota_back_and_stays_a_member(phase: str) -> None:
    believer = Believer(node("n1"), group("g", minimum=2), pod("p", "g", "n1", cpu=2), pod("q", "g", "n1", cpu=1))
    job = believer.cluster.jobs["default/g"]
    assert (believer.used("n1"), believer.allocated(), job.ready_count) == (3_000, 3_000, 2)

    believer.apply(pod("p", "g", "n1", phase, cpu=2))

    assert (believer.used("n1"), believer.allocated()) == (1_000, 1_000)
    assert job.ready_count == (2 if phase == "Succeeded" else 1)
    assert len(job.tasks) == 2


def test_a_pod_that_is_being_deleted_keeps_its_room_and_leaves_its_quota() -> None:
    believer = Believer(node("n1"), group("g"), pod("p", "g", "n1", cpu=2))

    believer.apply(pod("p", "g", "n1", cpu=2, deleted=True))

    one = believer.cluster.nodes["n1"]
    assert (one.used_of("cpu"), future_idle(believer.cluster, one, "cpu"), believer.allocated()) == (2_000, 8_000, 0)
    assert list(believer.cluster.node_cache.with_terminating_pods) == ["n1"]

    believer.apply(gone("Pod", "p"))

    assert (one.used_of("cpu"), believer.cluster.node_cache.with_terminating_pods, believer.cluster.tasks) == (
        0,
        {},
        {},
    )


def test_an_update_with_the_version_that_is_known_is_passed_over() -> None:
    believer = Believer(node("n1"), pod("p", version=7, cpu=1))

    believer.apply(pod("p", version=7, on="n1", cpu=1))
    assert believer.standing("p") == ("PENDING", None)

    believer.apply(pod("p", version=8, on="n1", cpu=1))
    assert believer.standing("p") == ("RUNNING", "n1")


def test_a_pod_that_is_gone_was_perhaps_never_known() -> None:
    believer = Believer(
        gone("Pod", "p"), Deleted("Node", "", "n", "u"), Deleted("Queue", "", "q", ""), gone("PodGroup", "g")
    )

    assert believer.cluster.tasks == {}


# -- assumed pods -----------------------------------------------------------------------------------------------------


def assumed(*more: Any, **requests: Any) -> Believer:
    believer = Believer(node("n1"), node("n2"), group("g"), pod("p", "g", version=1, cpu=1, **requests), *more)
    believer.assume("p", "n1")
    return believer


def test_an_assumed_pod_holds_its_room_whatever_the_watch_still_shows() -> None:
    believer = assumed()

    believer.apply(
        pod("p", "g", version=2, cpu=1, status={"conditions": [{"type": "PodScheduled", "status": "False"}]})
    )

    assert believer.standing("p") == ("BINDING", "n1")
    assert (believer.used("n1"), believer.allocated()) == (1_000, 1_000)


@pytest.mark.parametrize("order", ["bound first", "watch first", "only the watch", "runs at once"])
def test_a_binding_that_came_true_ends_the_same_in_every_order(order: str) -> None:
    believer = assumed()
    shown = pod("p", "g", "n1", "Pending", version=2, cpu=1)
    bound = Bound("uid-p", "n1")
    position = believer.cluster.node_cache.usage_log.end

    match order:
        case "bound first":
            believer.apply(bound)
            assert believer.standing("p") == ("BOUND", "n1")
            believer.apply(shown)
        case "watch first":
            believer.apply(shown)
            believer.apply(bound)
        case "only the watch":
            believer.apply(shown)
        case "runs at once":
            believer.apply(pod("p", "g", "n1", version=2, cpu=1), bound)
            assert believer.standing("p") == ("RUNNING", "n1")
            return

    assert believer.standing("p") == ("BOUND", "n1")
    assert (believer.used("n1"), believer.allocated()) == (1_000, 1_000)
    assert believer.cluster.node_cache.usage_log.end == position, (
        "nothing has to be asked again: the room was taken before"
    )


def test_after_the_binding_is_known_an_older_update_takes_nothing_back() -> None:
    believer = assumed()

    believer.apply(Bound("uid-p", "n1"), pod("p", "g", version=2, cpu=1))

    assert believer.standing("p") == ("BOUND", "n1")


def test_a_pod_that_somebody_else_bound_elsewhere_is_where_the_watch_shows_it() -> None:
    believer = assumed()

    believer.apply(pod("p", "g", "n2", "Pending", version=2, cpu=1))
    believer.apply(BindFailed("uid-p", "n1", "pod p is already assigned to node n2", None))

    assert believer.standing("p") == ("BOUND", "n2")
    assert (believer.used("n1"), believer.used("n2")) == (0, 1_000)
    assert not believer.task("p").backing_off


def test_an_assumed_pod_that_finished_unseen_is_finished() -> None:
    believer = assumed()

    believer.apply(pod("p", "g", None, "Failed", version=2, cpu=1))

    assert (believer.standing("p"), believer.used("n1")) == (("FAILED", None), 0)


def test_an_assumed_pod_that_is_deleted_before_it_is_bound_gives_its_room_back() -> None:
    believer = assumed()

    believer.apply(pod("p", "g", version=2, cpu=1, deleted=True))

    assert (believer.standing("p"), believer.used("n1")) == (("PENDING", None), 0)
    assert list(believer.cluster.jobs["default/g"].schedulable()) == []


def test_an_assumed_pod_that_is_gone_gives_its_room_back() -> None:
    believer = assumed()

    believer.apply(gone("Pod", "p"), Bound("uid-p", "n1"))

    assert (believer.used("n1"), believer.allocated(), believer.cluster.tasks) == (0, 0, {})


# -- bindings that fail -----------------------------------------------------------------------------------------------


def schedulable(believer: Believer) -> list[str]:
    return [task.name for task in believer.cluster.jobs["default/g"].schedulable()]


def test_a_binding_that_failed_gives_the_room_back_and_holds_the_pod_until_its_time() -> None:
    believer = assumed()

    believer.apply(BindFailed("uid-p", "n1", "no route to host", 100.0))

    assert (believer.standing("p"), believer.used("n1"), believer.allocated()) == (("PENDING", None), 0, 0)
    refusal = believer.task("p").refusal
    assert refusal is not None
    assert refusal.message == 'binding to node "n1" failed: no route to host'
    assert (schedulable(believer), believer.mirror.next_retry()) == ([], 100.0)

    believer.mirror.tick(99.9)
    assert schedulable(believer) == []

    believer.cluster.jobs["default/g"].unschedulable_at = believer.cluster.generations.requeue
    believer.mirror.tick(100.0)
    assert (schedulable(believer), believer.mirror.next_retry()) == (["p"], None)
    assert believer.cluster.jobs["default/g"].unschedulable_at != believer.cluster.generations.requeue, (
        "the job is worth another try"
    )


def test_a_pod_in_back_off_is_not_let_in_by_an_update_that_says_nothing_new() -> None:
    """Such as the condition that we write about the failure itself: it would end every back-off at once."""
    believer = assumed()

    believer.apply(BindFailed("uid-p", "n1", "no", 100.0), pod("p", "g", version=2, cpu=1))

    assert (schedulable(believer), believer.mirror.next_retry()) == ([], 100.0)


def test_a_pod_that_failed_for_good_is_held_until_it_changes() -> None:
    believer = assumed()

    believer.apply(BindFailed("uid-p", "n1", "no", None))
    believer.mirror.tick(10.0**12)
    assert (schedulable(believer), believer.mirror.next_retry()) == ([], None)

    believer.apply(pod("p", "g", version=2, cpu=1))
    assert schedulable(believer) == ["p"]


def test_a_pod_that_asks_for_something_else_now_is_not_held_for_its_past() -> None:
    believer = assumed()

    believer.apply(BindFailed("uid-p", "n1", "no", 100.0), pod("p", "g", version=2, cpu=2))

    assert (schedulable(believer), believer.mirror.next_retry()) == (["p"], None)


def test_a_second_failure_is_waited_for_and_not_the_time_of_the_first() -> None:
    believer = assumed()
    believer.apply(BindFailed("uid-p", "n1", "no", 100.0))
    believer.mirror.tick(100.0)
    believer.assume("p", "n1")
    believer.apply(BindFailed("uid-p", "n1", "no", 200.0))
    believer.mirror.tick(150.0)
    assert schedulable(believer) == []

    believer.apply(pod("p", "g", version=2, cpu=2))
    believer.assume("p", "n1")
    believer.apply(BindFailed("uid-p", "n1", "no", 300.0))
    believer.mirror.tick(250.0)
    assert (schedulable(believer), believer.mirror.next_retry()) == ([], 300.0)

    believer.mirror.tick(300.0)
    assert schedulable(believer) == ["p"]


def test_a_failure_that_speaks_of_another_node_is_an_old_one() -> None:
    believer = assumed()

    believer.apply(BindFailed("uid-p", "n2", "no", None))

    assert believer.standing("p") == ("BINDING", "n1")


def test_the_earliest_of_several_retries_is_the_next() -> None:
    believer = Believer(node("n1"), group("g"), *(pod(f"p{i}", "g", cpu=1) for i in range(3)))
    for number, when in enumerate((30.0, 10.0, 20.0)):
        believer.assume(f"p{number}", "n1")
        believer.apply(BindFailed(f"uid-p{number}", "n1", "no", when))

    assert believer.mirror.next_retry() == 10.0
    believer.apply(gone("Pod", "p1"))
    assert believer.mirror.next_retry() == 20.0
    believer.mirror.tick(25.0)
    assert (schedulable(believer), believer.mirror.next_retry()) == (["p2"], 30.0)


def test_a_victim_that_could_not_be_deleted_stays_where_it_is() -> None:
    believer = Believer(node("n1"), group("g"), pod("p", "g", "n1", cpu=1))
    task = believer.task("p")
    believer.cluster.move(task, TaskStatus.RELEASING, task.node)

    believer.apply(EvictFailed("uid-p", "forbidden"))

    assert (believer.standing("p"), believer.allocated(), believer.cluster.node_cache.with_terminating_pods) == (
        ("RUNNING", "n1"),
        1_000,
        {},
    )


def test_a_victim_that_is_being_deleted_is_not_taken_back() -> None:
    believer = Believer(node("n1"), group("g"), pod("p", "g", "n1", cpu=1, deleted=True))

    believer.apply(EvictFailed("uid-p", "timeout"))

    assert believer.standing("p") == ("RELEASING", "n1")


# -- nodes that come late, and nodes that go --------------------------------------------------------------------------


def test_a_pod_whose_node_is_not_known_yet_waits_for_it() -> None:
    believer = Believer(group("g"), pod("p", "g", "n1", cpu=1))
    assert (believer.standing("p"), believer.allocated()) == (("RUNNING", None), 1_000)

    believer.apply(node("n1"))

    assert (believer.standing("p"), believer.used("n1"), believer.allocated()) == (("RUNNING", "n1"), 1_000, 1_000)


@pytest.mark.parametrize(
    ("change", "standing", "used"),
    [
        (pod("p", "g", "n1", "Succeeded", cpu=1), ("SUCCEEDED", None), 0),
        (pod("p", "g", "n1", cpu=1, deleted=True), ("RELEASING", "n1"), 1_000),
        (pod("p", "g", "n1", cpu=2), ("RUNNING", "n1"), 2_000),
    ],
)
def test_what_happens_to_a_pod_before_its_node_is_known_is_known_then(
    change: Any, standing: tuple[str, str | None], used: int
) -> None:
    believer = Believer(group("g"), pod("p", "g", "n1", cpu=1))

    believer.apply(change)
    believer.apply(node("n1"))

    assert (believer.standing("p"), believer.used("n1")) == (standing, used)


def test_a_pod_that_went_before_its_node_came_is_not_looked_for() -> None:
    believer = Believer(pod("p", on="n1", cpu=1), gone("Pod", "p"), node("n1"))

    assert believer.used("n1") == 0


def test_running_pods_outlive_their_node_until_somebody_deletes_them() -> None:
    believer = Believer(node("n1"), node("n2"), group("g"), pod("p", "g", "n1", cpu=1))

    believer.apply(gone("Node", "n1"))
    assert (believer.standing("p"), believer.allocated(), believer.cluster.node_cache.totals[0]) == (
        ("RUNNING", None),
        1_000,
        8_000,
    )

    believer.apply(node("n1"))
    assert (believer.standing("p"), believer.used("n1")) == (("RUNNING", "n1"), 1_000)

    believer.apply(gone("Node", "n1"), gone("Pod", "p"), node("n1"))
    assert (believer.used("n1"), believer.allocated()) == (0, 0)


def test_a_pod_whose_node_goes_while_its_binding_is_under_way_can_go_elsewhere() -> None:
    believer = assumed()

    believer.apply(gone("Node", "n1"))
    assert (believer.standing("p"), schedulable(believer)) == (("PENDING", None), ["p"])

    believer.apply(BindFailed("uid-p", "n1", "the node is gone", 100.0))
    assert schedulable(believer) == ["p"], "that was known"


def test_a_binding_to_a_node_that_went_meanwhile_came_true_all_the_same() -> None:
    """The API server accepts it; the pod must not be bound again while nothing shows it yet."""
    believer = assumed()

    believer.apply(gone("Node", "n1"), Bound("uid-p", "n1"))
    assert (believer.standing("p"), schedulable(believer)) == (("BOUND", None), [])

    believer.apply(node("n1"))
    assert (believer.standing("p"), believer.used("n1")) == (("BOUND", "n1"), 1_000)


def test_a_binding_of_the_past_does_not_confirm_the_one_under_way() -> None:
    believer = assumed()

    believer.apply(gone("Node", "n1"))
    believer.assume("p", "n2")
    believer.apply(Bound("uid-p", "n1"))

    assert believer.standing("p") == ("BOUND", None), "the pod is on n1, wherever that is, and not on n2"
    believer.apply(pod("p", "g", "n1", version=2, cpu=1), BindFailed("uid-p", "n2", "is on n1", None))
    assert (believer.standing("p"), believer.used("n2")) == (("RUNNING", None), 0)


def test_a_bound_pod_stays_bound_when_its_node_goes() -> None:
    believer = assumed()

    believer.apply(Bound("uid-p", "n1"), gone("Node", "n1"))
    assert (believer.standing("p"), schedulable(believer)) == (("BOUND", None), [])

    believer.apply(pod("p", "g", version=2, cpu=1), node("n1"))
    assert (believer.standing("p"), believer.used("n1")) == (("BOUND", "n1"), 1_000)


def test_a_bound_pod_without_its_node_that_is_deleted_does_not_come_back_with_the_node() -> None:
    believer = assumed()
    believer.apply(Bound("uid-p", "n1"), gone("Node", "n1"))

    believer.apply(pod("p", "g", version=2, cpu=1, deleted=True), node("n1"))
    assert (believer.standing("p"), believer.used("n1")) == (("PENDING", None), 0)

    believer.apply(pod("p", "g", "n1", version=3, cpu=1, deleted=True))
    assert (believer.standing("p"), believer.used("n1")) == (("RELEASING", "n1"), 1_000)


def test_a_bound_pod_without_its_node_keeps_its_place_when_it_changes() -> None:
    believer = assumed()
    believer.apply(Bound("uid-p", "n1"), gone("Node", "n1"))

    believer.apply(pod("p", "g", version=2, cpu=2))
    assert (believer.standing("p"), schedulable(believer)) == (("BOUND", None), [])

    believer.apply(node("n1"))
    assert (believer.standing("p"), believer.used("n1")) == (("BOUND", "n1"), 2_000)


# -- pods that change -------------------------------------------------------------------------------------------------


def test_a_pod_that_asks_for_something_else_is_charged_for_that() -> None:
    believer = Believer(node("n1"), group("g"), pod("p", "g", "n1", cpu=1), pod("q", "g", cpu=1))

    believer.apply(pod("p", "g", "n1", cpu=3), pod("q", "g", cpu=2))

    assert (believer.used("n1"), believer.allocated()) == (3_000, 3_000)
    assert believer.task("q").template.request == {"cpu": 2_000}


def test_an_assumed_pod_that_asks_for_something_else_stays_assumed() -> None:
    believer = assumed()

    believer.apply(pod("p", "g", version=2, cpu=3))

    assert (believer.standing("p"), believer.used("n1"), believer.allocated()) == (("BINDING", "n1"), 3_000, 3_000)


@pytest.mark.parametrize(("given", "standing"), [({"deleted": True}, "PENDING"), ({"phase": "Failed"}, "FAILED")])
def test_an_assumed_pod_that_changes_and_ends_at_once_has_ended(given: dict[str, Any], standing: str) -> None:
    believer = assumed()

    believer.apply(pod("p", "g", version=2, cpu=3, **given))

    assert (believer.standing("p"), believer.used("n1")) == ((standing, None), 0)


def test_a_pod_that_names_another_claim_is_taken_in_anew() -> None:
    believer = Believer(pod("p", cpu=1, spec={"resourceClaims": [{"name": "a", "resourceClaimName": "c"}]}))
    before = believer.task("p")

    believer.apply(pod("p", cpu=1, spec={"resourceClaims": [{"name": "a", "resourceClaimName": "d"}]}))

    assert believer.task("p") is not before
    assert believer.task("p").spec.resource_claims == (ResourceClaimUse("a", claim="d"),)


def test_a_pod_keeps_its_age_when_it_changes() -> None:
    believer = Believer(group("g"), pod("a", "g", cpu=1), pod("b", "g", cpu=1))

    believer.apply(pod("a", "g", cpu=2))

    assert believer.task("a").created < believer.task("b").created


@pytest.mark.parametrize(("on", "members"), [(None, [0, 1]), ("n1", [1, 0])])
def test_a_pod_that_names_another_group_joins_it_unless_it_was_placed(on: str | None, members: list[int]) -> None:
    believer = Believer(node("n1"), queue("q"), group("g"), group("h", "q"), pod("p", "g", on, cpu=2))

    believer.apply(pod("p", "h", on, cpu=2))

    assert [len(believer.cluster.jobs[f"default/{name}"].tasks) for name in "gh"] == members
    assert (believer.allocated(), believer.allocated("q")) == (2_000 if on else 0, 0)


def test_labels_of_a_placed_pod_are_told_as_a_move_out_and_back() -> None:
    believer = Believer(node("n1"), pod("p", on="n1", labels={"app": "a"}, cpu=1))
    generation = believer.cluster.generations.requeue

    believer.apply(pod("p", on="n1", labels={"app": "b"}, cpu=1))

    assert (believer.task("p").spec.labels, believer.standing("p")) == ({"app": "b"}, ("RUNNING", "n1"))
    assert believer.cluster.generations.requeue > generation, "somebody may want to be near b, or apart from a"


def test_labels_of_a_waiting_pod_make_its_job_worth_another_try() -> None:
    """Others may keep away from what it was, and not from what it is."""
    believer = Believer(group("g"), pod("p", "g", labels={"app": "a"}, cpu=1))
    job = believer.cluster.jobs["default/g"]
    job.unschedulable_at = believer.cluster.generations.requeue

    believer.apply(pod("p", "g", labels={"app": "b"}, cpu=1))

    assert job.unschedulable_at != believer.cluster.generations.requeue


def test_gates_keep_a_pod_out_and_say_so_until_they_are_lifted() -> None:
    believer = Believer(group("g"), pod("p", "g", gates=["example.com/a", "example.com/b"], cpu=1))
    task = believer.task("p")
    assert task.refusal is not None
    assert (task.refusal.reason, task.refusal.message) == (
        "SchedulingGated",
        "scheduling is gated by example.com/a, example.com/b",
    )
    assert schedulable(believer) == []
    believer.cluster.jobs["default/g"].unschedulable_at = believer.cluster.generations.requeue

    believer.apply(pod("p", "g", cpu=1))

    assert (schedulable(believer), believer.task("p").refusal) == (["p"], None)
    assert believer.cluster.jobs["default/g"].unschedulable_at != believer.cluster.generations.requeue


def test_volcanos_own_gate_is_ours_to_lift() -> None:
    believer = Believer(group("g"), pod("p", "g", gates=["scheduling.volcano.sh/queue-allocation-gate"], cpu=1))

    assert (schedulable(believer), believer.task("p").spec.admission_gate) == (["p"], True)


# -- pods without a PodGroup ------------------------------------------------------------------------------------------


def test_a_plain_pod_waits_for_a_podgroup_that_a_controller_makes() -> None:
    believer = Believer(pod("p", cpu=1))
    job = believer.task("p").job
    assert job is not None
    assert (job.spec.has_group, job.spec.implicit) == (False, False)

    believer.apply(group("podgroup-x"), pod("p", "podgroup-x", cpu=1))

    assert list(believer.cluster.jobs) == ["default/podgroup-x"]
    assert believer.task("p").job is believer.cluster.jobs["default/podgroup-x"]


def test_a_plain_pod_is_a_job_of_one_when_so_configured() -> None:
    believer = Believer(pod("p", cpu=1), settings=PLAIN)
    job = believer.task("p").job

    assert job is not None
    assert (job.spec.implicit, job.queue, job.spec.min_available) == (True, "default", 1)
    believer.apply(gone("Pod", "p"))
    assert believer.cluster.jobs == {}


def test_a_plain_pod_that_is_made_again_under_its_name_is_another_job() -> None:
    """The new one may be seen before the old one is known to be gone."""
    believer = Believer(node("n1"), pod("p", uid="1", on="n1", cpu=1), settings=PLAIN)

    believer.apply(pod("p", uid="2", cpu=1))
    believer.apply(gone("Pod", "p", uid="1"))

    assert believer.standing("p") == ("PENDING", None)
    assert [task.uid for job in believer.cluster.queue_cache.waiting.values() for task in job.schedulable()] == ["2"]


def test_pods_that_came_before_their_podgroup_are_its_members() -> None:
    believer = Believer(pod("p", "g", cpu=1), pod("q", "g", cpu=1))
    job = believer.cluster.jobs["default/g"]
    assert (job.spec.has_group, len(job.tasks)) == (False, 2)

    believer.apply(group("g", minimum=2))

    assert believer.cluster.jobs["default/g"] is job
    assert (job.spec.has_group, job.spec.min_available) == (True, 2)


def test_a_group_that_only_its_pods_name_goes_with_the_last_of_them() -> None:
    believer = Believer(pod("p", "g", cpu=1), pod("q", "g", cpu=1), gone("Pod", "p"))
    assert list(believer.cluster.jobs) == ["default/g"]

    believer.apply(gone("Pod", "q"))

    assert believer.cluster.jobs == {}


# -- what else a pod says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "attribute", "value"),
    [
        ({"annotations": {"volcano.sh/task-spec": "worker"}}, "role", "worker"),
        ({"labels": {"volcano.sh/task-spec": "worker"}}, "role", "worker"),
        ({"annotations": {"volcano.sh/task-spec": "a"}, "labels": {"volcano.sh/task-spec": "b"}}, "role", "a"),
        ({}, "role", ""),
        ({"spec": {"priority": 7}}, "priority", 7),
        ({}, "priority", 1),
        ({"spec": {"priority": 7}, "annotations": {"volcano.sh/task-priority": "9"}}, "priority", 9),
        ({"spec": {"priority": 7}, "annotations": {"volcano.sh/task-priority": "high"}}, "priority", 7),
        ({}, "preemptable", True),
        ({"annotations": {"volcano.sh/preemptable": "false"}}, "preemptable", False),
        ({"labels": {"volcano.sh/preemptable": "false"}}, "preemptable", False),
        ({"labels": {"volcano.sh/preemptable": "false"}, "annotations": {"volcano.sh/preemptable": "true"}},
         "preemptable", True),
        ({"annotations": {"volcano.sh/preemptable": "perhaps"}}, "preemptable", False),
        ({}, "preempts", True),
        ({"spec": {"preemptionPolicy": "Never"}}, "preempts", False),
        ({"status": {"nominatedNodeName": "n1"}}, "nominated", "n1"),
        ({"created": "1970-01-01T00:01:00Z"}, "created", 60.0),
        ({"scheduler": "volcano"}, "is_managed", True),
        ({"spec": {"resourceClaims": [{"name": "a", "resourceClaimName": "c"}]}}, "resource_claims",
         (ResourceClaimUse("a", claim="c"),)),
        ({"spec": {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}]}}, "resource_claims",
         (ResourceClaimUse("a", template="t"),)),
        ({"status": {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "c"}, {"name": "b"}]}},
         "claim_names", (("a", "c"), ("b", None))),
    ],
)  # fmt: skip
def test_a_task_says_what_its_pod_says(given: dict[str, Any], attribute: str, value: Any) -> None:
    task = Believer(pod("p", cpu=1, **given)).task("p")

    assert getattr(task if attribute in ("nominated", "created") else task.spec, attribute) == value


def test_pods_without_a_time_of_creation_are_as_old_as_they_arrived() -> None:
    believer = Believer(pod("b", cpu=1), pod("a", cpu=1))

    assert believer.task("b").created < believer.task("a").created


def test_templates_that_nobody_has_any_more_are_forgotten_in_time() -> None:
    believer = Believer(group("g"))
    for number in range(5_000):
        believer.mirror.apply([pod("p", "g", uid=str(number), cpu=number), gone("Pod", "p", uid=str(number))])

    assert len(believer.mirror.templates) < 4_200
    believer.apply(node("n1"), pod("last", "g", on="n1", cpu=2))
    assert believer.used("n1") == 2_000


def test_what_is_known_of_templates_ends_soon_after_their_last_pod() -> None:
    """Large ones, such as of ten thousand keys, would stay for thousands of pods more."""
    believer = Believer(node("n1", cpu=8))
    for number in range(300):
        believer.apply(pod(f"odd-{number}", cpu=1, spec={"nodeSelector": {f"key-{number}": "x"}}))
    assert len(believer.mirror.templates) == 300

    believer.apply(*(gone("Pod", f"odd-{number}") for number in range(300)))

    assert len(believer.mirror.templates) < 64


def test_what_is_kept_by_template_begins_anew_when_half_as_many_are_gone_as_are_left() -> None:
    believer = Believer(*(pod(f"stays-{number}", cpu=number + 1) for number in range(200)))
    before = believer.mirror.cluster.generations.template
    odd = [pod(f"odd-{number}", cpu=1_000 + number) for number in range(150)]

    believer.mirror.apply(odd)
    assert believer.mirror.cluster.generations.template == before
    for found in [*odd, *(pod(f"short-{number}", cpu=1) for number in range(200))]:
        believer.mirror.apply([found, gone("Pod", found.object.metadata.name)])

    assert believer.mirror.cluster.generations.template > before
