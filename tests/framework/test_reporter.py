"""From verdicts to Events and conditions."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from volsched.framework.reporter import EVENTS_FOR_EACH_ROLE, Reporter, gang_message, refusal_of
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo, JobProperties
from volsched.model.plan import PlanStep, RecordEvent, WritePodCondition
from volsched.model.pods.task import PodProperties, TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.status import TaskStatus
from volsched.model.verdict import LONGEST_MESSAGE, ConditionReason, Scope, Step, Verdict

NO_ROOM = Verdict(
    Step.PREDICATE, "predicates", Scope.NODE, "FailedScheduling", "0/3 nodes are available: 3 Insufficient cpu."
)
NOT_ADMITTED = Verdict(Step.ENQUEUE, "overcommit", Scope.JOB, "Unschedulable", "resource in cluster is overused")
GANG = Verdict(Step.GANG, "gang", Scope.JOB, "FailedScheduling", "gang waits")
GATED = Verdict(Step.GATED, "", Scope.POD, "SchedulingGated", "scheduling is gated by g")


def task(name: str, refusal: Verdict | None = None) -> TaskInfo:
    made = TaskInfo(f"uid-{name}", "default", name, PodTemplate(0))
    made.refusal, made.spec = refusal, PodProperties(is_managed=True)
    return made


def job(*tasks: TaskInfo, refusal: Verdict | None = None, minimum: int = 1, has_group: bool = True) -> JobInfo:
    made = JobInfo("default", "j")
    made.spec = JobProperties(has_group=has_group, group_uid="uid-j", min_available=minimum)
    made.refusal = refusal
    for each in tasks:
        each.job = made
        made.add_member(each)
    return made


def told_of(waiting: JobInfo, reporter: Reporter | None = None) -> list[PlanStep]:
    return list((reporter or Reporter(Cluster())).about_job(waiting))


def events_in(steps: list[PlanStep]) -> list[str]:
    return [step.name for step in steps if isinstance(step, RecordEvent) and step.kind == "Pod"]


def conditions_in(steps: list[PlanStep]) -> dict[str, str]:
    return {step.name: step.reason for step in steps if isinstance(step, WritePodCondition)}


def event(name: str, refusal: Verdict) -> RecordEvent:
    return RecordEvent("Pod", "v1", "default", name, f"uid-{name}", "Warning", refusal.reason, refusal.message)


def condition(name: str, refusal: Verdict, reason: str) -> WritePodCondition:
    return WritePodCondition(f"uid-{name}", "default", name, reason, refusal.message)


def test_a_pod_that_no_node_takes_is_told_so_and_shown_so() -> None:
    one = task("p", NO_ROOM)
    one.nominated = "n1"

    assert told_of(job(one)) == [
        WritePodCondition("uid-p", "default", "p", "Unschedulable", NO_ROOM.message, "n1"),
        event("p", NO_ROOM),
    ]


@pytest.mark.parametrize("refusal", [None, GATED])
def test_nothing_is_told_of_a_pod_that_is_gated_or_does_not_wait(refusal: Verdict | None) -> None:
    assert told_of(job(task("p", refusal))) == []


@pytest.mark.parametrize(
    ("refusal", "kind", "shown"),
    [(NOT_ADMITTED, "Normal", "NotAdmitted"), (GANG, "Warning", "Unschedulable")],
)
def test_a_job_that_waits_as_a_whole_is_told_on_its_podgroup_and_on_each_of_its_pods(
    refusal: Verdict, kind: str, shown: str
) -> None:
    told = told_of(job(task("c"), task("b", NO_ROOM), task("a"), refusal=refusal))

    version = "scheduling.volcano.sh/v1beta1"
    assert told == [
        RecordEvent("PodGroup", version, "default", "j", "uid-j", kind, refusal.reason, refusal.message),
        condition("a", refusal, shown),
        event("a", refusal),
        condition("b", NO_ROOM, "Unschedulable"),
        event("b", NO_ROOM),
        condition("c", refusal, shown),
        event("c", refusal),
    ]


def test_a_job_without_a_podgroup_is_told_on_its_pods() -> None:
    assert told_of(job(task("a"), refusal=GANG, has_group=False)) == [
        condition("a", GANG, "Unschedulable"),
        event("a", GANG),
    ]


def test_nothing_is_told_of_a_job_that_does_not_wait() -> None:
    assert told_of(job(task("a"))) == []


def test_what_was_told_is_not_told_again_and_what_came_back_is() -> None:
    reporter = Reporter(Cluster())
    waiting = job(task("a"), refusal=NOT_ADMITTED)
    first = told_of(waiting, reporter)

    assert len(first) == 3
    assert told_of(waiting, reporter) == []
    waiting.refusal = None
    assert told_of(waiting, reporter) == []
    waiting.refusal = NOT_ADMITTED
    assert told_of(waiting, reporter) == first


def test_a_pod_that_comes_later_is_told_what_its_job_waits_for() -> None:
    reporter = Reporter(Cluster())
    waiting = job(task("a"), refusal=NOT_ADMITTED)
    told_of(waiting, reporter)
    late = task("late")
    late.job = waiting
    waiting.add_member(late)

    assert told_of(waiting, reporter) == [condition("late", NOT_ADMITTED, "NotAdmitted"), event("late", NOT_ADMITTED)]


def test_a_pod_that_waits_again_is_told_again() -> None:
    reporter, pod = Reporter(Cluster()), task("a", NO_ROOM)
    waiting = job(pod)
    first = told_of(waiting, reporter)
    pod.status = TaskStatus.BINDING
    waiting.recount(pod, TaskStatus.PENDING)
    assert told_of(waiting, reporter) == []

    pod.status = TaskStatus.PENDING
    waiting.recount(pod, TaskStatus.BINDING)

    assert told_of(waiting, reporter) == first


def test_a_pod_whose_gate_was_lifted_has_the_condition_that_it_had_not_behind_the_gate() -> None:
    reporter, pod = Reporter(Cluster()), task("a", NO_ROOM)
    waiting, free = job(pod), pod.spec
    pod.spec = msgspec.structs.replace(free, admission_gate=True)
    assert told_of(waiting, reporter) == [event("a", NO_ROOM)]

    pod.spec = free

    assert told_of(waiting, reporter) == [condition("a", NO_ROOM, "Unschedulable"), event("a", NO_ROOM)]


def test_a_pod_that_asks_for_something_else_is_told_again() -> None:
    reporter, pod = Reporter(Cluster()), task("a", NO_ROOM)
    waiting = job(pod)
    first = told_of(waiting, reporter)
    waiting.remove_member(pod)
    waiting.add_member(task("a", NO_ROOM))

    assert told_of(waiting, reporter) == first


def test_another_podgroup_of_the_name_is_told_again() -> None:
    reporter, waiting = Reporter(Cluster()), job(refusal=NOT_ADMITTED)
    assert len(told_of(waiting, reporter)) == 1
    waiting.spec = replace(waiting.spec, group_uid="another")

    [again] = told_of(waiting, reporter)

    assert isinstance(again, RecordEvent)
    assert again.uid == "another"


def test_what_was_told_of_a_job_is_forgotten_with_it() -> None:
    cluster = Cluster()
    reporter, waiting = Reporter(cluster), job(task("a"), refusal=NOT_ADMITTED)
    cluster.queue_cache.put_job(waiting)
    first = told_of(waiting, reporter)

    cluster.queue_cache.remove_job(waiting)

    assert told_of(waiting, reporter) == first


def test_gated_pods_of_a_job_that_waits_are_left_alone() -> None:
    gated = task("g", GATED)
    gated.spec = PodProperties(is_managed=True, gated=("g",))

    told = told_of(job(gated, refusal=NOT_ADMITTED))

    assert [step.kind for step in told if isinstance(step, RecordEvent)] == ["PodGroup"]
    assert len(told) == 1


@pytest.mark.parametrize(("own", "of_the_job"), [(None, NOT_ADMITTED), (GANG, None), (NO_ROOM, None)])
def test_of_a_large_gang_all_pods_have_the_condition_and_the_first_of_each_role_have_events(
    own: Verdict | None, of_the_job: Verdict | None
) -> None:
    pods = [task(f"j-{role}-{number}", own) for role in ("ps", "worker") for number in range(1000)]
    for each in pods:
        each.spec = PodProperties(is_managed=True, role=each.name.split("-")[1])
    told = told_of(job(*pods, refusal=of_the_job, minimum=2000))

    first = [f"j-{role}-{number}" for role in ("ps", "worker") for number in range(EVENTS_FOR_EACH_ROLE)]
    assert events_in(told) == first
    assert conditions_in(told).keys() == {each.name for each in pods}


def test_the_events_of_a_large_gang_are_bounded_when_its_pods_come_one_by_one_too() -> None:
    reporter = Reporter(Cluster())
    waiting = job(refusal=NOT_ADMITTED, minimum=100)
    told: list[PlanStep] = []
    for number in range(100):
        late = task(f"j-{number}")
        late.job = waiting
        waiting.add_member(late)
        told += told_of(waiting, reporter)

    assert events_in(told) == [f"j-{number}" for number in range(EVENTS_FOR_EACH_ROLE)]
    assert len(conditions_in(told)) == 100


def test_the_same_pods_of_a_large_gang_tell_new_words_and_others_when_those_are_gone() -> None:
    reporter = Reporter(Cluster())
    pods = [task(f"j-{number}", GANG) for number in range(30)]
    waiting = job(*pods, minimum=30)
    first = events_in(told_of(waiting, reporter))
    for each in pods:
        each.refusal = Verdict(Step.GANG, "gang", Scope.JOB, "FailedScheduling", "gang waits for another")
    assert events_in(told_of(waiting, reporter)) == first

    for each in pods[:5]:
        waiting.remove_member(each)
    for each in pods:
        each.refusal = GANG
    assert events_in(told_of(waiting, reporter)) == [f"j-{number}" for number in range(5, 5 + EVENTS_FOR_EACH_ROLE)]


def test_pods_that_wait_each_for_itself_tell_it_each_for_itself() -> None:
    pods = [task(f"web-{number}", NO_ROOM) for number in range(50)]

    assert len(events_in(told_of(job(*pods, minimum=1)))) == 50


REASONS = [
    (Step.ENQUEUE, "NotAdmitted"),
    (Step.OVERUSED, "QuotaExceeded"),
    (Step.ALLOCATABLE, "QuotaExceeded"),
    (Step.PREDICATE, "Unschedulable"),
    (Step.BACKFILL, "Unschedulable"),
    (Step.GANG, "Unschedulable"),
    (Step.NO_QUEUE, "QueueNotFound"),
    (Step.NO_PODGROUP, "PodGroupNotFound"),
    (Step.INVALID, "InvalidField"),
]


@pytest.mark.parametrize(("step", "reason"), REASONS)
def test_each_step_has_its_reason_and_only_what_nodes_would_help_is_unschedulable(step: Step, reason: str) -> None:
    verdict = Verdict(step, "p", Scope.POD, "Why", "because")

    assert conditions_in(told_of(job(task("a", verdict)))) == {"a": reason}
    always = Reporter(Cluster(), always_unschedulable=True)
    assert conditions_in(told_of(job(task("a", verdict)), always)) == {"a": "Unschedulable"}


def test_a_verdict_may_say_what_it_is_shown_as_and_a_refused_binding_is_never_unschedulable() -> None:
    failed = Verdict(
        Step.PREDICATE, "binder", Scope.POD, "FailedScheduling", "no", shown_as=ConditionReason.SCHEDULER_ERROR
    )

    for reporter in (Reporter(Cluster()), Reporter(Cluster(), always_unschedulable=True)):
        assert conditions_in(told_of(job(task("a", failed)), reporter)) == {"a": "SchedulerError"}


def test_every_reason_may_be_that_of_a_condition() -> None:
    assert all(re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", reason) for reason in ConditionReason)
    assert {Verdict(step, "", Scope.POD, "", "").condition_reason for step in Step} <= set(ConditionReason)


def test_a_nomination_keeps_the_reason_that_the_pod_waits_for() -> None:
    one = task("p", Verdict(Step.ALLOCATABLE, "capacity", Scope.QUEUE, "Quota", "full"))
    job(one)
    one.nominated = "n1"

    reporter = Reporter(Cluster())
    assert reporter.about_nomination(one) == WritePodCondition("uid-p", "default", "p", "QuotaExceeded", "full", "n1")


@pytest.mark.parametrize(
    ("own", "of_the_job", "expected"), [(NO_ROOM, GANG, NO_ROOM), (None, GANG, GANG), (None, None, None)]
)
def test_a_pod_waits_for_its_own_reason_or_for_that_of_its_job(own: Any, of_the_job: Any, expected: Any) -> None:
    one = task("p", own)
    job(one, refusal=of_the_job)

    assert refusal_of(one) == expected


def test_a_pod_without_a_job_waits_for_its_own_reason() -> None:
    assert refusal_of(task("p", NO_ROOM)) == NO_ROOM


def test_the_gang_says_how_many_are_short_who_stands_where_and_the_first_reason() -> None:
    waiting = job(task("b", NO_ROOM), task("a", GANG), task("c", NO_ROOM), task("d", GANG), minimum=4)
    waiting.placed_in_last_try = frozenset({"uid-a", "uid-c"})

    assert gang_message(waiting) == (
        "3/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable; "
        "Pending: 1 Schedulable, 3 Unschedulable. "
        "Origin reason is b: 0/3 nodes are available: 3 Insufficient cpu."
    )
    assert gang_message(job(task("a"), refusal=NOT_ADMITTED, minimum=4)) == (
        "4/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 4 minAvailable; "
        "Pending: 1 Unschedulable. Origin reason is: resource in cluster is overused"
    )
    assert gang_message(job(minimum=1)) == "1/0 tasks in gang unschedulable: pod group is not ready, 1 minAvailable"


def test_members_that_run_are_counted_apart_from_those_that_wait() -> None:
    running = task("r")
    waiting = job(running, task("a", NO_ROOM), task("b", GANG), minimum=3)
    waiting.placed_in_last_try = frozenset({"uid-b"})
    running.status = TaskStatus.RUNNING
    waiting.recount(running, TaskStatus.PENDING)

    assert gang_message(waiting) == (
        "1/3 tasks in gang unschedulable: pod group is not ready, 1 Running, 2 Pending, 3 minAvailable; "
        "Pending: 1 Schedulable, 1 Unschedulable. "
        "Origin reason is a: 0/3 nodes are available: 3 Insufficient cpu."
    )


def test_no_message_is_longer_than_an_event_may_be() -> None:
    long = Verdict(Step.PREDICATE, "p", Scope.NODE, "FailedScheduling", "é" * 2 * LONGEST_MESSAGE)
    waiting = job(task("a", long), refusal=long, minimum=2)

    messages = [step.message for step in told_of(waiting) if isinstance(step, RecordEvent | WritePodCondition)]

    assert max(len(message.encode()) for message in [*messages, gang_message(waiting)]) < LONGEST_MESSAGE
