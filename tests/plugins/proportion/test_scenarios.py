"""Scenarios of Volcano's own tests about queues' shares (``scenarios.yaml``), with both engines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.actions.rigs import cycle, phases
from tests.actions.test_scenarios import configuration, world
from volsched.framework.engine.fast import FastEngine
from volsched.testing.builders import a_rig
from volsched.testing.naive import NaiveEngine

SCENARIOS = yaml.safe_load(Path(__file__).with_name("scenarios.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("engine", [FastEngine, NaiveEngine])
@pytest.mark.parametrize("scenario", [pytest.param(item, id=item["id"]) for item in SCENARIOS])
def test_a_session_decides_as_upstream_expects(scenario: Mapping[str, Any], engine: Any) -> None:
    expect, given = scenario["expect"], world(scenario)
    for item in given.objects:
        needs = scenario["groups"].get(item["metadata"]["name"], {}).get("needs")
        if item["kind"] == "PodGroup" and needs is not None:
            item["spec"]["minResources"] = {name: str(amount) for name, amount in needs.items()}

    decision = cycle(a_rig(given, configuration(scenario["conf"]), engine))

    assert decision.bindings == expect["binds"]
    assert phases(decision).items() >= expect.get("phases", {}).items()
    for name, beginning in expect.get("waits", {}).items():
        refusal = decision.cluster.jobs[f"default/{name}"].refusal
        assert refusal is not None
        assert refusal.message.startswith(beginning)
