"""The drill of hostile objects, a small one, and how it judges."""

from __future__ import annotations

import json
import math
from http.client import RemoteDisconnected
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drills import hostile
from drills import report as reporting
from drills.crowds import FIRST_SECONDS, LATER_DECISIONS, Served, Sizes, judge
from drills.hostile import Memory, Settings, Waited, grown, percentile, seconds_until_bound
from drills.hostile_objects import GROUPS, NATIVE, Attacker, Fate, Target
from drills.report import Report
from drills.world import World
from tests.cluster.scheduling import PATIENT_LEASE

pytest_plugins = ["tests.drills.fixtures"]

TARGET = Target("volsched", "honest", "steady", "uid", "hostile")


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    return Report("hostile", "a short one", judge_time=False)


@pytest.mark.process
@pytest.mark.usefixtures("forked")
def test_what_one_tenant_writes_harms_nobody_else(report: Report) -> None:
    hostile.run(
        report,
        Settings(
            waves=1,
            objects=80,
            large=16,
            seconds=4,
            nodes=3,
            replicas=10,
            patience=180,
            idle=3,
            kept_mib=3,
            connections=200,
            crowds=Sizes(gangs=20, bindings=70, refused=10, searched=20, scrapes=40, asked=0, late=5.0),
            growing=14,
            flags=PATIENT_LEASE,
        ),
    )
    report.finish()

    memory = [line for line in report.lines if line.what.startswith("memory of")]
    assert len(memory) == 4  # no process is warm after some seconds, so how much it grew says nothing here
    assert [line for line in report.lines if not line.is_met and line not in memory] == []
    assert report.figures["hostile objects that the API server took"] > 100


def test_processes_have_the_limits_of_the_manifests() -> None:
    assert hostile.memory_limits() == {"scheduler": 1024.0, "controllers": 512.0}


def test_large_objects_are_of_all_kinds_and_weigh_what_the_api_server_takes() -> None:
    made = [*Attacker(TARGET, 3).large(40)]
    assert {found.kind for found in made} == {
        "ResourceClaim",
        "ResourceClaimTemplate",
        "Pod",
        "PersistentVolumeClaim",
        "PodGroup",
        "ReplicaSet",
        "Job",
    }
    assert all(100_000 < len(found.body) < 1_000_000 for found in made)


def objects(seed: int, more: int = 1_000) -> list[Any]:
    attacker = Attacker(TARGET, seed)
    return [*attacker.rows(), *attacker.more(more), *attacker.of_administrators(50)]


def test_hostile_objects_follow_from_the_seed() -> None:
    assert objects(1, 200) == objects(1, 200)
    assert objects(1, 200) != objects(2, 200)


def test_they_are_of_all_kinds_and_those_of_administrators_are_marked() -> None:
    made = objects(17)
    kinds = {found.kind for found in made}
    assert kinds >= {
        "Pod",
        "PodGroup",
        "Job",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "Command",
        "Queue",
        "ResourceSlice",
    }
    assert kinds >= {"PersistentVolumeClaim", "Deployment", "StatefulSet", "ReplicaSet", "Lease", "Workload"}
    assert {found.version for found in made if found.kind == "PodGroup"} == {GROUPS, NATIVE}
    assert {found.kind for found in made if found.is_cluster_wide} == {"Queue", "ResourceSlice"}
    assert (
        len({(found.kind, found.name) for found in made})
        == len(made) - sum(found.kind == "Lease" for found in made) + 1
    )


def test_what_is_refused_for_certain_must_be_named() -> None:
    fates = {found.what: found.fate for found in objects(17, 0)}
    assert fates["env: 5"] is Fate.NAMED
    assert fates["10,000 keys of node affinity"] is Fate.NAMED
    assert fates["the Lease of Volcano's controllers"] is Fate.HARMLESS


def test_a_deep_object_is_as_deep_as_it_says() -> None:
    deep = next(found for found in objects(17, 0) if "4,000 levels" in found.what)
    assert deep.body.count(b'{"a":') == 4_000
    with pytest.raises(RecursionError):
        json.loads(deep.body)


@pytest.mark.parametrize(
    ("seen", "bound", "stamped", "waited"),
    [(1, 1.5, None, 0.5), (1, 5.2, 4, 4.2), (1, 170, 8, 9), (169.8, 170, 8, 7), (1, math.inf, None, math.inf)],
)
def test_a_late_watch_does_not_decide_how_long_a_pod_waited(
    seen: float, bound: float, stamped: float | None, waited: float
) -> None:
    found = Waited("p", seen, bound=bound, stamped=stamped)
    assert found.seconds == pytest.approx(waited)


def test_the_time_stamps_of_a_pod_tell_when_it_was_bound() -> None:
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:01:03Z"}
    pod = {"metadata": {"creationTimestamp": "2026-01-01T00:00:59Z"}, "status": {"conditions": [condition]}}
    assert seconds_until_bound(pod) == 4
    condition["status"] = "False"
    assert seconds_until_bound(pod) is None


def test_one_pod_of_a_hundred_does_not_make_the_percentile_and_two_do() -> None:
    assert percentile([*[0.1] * 99, 9.0], 0.99) == 0.1
    assert percentile([*[0.1] * 98, 9.0, 9.0], 0.99) == 9.0
    assert percentile([], 0.99) == math.inf


def test_a_table_that_does_not_come_back_is_named_and_one_with_a_bound_is_not() -> None:
    before = Memory({"s": 1.0}, {"s": 1.0}, {"s": {"mirror.pods": 10.0, "events.said": 5.0}})
    after = Memory({"s": 1.0}, {"s": 1.0}, {"s": {"mirror.pods": 500.0, "events.said": 16_000.0}})
    assert grown(before, before) == []
    assert grown(before, after) == ["s: mirror.pods 10 -> 500"]


def judged(*served: Served, tries: float = 1.0) -> list[str]:
    report = Report("hostile", "none")
    judge(report, served, [tries])
    return [line.what.partition(",")[0] for line in report.lines if not line.is_met]


@pytest.mark.process
def test_who_is_served_last_or_late_beside_a_crowd_is_told() -> None:
    good = Served("bindings", 0.5, 4_000)
    assert judged(good) == []
    assert judged(good, Served("retries", 0.5, 0)) == ["lanes in which another's first request was served last"]
    assert judged(good, Served("retries", FIRST_SECONDS, 9)) == ["slowest first request beside a crowd"]
    assert judged(good, Served(LATER_DECISIONS, 9.0, 9)) == [], "sessions count there, and not seconds"
    assert judged(good, tries=2.0) == ["sessions' worth of tries until another's pod is decided"]


class Abrupt:
    """An API server that closes a connection without an answer."""

    def request(self, _: str, __: str, body: bytes, **___: Any) -> bytes:
        if b"pod-2" in body:
            raise RemoteDisconnected("closed without an answer")
        return b""

    def for_each(self, call: Any, arguments: Any, **_: Any) -> None:
        for argument in arguments:
            call(argument)


def test_an_attack_ends_although_the_api_server_does_not_answer() -> None:
    attack = hostile.Attack("hostile-1")
    attacker = Attacker(TARGET, 1)
    hostile.send(cast("World", SimpleNamespace(api=Abrupt())), attack, [attacker.pod("odd") for _ in range(3)])
    assert (len(attack.taken), attack.refused, attack.is_over) == (2, {"Pod": 1}, True)
