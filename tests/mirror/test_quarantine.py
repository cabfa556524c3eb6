"""What one object causes in the mirror ends with that object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mirror.objects import Believer, gone, group, node, pod, queue
from volsched.mirror.events import MOST_EVENTS
from volsched.mirror.quarantine import DECODING, MIRROR
from volsched.model import api
from volsched.model.changes import Change, Put, Unreadable


def unreadable(kind: str, name: str, *, uid: str = "", on: str = "") -> Unreadable:
    return Unreadable(kind, "v1", "default", name, uid or f"uid-{name}", "$.spec", "is nested", on)


def test_a_pod_that_runs_and_cannot_be_read_closes_its_node_until_it_has_gone() -> None:
    believer = Believer(node("n1", cpu=4), node("n2", cpu=4), unreadable("Pod", "odd", on="n1"))
    nodes = believer.mirror.cluster.nodes
    assert [nodes[name].quarantined for name in ("n1", "n2")] == [True, False]

    believer.apply(node("n1", cpu=8))  # the Node says something else meanwhile
    assert nodes["n1"].quarantined

    believer.apply(gone("Pod", "odd"))
    assert not nodes["n1"].quarantined
    assert not believer.mirror.quarantine


def test_a_node_that_comes_after_such_a_pod_is_closed_as_well() -> None:
    believer = Believer(unreadable("Pod", "odd", on="n1"), node("n1", cpu=4))
    assert believer.mirror.cluster.nodes["n1"].quarantined


def test_a_pod_that_can_be_read_again_counts_and_opens_its_node() -> None:
    believer = Believer(node("n1", cpu=4), unreadable("Pod", "odd", on="n1"), pod("odd", on="n1", cpu=1))
    found = believer.mirror.cluster.nodes["n1"]
    assert (found.quarantined, found.used_of("cpu")) == (False, 1000)


def test_a_pod_that_counts_already_stays_as_it_was_and_its_node_open() -> None:
    believer = Believer(node("n1", cpu=4), pod("a", on="n1", cpu=1), unreadable("Pod", "a", on="n1"))
    found = believer.mirror.cluster.nodes["n1"]
    assert (found.quarantined, found.used_of("cpu")) == (False, 1000)
    assert believer.mirror.quarantine.counts == {("Pod", DECODING): 1.0}


def test_each_is_told_once_until_it_changes() -> None:
    believer = Believer(unreadable("PodGroup", "g"), unreadable("PodGroup", "g"))
    [news] = believer.mirror.events.take_findings()
    assert (news.kind, news.name, news.message) == ("PodGroup", "g", "spec: is nested")
    believer.apply(unreadable("PodGroup", "g"))
    assert believer.mirror.events.take_findings() == []
    believer.apply(group("g"), unreadable("PodGroup", "g"))
    assert len(believer.mirror.events.take_findings()) == 1


ALL: list[Callable[[str], Change]] = [
    lambda name: pod(name, cpu=1),
    lambda name: pod(name, on="n1", cpu=1),
    lambda name: node(name, cpu=4),
    group,
    queue,
    lambda name: Put(api.StorageClass(api.ObjectMeta(name, uid=f"uid-{name}"))),
]


@pytest.mark.parametrize("make", ALL)
def test_an_object_whose_reading_fails_is_set_aside_and_everybody_else_goes_on(
    make: Callable[[str], Change], monkeypatch: pytest.MonkeyPatch
) -> None:
    believer = Believer(node("n1", cpu=4))
    break_reading_of(monkeypatch, believer, "odd")

    believer.apply(make("a"), make("odd"), pod("after", on="n1", cpu=2))

    assert "uid-after" in believer.mirror.cluster.tasks
    [(key, count)] = believer.mirror.quarantine.counts.items()
    assert (key[1], count) == (MIRROR, 1.0)
    [failed] = believer.mirror.quarantine.take_errors()
    assert isinstance(failed.error, ZeroDivisionError)
    believer.apply(gone(key[0], "odd"))
    assert not believer.mirror.quarantine


def break_reading_of(monkeypatch: pytest.MonkeyPatch, believer: Believer, name: str) -> None:
    """Have whatever reads the metadata of objects of this name fail, as an error of ours would."""
    mirror = believer.mirror

    def failing(take: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def guarded(found: Any) -> Any:
            if found.metadata.name == name:
                raise ZeroDivisionError("ours")
            return take(found)

        return guarded

    for kind, take in mirror._put.items():
        monkeypatch.setitem(mirror._put, kind, failing(take))
    monkeypatch.setattr(mirror, "_put_other", failing(mirror._put_other))
    monkeypatch.setattr(mirror._nodes, "read", failing(mirror._nodes.read))


@given(st.lists(st.sampled_from(["put", "unreadable", "gone", "node"]), max_size=12))
def test_a_node_is_closed_exactly_as_long_as_a_pod_on_it_is_not_understood(steps: list[str]) -> None:
    believer = Believer(node("n1", cpu=4))
    counts = understood = True
    for step in steps:
        match step:
            case "put":
                believer.apply(pod("p", on="n1", cpu=1))
                counts = understood = True
            case "unreadable":
                counts = "uid-p" in believer.mirror.cluster.tasks
                understood = False
                believer.apply(unreadable("Pod", "p", on="n1"))
            case "gone":
                believer.apply(gone("Pod", "p"))
                understood = True
            case _:
                believer.apply(node("n1", cpu=4))
        closed = believer.mirror.cluster.nodes["n1"].quarantined
        assert closed == (not understood and not counts)


def test_a_follower_that_tells_nobody_keeps_one_entry_for_each_object_and_nothing_of_those_that_are_gone() -> None:
    believer = Believer()
    for number in range(100):
        odd = unreadable("PodGroup", "g")
        believer.apply(replace(odd, message=f"is nested {number} deep"), unreadable("PodGroup", f"gone-{number}"))
        believer.apply(gone("PodGroup", f"gone-{number}"))

    [news] = believer.mirror.events.take_findings()
    assert news.message == "spec: is nested 99 deep"


def test_what_was_raised_is_kept_no_longer_than_until_it_was_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback holds on to all that was known where it was raised, as a list of twenty thousand changes."""
    believer = Believer()
    break_reading_of(monkeypatch, believer, "odd")
    believer.apply(pod("odd", cpu=1))
    assert believer.mirror.quarantine.take_errors()[0].error is not None

    assert all(found.error is None for found in believer.mirror.quarantine._objects.values())
    assert [found.error for found in believer.mirror.events.take_findings()] == [None]


def test_fields_that_cannot_be_read_are_told_each_once_and_wait_in_a_bounded_number() -> None:
    believer = Believer()
    for number in range(3):
        believer.apply(node("n1", cpu="odd", labels={"turn": str(number)}))
    assert len(believer.mirror.events.take_findings()) == 2, "of capacity and allocatable"

    believer.apply(*(node(f"n{number}", cpu="odd") for number in range(MOST_EVENTS + 10)))
    assert len(believer.mirror.events) == MOST_EVENTS
