"""The recount finds each account that differs from the tasks, and names it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.framework.stage import Stage
from volsched.model.cluster import Cluster
from volsched.model.nodes.columns import PODS
from volsched.testing.builders import a_cluster
from volsched.testing.recount import faults


def used(cluster: Cluster) -> None:
    cluster.nodes["n1"].used[0] += 1


def promised(cluster: Cluster) -> None:
    cluster.nodes["n2"].pipelined[PODS] += 1


def counted_as_terminating(cluster: Cluster) -> None:
    cluster.nodes["n2"].terminating_pods += 1


def lost(cluster: Cluster) -> None:
    cluster.nodes["n1"].tasks.clear()


def total(cluster: Cluster) -> None:
    cluster.node_cache.totals[0] -= 1


def total_used(cluster: Cluster) -> None:
    cluster.node_cache.total_used[PODS] += 1


def status(cluster: Cluster) -> None:
    next(iter(cluster.jobs.values())).counts[0] += 1


def uid(cluster: Cluster) -> None:
    next(iter(cluster.tasks.values())).uid = "another"


def of_a_queue(cluster: Cluster) -> None:
    cluster.queues["q"].allocated["cpu"] += 1


@pytest.fixture
def cluster() -> Cluster:
    world = a_cluster().queue("q").node("n1", cpu="8").node("n2", cpu="8").job("j", tasks=2, queue="q", cpu="1")
    stage = Stage(world)
    assert stage.place("j-0") == "n1"
    assert faults(stage.cluster) == []
    return stage.cluster


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (used, "node n1: used cpu: kept"),
        (promised, "node n2: pipelined pods: kept"),
        (counted_as_terminating, "node n2: terminating or promised: kept"),
        (lost, "node n1: tasks: kept"),
        (total, "total cpu: kept"),
        (total_used, "total used pods: kept"),
        (status, "counts: kept"),
        (uid, "uid of"),
        (of_a_queue, "queue q: allocated: kept"),
    ],
)
def test_an_account_that_differs_is_named(cluster: Cluster, spoil: Callable[[Cluster], None], said: str) -> None:
    spoil(cluster)

    assert any(said in fault for fault in faults(cluster)), faults(cluster)
