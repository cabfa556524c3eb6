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
    *others, pod = world
    for found in others:
        cluster.add(found)
    name = pod["metadata"]["name"]
    meta = {**pod["metadata"], "annotations": {"scheduling.k8s.io/group-name": name}}
    cluster.group(name, minimum=1)
    cluster.add({**pod, "metadata": meta, "spec": {**pod["spec"], "schedulerName": "volsched"}})
    decision = a_rig(cluster, CONFIGURATION, engine).cycle()
    if decision.bindings:
        return BOUND
    return ERROR if any(CEL_ERROR in why for why in decision.waiting.values()) else NONE


@pytest.mark.parametrize("engine", ENGINES)
def test_pods_wait_for_the_same_errors(engine: MakeEngine) -> None:
    worlds = FAILING.cases()
    expected = FAILING.answers(worlds)

    found = {name: ours(world, engine) for name, world in worlds.items()}

    different = {name: (found[name], answer) for name, answer in expected.items() if found[name] != answer}
    beside_amounts = [name for name, pair in different.items() if pair == (ERROR, NONE)]  # of a node without room, too
    assert sorted(different) == sorted(beside_amounts)
    assert len(beside_amounts) < len(worlds) // 50
    assert min(Counter(expected.values())[kind] for kind in (ERROR, BOUND, NONE)) > len(worlds) // 10
