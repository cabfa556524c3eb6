"""A node refuses a pod that was bound to it: its PodGroup says so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mirror.objects import Believer, group, node, pod, queue
from volsched.mirror.events import MOST_EVENTS
from volsched.model.changes import Put
from volsched.model.plan import RecordEvent

SAID: dict[str, Any] = {"reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough resource: cpu"}


def told(*later: Put, first: Put | None = None) -> list[RecordEvent]:
    believer = Believer(queue("q"), node("n1", cpu=8), group("g", "q", 1))
    believer.apply(first or pod("p", "g", on="n1", phase="Pending", cpu=1))
    believer.apply(*later)
    return believer.mirror.events.take()


def refused(**how: Any) -> Put:
    return pod("p", "g", on="n1", phase="Failed", status=SAID | how, cpu=1)


def test_the_podgroup_says_which_pod_was_refused_where_and_why() -> None:
    [event] = told(refused())

    assert (event.kind, event.name, event.type, event.reason) == ("PodGroup", "g", "Warning", "RejectedByNode")
    assert event.message == (
        'pod "p" was refused by node "n1", to which it was bound: '
        "OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu"
    )


@pytest.mark.parametrize(
    "later",
    [
        refused(containerStatuses=[{"name": "main"}]),
        refused(reason=""),
        pod("p", "g", on="n1", phase="Succeeded", status=SAID, cpu=1),
    ],
    ids=["it had containers", "it says nothing", "it succeeded"],
)
def test_other_ends_are_no_refusal(later: Put) -> None:
    assert told(later) == []


def test_what_ran_was_not_refused() -> None:
    assert told(refused(), first=pod("p", "g", on="n1", phase="Running", cpu=1)) == []


def test_a_pod_without_a_podgroup_has_the_event_of_its_kubelet() -> None:
    alone = pod("p", on="n1", phase="Pending", cpu=1)
    assert told(pod("p", on="n1", phase="Failed", status=SAID, cpu=1), first=alone) == []


def test_each_is_told_once_and_a_bounded_number_waits() -> None:
    believer = Believer(queue("q"), node("n1", cpu=8), group("g", "q", 1))
    names = [f"p{number}" for number in range(MOST_EVENTS + 10)]
    believer.apply(*(pod(name, "g", on="n1", phase="Pending") for name in names))
    believer.apply(*(pod(name, "g", on="n1", phase="Failed", status=SAID) for name in names))
    assert len(believer.mirror.events.take()) == MOST_EVENTS
    assert believer.mirror.events.take() == []
