"""The drill in small: a few hundred faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drills import report as reporting
from drills.faults import KINDS, PODS, Chaos, Settings, Works, differences, parsed, run
from drills.report import Report
from drills.world import world
from tests.cluster.scheduling import QUICK_LEASE

pytest_plugins = ["tests.drills.fixtures"]


@pytest.mark.process
@pytest.mark.usefixtures("forked")
def test_what_is_placed_while_the_api_server_answers_wrongly_is_placed_as_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    report = Report("faults", "short form", judge_time=False)
    run(report, Settings(faults=150, seed=3, flags=QUICK_LEASE))
    report.finish()
    not_met = [line.what for line in report.lines if not line.is_met]
    assert not_met in ([], ["kinds of fault that met none"])  # so few faults need not be of every kind
    assert report.figures["pods placed in a round"] == PODS


@pytest.mark.process
def test_what_is_there_is_kept_of_a_round_that_went_otherwise(tmp_path: Path) -> None:
    with world() as there:
        namespace = there.control_plane.create_namespace("round")
        there.make_pods(namespace, [there.pod("left", cpu="1")])
        there.make_group(namespace, "gang", minMember=2)
        Works(there, namespace).keep(tmp_path / "kept")

    kept = {path.name: json.loads(path.read_text()) for path in (tmp_path / "kept").iterdir()}
    assert set(kept) == {f"round-{kind}.json" for kind in ("pods", "events", "podgroups", "jobs", "resourceclaims")}
    assert [pod["metadata"]["name"] for pod in kept["round-pods.json"]] == ["left"]
    assert [group["metadata"]["name"] for group in kept["round-podgroups.json"]] == ["gang"]


def test_a_pod_elsewhere_and_a_pod_too_much_or_too_few_are_differences() -> None:
    expected = {"a": "n0", "b": "n1", "c": "n2"}
    assert differences(expected, dict(expected)) == []
    assert differences(expected, {"a": "n1", "b": "n1", "d": "n3"}) == [
        "a: n1, and n0 without faults",
        "c: nowhere, and n2 without faults",
        "d: n3, and nowhere without faults",
    ]


def test_faults_of_every_kind_have_a_weight_and_a_name_of_their_own() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS) == 18
    assert all(kind.weight > 0 for kind in KINDS)
    assert Chaos([], None).met == {}  # type: ignore[arg-type]


def test_sizes_are_arguments() -> None:
    assert parsed(["--faults", "500", "--seed", "4"]) == Settings(faults=500, seed=4)
