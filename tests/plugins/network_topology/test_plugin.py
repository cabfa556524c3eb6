"""network-topology-aware: configurations may name it; jobs that need HyperNodes wait with it as without it."""

from __future__ import annotations

import pytest

from tests.actions.rigs import conf, cycle, rig
from volsched.testing.builders import a_cluster, a_group


@pytest.mark.parametrize("plugins", ["predicates network-topology-aware", "predicates"])
@pytest.mark.parametrize(("mode", "bound"), [("hard", []), ("soft", ["j-0"]), (None, ["j-0"])])
def test_a_hard_topology_is_refused_and_a_soft_one_is_not(mode: str | None, bound: list[str], plugins: str) -> None:
    topology = {"networkTopology": {"mode": mode, "highestTierAllowed": 1}} if mode is not None else {}
    given = a_cluster().node("n1").queue("q").add(a_group("j", "q", **topology)).pod("j-0", "j", cpu=1)

    decision = cycle(rig(given, conf("allocate", "gang", plugins)))

    assert list(decision.bindings) == bound
    if not bound:
        assert decision.waiting["j-0"].startswith('PodGroup "default/j": spec.networkTopology is hard, and volsched')
