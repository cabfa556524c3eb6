"""From verdicts to Events and conditions."""

from __future__ import annotations

from typing import Any

import pytest

from volsched.framework.reporter import about_job, about_task, condition_of, gang_message, refusal_of
from volsched.model.job import JobInfo
from volsched.model.plan import Tell, WritePodCondition
from volsched.model.status import TaskStatus
from volsched.model.task import TaskInfo
from volsched.model.template import TaskTemplate
from volsched.model.verdict import LONGEST_MESSAGE, Scope, Step, Verdict

NO_ROOM = Verdict(
    Step.PREDICATE, "predicates", Scope.NODE, "FailedScheduling", "0/3 nodes are available: 3 Insufficient cpu."
)
NOT_ADMITTED = Verdict(Step.ENQUEUE, "overcommit", Scope.JOB, "Unschedulable", "resource in cluster is overused")
GANG = Verdict(Step.GANG, "gang", Scope.JOB, "FailedScheduling", "gang waits")
GATED = Verdict(Step.GATED, "", Scope.POD, "SchedulingGated", "scheduling is gated by g")


def task(name: str, refusal: Verdict | None = None) -> TaskInfo:
    made = TaskInfo(f"uid-{name}", "default", name, TaskTemplate(0))
    made.refusal, made.ours = refusal, True
    return made


def job(*tasks: TaskInfo, refusal: Verdict | None = None, minimum: int = 1, has_group: bool = True) -> JobInfo:
    made = JobInfo("default", "j")
    made.group_uid, made.has_group, made.refusal, made.min_available = "uid-j", has_group, refusal, minimum
    for each in tasks:
        each.job = made
        made.admit(each)
    return made


def test_a_pod_that_no_node_takes_is_told_so_and_shown_so() -> None:
    one = task("p", NO_ROOM)
    one.nominated = "n1"

    assert list(about_task(one)) == [
        WritePodCondition("uid-p", "default", "p", "Unschedulable", NO_ROOM.message, "n1"),
        Tell("Pod", "v1", "default", "p", "uid-p", "Warning", "FailedScheduling", NO_ROOM.message),
    ]


@pytest.mark.parametrize("refusal", [None, GATED])
def test_nothing_is_told_of_a_pod_that_is_gated_or_does_not_wait(refusal: Verdict | None) -> None:
    assert list(about_task(task("p", refusal))) == []


@pytest.mark.parametrize(("refusal", "kind"), [(NOT_ADMITTED, "Normal"), (GANG, "Warning")])
def test_a_job_that_waits_as_a_whole_is_told_on_its_podgroup_and_shown_on_its_pods(refusal: Verdict, kind: str) -> None:
    own = task("b", NO_ROOM)
    told = list(about_job(job(task("c"), own, task("a"), refusal=refusal)))

    version = "scheduling.volcano.sh/v1beta1"
    assert told == [
        Tell("PodGroup", version, "default", "j", "uid-j", kind, refusal.reason, refusal.message),
        condition_of(task("a"), refusal),
        condition_of(task("c"), refusal),
    ]


def test_a_job_without_a_podgroup_is_told_on_its_pods() -> None:
    told = list(about_job(job(task("a"), refusal=GANG, has_group=False)))

    assert [type(step).__name__ for step in told] == ["WritePodCondition", "Tell"]
    assert isinstance(told[1], Tell)
    assert (told[1].kind, told[1].name, told[1].message) == ("Pod", "a", "gang waits")


def test_nothing_is_told_of_a_job_that_does_not_wait() -> None:
    assert list(about_job(job(task("a")))) == []


def test_gated_pods_of_a_job_that_waits_are_left_alone() -> None:
    gated = task("g", GATED)
    gated.gated = ("g",)

    told = list(about_job(job(gated, refusal=NOT_ADMITTED)))

    assert [step.kind for step in told if isinstance(step, Tell)] == ["PodGroup"]
    assert len(told) == 1


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
    waiting.fitting = frozenset({"uid-a", "uid-c"})

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
    waiting.fitting = frozenset({"uid-b"})
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

    messages = [step.message for step in [*about_task(task("a", long)), *about_job(waiting)]]  # type: ignore[union-attr]

    assert max(len(message.encode()) for message in [*messages, gang_message(waiting)]) < LONGEST_MESSAGE
