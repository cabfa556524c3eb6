"""A quota of devices that changes while the scheduler runs."""

from __future__ import annotations

from plugins.capacity_dra.arguments import CapacityDRAArguments
from plugins.capacity_dra.limits import ClaimLimits
from volsched.model.cluster import Cluster
from volsched.model.queues.queue import QueueProperties
from volsched.plugin.devices import COUNT


def spec(count: int) -> QueueProperties:
    return QueueProperties("q", dra={"capability": {"gpu": {"count": count}}})


def test_a_queue_that_states_another_quota_has_that_one() -> None:
    cluster = Cluster()
    limits = ClaimLimits(cluster, CapacityDRAArguments())
    for count in (2, 1):
        cluster.queue_cache.put_queue(spec(count))

        assert limits.of("q").limits == {("gpu", COUNT): count}
