"""The drill in small: one of each blow, with a Lease that ends sooner than the one that ships."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from drills import report as reporting
from drills.failover import Settings, Side, order, parsed, run
from drills.report import Report
from drills.world import Replica
from tests.cluster.scheduling import LEASE, QUICK_LEASE
from tools.controlplane.request_counts import NO_ANSWER, Write

pytest_plugins = ["tests.drills.fixtures"]


@pytest.mark.process
@pytest.mark.usefixtures("forked")
def test_one_of_each_blow_loses_nothing_and_binds_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    report = Report("failover", "short form", judge_time=False)
    run(report, Settings(
        each=1, per_minute=120, stop_seconds=12.0, partition_seconds=12.0, theft_seconds=3.0, late_seconds=6.2,
        pause_seconds=0.5, takeover_seconds=22.0, seed=2, flags=QUICK_LEASE,
    ))  # fmt: skip
    status = report.finish()
    assert [line for line in report.lines if not line.is_met] == []
    assert status == 0
    assert report.figures["pods made"] > 100
    assert report.figures["bindings that the auditor saw"] > 100
    assert all(report.figures[f"{kind}: leaders struck"] == 1 for kind in Settings().kinds)


class _Counts:
    def __init__(self, *writes: Write) -> None:
        self._writes = list(writes)

    def note(self, write: Write) -> None:
        self._writes.append(write)

    def take_journal(self) -> list[Write]:
        taken, self._writes = self._writes, []
        return taken


def _side(*journals: _Counts) -> Side:
    replicas = [Replica(None, type("Proxy", (), {"counts": counts}), ()) for counts in journals]  # type: ignore[arg-type]
    return Side("schedulers", LEASE, replicas, None)  # type: ignore[arg-type]


def test_a_write_by_a_replica_that_does_not_hold_the_lease_is_found() -> None:
    pods = "/api/v1/namespaces/load/pods"
    old = _Counts(Write(1.0, "create", LEASE, 201), Write(2.0, "create", f"{pods}/a/binding", 201),
                  Write(4.0, "update", LEASE, 409), Write(5.0, "create", f"{pods}/b/binding", 409))  # fmt: skip
    new = _Counts(Write(3.0, "update", LEASE, 200), Write(6.0, "create", f"{pods}/b/binding", 201))
    side = _side(old, new)

    side.read_journals()

    assert side.strays == [f"schedulers 0: create {pods}/b/binding (409), not leading"]
    assert side.writes == 3


def test_what_follows_a_lease_is_judged_once_that_is_answered() -> None:
    now = time.monotonic() - 0.3
    taken_over = Write(now + 0.1, "update", LEASE, NO_ANSWER)
    binding = Write(now + 0.2, "create", "/api/v1/namespaces/load/pods/a/binding", 201)
    side = _side(_Counts(Write(now, "create", LEASE, 201)), _Counts(taken_over, binding))

    side.read_journals()
    taken_over.status = 200
    side.settle()

    assert side.strays == []
    assert side.writes == 1
    assert [at for at, _ in side.taken_at] == [now, now + 0.1]


def test_each_blow_falls_as_often_on_schedulers_as_on_controllers() -> None:
    blows = list(order(Settings(each=10), random.Random(3)))  # noqa: S311
    assert {blows.count((kind, which)) for kind in Settings().kinds for which in (0, 1)} == {5}


def test_sizes_are_arguments() -> None:
    assert parsed([]) == Settings()
    assert parsed(["--each", "2", "--kinds", "SIGKILL"]) == Settings(each=2, kinds=("SIGKILL",))


def test_a_lease_that_was_given_back_and_is_noted_late_is_judged_in_its_order() -> None:
    pods, now = "/api/v1/namespaces/load/pods", time.monotonic()
    old, new = (
        _Counts(),
        _Counts(Write(now - 0.2, "update", LEASE, 200), Write(now - 0.1, "create", f"{pods}/a/binding")),
    )
    side = _side(old, new)

    side.read_journals()
    old.note(Write(now - 0.3, "update", LEASE, 200))
    new.note(Write(now, "create", f"{pods}/b/binding"))
    side.settle()

    assert (side.writes, side.strays) == (2, [])
