"""network-topology-aware: jobs that depend on HyperNodes are told that there are none."""

from __future__ import annotations

import pytest

from tests.actions.rigs import conf, cycle, rig
from volsched.testing.builders import a_cluster


@pytest.mark.parametrize(("mode", "bound"), [("hard", []), ("soft", ["j-0"]), (None, ["j-0"])])
def test_a_hard_topology_is_refused_and_a_soft_one_is_not(mode: str | None, bound: list[str]) -> None:
    given = a_cluster().node("n1").queue("q").job("j", 1, queue="q", cpu=1)
    if mode is not None:
        group = next(o for o in given.objects if o["kind"] == "PodGroup")
        group["spec"]["networkTopology"] = {"mode": mode, "highestTierAllowed": 1}
    on = rig(given, conf("allocate", "gang", "predicates network-topology-aware"))

    decision = cycle(on)

    assert list(decision.bindings) == bound
    if not bound:
        assert decision.waiting["j-0"].startswith(
            'PodGroup "default/j" has spec.networkTopology.mode hard, and volsched'
        )


def test_the_job_is_placed_once_it_no_longer_asks_for_one() -> None:
    given = a_cluster().node("n1").queue("q").job("j", 1, queue="q", cpu=1)
    group = next(o for o in given.objects if o["kind"] == "PodGroup")
    group["spec"]["networkTopology"] = {"mode": "hard"}
    on = rig(given, conf("allocate", "gang", "predicates network-topology-aware"))
    assert list(cycle(on).bindings) == []

    group["spec"]["networkTopology"] = {"mode": "soft"}
    group["metadata"]["resourceVersion"] = "9"

    assert list(cycle(on, *given.changes()).bindings) == ["j-0"]
