"""``volsched explain``, ``snapshot`` and ``diff``, as users call them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.calls import call
from tests.diagnose.test_defragment import NODES, pod
from tests.diagnose.test_explain import CONFIGURATION, cluster


@pytest.fixture
def world(tmp_path: Path) -> Path:
    file = tmp_path / "world.yaml"
    file.write_text(cluster())
    return file


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "scheduler.conf"
    file.write_text(CONFIGURATION)
    return file


@pytest.mark.process
def test_explain_exits_by_what_it_found(world: Path, config: Path) -> None:
    given = ("-f", world, "--config", config)
    waits = call("explain", "podgroup", "waits", *given)
    assert waits.exit_code == 3
    assert 'podgroup default/waits waits at step "allocatable"' in waits.stdout
    assert "Raise nvidia.com/gpu of queue team by 4 (spec.capability)." in waits.stdout
    assert call("explain", "pod", "runs-0", *given).exit_code == 0
    assert call("explain", "pod", "nobody", *given).exit_code == 4
    assert call("explain", "node", "n1", *given).exit_code == 2


def test_explain_for_programs_has_its_kind(world: Path, config: Path) -> None:
    done = call("explain", "queue", "team", "-f", world, "--config", config, "-o", "json")
    answer = json.loads(done.stdout)
    assert (answer["apiVersion"], answer["kind"], answer["state"]) == ("volsched.io/v1alpha1", "Explanation", "waits")
    assert [job["name"] for job in answer["jobs"]] == ["waits"]


def test_a_snapshot_takes_the_place_of_manifests(world: Path, config: Path, tmp_path: Path) -> None:
    file = tmp_path / "cluster.snapshot"
    assert call("snapshot", "-f", world, "--config", config, "-o", file).exit_code == 0
    given = ("-o", "json")
    assert (
        call("simulate", "-f", file, *given).stdout == call("simulate", "-f", world, "--config", config, *given).stdout
    )
    assert call("explain", "podgroup", "waits", "-f", file, "--help-seconds", "0").exit_code == 3


def test_diff_shows_what_a_quota_changes_and_fails_on_it(world: Path, config: Path, tmp_path: Path) -> None:
    more = tmp_path / "queue.yaml"
    more.write_text("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: team}}")
    given = ("diff", "-f", world, "--config", config, "--with", more)
    done = call(*given)
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "2 start.")
    assert call(*given, "--fail-on", "starts").exit_code == 1
    assert call(*given, "--fail-on", "evicted,waits").exit_code == 0
    assert call(*given, "--fail-on", "everything").exit_code == 2


def test_diff_without_a_change_or_of_what_is_not_there_is_refused(world: Path, config: Path) -> None:
    given = ("diff", "-f", world, "--config", config)
    assert call(*given).exit_code == 2
    assert "there is no such object" in call(*given, "--without", "Node/n9").stderr
    gone = json.loads(call(*given, "--without", "Node/n1", "-o", "json").stdout)
    assert gone["summary"] == {"reason": 2, "waits": 2}


def test_the_pods_of_a_node_that_goes_are_made_again_and_its_daemons_go(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "two-nodes.yaml"
    file.write_text(NODES + pod("c-1", "n1") + pod("d-1", "n1", 0, owner="DaemonSet") + pod("a-1", "n2", 8))
    done = call("diff", "-f", file, "--config", config, "--without", "Node/n1", "-o", "json")
    found = {each["pod"]: (each["sort"], each["before"], each["after"]) for each in json.loads(done.stdout)["pods"]}
    assert found == {"default/c-1": ("moves", "n1", "n3"), "default/d-1": ("waits", "n1", "absent")}
