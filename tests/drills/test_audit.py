"""The auditor finds what it is there to find, each kind once; and nothing in a cluster where all is well."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from drills.audit import Auditor, Kind
from drills.reading import CARD_NAME, CARD_QUOTA, CORE, GROUP_NAME, INDEX, MEMORY
from tools.controlplane import a_node, a_pod

GPU = "nvidia.com/gpu"
Json = dict[str, Any]


class Told:
    """An auditor that is told events by hand, and whose clock is turned."""

    def __init__(self) -> None:
        self.now = 0.0
        self.auditor = Auditor(None, clock=lambda: self.now)  # type: ignore[arg-type]
        self._versions = itertools.count(1)
        labels = {f"{GPU}.product": "A100", f"{GPU}.count": "4", f"{GPU}.memory": "81920"}
        self.node(a_node("n0", cpu="4", labels=labels, **{GPU: 4, CORE: 200, MEMORY: 2000}))
        self.queue("default", {"A100": 1})

    def tell(self, kind: str, thing: Json, what: str = "MODIFIED") -> Json:
        thing["metadata"].setdefault("uid", f"{kind}-{thing['metadata']['name']}")
        thing["metadata"]["resourceVersion"] = str(next(self._versions))
        if kind in ("pods", "podgroups"):
            thing["metadata"].setdefault("namespace", "team")
        self.auditor.apply(kind, what, thing)
        return thing

    def node(self, node: Json) -> None:
        self.tell("nodes", node, "ADDED")

    def queue(self, name: str, quota: dict[str, int], **capability: str) -> None:
        notes = {CARD_QUOTA: json.dumps(quota)}
        self.tell(
            "queues", {"metadata": {"name": name, "annotations": notes}, "spec": {"capability": capability}}, "ADDED"
        )

    def pod(self, name: str, node: str = "n0", notes: dict[str, str] | None = None, **requests: Any) -> Json:
        spec = {"nodeName": node} if node else {}
        return self.tell("pods", a_pod(name, annotations=notes or {}, spec=spec, **requests))

    def group(self, name: str, minimum: int, queue: str = "default") -> None:
        self.tell("podgroups", {"metadata": {"name": name}, "spec": {"minMember": minimum, "queue": queue}})

    def found(self) -> dict[Kind, int]:
        assert self.auditor.recount() == []
        return dict(self.auditor.counts)


@pytest.fixture
def told() -> Iterator[Told]:
    there = Told()
    yield there
    assert there.auditor.failures == []


def test_a_full_node_is_no_finding_and_a_pod_more_is_one(told: Told) -> None:
    for index in range(4):
        told.pod(f"p{index}", cpu="1")
    assert told.found() == {}

    told.pod("more", cpu="500m")

    assert told.found() == {"node": 1}
    assert told.auditor.examples("node") == ("pod team/more on n0: cpu: 4.500 of 4 given away",)


def test_what_a_pod_has_from_devices_is_nothing_of_its_node(told: Told) -> None:
    pod = a_pod("p", spec={"nodeName": "n0"}, **{"example.com/slot": "1"})
    mapping = {"containerName": "main", "resourceName": "example.com/slot", "requestName": "r0"}
    pod["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": [mapping]}}
    told.tell("pods", pod)
    assert told.found() == {}

    told.pod("more", **{"example.com/slot": "1"})

    assert told.found() == {"node": 1}


def test_what_has_ended_or_is_gone_leaves_room_and_what_is_being_deleted_does_not(told: Told) -> None:
    pods = [told.pod(f"p{index}", cpu="2") for index in range(2)]
    pods[0]["status"] = {"phase": "Succeeded"}
    told.tell("pods", pods[0])
    told.pod("next", cpu="2")
    told.tell("pods", pods[1], "DELETED")
    leaving = told.pod("after", cpu="2")
    assert told.found() == {}

    leaving["metadata"]["deletionTimestamp"] = "now"
    told.tell("pods", leaving)
    told.pod("early", cpu="1")

    assert told.found() == {"node": 1}


def test_a_pod_whose_node_was_not_seen_yet_is_counted_when_it_is(told: Told) -> None:
    told.pod("p", "n1", cpu="8")
    assert told.found() == {}
    told.node(a_node("n1", cpu="4"))
    assert told.found() == {"node": 1}


def test_a_pod_on_another_node_than_before_is_found(told: Told) -> None:
    told.node(a_node("n1"))
    told.pod("p", "n0")
    told.pod("p", "n1")
    assert told.auditor.examples("moved") == ("pod team/p: on n0, then on n1",)
    assert told.auditor.bound == 1


def test_a_card_beyond_the_quota_of_the_queue_of_its_gang_is_found(told: Told) -> None:
    notes = {CARD_NAME: "A100", GROUP_NAME: "g"}
    told.pod("p0", notes=notes, **{GPU: 1})
    told.pod("p1", notes=notes, **{GPU: 1})
    assert told.auditor.counts == {}  # nobody knows the gang's queue yet

    told.group("g", 2)

    assert told.auditor.examples("quota") == ("pod team/p1 on n0: queue default holds 2 A100, and may hold 1",)


def test_a_pod_that_is_being_deleted_holds_nothing_of_its_queue(told: Told) -> None:
    leaving = told.pod("p0", notes={CARD_NAME: "A100"}, **{GPU: 1})
    leaving["metadata"]["deletionTimestamp"] = "now"
    told.tell("pods", leaving)
    told.pod("p1", notes={CARD_NAME: "A100"}, **{GPU: 1})
    assert told.found() == {}


def test_cpu_beyond_a_queues_capability_is_found(told: Told) -> None:
    told.queue("small", {}, cpu="1")
    told.group("g", 1, "small")
    told.pod("p0", notes={GROUP_NAME: "g"}, cpu="1")
    assert told.found() == {}
    told.pod("p1", notes={GROUP_NAME: "g"}, cpu="1")
    assert told.found() == {"quota": 1}


@pytest.mark.parametrize(
    ("cards", "core", "memory", "words"),
    [
        ("0", 60, 300, "card 0: 110 percent and 600 of 1000 MiB given away"),
        ("0", 40, 800, "card 0: 90 percent and 1100 of 1000 MiB given away"),
        ("0", 100, 0, "card 0: 150 percent and 1300 of 1000 MiB given away"),
        ("2", 10, 300, "card 2 is none of 2"),
        ("1,1", 20, 600, "container main has a card twice: 1,1"),
        ("", 10, 300, "container main has no cards written"),
    ],
)
def test_a_shared_card_given_out_twice_is_found(told: Told, cards: str, core: int, memory: int, words: str) -> None:
    told.pod("p0", notes={f"{INDEX}main": "0"}, **{CORE: 50, MEMORY: 300})
    told.pod("p1", notes={f"{INDEX}main": "1"}, **{CORE: 50, MEMORY: 300})
    assert told.found() == {}
    asked = {CORE: core, MEMORY: memory} if memory else {CORE: core}
    told.pod("p2", notes={f"{INDEX}main": cards} if cards else {}, **asked)
    assert told.auditor.examples("cards") == (f"pod team/p2 on n0: {words}",)


def test_a_gang_in_part_for_long_is_found_once_and_one_that_ends_pod_by_pod_is_not(told: Told) -> None:
    told.group("good", 2)
    good = [told.pod(f"good-{index}", notes={GROUP_NAME: "good"}) for index in range(2)]
    told.tell("pods", good[0], "DELETED")
    told.group("bad", 3)
    told.pod("bad-0", notes={GROUP_NAME: "bad"})
    told.now = 59.0
    told.pod("bad-1", notes={GROUP_NAME: "bad"})
    assert told.found() == {}

    told.now = 61.0
    told.group("bad", 3)
    told.now = 62.0
    told.pod("bad-2", notes={GROUP_NAME: "bad"})

    assert told.found() == {"in part": 1}
    assert told.auditor.longest_in_part == 62.0
    assert told.auditor.examples("in part") == ("PodGroup team/bad: 2 of 3 for 61 s: team/bad-0, team/bad-1",)


def test_a_pod_that_went_without_a_node_is_found(told: Told) -> None:
    told.tell("pods", told.pod("lost", ""), "DELETED")
    assert told.found() == {"vanished": 1}
    told.pod("waits", "")
    assert told.auditor.waiting() == ["team/waits"]


def test_a_pod_that_went_while_nobody_watched_is_no_find_and_holds_nothing(told: Told) -> None:
    told.pod("waited", "")
    told.pod("ran", "n0")

    told.auditor.replace("pods", {"metadata": {"resourceVersion": "100"}, "items": []})

    assert told.found() == {}
    assert (told.auditor.waiting(), told.auditor.placed()) == ([], {})


def test_a_store_that_went_back_is_said_and_moves_nobody(told: Told) -> None:
    told.node(a_node("n1"))
    told.auditor.replace("pods", {"metadata": {"resourceVersion": "100"}, "items": []})
    pod = told.pod("p", "n0")
    pod["spec"] = pod["spec"] | {"nodeName": "n1"}
    told.auditor.replace("pods", {"metadata": {"resourceVersion": "50"}, "items": [pod]})
    assert told.found() == {}
    assert told.auditor.relisted == ["pods: versions went back from 100 to 50"]
