"""Whole sessions on the worlds that the oracle is asked about, most of whose pods wait here."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.oracle.test_feasibility import changes_of
from tests.oracle.worlds import a_world
from tests.properties.lives import Scenario
from volsched.model.changes import Change

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


class Busy(Scenario):
    """One session with volumes, neighbours, taints, ports and whatever else a node may refuse pods for."""

    configuration = CONFIGURATION
    sessions = 1
    plain_pods = True

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __repr__(self) -> str:
        return f"Busy({self.seed})"

    def changes(self) -> list[Change]:
        return changes_of(a_busy_world(self.seed))


def busy_worlds() -> st.SearchStrategy[Busy]:
    return st.builds(Busy, st.integers(0, 1 << 30))
