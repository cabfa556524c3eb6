"""Gangs of Kubernetes' own PodGroups: simulated, explained and kept in snapshots as Volcano's are."""

from __future__ import annotations

from typing import Final

import pytest

from tests.diagnose.worlds import by_sort, configuration
from tests.simulation.clusters import Manifest, node, queue, stock
from volsched.diagnose import snapshot
from volsched.diagnose.advice import advise
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.explain import explain, find
from volsched.diagnose.records import Subject
from volsched.simulation.runner import Simulation
from volsched.testing.builders import a_member, a_native_group

GANG: Final = Subject("podgroup", "ring", "default")
QUEUE: Final = {"scheduling.volcano.sh/queue-name": "team"}


def world(cpu: int, quota: int = 64, *, version: str = "v1beta1") -> ClusterSnapshot:
    """A gang of three that asks for a CPU each, of a queue with a quota."""
    manifests: list[Manifest] = [
        node("n1", cpu=str(cpu), pods=110),
        queue("team", capability={"cpu": str(quota)}),
        a_native_group("ring", 3, annotations=QUEUE, version=version),
        *(a_member(f"ring-{number}", "ring", cpu="1") for number in range(3)),
    ]
    return ClusterSnapshot(tuple(stock(*manifests).objects), configuration("capacity"))


@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1"])
def test_a_gang_of_kubernetes_is_placed_as_a_whole(version: str) -> None:
    assert len(_run(world(3, version=version)).api_server.history.binds) == 3
    assert _run(world(2, version=version)).api_server.history.binds == []


def test_it_is_explained_under_its_name_and_under_that_of_lists() -> None:
    simulation = _run(world(2))

    said = explain(simulation, GANG)

    assert (said.state, said.queue, said.step) == ("waits", "team", "enqueue")
    assert said.gang is not None
    assert (said.gang.minimum, said.gang.pods) == (3, 3)
    assert explain(simulation, Subject("podgroup", "group/ring", "default")).message == said.message
    assert explain(_run(world(3)), GANG).state == "scheduled"


@pytest.mark.process
def test_a_quota_of_its_queue_helps_and_a_smaller_gang_is_not_offered() -> None:
    """The API server lets nobody change ``minCount``."""
    stage = world(64, quota=2).stage()
    simulation = stage.run()

    helps = by_sort(advise(stage, find(simulation, GANG), lambda: 60.0))

    assert "quota" in helps
    assert "minMember" not in helps


def test_a_snapshot_keeps_it() -> None:
    known = world(2)
    again = snapshot.read(snapshot.written(known), "file")

    assert again.objects == known.objects
    assert explain(_run(again), GANG) == explain(_run(known), GANG)


def _run(known: ClusterSnapshot) -> Simulation:
    return known.stage().run()
