"""A simulation refuses what the scheduler would: more objects than are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.calls import call, written
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.mirror.quarantine import NO_MEMORY
from volsched.model import api
from volsched.registry import load_profile
from volsched.simulation.manifests import Inventory
from volsched.simulation.runner import SimulationSettings, simulate
from volsched.testing.builders import a_group, a_node, a_pod


def a_run(most: int) -> Any:
    objects = [a_node("n", cpu=64)]
    for name in ("hog", "honest"):
        objects += [a_group(name, metadata={"namespace": name}), a_pod("p", name, metadata={"namespace": name}, cpu=1)]
    large = {"namespace": "hog", "labels": {"a": "x" * 20_000}}
    objects += [a_group(f"g{n}", minimum=9, metadata=large) for n in range(9)]
    inventory = Inventory([api.decode_object(found) for found in objects])
    profile, _ = load_profile(DEFAULT_CONFIGURATION)
    return simulate(inventory, profile, SimulationSettings(kept_bytes=most))


def refused(run: Any) -> set[tuple[str, str]]:
    return {(event.namespace, event.name) for _, event in run.api_server.history.events if event.reason == NO_MEMORY}


def test_within_the_bound_nothing_is_refused() -> None:
    assert refused(a_run(10**9)) == set()


def test_the_command_has_the_flag_of_the_scheduler(tmp_path: Path) -> None:
    world = written(tmp_path, a_node("n", cpu=4), *(a_pod(f"p{number}", cpu=1) for number in range(3)))
    found = json.loads(call("simulate", "-f", world, "-o", "json", "--kept-bytes", "1").stdout)
    assert found["binds"] == []
    assert NO_MEMORY in {event["reason"] for event in found["events"]}
    found = json.loads(call("simulate", "-f", world, "-o", "json", "--kept-bytes", "0").stdout)
    assert len(found["binds"]) == 3


def test_above_it_the_newest_that_hold_nothing_are_refused_of_whoever_has_most() -> None:
    run = a_run(100 * 1024)
    assert {namespace for namespace, _ in refused(run)} == {"hog"}
    assert run.api_server.pods["honest/p"].spec.node_name == "n"
