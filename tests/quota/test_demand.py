"""What queues ask for beyond what they hold follows what pods say of themselves."""

from __future__ import annotations

from typing import Any

from volsched.mirror.apply import Mirror
from volsched.quota.demand import QueueDemands
from volsched.testing.builders import ClusterBuilder, a_cluster, put


def a_job(**spec: Any) -> ClusterBuilder:
    cluster = a_cluster().queue("q").group("g", "q", 2, "Inqueue", minResources={"cpu": "2"})
    return cluster.pod("g-0", "g", cpu="1", spec=spec).pod("g-1", "g", cpu="1")


def test_a_gated_pod_is_reserved_for_as_soon_as_its_gate_is_gone() -> None:
    mirror = Mirror()
    mirror.apply(a_job(schedulingGates=[{"name": "example.com/wait"}]).changes())
    demand = QueueDemands(mirror.cluster)
    mirror.cluster.observe(demand)
    assert demand.queues()["q"].reserved == {"cpu": 1000}

    mirror.apply([put(a_job().objects[2])])

    assert demand.queues()["q"].reserved == {"cpu": 2000}


def test_what_jobs_of_a_queue_itself_ask_for_is_told_apart_from_those_below() -> None:
    cluster = (
        a_job().queue("above").queue("q", parent="above").group("h", "above", 1, "Inqueue", minResources={"cpu": "7"})
    )
    mirror = Mirror()
    mirror.apply(cluster.changes())
    demand = QueueDemands.with_above(mirror.cluster)

    assert demand.of("above").reserved == {"cpu": 9000}
    assert demand.own("above").reserved == {"cpu": 7000}
    assert demand.own("q") == demand.of("q")
