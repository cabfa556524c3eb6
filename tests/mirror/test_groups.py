"""PodGroups, queues, priority classes and namespaces in the mirror."""

from __future__ import annotations

from typing import Any

from tests.mirror.objects import Believer, gone, group, node, pod, priority_class, queue
from volsched.framework.outcome.groups import status_of, writes
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Deleted, GroupWriteFailed
from volsched.model.job import PodGroupCondition
from volsched.model.status import TaskStatus
from volsched.testing.builders import put


def write(believer: Believer, name: str = "g") -> list[Any]:
    """Write the PodGroup's status, as the end of a session does."""
    job = believer.cluster.jobs[f"default/{name}"]
    status = status_of(job, unschedulable=False)
    believer.cluster.queue_cache.set_phase(job, status.phase)
    return list(writes(believer.cluster, [(job, status)]))


# -- PodGroups --------------------------------------------------------------------------------------------------------


def test_a_podgroup_says_what_its_gang_needs() -> None:
    believer = Believer(
        priority_class("high", 100),
        group(
            "g",
            "q",
            3,
            "Inqueue",
            created="1970-01-01T00:02:00Z",
            priorityClassName="high",
            minTaskMember={"master": 1, "worker": 2},
            minResources={"cpu": "3", "memory": "1Gi"},
        ),
    )
    job = believer.cluster.jobs["default/g"]

    assert (job.queue, job.spec.min_available, job.phase, job.priority, job.created) == ("q", 3, "Inqueue", 100, 120.0)
    assert job.spec.min_roles == {"master": 1, "worker": 2}
    assert job.spec.min_resources == {"cpu": 3_000, "memory": 1 << 30}


def test_what_only_a_resource_quota_counts_and_pods_are_no_part_of_a_minimum() -> None:
    counted = {"count/pods": "2", "pods": "2", "cpu": "1", "requests.cpu": "1", "limits.memory": "1Gi"}
    cards = {"nvidia.com/gpu": "2", "requests.nvidia.com/gpu": "2", "limits.nvidia.com/gpu": "2"}

    believer = Believer(group("g", minResources=counted | cards))

    assert believer.cluster.jobs["default/g"].spec.min_resources == {"cpu": 1_000, "nvidia.com/gpu": 2_000}


def test_a_podgroup_without_a_queue_is_in_the_default_queue() -> None:
    believer = Believer(group("g", ""), settings=MirrorSettings(default_queue="shared"))

    assert believer.cluster.jobs["default/g"].queue == "shared"


def test_a_podgroup_that_changes_is_worth_another_try() -> None:
    believer = Believer(group("g", minimum=3), pod("p", "g", cpu=1))
    job = believer.cluster.jobs["default/g"]
    job.unschedulable_at = believer.cluster.generations.requeue

    believer.apply(group("g", minimum=2))

    assert job.spec.min_available == 2
    assert job.unschedulable_at != believer.cluster.generations.requeue


def test_our_own_status_coming_back_changes_nothing() -> None:
    """Otherwise every write would wake what was refused, to be refused and told again."""
    believer = Believer(group("g", minimum=2, phase="Pending"), pod("p", "g", cpu=1))
    job = believer.cluster.jobs["default/g"]
    job.refusal = refusal = pod_refusal(believer)
    job.conditions = (PodGroupCondition("Unschedulable", "True", "NotEnoughResources", "no"),)
    assert [step.phase for step in write(believer)] == ["Pending"]
    job.unschedulable_at = believer.cluster.generations.requeue
    before = believer.cluster.generations.requeue
    believer.cluster.queue_cache.dirty_jobs.clear()

    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "no"}
    believer.apply(group("g", minimum=2, phase="Pending", status={"conditions": [condition]}))

    assert (job.refusal, job.unschedulable_at, believer.cluster.generations.requeue) == (refusal, before, before)
    assert job.confirmed
    assert write(believer) == []


def pod_refusal(believer: Believer) -> Any:
    from volsched.model.verdict import Scope, Step, Verdict  # noqa: PLC0415 - used here alone

    return Verdict(Step.GANG, "gang", Scope.JOB, "FailedScheduling", "gang waits")


def test_an_echo_that_is_older_than_our_write_takes_nothing_back() -> None:
    believer = Believer(node("n1"), group("g", phase="Pending"), pod("p", "g", cpu=1))
    job = believer.cluster.jobs["default/g"]
    believer.cluster.queue_cache.set_phase(job, "Inqueue")
    assert [step.phase for step in write(believer)] == ["Inqueue"]

    believer.apply(group("g", phase="Pending"))
    assert (job.phase, write(believer)) == ("Inqueue", [])

    believer.apply(group("g", phase="Inqueue"))
    assert (job.phase, job.confirmed, write(believer)) == ("Inqueue", True, [])

    believer.apply(group("g", phase="Pending"))
    assert job.phase == "Pending", "what we wrote has been seen; now somebody else has written"


def test_of_two_writes_under_way_the_echo_of_the_first_is_old() -> None:
    believer = Believer(node("n1"), group("g", phase=""), pod("p", "g", cpu=1))
    job = believer.cluster.jobs["default/g"]
    believer.cluster.queue_cache.set_phase(job, "Inqueue")
    write(believer)
    believer.cluster.move(believer.task("p"), TaskStatus.BOUND, believer.cluster.nodes["n1"])
    assert [step.phase for step in write(believer)] == ["Running"]

    believer.apply(group("g", phase="Inqueue"))
    assert (job.phase, write(believer)) == ("Running", [])

    believer.apply(group("g", phase="Running"))
    assert (job.confirmed, write(believer)) == (True, [])


def test_a_status_that_could_not_be_written_is_written_again() -> None:
    believer = Believer(group("g", phase="Pending"), pod("p", "g", cpu=1))
    job = believer.cluster.jobs["default/g"]
    believer.cluster.queue_cache.set_phase(job, "Inqueue")
    write(believer)
    believer.cluster.queue_cache.dirty_jobs.clear()

    believer.apply(GroupWriteFailed("default", "g"), GroupWriteFailed("default", "unknown"))

    assert list(believer.cluster.queue_cache.dirty_jobs) == ["default/g"]
    assert [step.phase for step in write(believer)] == ["Inqueue"]


def test_a_spec_that_comes_with_an_old_status_counts() -> None:
    believer = Believer(group("g", minimum=3, phase="Pending"), pod("p", "g", cpu=1))
    job = believer.cluster.jobs["default/g"]
    believer.cluster.queue_cache.set_phase(job, "Inqueue")
    write(believer)

    believer.apply(group("g", minimum=2, phase="Pending"))

    assert (job.spec.min_available, job.phase) == (2, "Inqueue")


def test_a_podgroup_that_is_gone_leaves_its_pods_without_one() -> None:
    believer = Believer(group("g", phase="Inqueue"), pod("p", "g", cpu=1), group("empty"))

    believer.apply(gone("PodGroup", "g"), gone("PodGroup", "empty"))

    job = believer.cluster.jobs["default/g"]
    assert list(believer.cluster.jobs) == ["default/g"]
    assert (job.spec.has_group, job.phase, job.reported) == (False, "", None)
    assert "default/g" in believer.cluster.queue_cache.dirty_jobs, "its pods are to be told what they lack"

    believer.apply(gone("Pod", "p"))
    assert believer.cluster.jobs == {}


def test_a_podgroup_that_is_made_again_starts_anew() -> None:
    believer = Believer(group("g", phase="Running", uid="1"), pod("p", "g", cpu=1))
    write(believer)

    believer.apply(gone("PodGroup", "g", uid="1"), group("g", phase="", uid="2"))

    job = believer.cluster.jobs["default/g"]
    assert (job.spec.group_uid, job.phase, job.confirmed) == ("2", "", True)


# -- queues -----------------------------------------------------------------------------------------------------------


def test_the_default_queue_and_root_are_there_without_being_declared() -> None:
    believer = Believer(settings=MirrorSettings(default_queue="shared"))

    assert sorted(believer.cluster.queues) == ["root", "shared"]
    assert not believer.cluster.queues["root"].spec.reclaimable


def test_a_queue_says_its_quota() -> None:
    believer = Believer(
        queue(
            "q",
            weight=3,
            priority=7,
            parent="root",
            reclaimable=False,
            capability={"cpu": "4"},
            deserved={"cpu": "2"},
            guarantee={"resource": {"cpu": "1"}},
        )
    )
    one = believer.cluster.queues["q"]

    assert (one.spec.weight, one.spec.priority, one.spec.parent, one.spec.reclaimable) == (3, 7, "root", False)
    assert (one.spec.capability, one.spec.deserved, one.spec.guarantee) == (
        {"cpu": 4_000},
        {"cpu": 2_000},
        {"cpu": 1_000},
    )


def test_a_queue_that_comes_late_is_charged_for_what_its_pods_hold() -> None:
    believer = Believer(node("n1"), group("g", "q"), pod("p", "g", "n1", cpu=2), pod("w", "g", cpu=1))

    believer.apply(queue("q"))
    assert believer.allocated("q") == 2_000

    version = believer.cluster.queues["q"].version
    believer.apply(queue("q", weight=5))
    assert (believer.allocated("q"), believer.cluster.queues["q"].version) == (2_000, version + 1)


def test_a_queue_that_is_gone_is_named_to_those_who_wait_for_it() -> None:
    believer = Believer(queue("q"), node("n1"), group("g", "q"), pod("p", "g", "n1", cpu=2))
    believer.cluster.queue_cache.dirty_jobs.clear()

    believer.apply(Deleted("Queue", "", "q", "q"))
    assert ("q" in believer.cluster.queues, list(believer.cluster.queue_cache.dirty_jobs)) == (False, ["default/g"])

    believer.apply(pod("p", "g", "n1", "Succeeded", cpu=2), queue("q"))
    assert believer.allocated("q") == 0


def test_the_default_queue_outlives_its_object() -> None:
    believer = Believer(queue("default", capability={"cpu": "1"}), node("n1"), group("g"), pod("p", "g", "n1", cpu=2))

    believer.apply(Deleted("Queue", "", "default", "default"))

    assert (believer.cluster.queues["default"].spec.capability, believer.allocated()) == ({}, 2_000)


def test_a_group_that_moves_to_another_queue_takes_what_it_holds_along() -> None:
    believer = Believer(
        queue("a"), queue("b"), node("n1"), group("g", "a"), pod("p", "g", "n1", cpu=2), pod("w", "g", cpu=1)
    )
    job = believer.cluster.jobs["default/g"]
    job.unschedulable_at = believer.cluster.generations.requeue

    believer.apply(group("g", "b"))

    assert (believer.allocated("a"), believer.allocated("b")) == (0, 2_000)
    assert job.unschedulable_at != believer.cluster.generations.requeue

    believer.apply(group("g", "nowhere"))
    assert (believer.allocated("a"), believer.allocated("b")) == (0, 0)

    believer.apply(group("g", "a"))
    assert (believer.allocated("a"), believer.allocated("b")) == (2_000, 0)


def test_queues_without_a_time_of_creation_keep_the_age_of_their_arrival() -> None:
    believer = Believer(queue("b"), queue("a"))
    ages = {name: believer.cluster.queues[name].spec.created for name in "ab"}

    believer.apply(queue("b", weight=2))

    assert ages["b"] < ages["a"]
    assert believer.cluster.queues["b"].spec.created == ages["b"]


# -- priority classes and namespaces ----------------------------------------------------------------------------------


def test_a_job_has_the_value_of_its_class_as_soon_as_that_is_known() -> None:
    believer = Believer(group("g", priorityClassName="high"), group("h"))
    jobs = believer.cluster.jobs

    def values() -> list[int]:
        return [jobs[f"default/{name}"].priority for name in "gh"]

    seen = [values()]
    for change in (
        priority_class("high", 100),
        priority_class("usual", 5, default=True),
        priority_class("high", 200),
        gone("PriorityClass", "high"),
        gone("PriorityClass", "usual"),
    ):
        believer.apply(change)
        seen.append(values())

    assert seen == [[0, 0], [100, 0], [100, 5], [200, 5], [5, 5], [0, 0]]


def test_a_class_that_is_no_longer_the_default_is_that_no_longer() -> None:
    believer = Believer(group("g"), priority_class("usual", 5, default=True), priority_class("usual", 5))

    assert believer.cluster.jobs["default/g"].priority == 0


def test_a_pod_that_names_its_class_and_no_number_has_the_value_of_the_class() -> None:
    believer = Believer(
        priority_class("high", 100), group("g"), pod("p", "g", spec={"priorityClassName": "high"}, cpu=1)
    )

    assert believer.task("p").spec.priority == 100


def test_labels_of_namespaces_are_known_and_a_change_may_help() -> None:
    def namespace(**labels: str) -> Any:
        return put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "uid": "a", "labels": labels}})

    believer = Believer(namespace(team="red"))
    cluster = believer.cluster
    assert cluster.queue_cache.namespaces["a"] == {"team": "red"}
    version, generation = cluster.generations.namespace, cluster.generations.requeue

    believer.apply(namespace(team="red"))
    assert (cluster.generations.namespace, cluster.generations.requeue) == (version, generation)

    believer.apply(namespace(team="blue"))
    assert (cluster.generations.namespace > version, cluster.generations.requeue > generation) == (
        True,
        True,
    )

    believer.apply(Deleted("Namespace", "", "a", "a"))
    assert cluster.queue_cache.namespaces == {}
