"""What was placed counts where it was placed: nobody empties the account of a full queue by writing another name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from tests.actions.rigs import GANG, NODES, conf, cycle, events, rig
from volsched.mirror.apply import Mirror
from volsched.model.api import native_groups as native
from volsched.model.changes import BindFailed, Change, Deleted, KindServed
from volsched.model.job import PodGroupCondition
from volsched.model.native_group import QUEUE_NAME
from volsched.model.plan import WriteGroupStatus, WriteNativeStatus
from volsched.model.queues.kept_queue import QUEUE_KEPT, condition_of, ended, named_nowhere, nowhere_condition, queue_in
from volsched.testing.builders import (
    ClusterBuilder,
    CycleDecision,
    Rig,
    a_cluster,
    a_group,
    a_pod,
    a_queue,
    a_rig,
    puts,
)
from volsched.testing.builders import a_member as member
from volsched.testing.builders import a_native_group as native_group

LIMITED: Final = conf("enqueue, allocate, backfill", GANG, f"{NODES} capacity")
SERVED: Final = KindServed(native.KIND, "scheduling.k8s.io/v1alpha2")
ELSEWHERE: Final = pytest.mark.parametrize("queue", ["b", "nowhere", ""])


def a_full_queue() -> ClusterBuilder:
    """Queue a of two cores, both held by the group "runs"; queue b has as many."""
    cluster = a_cluster().node("n1", cpu=16).queue("a", capability={"cpu": "2"}).queue("b", capability={"cpu": "2"})
    return cluster.group("runs", "a", 2, "Running").pod("r-0", "runs", "n1", cpu=1).pod("r-1", "runs", "n1", cpu=1)


def another_comes(queue: str = "a", name: str = "comes") -> list[Change]:
    return puts(a_group(name, queue, 1), a_pod(f"{name}-0", name, cpu=1))


def put_again(pod: dict[str, Any]) -> Change:
    """A pod as it is shown after an edit."""
    pod["metadata"]["resourceVersion"] = "edited"
    return puts(pod)[0]


def allocated(on: Rig) -> tuple[int, int]:
    """What queues a and b hold, in thousandths of a core."""
    return (on.cluster.queues["a"].allocated.get("cpu", 0), on.cluster.queues["b"].allocated.get("cpu", 0))


def conditions(decision: CycleDecision, name: str) -> dict[str, PodGroupCondition]:
    """The conditions written last of a PodGroup, by type."""
    writes = [
        step for step in decision.steps if isinstance(step, WriteGroupStatus | WriteNativeStatus) and step.name == name
    ]
    return {condition.type: condition for condition in writes[-1].conditions} if writes else {}


def told_in(decision: CycleDecision) -> list[tuple[str, str]]:
    """The Events about a queue that is kept: object and message."""
    return [(about, message) for about, reason, message in events(decision) if reason == QUEUE_KEPT]


def running(*names: str, group: str = "runs", phase: str = "Running") -> list[Change]:
    return puts(*(a_pod(name, group, "n1", phase, cpu=1) for name in names))


# -- PodGroups that name another queue --------------------------------------------------------------------------------


@ELSEWHERE
def test_a_queue_stays_full_when_a_podgroup_whose_pods_run_names_another(queue: str) -> None:
    on = a_rig(a_full_queue(), LIMITED)
    cycle(on)

    decision = cycle(on, *puts(a_group("runs", queue, 2, "Running")), *another_comes())

    assert (decision.bindings, allocated(on)) == ({}, (2000, 0))
    assert 'queue "a" may have no more' in decision.waiting["comes-0"]


def test_no_queue_is_filled_over_and_over_by_moving_what_runs_into_it() -> None:
    on = a_rig(a_full_queue(), LIMITED)
    cycle(on, *another_comes("b", "mine"))

    cycle(on, *puts(a_group("runs", "b", 2, "Running")))

    assert allocated(on) == (2000, 1000)


def test_a_podgroup_is_told_once_in_which_queue_its_pods_count_and_how_it_moves() -> None:
    on = a_rig(a_full_queue(), LIMITED)
    cycle(on)

    decision = cycle(on, *puts(a_group("runs", "b", 2, "Running")))

    words = (
        'its pods count in queue "a", in which they were placed, and so does the PodGroup until none of them runs: '
        'then it moves to queue "b". To move it now, delete its pods'
    )
    assert told_in(decision) == [("PodGroup/runs", words)]
    assert conditions(decision, "runs")[QUEUE_KEPT] == PodGroupCondition(QUEUE_KEPT, "True", QUEUE_KEPT, words)
    again = cycle(on, *running("r-0"))
    assert told_in(again) == []


def test_it_moves_once_none_of_its_pods_runs_and_says_so_no_longer() -> None:
    on = a_rig(a_full_queue(), LIMITED)
    cycle(on)
    cycle(on, *puts(a_group("runs", "b", 2, "Running")))

    cycle(on, *running("r-0", phase="Succeeded"))
    assert on.cluster.jobs["default/runs"].queue == "a"
    decision = cycle(on, *running("r-1", phase="Succeeded"), *another_comes())

    assert on.cluster.jobs["default/runs"].queue == "b"
    assert QUEUE_KEPT not in conditions(decision, "runs")
    assert decision.bindings == {"comes-0": "n1"}
    assert on.cluster.queue_cache.moves.kept == {}


def test_a_podgroup_that_names_its_old_queue_again_is_as_before() -> None:
    on = a_rig(a_full_queue(), LIMITED)
    cycle(on)
    cycle(on, *puts(a_group("runs", "b", 2, "Running")))

    decision = cycle(on, *puts(a_group("runs", "a", 2, "Running")))

    assert allocated(on) == (2000, 0)
    assert QUEUE_KEPT not in conditions(decision, "runs")
    assert on.cluster.queue_cache.moves.kept == {}


def test_members_that_wait_go_on_in_the_queue_of_those_that_run() -> None:
    on = a_rig(a_full_queue().pod("r-2", "runs", cpu=1), LIMITED)
    cycle(on)

    decision = cycle(on, *puts(a_group("runs", "b", 2, "Running")))

    assert decision.bindings == {}
    cycle(on, *running("r-0", phase="Succeeded"))
    assert allocated(on) == (2000, 0)


def test_a_podgroup_of_which_nothing_runs_moves_at_once() -> None:
    on = a_rig(a_full_queue(), LIMITED)
    cycle(on, *another_comes())

    decision = cycle(on, *puts(a_group("comes", "b", 1)))

    assert decision.bindings == {"comes-0": "n1"}
    assert conditions(decision, "comes").get(QUEUE_KEPT) is None


def test_a_podgroup_that_was_admitted_to_one_queue_is_not_thereby_admitted_to_another() -> None:
    """Else whoever has room in one queue would reserve room in another, before those who wait for it there."""
    wants = {"minResources": {"cpu": "2"}}
    cluster = a_full_queue().group("runs", "a", 2, "Running", **wants)  # what is above a minimum reserves nothing
    on = a_rig(cluster.group("early", "b", 1, "Pending", **wants), LIMITED)
    cycle(on)
    assert on.cluster.jobs["default/early"].phase == "Inqueue"

    decision = cycle(on, *puts(a_group("early", "a", 1, "Inqueue", **wants)))

    assert on.cluster.jobs["default/early"].phase == "Pending"
    assert [step.phase for step in decision.steps if isinstance(step, WriteGroupStatus)] == ["Pending"]
    cycle(on, *puts(a_group("early", "a", 1, "Inqueue", annotations={"a": "b"}, **wants)))
    assert on.cluster.jobs["default/early"].phase == "Pending", "a status of before admits nobody"

    cycle(on, *running("r-0", "r-1", phase="Succeeded"))
    assert on.cluster.jobs["default/early"].phase == "Inqueue"
    assert on.cluster.queue_cache.moves.moved == {}


def test_two_changes_at_once_admit_nobody_either() -> None:
    wants = {"minResources": {"cpu": "2"}}
    cluster = a_full_queue().group("runs", "a", 2, "Running", **wants)  # what is above a minimum reserves nothing
    on = a_rig(cluster.group("early", "b", 1, "Pending", **wants), LIMITED)
    cycle(on)
    cycle(on, *puts(a_group("early", "b", 1, "Inqueue", **wants)))

    moved = a_group("early", "a", 1, "Inqueue", **wants)
    cycle(on, *puts(moved, a_group("early", "a", 1, "Inqueue", annotations={"a": "b"}, **wants)))

    assert on.cluster.jobs["default/early"].phase == "Pending"


def test_a_podgroup_moves_when_its_queue_is_gone() -> None:
    on = a_rig(a_full_queue(), LIMITED)
    cycle(on)

    cycle(on, Deleted("Queue", "", "a", "queue--a"), *puts(a_group("runs", "b", 2, "Running")))

    assert on.cluster.queues["b"].allocated["cpu"] == 2000


def test_a_podgroup_made_again_for_pods_that_run_does_not_move_them() -> None:
    on = a_rig(a_full_queue(), LIMITED)
    cycle(on)
    cycle(on, Deleted("PodGroup", "default", "runs", "podgroup-default-runs"))

    decision = cycle(on, *puts(a_group("runs", "b", 2, "Running", metadata={"uid": "another"})), *another_comes())

    assert (decision.bindings, allocated(on)) == ({}, (2000, 0))
    assert conditions(decision, "runs")[QUEUE_KEPT].status == "True"


@pytest.mark.parametrize(
    "touched",
    [
        {"metadata": {"labels": {"touched": "yes"}}},
        {"metadata": {"labels": {"volsched.io/workload": "online"}}},
        {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "other"}}},
    ],
    ids=["label", "read anew", "group"],
)
@pytest.mark.parametrize("pods", [2, 1])
def test_pods_of_a_podgroup_that_is_deleted_stay_in_its_queue_whatever_is_edited(
    pods: int, touched: dict[str, Any]
) -> None:
    """A tenant may delete the PodGroup of running pods, and edit the pods."""
    cluster = a_cluster().node("n1", cpu=16).queue("a", capability={"cpu": "2"}).queue("b").queue("default")
    cluster.group("runs", "a", 1, "Running")
    names = [f"r-{number}" for number in range(pods)]
    for name in names:
        cluster.pod(name, "runs", "n1", cpu=2 // pods)
    on = a_rig(cluster, LIMITED)
    cycle(on)
    cycle(on, Deleted("PodGroup", "default", "runs", "podgroup-default-runs"))
    cycle(on, *(put_again(a_pod(name, "runs", "n1", cpu=2 // pods, **touched)) for name in names))

    assert cycle(on, *another_comes()).bindings == {}
    assert allocated(on) == (2000, 0)
    gone = [Deleted("Pod", "default", name, f"pod-default-{name}") for name in names]
    assert list(cycle(on, *gone).bindings) == ["comes-0"]
    assert set(on.cluster.jobs) == {"default/comes"}


def test_a_pod_that_comes_with_a_node_does_not_move_the_pods_of_a_podgroup_that_is_deleted() -> None:
    on = a_rig(a_full_queue().queue("default"), LIMITED)
    cycle(on)
    cycle(on, Deleted("PodGroup", "default", "runs", "podgroup-default-runs"))
    cycle(on, *running("r-2"))

    assert allocated(on) == (3000, 0)


# -- who leads next ---------------------------------------------------------------------------------------------------


def told_kept(queue: str, named: str) -> dict[str, Any]:
    kept = condition_of(queue, named)
    stated = {"type": kept.type, "status": kept.status, "reason": kept.reason, "message": kept.message}
    return {"conditions": [stated]}


@pytest.mark.parametrize("named", ["b", "a\nb", "\x1b[2J", 'quo"te', "long" * 10_000])
@pytest.mark.parametrize("pods_first", [True, False])
def test_a_scheduler_that_starts_counts_where_the_status_says(pods_first: bool, named: str) -> None:
    kept = puts(a_group("runs", named, 2, "Running", status=told_kept("a", named)))
    pods = running("r-0", "r-1")
    cluster = a_cluster().node("n1", cpu=16).queue("a", capability={"cpu": "2"}).queue("b", capability={"cpu": "2"})
    on = a_rig(cluster, LIMITED)
    on.mirror.apply([*pods, *kept] if pods_first else [*kept, *pods])

    decision = cycle(on, *another_comes())

    assert (decision.bindings, allocated(on)) == ({}, (2000, 0))
    assert told_in(decision) == []


def test_a_status_about_pods_that_are_gone_keeps_nothing() -> None:
    on = a_rig(a_full_queue().group("old", "b", 1, status=told_kept("a", "b")).pod("o-0", "old", cpu=1), LIMITED)

    decision = cycle(on)

    assert decision.bindings == {"o-0": "n1"}
    assert on.cluster.jobs["default/old"].queue == "b"


def test_a_status_that_names_a_queue_that_is_not_there_keeps_nothing() -> None:
    status = told_kept("gone", "a")
    on = a_rig(a_full_queue().group("runs", "a", 2, "Running", status=status), LIMITED)

    cycle(on)

    assert allocated(on) == (2000, 0)


def test_who_follows_goes_by_the_leaders_word() -> None:
    mirror = Mirror()
    mirror.apply(a_full_queue().changes())

    mirror.apply(puts(a_group("runs", "b", 2, "Running")))
    mirror.apply(puts(a_group("runs", "b", 2, "Running", status=told_kept("a", "b"))))
    assert [mirror.cluster.queues[name].allocated.get("cpu", 0) for name in "ab"] == [2000, 0]

    mirror.apply(puts(a_group("runs", "b", 2, "Running")))
    assert [mirror.cluster.queues[name].allocated.get("cpu", 0) for name in "ab"] == [0, 2000]


def test_a_leader_minds_what_it_remembers_and_no_status() -> None:
    on = a_rig(a_full_queue(), LIMITED)
    cycle(on)

    cycle(on, *puts(a_group("runs", "a", 2, "Running", status=told_kept("b", "a"))))

    assert allocated(on) == (2000, 0)


@pytest.mark.parametrize(
    "message", ["", "in queue a", 'its pods count in queue "", which', 'its pods count in queue "a']
)
def test_words_that_are_not_ours_keep_nothing(message: str) -> None:
    assert queue_in([PodGroupCondition(QUEUE_KEPT, "True", QUEUE_KEPT, message)]) == ""
    assert queue_in([condition_of("a", "b")]) == "a"
    assert queue_in([ended()]) == ""
    assert named_nowhere([PodGroupCondition(QUEUE_KEPT, "True", QUEUE_KEPT, message)]) == ""
    assert named_nowhere([nowhere_condition("a")]) == "a"
    assert queue_in([nowhere_condition("a")]) == named_nowhere([condition_of("a", "b")]) == ""


@pytest.mark.parametrize("made", [partial(condition_of, "a"), nowhere_condition])
def test_what_a_tenant_names_stands_in_a_condition_as_one_short_line(made: Callable[[str], PodGroupCondition]) -> None:
    message = made("odd\n\x1b[2J" + "long" * 10_000).message
    assert "odd\\n\\x1b[2Jlong" in message
    assert message.isprintable()
    assert len(message) < 600


# -- pods that name another PodGroup ----------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["other", "nobody-made-it", None])
def test_a_pod_that_runs_stays_in_the_podgroup_as_which_it_was_placed(group: str | None) -> None:
    on = a_rig(a_full_queue().group("other", "b", 1), LIMITED)
    cycle(on)

    decision = cycle(on, *puts(a_pod("r-0", group, "n1", cpu=1)), *another_comes())

    assert (decision.bindings, allocated(on)) == ({}, (2000, 0))
    assert len(on.cluster.jobs["default/runs"].tasks) == 2


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        (
            "runs",
            "other",
            'names PodGroup "other" now; it counts in PodGroup "runs", in which it was placed, as long',
        ),
        ("runs", None, 'was removed; it counts in PodGroup "runs", in which it was placed, as long as it has'),
        (
            None,
            "other",
            'names PodGroup "other" now; it counts by itself, as it was placed, as long as it has its node',
        ),
    ],
)
def test_a_pod_that_is_put_elsewhere_in_vain_is_told_once(before: str | None, now: str | None, message: str) -> None:
    on = a_rig(a_full_queue().pod("p", before, "n1", cpu=1), LIMITED)
    cycle(on)

    told = events(cycle(on, *puts(a_pod("p", now, "n1", cpu=1))))
    again = events(cycle(on, *puts(a_pod("p", now, "n1", cpu=1, labels={"a": "b"}))))

    [(about, reason, words)] = [event for event in told if event[1] == "InvalidField"]
    assert (about, reason) == ("Pod/p", "InvalidField")
    assert words.startswith(f"metadata.annotations[scheduling.k8s.io/group-name]: {message}")
    assert [event for event in again if event[1] == "InvalidField"] == []


def test_a_placed_pod_may_get_the_podgroup_that_controllers_generate_for_it() -> None:
    on = a_rig(a_full_queue().pod("p", None, "n1", cpu=1), LIMITED)
    cycle(on)

    told = events(cycle(on, *puts(a_pod("p", "podgroup-pod-default-p", "n1", cpu=1))))

    assert [event for event in told if event[1] == "InvalidField"] == []


def test_a_pod_that_is_resized_while_it_runs_stays_there_too() -> None:
    on = a_rig(a_full_queue().group("other", "b", 1), LIMITED)
    cycle(on)

    cycle(on, *puts(a_pod("r-0", "other", "n1", cpu="500m")))

    assert allocated(on) == (1500, 0)


def test_a_pod_whose_binding_is_under_way_stays_there_and_follows_when_it_is_refused() -> None:
    on = a_rig(
        a_cluster().node("n1").queue("a").queue("b").group("g", "a").group("h", "b").pod("p", "g", cpu=1), LIMITED
    )
    cycle(on)

    cycle(on, *puts(a_pod("p", "h", cpu=1)))
    assert allocated(on) == (1000, 0)
    on.mirror.apply([BindFailed("pod-default-p", "n1", "refused", retry_at=None)])
    decision = cycle(on, *puts(a_pod("p", "h", cpu=1, labels={"another": "word"})))

    assert on.cluster.jobs["default/h"].tasks
    assert decision.cluster.queues["a"].allocated.get("cpu", 0) == 0


# -- groups of Kubernetes' own ----------------------------------------------------------------------------------------


def a_native(queue: str) -> list[Change]:
    return puts(native_group("gang", 2, annotations={QUEUE_NAME: queue}))


def a_native_rig() -> Rig:
    cluster = a_cluster().node("n1", cpu=16).queue("a", capability={"cpu": "2"}).queue("b", capability={"cpu": "2"})
    on = rig(cluster, LIMITED)
    members = puts(*(member(f"m-{number}", "gang", on="n1", cpu=1) for number in range(2)))
    on.mirror.apply([SERVED, *members, *a_native("a")])
    cycle(on)
    return on


@pytest.mark.parametrize("queue", ["b", "nowhere", ""])
def test_a_group_of_kubernetes_own_stays_in_its_queue_too(queue: str) -> None:
    on = a_native_rig()
    assert allocated(on) == (2000, 0)

    decision = cycle(on, *a_native(queue), *another_comes())

    assert (decision.bindings, allocated(on)) == ({}, (2000, 0))
    assert conditions(decision, "gang")[QUEUE_KEPT].status == "True"
    assert [about for about, _ in told_in(decision)] == ["PodGroup/gang"]


def test_its_condition_turns_when_it_has_moved_as_conditions_of_that_kind_cannot_be_left_out() -> None:
    on = a_native_rig()
    cycle(on, *a_native("b"))

    gone = [Deleted("Pod", "default", f"m-{number}", f"pod-default-m-{number}") for number in range(2)]
    decision = cycle(on, *gone, *puts(member("m-2", "gang", cpu=1)))

    assert on.cluster.jobs["default/group/gang"].queue == "b"
    assert conditions(decision, "gang")[QUEUE_KEPT] == ended()


def test_members_that_run_do_not_move_their_group_by_what_they_name() -> None:
    on = rig(a_cluster().node("n1").queue("a").queue("b"), LIMITED)
    group = native_group("gang", 1)
    on.mirror.apply([SERVED, *puts(group, member("m", "gang", on="n1", annotations={QUEUE_NAME: "a"}, cpu=1))])
    cycle(on)
    assert allocated(on) == (1000, 0)

    cycle(on, *puts(member("m", "gang", on="n1", annotations={QUEUE_NAME: "b"}, cpu=1)))

    assert allocated(on) == (1000, 0)


def test_members_of_a_group_that_is_deleted_stay_in_its_queue_whatever_is_edited() -> None:
    on = a_native_rig()
    cycle(on, *puts(a_queue("default")), Deleted(native.KIND, "default", "gang", ""))
    cycle(on, *(put_again(member(f"m-{n}", "gang", on="n1", labels={"touched": "yes"}, cpu=1)) for n in range(2)))
    assert allocated(on) == (2000, 0)

    cycle(on, put_again(member("m-0", "gang", on="n1", labels={"volsched.io/workload": "online"}, cpu=1)))
    assert allocated(on) == (2000, 0)
    assert cycle(on, *another_comes()).bindings == {}
