"""Whatever a cluster looks like, every question about it has an answer, and the answer names the cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnose.everything import answers, make_each_change
from tests.plans.scenarios import CHUNKS, Play, Scenario, some_scenarios
from tests.plans.sessions import read
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.simulation.documents import documents_in
from volsched.simulation.manifests import read_inventory

FOLDERS = (Path(__file__).with_name("reported"), Path(__file__).parents[1] / "simulation" / "evictions")
REPORTED = sorted(file for folder in FOLDERS for file in folder.glob("*.yaml"))


@pytest.mark.slow(reason="a hundred clusters")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_recorded_plans_are_explained(chunk: int) -> None:
    for scenario in some_scenarios(chunk, one_in=20):
        assert all(said.sentence for said in answers(known(scenario), cycles=3)), scenario.name


@pytest.mark.slow(reason="each change is one more run of a cluster")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_changes_that_are_tried_for_recorded_plans_end_well(chunk: int) -> None:
    for scenario in some_scenarios(chunk, one_in=80):
        make_each_change(known(scenario), cycles=3)


def known(scenario: Scenario) -> ClusterSnapshot:
    """Return the cluster of a scenario as it is after its last cycle."""
    play = Play(scenario)
    for chapter in [[], *scenario.chapters]:
        play.cycle(chapter)
    return ClusterSnapshot(tuple(map(read, play.cluster.objects.values())), scenario.configuration)


@pytest.mark.parametrize("file", REPORTED, ids=lambda file: file.stem)
def test_clusters_of_reports_are_explained(file: Path) -> None:
    inventory = read_inventory(documents_in(file.name, file.read_text(encoding="utf-8")))
    text = inventory.configuration or DEFAULT_CONFIGURATION
    cluster = ClusterSnapshot(tuple(inventory.objects), text)
    assert list(answers(cluster, cycles=10))
    make_each_change(cluster, cycles=10)
