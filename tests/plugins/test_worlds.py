"""Whole sessions on random worlds: the fast engine, the naive one and the one that trusts nobody decide alike."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

from tests.oracle.test_feasibility import changes_of
from tests.oracle.worlds import a_world
from volsched.mirror.mirror import Mirror
from volsched.mirror.settings import MirrorSettings
from volsched.model.plan import Bind, StepRecorder
from volsched.model.status import TaskStatus
from volsched.registry import load_profile
from volsched.scheduler import Scheduler
from volsched.testing.builders import SteadyClock
from volsched.testing.contract import MakeEngine, engine_contract
from volsched.testing.recount import faults

CONFIGURATION = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
  - name: binpack
"""


def a_busy_world(seed: int) -> dict[str, Any]:
    """A world most of whose pods wait for a node."""
    world, random = a_world(seed), Random(seed)  # noqa: S311 - nothing here is secret
    for pod in world["pods"]:
        if pod["status"]["phase"] in ("Running", "Pending") and random.random() < 0.8:
            del pod["spec"]["nodeName"]
            pod["metadata"].pop("deletionTimestamp", None)
            pod["status"] = {"phase": "Pending"}
    return world


def decide(world: dict[str, Any], engine: MakeEngine) -> tuple[dict[str, Any], dict[str, str]]:
    """Run one session; bindings with their volumes, and why the others wait."""
    mirror, recorder = Mirror(MirrorSettings(plain_pods=True)), StepRecorder()
    mirror.apply(changes_of(world))
    profile, _ = load_profile(CONFIGURATION)
    Scheduler(mirror, profile, recorder, SteadyClock(), engine).cycle()
    assert faults(mirror.cluster) == []
    waiting = [task for task in mirror.cluster.tasks.values() if task.status is TaskStatus.PENDING]
    bindings = {step.name: (step.node, step.volumes) for step in recorder.steps if isinstance(step, Bind)}
    return bindings, {task.name: task.refusal.message if task.refusal else "" for task in waiting}


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_engines_decide_alike(first: int) -> None:
    for seed in range(first, first + 10):
        engine_contract(partial(decide, a_busy_world(seed)))
