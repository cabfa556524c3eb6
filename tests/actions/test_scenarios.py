"""Scenarios of Volcano's own tests (``scenarios.yaml``), with both engines and in any order of input."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.actions.rigs import order_of, phases
from volsched.framework.config.configuration import SWITCHES
from volsched.testing.builders import ClusterBuilder, a_cluster, a_rig
from volsched.testing.contract import ENGINES
from volsched.testing.recount import faults, leftovers

SCENARIOS = yaml.safe_load(Path(__file__).with_name("scenarios.yaml").read_text(encoding="utf-8"))
STAMP = "2026-01-01T00:00:00Z"


def configuration(raw: Mapping[str, Any]) -> str:
    """A configuration in which every switch that is not named is off."""
    known = {name.removeprefix("enabled").removeprefix("enable").lower(): name for name in SWITCHES}
    tiers = []
    for tier in raw["tiers"]:
        plugins = []
        for name, on in tier.items():
            named = {known[word.lower()] for word in on.split()}
            entry: dict[str, Any] = {"name": name, **{switch: switch in named for switch in SWITCHES}}
            if name in raw.get("arguments", {}):
                entry["arguments"] = raw["arguments"][name]
            plugins.append(entry)
        tiers.append({"plugins": plugins})
    return yaml.safe_dump({"actions": raw["actions"], "tiers": tiers})


def world(raw: Mapping[str, Any]) -> ClusterBuilder:
    given = a_cluster()
    for name, node in raw["nodes"].items():
        given.node(name, **{"pods": 10, **node})
    for name, spec in raw["queues"].items():
        given.queue(name, **spec)
    for name, group in raw["groups"].items():
        spec: dict[str, Any] = {}
        if "roles" in group:
            spec["minTaskMember"] = group["roles"]
        if "priority" in group:
            of_class = f"class-{group['priority']}"
            meta = {"name": of_class, "uid": of_class}
            value = {"metadata": meta, "value": group["priority"]}
            given.add({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **value})
            spec["priorityClassName"] = of_class
        given.group(name, group["queue"], group["min"], group["phase"], created=STAMP, **spec)
        given.objects[-1]["metadata"]["namespace"] = group.get("namespace", "default")
    for name, pod in raw["pods"].items():
        spec = {"nodeSelector": pod["where"]} if "where" in pod else {}
        if "priority" in pod:
            spec["priority"] = pod["priority"]
        notes = {"volcano.sh/task-spec": pod["role"]} if "role" in pod else {}
        given.pod(
            name,
            pod["group"],
            pod.get("at"),
            annotations=notes,
            created=STAMP,
            spec=spec,
            **pod.get("requests", {}),
        )
        given.objects[-1]["metadata"]["namespace"] = raw["groups"][pod["group"]].get("namespace", "default")
    return given


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("scenario", [pytest.param(item, id=item["id"]) for item in SCENARIOS])
def test_a_session_decides_as_upstream_expects(scenario: Mapping[str, Any], engine: Any) -> None:
    expect, text = scenario["expect"], configuration(scenario["conf"])
    for seed in range(4):
        given = world(scenario)
        if seed:
            random.Random(seed).shuffle(given.objects)  # noqa: S311 - any order will do
        rig = a_rig(given, text, engine)

        decision = rig.cycle()

        if "binds" in expect:
            assert {name.split("/")[-1]: node for name, node in decision.bindings.items()} == expect["binds"]
        if "order" in expect:
            assert order_of(decision) == expect["order"]
        assert phases(decision).items() >= expect.get("phases", {}).items()
        assert (faults(rig.cluster), leftovers(rig.cluster)) == ([], [])
