"""Nodes and storage in the mirror, what cannot be read, and what helps those who wait."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mirror.objects import Believer, gone, group, node, pod, queue
from volsched.mirror.problems import ReadingProblem
from volsched.model.changes import Change, Deleted
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo, NodeProperties
from volsched.model.observers import Observer
from volsched.testing.builders import put

CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"}}


def rows(believer: Believer) -> list[str]:
    return [row.name for row in believer.cluster.rows]


def test_nodes_are_numbered_by_their_names_however_they_come() -> None:
    believer = Believer(node("b"), node("c"))
    layout = believer.cluster.generations.layout

    believer.apply(node("a"), node("d"))
    assert (rows(believer), believer.cluster.generations.layout) == (["a", "b", "c", "d"], layout + 1)

    believer.apply(node("c", cpu=4))
    assert believer.cluster.generations.layout == layout + 1, "no node came or went"

    believer.apply(gone("Node", "b"))
    assert (rows(believer), believer.cluster.generations.layout) == (["a", "c", "d"], layout + 2)


def test_totals_are_the_sums_over_nodes() -> None:
    believer = Believer(node("a", cpu=4, **{"example.com/card": 2}), node("b", cpu=2), pod("p", on="a", cpu=1))
    cluster = believer.cluster
    card = cluster.columns.column("example.com/card")

    def totals() -> tuple[int, int, int]:
        return cluster.node_cache.totals[0], cluster.node_cache.totals[card], cluster.node_cache.total_used[0]

    seen = [totals()]
    for change in (node("a", cpu=8), gone("Node", "b"), gone("Node", "a"), node("a", cpu=1)):
        believer.apply(change)
        seen.append(totals())

    assert seen == [(6_000, 2_000, 1_000), (10_000, 0, 1_000), (8_000, 0, 1_000), (0, 0, 0), (1_000, 0, 1_000)]


def test_a_node_that_shrinks_under_its_pods_denies_and_does_not_crash() -> None:
    believer = Believer(node("a", cpu=4), pod("p", on="a", cpu=3), pod("w", cpu=1))
    one = believer.cluster.nodes["a"]

    believer.apply(node("a", cpu=2))

    assert one.idle_of("cpu") == -1_000
    assert not one.fits_idle(believer.task("w").charge)
    assert one.fits_idle(()), "what asks for nothing can go there still"


def test_a_node_says_what_it_says() -> None:
    believer = Believer(
        put(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "n", "uid": "u", "labels": {"zone": "a"}, "annotations": {"cards": "8"}},
                "spec": {"unschedulable": True, "taints": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]},
                "status": {
                    "allocatable": {"cpu": "3500m", "memory": "1Gi", "pods": "10", "example.com/card": "2"},
                    "capacity": {"cpu": "4", "memory": "2Gi"},
                    "images": [{"names": ["i:1", "i@sha"], "sizeBytes": 5}],
                },
            }
        )
    )
    one = believer.cluster.nodes["n"]

    assert (one.labels, one.annotations, one.unschedulable) == ({"zone": "a"}, {"cards": "8"}, True)
    assert [(taint.key, taint.value, taint.effect) for taint in one.taints] == [("gpu", "x", "NoSchedule")]
    assert [one.allocatable_of(name) for name in ("cpu", "memory", "pods", "example.com/card")] == [
        3_500,
        1 << 30,
        10,
        2_000,
    ]
    assert (one.capacity_of("cpu"), one.capacity_of("pods")) == (4_000, 0)
    assert one.images == {"i:1": 5, "i@sha": 5}


class Listener(Observer):
    """Notes what it is told of nodes, and keeps the set of their zones from that alone."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.zones: list[str] = []

    def node_changed(self, node: NodeInfo, before: NodeProperties | None) -> None:
        if before is not None:
            self.zones.remove(before.labels["zone"])
        self.zones.append(node.labels["zone"])
        self.heard.append(f"{node.name}:{before.labels['zone'] if before else ''}>{node.labels['zone']}")

    def node_removed(self, node: NodeInfo) -> None:
        self.zones.remove(node.labels["zone"])
        self.heard.append(f"-{node.name}")


def zoned(name: str, zone: str) -> Change:
    return node(name, labels={"zone": zone})


@pytest.mark.parametrize(
    ("changes", "heard"),
    [
        ([zoned("a", "1"), zoned("b", "2")], ["a:>1", "b:>2"]),
        ([zoned("a", "1"), zoned("a", "1")], ["a:>1"]),
        ([zoned("a", "1"), zoned("a", "2")], ["a:>2"]),  # seen twice before anybody was told
        ([zoned("a", "1"), queue("q"), zoned("a", "2"), zoned("a", "3")], ["a:>3"]),
        ([zoned("a", "1"), Deleted("Queue", "", "q", ""), zoned("a", "2"), zoned("a", "3")], ["a:>1", "a:1>3"]),
        ([zoned("a", "1"), gone("Node", "a"), zoned("a", "2")], ["a:>1", "-a", "a:>2"]),
    ],
)
def test_observers_are_told_of_every_node_from_what_they_knew_to_what_it_is(
    changes: list[Change], heard: list[str]
) -> None:
    believer, listener = Believer(), Listener()
    believer.cluster.observe(listener)

    believer.apply(*changes)

    assert listener.heard == heard
    assert listener.zones == [row.labels["zone"] for row in believer.cluster.rows]


def test_observers_are_told_of_a_node_that_offers_something_else() -> None:
    believer, listener = Believer(node("a", labels={"zone": "1"}, cpu="4")), Listener()
    believer.cluster.observe(listener)
    listener.zones.append("1")

    believer.apply(node("a", labels={"zone": "1"}, cpu="4"), node("a", labels={"zone": "1"}, cpu="8"))

    assert listener.heard == ["a:1>1"]


def test_who_does_not_listen_any_more_is_not_told() -> None:
    believer, listener = Believer(), Listener()
    believer.cluster.observe(listener)
    believer.cluster.ignore(listener)

    believer.apply(zoned("a", "1"))

    assert listener.heard == []


# -- what cannot be read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (node("n", cpu="lots"), ("Node", "n", "status.capacity[cpu]", "'lots' is not a quantity")),
        (queue("q", capability={"cpu": "1x"}), ("Queue", "q", "spec.capability[cpu]", "'1x' is not a quantity")),
        (queue("q", deserved={"cpu": "?"}), ("Queue", "q", "spec.deserved[cpu]", "'?' is not a quantity")),
        (
            queue("q", guarantee={"resource": {"cpu": "?"}}),
            ("Queue", "q", "spec.guarantee.resource[cpu]", "'?' is not a quantity"),
        ),
        (
            group("g", minResources={"cpu": "1 core"}),
            ("PodGroup", "g", "spec.minResources[cpu]", "'1 core' is not a quantity"),
        ),
    ],
)
def test_a_quantity_that_cannot_be_read_counts_as_nothing_and_is_told(change: Change, problem: tuple[str, ...]) -> None:
    believer = Believer(change)

    found = believer.mirror.events.take_findings()

    assert problem in [(p.kind, p.name, p.field, p.message) for p in found]
    assert believer.mirror.events.take_findings() == []
    assert all(isinstance(p, ReadingProblem) and p.uid for p in found)


def test_one_bad_amount_spoils_no_other() -> None:
    believer = Believer(node("n", cpu="lots", **{"example.com/card": "2"}))
    one = believer.cluster.nodes["n"]

    assert [one.allocatable_of(name) for name in ("cpu", "example.com/card", "pods")] == [0, 2_000, 110]


def test_negative_amounts_count_as_nothing() -> None:
    assert Believer(node("n", cpu="-4")).cluster.nodes["n"].allocatable_of("cpu") == 0


def test_a_null_where_a_queue_says_an_amount_is_told_and_counts_as_nothing() -> None:
    believer = Believer(queue("q", capability={"cpu": None, "memory": "1Gi"}))

    assert believer.cluster.queues["q"].spec.capability == {"cpu": 0, "memory": 1 << 30}
    [problem] = believer.mirror.events.take_findings()
    assert (problem.kind, problem.field, problem.message) == ("Queue", "spec.capability[cpu]", "null is not a quantity")


def test_a_pod_with_an_amount_that_cannot_be_read_is_known_and_not_to_be_placed() -> None:
    believer = Believer(group("g"), pod("p", "g", cpu="lots"))

    assert believer.standing("p") == ("PENDING", None)
    assert believer.task("p").template.refusals


# -- storage ----------------------------------------------------------------------------------------------------------


def test_storage_is_kept_by_kind_and_name() -> None:
    believer = Believer(put(CLAIM))
    storage = believer.cluster.storage
    version = storage.version
    assert list(storage.claims) == ["default/c"]

    believer.apply(Deleted("PersistentVolumeClaim", "default", "c", ""))

    assert (storage.claims, storage.version > version) == ({}, True)


# -- what lets a waiting job try again -------------------------------------------------------------------------------

HELPS: dict[str, list[Change]] = {
    "a node comes": [node("new")],
    "a node changes": [node("n1", cpu=16)],
    "a pod finishes": [pod("p", "g", "n1", "Succeeded", cpu=1)],
    "a pod goes": [gone("Pod", "p")],
    "a pod is being deleted": [pod("p", "g", "n1", cpu=1, deleted=True)],
    "a queue changes": [queue("q", weight=3)],
    "a queue comes": [queue("r")],
    "a group changes": [group("g", minimum=5)],
    "a group comes": [group("h")],
    "a claim comes": [put(CLAIM)],
    "a group moves to another queue": [group("g", "q")],
}


@pytest.mark.parametrize("what", HELPS)
def test_what_may_help_those_who_wait_counts_as_relief(what: str) -> None:
    believer = Believer(node("n1"), queue("q"), group("g"), pod("p", "g", "n1", cpu=1))
    generation = believer.cluster.generations.requeue

    believer.apply(*HELPS[what])

    assert believer.cluster.generations.requeue > generation


NO_HELP: dict[str, list[Change]] = {
    "a pod comes": [pod("new", "g", cpu=1)],
    "a pod starts": [pod("b", "g", "n1", "Running", cpu=1)],
    "a pod says something of itself": [pod("p", "g", "n1", cpu=1, annotations={"note": "x"})],
    "a group is the same": [group("g")],
    "somebody else's pod waits": [pod("other", scheduler="other", cpu=1)],
}


@pytest.mark.parametrize("what", NO_HELP)
def test_what_helps_nobody_lets_nobody_be_tried_again(what: str) -> None:
    believer = Believer(node("n1"), group("g"), pod("p", "g", "n1", cpu=1), pod("b", "g", "n1", "Pending", cpu=1))
    generation = believer.cluster.generations.requeue

    believer.apply(*NO_HELP[what])

    assert believer.cluster.generations.requeue == generation


def test_an_empty_cluster_has_no_faults() -> None:
    assert rows(Believer()) == []
    assert Cluster().node_cache.totals == []


def test_a_change_of_an_unknown_kind_of_object_is_none_of_ours() -> None:
    config: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "d"}}
    believer = Believer()
    generation = believer.cluster.generations.requeue

    believer.apply(put(config), Deleted("ConfigMap", "d", "c", ""), Deleted("Whatever", "", "x", ""))

    assert believer.cluster.generations.requeue == generation
