"""Events out of the mirror: what is so, and what has happened."""

from __future__ import annotations

from tests.mirror.objects import Believer, group, node, pod, queue
from volsched.mirror.events import MirrorEvents
from volsched.mirror.problems import ReadingProblem
from volsched.model.plan import RecordEvent

HAPPENED = RecordEvent("Pod", "v1", "ns", "p", "u", "Warning", "Refused", "its node refused it")
PROBLEM = ReadingProblem("Pod", "ns", "p", "u", "spec.containers[0]", "no quantity")


def test_a_follower_keeps_what_is_so_and_not_what_has_happened() -> None:
    events = MirrorEvents()
    events.report(PROBLEM, PROBLEM)
    events.record(HAPPENED)

    events.forget_what_happened()

    assert [event.reason for event in events.take()] == ["InvalidField"]


def test_each_is_taken_once() -> None:
    events = MirrorEvents()
    for _ in range(2):
        events.report(PROBLEM, PROBLEM)
        events.record(HAPPENED)

    assert [event.reason for event in events.take()] == ["InvalidField", "Refused"]
    assert events.take() == []


def test_of_one_object_the_latest_counts_until_it_is_so_no_longer() -> None:
    events = MirrorEvents()
    other = ReadingProblem("Pod", "ns", "p", "u", "spec.containers[1]", "no quantity")
    events.report(PROBLEM, "p")
    events.report(other, "p")
    assert events.take_findings() == [other]

    events.report(PROBLEM, "p")
    events.take_back("p")
    assert events.take() == []


def test_a_bounded_number_of_each_sort_waits() -> None:
    events = MirrorEvents(most=2)
    for number in range(5):
        events.report(PROBLEM, number)
        events.record(RecordEvent("Pod", "v1", "ns", f"p{number}", "u", "Warning", "Refused", ""))

    assert len(events) == 4
    assert [event.name for event in events.take()] == ["p", "p", "p3", "p4"]


def test_all_of_the_mirror_comes_out_of_one_channel() -> None:
    believer = Believer(queue("q"), node("n1", cpu="odd"), group("g", "q", 1))
    believer.apply(pod("p", "g", on="n1", phase="Pending", cpu=1))
    believer.apply(pod("p", "g", on="n1", phase="Failed", status={"reason": "OutOfcpu", "message": ""}, cpu=1))

    assert {event.reason for event in believer.mirror.events.take()} == {"InvalidField", "RejectedByNode"}
