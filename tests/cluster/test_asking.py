"""``volsched explain`` and ``snapshot`` on a real API server: what they say is what the scheduler that runs does."""

from __future__ import annotations

import json
import random
import uuid
from pathlib import Path

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import CONFIGURATION, PATIENCE, Installed
from tests.cluster.signals import after_session
from tests.cluster.test_showing import volsched
from tools.controlplane import ControlPlane

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

WORLDS = 20
WORLD = "example.com/world"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "asked.conf"
    file.write_text(CONFIGURATION)
    return file


def test_a_gang_is_explained_with_what_would_help(
    control_plane: ControlPlane, installed: Installed, namespace: str, make_nodes: MakeNodes, config: Path
) -> None:
    card = f"example.com/{uuid.uuid4().hex[:6]}"
    make_nodes(1, cpu=8, **{card: 2})
    installed.start().wait_leading()
    installed.make_gang(namespace, "train", 3, cpu="1", **{card: 1})
    installed.wait_event(namespace, "train-0", "FailedScheduling")
    given = ("-n", namespace, "--kubeconfig", control_plane.kubeconfig, "--config", config)

    done = volsched("explain", "podgroup", "train", *given, "--scheduler-name", installed.name, "-o", "json")

    assert done.returncode == 3, done.stderr
    said = json.loads(done.stdout)
    assert (said["state"], said["queue"], said["gang"]["minimum"]) == ("waits", "default", 3)
    short = {"of": "nodes", "name": "", "resource": card, "requested": "3", "used": "0", "limit": "2"}
    assert short in said["short"]
    assert said["reported"] in {pod["message"] for pod in said["pods"]}
    sorts = {found["sort"]: found["sentence"] for found in said["advice"]["helps"]}
    assert sorts["minMember"] == "Let the gang start with 2 in place of 3 (minMember)."
    assert sorts["nodes"].startswith("Add 1 node like ")
    assert volsched("explain", "pod", "nobody", *given).returncode == 4


def test_a_snapshot_replays_what_the_next_session_does(
    control_plane: ControlPlane, installed: Installed, namespace: str, make_nodes: MakeNodes, config: Path
) -> None:
    for number in range(WORLDS):
        make_world(installed, namespace, make_nodes, number)
    file = config.with_name("cluster.snapshot")
    given = ("--kubeconfig", control_plane.kubeconfig, "--config", config, "--scheduler-name", installed.name)

    done = volsched("snapshot", *given, "-o", file)
    assert done.returncode == 0, done.stderr
    replayed = json.loads(volsched("simulate", "-f", file, "-o", "json").stdout)
    expected = {bind["pod"].partition("/")[2]: bind["node"] for bind in replayed["binds"]}

    installed.start().wait_leading()
    assert installed.wait_bound(namespace, len(expected), PATIENCE) == expected
    assert replayed["pending"]
    after_session(installed)
    assert installed.wait_bound(namespace, len(expected)) == expected


def make_world(installed: Installed, namespace: str, make_nodes: MakeNodes, number: int) -> None:
    """Make a few nodes that are apart from those of other worlds, and gangs for them."""
    chance, label = random.Random(number), {WORLD: f"{namespace}-{number}"}  # noqa: S311 - the same in every run
    for _ in range(chance.randint(1, 3)):
        make_nodes(1, cpu=chance.randint(2, 8), labels=label)
    for gang in range(chance.randint(1, 4)):
        name, size = f"w{number}-g{gang}", chance.randint(1, 3)
        installed.make_group(namespace, name, minMember=chance.randint(1, size), queue="default")
        cpu = str(chance.randint(1, 5))
        pods = [installed.pod(f"{name}-{place}", group=name, cpu=cpu) for place in range(size)]
        for pod in pods:
            pod["spec"]["nodeSelector"] = label
        installed.make_pods(namespace, pods)
