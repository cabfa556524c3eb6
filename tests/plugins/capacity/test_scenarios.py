"""Scenarios of Volcano's own tests of its plugin (``scenarios.yaml``), with both engines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.actions.test_scenarios import configuration, world
from volsched.framework.engine.fast import FastEngine
from volsched.testing.builders import a_rig
from volsched.testing.naive import NaiveEngine
from volsched.testing.recount import faults, leftovers

SCENARIOS = yaml.safe_load(Path(__file__).with_name("scenarios.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("engine", [FastEngine, NaiveEngine])
@pytest.mark.parametrize("scenario", [pytest.param(item, id=item["id"]) for item in SCENARIOS])
def test_a_session_decides_as_upstream_expects(scenario: Mapping[str, Any], engine: Any) -> None:
    expect, given = scenario["expect"], world(scenario)
    for item in given.objects:
        may_go = scenario["pods"].get(item["metadata"]["name"], {}).get("preemptable")
        if may_go is not None:
            item["metadata"]["annotations"]["volcano.sh/preemptable"] = str(may_go).lower()
    rig = a_rig(given, configuration(scenario["conf"]), engine)

    decision = rig.cycle()

    assert decision.bindings == expect["binds"]
    assert decision.evictions == expect["evicted"]
    assert (faults(rig.cluster), leftovers(rig.cluster)) == ([], [])
