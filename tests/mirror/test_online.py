"""What online pods take: counted when a gang is placed in one go, and for the queue that their job is in now."""

from __future__ import annotations

from tests.mirror.objects import Believer, group, node, pod, queue
from volsched.model.pods.workload import LABEL
from volsched.testing.builders import a_cluster, a_rig, put

CONFIGURATION = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}]
"""


def test_a_gang_that_is_placed_in_one_go_is_counted_pod_by_pod() -> None:
    world = a_cluster().node("n1").queue("q").job("web", 4, queue="q", cpu="1")
    members = [found for found in world.objects if found["kind"] == "Pod"]
    for member in members[:3]:
        member["metadata"]["labels"] = {LABEL: "online"}
    rig = a_rig(world, CONFIGURATION)

    assert len(rig.cycle().bindings) == 4

    assert rig.mirror.online.queues == {"q": {"cpu": 3000}}
    rig.cycle(*(put({**member, "metadata": {**member["metadata"], "labels": {}}}) for member in members[:2]))
    assert rig.mirror.online.queues == {"q": {"cpu": 1000}}


def online(believer: Believer) -> dict[str, dict[str, int]]:
    return {name: dict(amounts) for name, amounts in believer.mirror.online.queues.items() if amounts}


def test_what_a_job_holds_goes_with_it_to_another_queue() -> None:
    believer = Believer(
        node("n1"), queue("a"), queue("b"), group("g", "a"), pod("p", "g", "n1", owner="StatefulSet", cpu=2)
    )
    assert online(believer) == {"a": {"cpu": 2000}}

    believer.apply(group("g", "b"))

    assert online(believer) == {"b": {"cpu": 2000}}


def test_a_pod_that_is_adopted_or_labelled_is_counted_as_what_it_is_now() -> None:
    believer = Believer(node("n1"), queue("a"), group("g", "a"), pod("p", "g", "n1", version=1, cpu=2))
    assert online(believer) == {}

    believer.apply(pod("p", "g", "n1", version=2, owner="ReplicaSet", cpu=2))
    assert online(believer) == {"a": {"cpu": 2000}}
    believer.apply(pod("p", "g", "n1", version=3, owner="ReplicaSet", labels={LABEL: "offline"}, cpu=2))
    assert online(believer) == {}
