"""Reservations as ``volsched simulate`` makes them and ``volsched queue`` reads them from PodGroups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.calls import call
from volsched.testing.builders import a_cluster, a_member, a_native_group, a_pod

CARD = "nvidia.com/gpu"
CONFIGURATION = """
actions: "enqueue, reserve, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}]
configurations:
- {name: reserve, arguments: {reserve.after: 0s}}
"""
STARTED = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}


def a_world() -> list[dict[str, Any]]:
    """A gang of Volcano's and one of Kubernetes' own wait for two nodes each, of which one is busy for some hours."""
    made = a_cluster()
    for number, hours in enumerate((3, 4, 5, 6)):
        made.node(f"n{number}", **{CARD: 8})
        declared = {"volsched.io/expected-duration": f"{hours}h"}
        made.add(a_pod(f"old{number}", on=f"n{number}", annotations=declared, status=STARTED, **{CARD: 1}))
    made.queue("ours").queue("theirs")
    made.group("gang", minimum=2, queue="ours", created="2026-01-01T01:00:00Z")
    note = {"scheduling.volcano.sh/queue-name": "theirs"}
    made.add(a_native_group("own", 2, "2026-01-01T02:00:00Z", annotations=note))
    for number in range(2):
        made.pod(f"gang-{number}", "gang", **{CARD: 8}).add(a_member(f"own-{number}", "own", **{CARD: 8}))
    return [dict(item) for item in made.objects]


@pytest.fixture
def world(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "scheduler.conf").write_text(CONFIGURATION)
    (tmp_path / "world.yaml").write_text(yaml.safe_dump_all(a_world()))
    return tmp_path / "world.yaml", tmp_path / "scheduler.conf"


def test_simulate_lists_them_and_queue_shows_those_of_the_statuses(world: tuple[Path, Path]) -> None:
    file, configuration = world
    result = json.loads(call("simulate", "-f", file, "--config", configuration, "-o", "json").stdout)
    expected = {
        "default/gang": ("ours", "2026-01-01T04:00:00Z", "n0, n1"),
        "default/own": ("theirs", "2026-01-01T06:00:00Z", "n2, n3"),
    }
    assert {one["job"]: (one["queue"], one["start"], one["nodes"]) for one in result["reservations"]} == expected
    page = call("simulate", "-f", file, "--config", configuration).stdout
    assert "RESERVATIONS" in page
    assert "n2, n3" in page

    [conditions] = [group["conditions"] for name, group in result["podGroups"].items() if name == "default/gang"]
    items = a_world()
    [group] = [item for item in items if (item["kind"], item["metadata"]["name"]) == ("PodGroup", "gang")]
    group["status"] = {"phase": "Inqueue", "conditions": conditions}
    file.write_text(yaml.safe_dump_all(items))
    described = call("queue", "describe", "ours", "-f", file, "--config", configuration)
    listed = json.loads(call("queue", "list", "-f", file, "--config", configuration, "-o", "json").stdout)

    assert "RESERVATIONS" in described.stdout
    assert [(one["job"], one["start"], one["nodes"]) for one in listed["reservations"]] == [
        ("default/gang", "2026-01-01T04:00:00Z", "n0, n1")
    ]


def test_cards_does_not_list_them(world: tuple[Path, Path]) -> None:
    file, configuration = world
    assert "reservations" not in json.loads(call("cards", "-f", file, "--config", configuration, "-o", "json").stdout)
