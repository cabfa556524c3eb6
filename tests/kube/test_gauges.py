"""Who holds what: amounts in their units, no walk over pods, nodes or jobs, nothing of queues that are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from prometheus_client.parser import text_string_to_metric_families

from tests.kube.scheduler_page import scheduler_page
from tests.plugins.capacity_card.clusters import A, H, cards
from tests.plugins.capacity_card.clusters import configuration as by_card
from volsched.run.gauges import _of_living_queues
from volsched.testing.builders import ClusterBuilder, a_cluster, a_rig

CONFIGURATION = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: proportion
"""
GIB = 1 << 30


class Unwalked(dict[str, Any]):
    """A dict that may be asked for one thing, and not walked through."""

    def _walked(self) -> NoReturn:
        raise AssertionError("a scrape walks through everything")

    __iter__ = keys = values = items = _walked  # type: ignore[assignment]


def two_teams() -> ClusterBuilder:
    cards = {"example.com/card": 8}
    cluster = a_cluster().node("n1", cpu=16, memory="64Gi", **cards).node("n2", cpu=16, memory="64Gi", **cards)
    limits = {"cpu": "20", "example.com/card": "12"}
    cluster.queue("a", capability=limits, deserved={"cpu": "8"}, guarantee={"resource": {"cpu": "500m"}}).queue("b")
    cluster.job("runs", 2, queue="a", cpu="1500m", memory="4Gi", **{"example.com/card": 4})
    return cluster.job("waits", 1, queue="a", cpu=2, memory="1Gi", spec={"nodeSelector": {"no": "where"}})


async def numbers(
    folder: Path, world: ClusterBuilder | None = None, configuration: str = CONFIGURATION
) -> dict[tuple[str, ...], float]:
    """Samples by name and label values, after a session; what there may be very many of is not walked."""
    rig = a_rig(world or two_teams(), configuration)
    report = rig.cycle().report
    cluster = rig.cluster
    cluster.tasks, cluster.nodes, cluster.jobs = (
        Unwalked(cluster.tasks),
        Unwalked(cluster.nodes),
        Unwalked(cluster.jobs),
    )
    page = await scheduler_page(folder, rig.mirror, report)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


async def test_queues_in_base_units(tmp_path: Path) -> None:
    found = await numbers(tmp_path)

    assert found["volsched_queue_allocated", "a", "cpu"] == 3
    assert found["volsched_queue_allocated", "a", "memory"] == 8 * GIB
    assert found["volsched_queue_allocated", "a", "example.com/card"] == 8
    assert found["volsched_queue_request", "a", "cpu"] == 5
    assert found["volsched_queue_request", "a", "memory"] == 9 * GIB
    assert found["volsched_queue_capability", "a", "cpu"] == 20
    assert found["volsched_queue_deserved", "a", "cpu"] == 8
    assert found["volsched_queue_guarantee", "a", "cpu"] == 0.5
    assert found["volsched_queue_share", "a", "example.com/card"] == 0.5
    assert found["volsched_queue_fair_share", "a", "cpu"] == 5
    assert ("volsched_queue_allocated", "b", "cpu") not in found
    assert found["volsched_cluster_allocatable", "cpu"] == 32
    assert found["volsched_cluster_used", "example.com/card"] == 8
    resources = {labels[0] for name, *labels in found if name == "volsched_cluster_used"}
    assert resources == {"cpu", "memory", "pods", "example.com/card"}


def served(cluster: ClusterBuilder, owner: str, label: str = "") -> None:
    """Give the pod that was added last an owner of this kind, and the label that says what work it is."""
    meta = cluster.objects[-1]["metadata"]
    meta["ownerReferences"] = [{"kind": owner, "name": "owner", "uid": "owner", "controller": True}]
    if label:
        meta["labels"] = {**meta.get("labels", {}), "volsched.io/workload": label}


async def test_what_is_used_is_parted_among_online_and_offline_pods(tmp_path: Path) -> None:
    world = a_cluster().node("n1", cpu=99, memory="64Gi").queue("a").queue("b")
    for index, (queue, owner, label) in enumerate(
        (
            ("a", "ReplicaSet", ""),
            ("a", "StatefulSet", ""),
            ("a", "Job", ""),
            ("a", "ReplicaSet", "offline"),
            ("b", "Job", "online"),
            ("b", "", ""),
        )
    ):
        world.job(f"j{index}", 1, queue=queue, cpu=1 << index)
        served(world, owner, label)
    world.pod("other", on="n1", cpu=7, spec={"schedulerName": "another"})
    served(world, "DaemonSet")

    found = await numbers(tmp_path, world)

    of_queue, of_cluster = "volsched_queue_workload_allocated", "volsched_cluster_workload_used"
    assert found[of_queue, "a", "cpu", "online"] == 1 + 2
    assert found[of_queue, "a", "cpu", "offline"] == 4 + 8
    assert found[of_queue, "b", "cpu", "online"] == 16
    assert found[of_queue, "b", "cpu", "offline"] == 32
    assert found[of_cluster, "cpu", "online"] == 1 + 2 + 16 + 7
    assert found[of_cluster, "cpu", "offline"] == 4 + 8 + 32
    for queue in "ab":
        parts = [found[of_queue, queue, "cpu", workload] for workload in ("online", "offline")]
        assert sum(parts) == found["volsched_queue_allocated", queue, "cpu"]
    assert found["volsched_cluster_used", "cpu"] == 63 + 7


async def test_cards_are_parted_by_queue_and_model(tmp_path: Path) -> None:
    world = cards().cards("a1", A, 8).cards("h1", H, 8).quota("q", {A: 8, H: 8}).quota("r", {A: 8})
    world.gang("chat", 1, card=f"{A}|{H}", each=2)
    served(world, "ReplicaSet")
    world.gang("train", 1, card=H, each=4)
    world.gang("other", 1, card=A, each=1, queue="r")

    found = await numbers(tmp_path, world, by_card())

    cluster, queue = "volsched_cluster_workload_cards", "volsched_queue_workload_cards"
    assert [found[cluster, card, "online"] for card in (A, H)] == [2, 0]
    assert [found[cluster, card, "offline"] for card in (A, H)] == [1, 4]
    assert [found[queue, card, "q", "online"] for card in (A, H)] == [2, 0]
    assert [found[queue, card, "q", "offline"] for card in (A, H)] == [0, 4]
    assert found[queue, A, "r", "offline"] == 1


async def test_queues_in_volcanos_units(tmp_path: Path) -> None:
    found = await numbers(tmp_path)

    assert found["volcano_queue_allocated_milli_cpu", "a"] == 3000
    assert found["volcano_queue_request_memory_bytes", "a"] == 9 * GIB
    assert found["volcano_queue_capacity_scalar_resources", "a", "example.com/card"] == 12_000
    assert found["volcano_queue_guarantee_milli_cpu", "a"] == 500
    assert found["volcano_queue_weight", "b"] == 1


def test_what_was_counted_of_a_queue_goes_with_it() -> None:
    cluster = a_rig(a_cluster().queue("stays"), CONFIGURATION).cluster
    found = {("preempt", "stays"): 1, ("preempt", "gone"): 2}

    assert _of_living_queues(found, cluster) == {("preempt", "stays"): 1}
