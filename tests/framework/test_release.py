"""A session that has ended leaves nothing that only the garbage collector could free.

The collector runs rarely, so hundreds of ended sessions would stay, with all objects that they refer to.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from plugins import BUILDERS
from volsched.testing.builders import Rig, a_cluster, a_pod, a_rig, put

CONFIGURATION = """
actions: "enqueue, allocate, reserve, backfill, preempt, reclaim"
tiers:
- plugins:
  - name: conformance
- plugins:
  - name: {plugin}
"""
SPREAD = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
APART = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}


@pytest.fixture(autouse=True)
def _collector_stands_still() -> Iterator[None]:
    gc.freeze()  # what other tests left is not looked at, which would take a second
    gc.disable()
    yield
    gc.enable()


def a_busy_rig(plugin: str) -> Rig:
    """A scheduler with pods that start, wait for each other, and want the room of others, in two queues."""
    cluster = a_cluster().node("n1", cpu="8").node("n2", cpu="8").queue("left").queue("right", reclaimable=True)
    for index in range(12):
        cluster.pod(f"runs-{index}", "runs", on=f"n{1 + index % 2}", cpu="1")
    cluster.group("runs", "left", phase="Running").job("fits", 2, queue="right", cpu="1")
    cluster.job("waits", 3, queue="right", cpu="6").job("important", 1, queue="left", cpu="6", spec={"priority": 9})
    cluster.pod("spread", "fits", labels={"app": "a"}, spec={"topologySpreadConstraints": [SPREAD]}, cpu="1")
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}
    cluster.job("apart", 2, queue="right", labels={"app": "a"}, spec={"affinity": {"podAntiAffinity": terms}}, cpu="1")
    return a_rig(cluster, CONFIGURATION.format(plugin=plugin))


@pytest.mark.parametrize("plugin", sorted({*BUILDERS} - {"conformance"}))
def test_sessions_that_have_ended_are_freed_at_once(plugin: str) -> None:
    rig = a_busy_rig(plugin)
    rig.cycle()
    gc.collect()

    for turn in range(5):
        rig.cycle(put(a_pod(f"late-{turn}", "waits", cpu="1")))

    assert gc.collect() == 0
