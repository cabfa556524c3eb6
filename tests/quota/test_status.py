"""What `status.allocated` of queues says: who counts, in which queues, in which quantities, and when it is said."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.framework.dra.worlds import claim, device, device_class, exactly, held, part
from tests.mirror import objects
from tests.plugins.predicates.test_devices import using
from volsched.framework.dra.amounts import Amount
from volsched.mirror.apply import Mirror
from volsched.model.changes import Change, Deleted
from volsched.model.plan import WriteQueueStatus
from volsched.model.queues.queue import levels
from volsched.model.status import IS_ALLOCATED
from volsched.quota import status as holdings
from volsched.quota.status import QueueStatuses, as_quantities
from volsched.testing.builders import ClusterBuilder, CycleDecision, a_cluster, a_rig, put

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
"""
GI = 1 << 30
NOTHING = {"cpu": "0", "memory": "0"}


def said(decision: CycleDecision) -> dict[str, dict[str, str]]:
    """What each queue is to say from now on."""
    return {step.name: dict(step.allocated) for step in decision.steps if isinstance(step, WriteQueueStatus)}


def cpu(count: int) -> dict[str, str]:
    """What a queue says whose pods have one core each."""
    return {"cpu": str(count), "memory": "0", **({"pods": str(count)} if count else {})}


def a_tree() -> ClusterBuilder:
    """root > above > a, b; one node."""
    cluster = a_cluster().node("n1").queue("root").queue("above", parent="root")
    return cluster.queue("a", parent="above").queue("b", parent="above")


# --- quantities -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amounts", "devices", "expected"),
    [
        ({}, {}, NOTHING),
        ({"pods": 0, "nvidia.com/gpu": 0}, {}, NOTHING),
        ({"cpu": 1500, "memory": 3 * GI, "pods": 2}, {}, {"cpu": "1500m", "memory": "3Gi", "pods": "2"}),
        ({"nvidia.com/gpu": 4000}, {}, {**NOTHING, "nvidia.com/gpu": "4"}),
        (
            {"cpu": 1000},
            {
                Amount("gpu"): Fraction(2),
                Amount("gpu", "cores"): Fraction(300),
                Amount("gpu", "memory"): Fraction(8 * GI),
            },
            {
                "cpu": "1",
                "memory": "0",
                "deviceclass/gpu": "2",
                "cores.deviceclass/gpu": "300",
                "memory.deviceclass/gpu": "8Gi",
            },
        ),
        ({}, {Amount("gpu"): Fraction(2048)}, {**NOTHING, "deviceclass/gpu": "2048"}),
        ({}, {Amount("gpu", "share"): Fraction(1, 3)}, {**NOTHING, "share.deviceclass/gpu": "334m"}),
    ],
)
def test_quantities_are_canonical_and_cpu_and_memory_are_always_said(
    amounts: dict[str, int], devices: dict[Amount, Fraction], expected: dict[str, str]
) -> None:
    assert as_quantities(amounts, devices) == expected


# --- who counts, and where ------------------------------------------------------------------------------------------


def test_placed_pods_count_in_their_queue_and_in_all_above_it() -> None:
    rig = a_rig(a_tree().job("one", 2, queue="a", cpu="1").job("two", 1, queue="b", cpu="1"), CONFIGURATION)

    told = said(rig.cycle())

    assert told == {"a": cpu(2), "b": cpu(1), "above": cpu(3), "root": cpu(3)}


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({"on": "n1"}, True),
        ({"on": "n1", "phase": "Pending"}, True),
        ({"on": "n1", "spec": {"schedulerName": "default-scheduler"}}, True),
        ({"on": "n1", "phase": "Succeeded"}, False),
        ({"on": "n1", "phase": "Failed"}, False),
        ({"phase": "Pending", "spec": {"schedulingGates": [{"name": "wait"}]}}, False),
        ({"on": "n1", "deleted": True}, False),
    ],
)
def test_a_pod_counts_while_it_stands_allocated_whoever_bound_it(fields: dict[str, Any], counts: bool) -> None:
    rig = a_rig(a_tree().group("g", "a"), CONFIGURATION)

    told = said(rig.cycle(objects.pod("p", "g", cpu=1, **fields)))

    assert told["a"] == told["root"] == cpu(int(counts))


def test_pods_without_a_podgroup_that_others_bound_count_nowhere() -> None:
    rig = a_rig(a_tree(), CONFIGURATION)

    told = said(rig.cycle(objects.pod("p", on="n1", scheduler="default-scheduler", cpu=1)))

    assert all(allocated == NOTHING for allocated in told.values())


def test_a_queue_below_itself_counts_once_and_in_the_root() -> None:
    cluster = a_cluster().node("n1").queue("root").queue("x", parent="y").queue("y", parent="x")

    told = said(a_rig(cluster.job("j", 1, queue="x", cpu="1"), CONFIGURATION).cycle())

    nothing = {"cpu": "0", "memory": "0"}
    assert told == {"root": cpu(1), "x": cpu(1), "y": nothing}, "each queue of a circle is a child of the root"


def test_a_queue_that_nobody_made_says_nothing_and_what_it_holds_is_the_roots_too() -> None:
    cluster = a_cluster().node("n1").queue("root").job("j", 1, queue="default", cpu="1")

    assert said(a_rig(cluster, CONFIGURATION).cycle()) == {"root": cpu(1)}


def test_a_claim_that_pods_share_counts_once_in_each_queue_and_once_above() -> None:
    cluster = a_tree().add(device_class()).add(part("s", [device("d1", {"memory": "8Gi"}), device("d2")], node="n1"))
    cluster.add(held("c", "d1", "d2"))
    for name, queue in (("one", "a"), ("two", "a"), ("three", "b")):
        cluster.group(name, queue).pod(name, name, on="n1", cpu="1", spec=using("c"))
    rig = a_rig(cluster, CONFIGURATION)

    told = said(rig.cycle())

    assert told["a"] == {**cpu(2), "deviceclass/gpu": "2"}
    assert told["b"] == {**cpu(1), "deviceclass/gpu": "2"}
    assert told["above"] == told["root"] == {**cpu(3), "deviceclass/gpu": "2"}
    [one] = [task for task in rig.cluster.tasks.values() if task.name == "one"]
    assert said(rig.cycle(Deleted("Pod", "default", "one", one.uid)))["a"] == {**cpu(1), "deviceclass/gpu": "2"}


def test_devices_count_from_the_moment_that_they_are_chosen_and_as_what_they_are_shown_to_be() -> None:
    cluster = a_tree().add(device_class()).add(part("s", [device("d1"), device("d2")], node="n1"))
    cluster.add(claim("c", exactly(count=2))).group("g", "a").pod("p", "g", cpu="1", spec=using("c"))
    rig = a_rig(cluster, CONFIGURATION)

    assert said(rig.cycle())["a"] == {**cpu(1), "deviceclass/gpu": "2"}
    assert said(rig.cycle(put(held("c", "d1"))))["above"] == {**cpu(1), "deviceclass/gpu": "1"}


# --- when it is said ------------------------------------------------------------------------------------------------


def test_what_was_said_is_not_said_again_and_changes_are_said_where_they_matter() -> None:
    rig = a_rig(a_tree().job("one", 1, queue="a", cpu="1").job("two", 1, queue="b", cpu="1"), CONFIGURATION)
    rig.cycle()
    assert said(rig.cycle()) == {}

    [task] = [task for task in rig.cluster.tasks.values() if task.name == "two-0"]
    told = said(rig.cycle(Deleted("Pod", "default", "two-0", task.uid)))

    assert told == {"b": cpu(0), "above": cpu(1), "root": cpu(1)}


def test_what_is_tried_and_undone_is_not_said() -> None:
    rig = a_rig(a_tree(), CONFIGURATION)
    rig.cycle()

    decision = rig.cycle(*a_cluster().job("big", 3, queue="a", cpu="30").changes())

    assert decision.bindings == {}
    assert said(decision) == {}


def test_a_new_scheduler_says_everything_as_the_one_before_did() -> None:
    rig = a_rig(a_tree().job("one", 2, queue="a", cpu="1"), CONFIGURATION)
    before = said(rig.cycle())

    again = {step.name: step.allocated for step in QueueStatuses(rig.cluster).writes()}

    assert again == before


def test_a_queue_that_is_put_below_another_takes_along_what_it_holds() -> None:
    rig = a_rig(a_tree().queue("other", parent="root").job("one", 2, queue="a", cpu="1"), CONFIGURATION)
    rig.cycle()

    [moved] = a_cluster().queue("a", parent="other").changes()
    assert said(rig.cycle(moved)) == {"above": cpu(0), "other": cpu(2)}


def test_a_queue_that_is_made_again_is_told_again() -> None:
    rig = a_rig(a_tree().job("one", 1, queue="a", cpu="1"), CONFIGURATION)
    rig.cycle()

    assert said(rig.cycle(Deleted("Queue", "", "a", "queue--a"))) == {"above": cpu(0), "root": cpu(0)}
    [made] = a_cluster().queue("a", parent="above").changes()
    assert said(rig.cycle(made)) == {"a": cpu(1), "above": cpu(1), "root": cpu(1)}


def test_what_a_job_holds_is_said_of_the_queue_in_which_it_was_placed_until_that_queue_is_gone() -> None:
    rig = a_rig(a_tree().job("one", 2, queue="a", cpu="1"), CONFIGURATION)
    rig.cycle()

    [moved] = a_cluster().group("one", "b", 2).changes()

    assert said(rig.cycle(moved)) == {}
    assert said(rig.cycle(Deleted("Queue", "", "a", "queue--a"))) == {"b": cpu(2)}


def test_only_queues_that_something_changed_in_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = a_tree().job("one", 1, queue="a", cpu="1")
    for number in range(300):
        cluster.queue(f"q{number}", parent="above")
    rig = a_rig(cluster, CONFIGURATION)
    rig.cycle()
    looks: list[Any] = []
    monkeypatch.setattr(holdings, "as_quantities", lambda *of: looks.append(of) or as_quantities(*of))  # type: ignore[func-returns-value]

    rig.cycle()
    assert len(looks) == 0
    rig.cycle(*a_cluster().job("two", 1, queue="b", cpu="1").changes())
    assert len(looks) == 3


def test_a_status_that_changed_alone_changes_nothing_for_the_scheduler() -> None:
    """Or each write of ours would have everything that waits tried again."""
    rig = a_rig(a_tree(), CONFIGURATION)
    rig.cycle()
    before = rig.cluster.generations.requeue, rig.cluster.queues["a"]
    [queue] = a_cluster().queue("a", parent="above").objects

    rig.mirror.apply([put({**queue, "status": {"allocated": {"cpu": "4"}}})])

    assert (rig.cluster.generations.requeue, rig.cluster.queues["a"]) == before


# --- always ---------------------------------------------------------------------------------------------------------

QUEUES = ("a", "b", "c")
SOME_CHANGES = st.lists(
    st.one_of(
        st.builds(
            lambda name, parent: objects.queue(name, parent=parent), st.sampled_from(QUEUES), st.sampled_from(QUEUES)
        ),
        st.builds(lambda name: objects.gone("Queue", name), st.sampled_from(QUEUES)),
        st.builds(objects.group, st.sampled_from("gh"), st.sampled_from(QUEUES)),
        st.builds(
            lambda name, group, on, phase: objects.pod(name, group, on, phase, cpu=1),
            st.sampled_from("pqr"),
            st.sampled_from("gh"),
            st.sampled_from(["n1", None]),
            st.sampled_from([None, "Succeeded"]),
        ),
        st.builds(lambda name: objects.gone("Pod", name), st.sampled_from("pqr")),
    ),
    max_size=30,
)


@given(SOME_CHANGES, st.sets(st.integers(0, 30)))
def test_what_is_followed_is_what_is_counted_from_scratch(changes: list[Change], asked_after: set[int]) -> None:
    mirror = Mirror()
    mirror.apply([objects.node("n1"), objects.queue("root"), objects.queue("a")])
    follower, told = QueueStatuses(mirror.cluster), {}
    for number, change in enumerate(changes):
        mirror.apply([change])
        if number in asked_after:
            told |= {step.name: step.allocated for step in follower.writes()}
    told |= {step.name: step.allocated for step in follower.writes()}

    queues = mirror.cluster.queues
    placed = [t.job.queue for t in mirror.cluster.tasks.values() if t.job is not None and IS_ALLOCATED[t.status]]
    counted = Counter(level for name in placed if name in queues for level in levels(queues, name))
    there = {name for name, queue in queues.items() if queue.spec.uid}
    assert {name: told[name] for name in there} == {name: cpu(counted[name]) for name in there}
