"""A selector that fails at run time keeps a pod waiting where kube-scheduler would keep it, with every engine."""

from __future__ import annotations

from collections import Counter

import pytest

from volsched.testing.builders import a_cluster, a_rig
from volsched.testing.contract import ENGINES, MakeEngine

from .failing import BOUND, CEL_ERROR, ERROR, FAILING, NONE
from .failing_worlds import Json

pytestmark = pytest.mark.slow(reason="300 worlds with three engines")

CONFIGURATION = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: nodeorder
"""


def ours(world: list[Json], engine: MakeEngine) -> str:
    """What volsched makes of the pod of a world, in the words of the question."""
    cluster = a_cluster()
    for found in world:
        cluster.add(found)
    pod = world[-1]["metadata"]["name"]
    cluster.group(pod, minimum=1)
    cluster.objects[-2]["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": pod}
    decision = a_rig(cluster, CONFIGURATION, engine).cycle()
    if decision.bindings:
        return BOUND
    return ERROR if any(CEL_ERROR in why for why in decision.waiting.values()) else NONE


@pytest.mark.parametrize("engine", ENGINES)
def test_pods_wait_for_the_same_errors(engine: MakeEngine) -> None:
    worlds = FAILING.cases()
    expected = FAILING.answers(worlds)

    found = {name: ours(world, engine) for name, world in worlds.items()}

    assert {name: (found[name], answer) for name, answer in expected.items() if found[name] != answer} == {}
    assert min(Counter(expected.values())[kind] for kind in (ERROR, BOUND, NONE)) > len(worlds) // 10
