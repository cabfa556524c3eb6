"""Columns over all nodes follow the nodes; facts become classes; a static view notes what was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amounts import future_idle
from volsched.framework.columns.tables import NodeColumns, PropertyColumns
from volsched.framework.columns.views import NodePropertiesView
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.model.api import Taint
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeProperties
from volsched.model.status import TaskStatus
from volsched.model.values.resources import MAX_AMOUNT
from volsched.testing.builders import a_cluster, a_rig


def agree(columns: NodeColumns) -> None:
    """Whole vectors hold what the nodes hold, one by one."""
    cluster = columns.cluster
    columns.refresh()
    for what in ("allocatable", "used", "releasing", "pipelined"):
        vector = getattr(columns, what)
        listed = [getattr(node, what) for node in cluster.rows]
        assert vector.T.tolist() == listed or (not listed and vector.shape[1] == 0), what
    assert columns.all_rows.tolist() == [node.row for node in cluster.rows]


def test_columns_follow_placements_nodes_and_new_resources() -> None:
    rig = a_rig(a_cluster().node("n1").node("n2").pod("p", cpu="1"), DEFAULT_CONFIGURATION)
    columns = NodeColumns(rig.cluster)
    agree(columns)
    task = rig.cluster.tasks["pod-default-p"]

    rig.cluster.move(task, TaskStatus.ALLOCATED, rig.cluster.nodes["n2"])
    agree(columns)
    rig.cluster.move(task, TaskStatus.RELEASING, rig.cluster.nodes["n1"])
    agree(columns)
    rig.mirror.apply(a_cluster().node("n0", **{"example.com/card": 4}).changes())
    agree(columns)
    rig.mirror.apply(a_cluster().pod("q", on="n1", **{"example.com/other": 4}).changes())
    agree(columns)
    rig.mirror.apply(a_cluster().node("n1", cpu="1").changes())
    agree(columns)


@given(st.data())
def test_room_is_the_same_by_vector_and_by_node(data: st.DataObject) -> None:
    cluster = Cluster()
    amount = st.integers(0, 4)
    count = data.draw(st.integers(1, 6))
    for number in range(count):
        cluster.node_cache.put(
            [(NodeProperties(f"n{number}"), {"cpu": data.draw(amount), "memory": data.draw(amount)})]
        )
    for node in cluster.rows:
        for amounts in (node.used, node.releasing, node.pipelined):
            amounts[:2] = [data.draw(amount), data.draw(amount)]
        node.terminating_pods = int(any(node.releasing + node.pipelined))
        if node.terminating_pods:
            cluster.node_cache.with_terminating_pods[node.name] = node
    charge = ((0, data.draw(amount)), (1, data.draw(amount)))
    columns = NodeColumns(cluster)
    columns.refresh()

    fits = columns.fits_idle(charge, columns.all_rows)

    assert fits.tolist() == [node.fits_idle(charge) and node.fits_future(charge) for node in cluster.rows]
    for column, name in ((0, "cpu"), (1, "memory")):
        expected = [future_idle(cluster, node, name) for node in cluster.rows]
        assert columns.future_idle(column, columns.all_rows).tolist() == expected


def test_amounts_that_no_vector_holds_are_bounded() -> None:
    cluster = Cluster()
    cluster.node_cache.put([(NodeProperties("n"), {"cpu": 1})])
    cluster.rows[0].used[0] = 10**30
    columns = NodeColumns(cluster)

    columns.refresh()

    assert columns.used[0, 0] == MAX_AMOUNT


# -- facts ------------------------------------------------------------------------------------------------------------


def facts_of(*nodes: NodeProperties) -> PropertyColumns:
    cluster = Cluster()
    cluster.node_cache.put([(node, {"cpu": len(node.name)}) for node in nodes])
    properties = PropertyColumns(cluster)
    properties.refresh()
    return properties


def classes(properties: PropertyColumns, *paths: tuple[str, str]) -> list[list[str]]:
    """Names of the nodes that agree in all paths, as one list for each class."""
    inverse, firsts = properties.classes(tuple(sorted(paths)))
    names = [node.name for node in properties.cluster.rows]
    found = [[name for name, number in zip(names, inverse, strict=True) if number == k] for k in range(len(firsts))]
    assert [names[row] in members for row, members in zip(firsts, found, strict=True)] == [True] * len(found)
    return sorted(found)


GPU = Taint("gpu", "", "NoSchedule")
FOUR = (
    NodeProperties("a", labels={"zone": "1", "disk": "ssd"}, taints=(GPU,)),
    NodeProperties("b", labels={"zone": "1", "disk": "hdd"}),
    NodeProperties("cc", labels={"zone": "2", "disk": "ssd"}, unschedulable=True),
    NodeProperties("dd", labels={"zone": "2"}),
)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ((), [["a", "b", "cc", "dd"]]),
        ((("label", "zone"),), [["a", "b"], ["cc", "dd"]]),
        ((("label", "disk"),), [["a", "cc"], ["b"], ["dd"]]),
        ((("label", "zone"), ("label", "disk")), [["a"], ["b"], ["cc"], ["dd"]]),
        ((("taints", ""),), [["a"], ["b", "cc", "dd"]]),
        ((("unschedulable", ""), ("label", "zone")), [["a", "b"], ["cc"], ["dd"]]),
        ((("allocatable", "cpu"),), [["a", "b"], ["cc", "dd"]]),
        ((("name", ""),), [["a"], ["b"], ["cc"], ["dd"]]),
        ((("label", "nobody has it"), ("annotations", "")), [["a", "b", "cc", "dd"]]),
    ],
)
def test_nodes_that_agree_in_all_paths_are_one_class(paths: Any, expected: list[list[str]]) -> None:
    assert classes(facts_of(*FOUR), *paths) == expected


def test_classes_follow_what_nodes_say_of_themselves() -> None:
    properties = facts_of(*FOUR)
    version = properties.version
    assert classes(properties, ("label", "zone")) == [["a", "b"], ["cc", "dd"]]

    properties.cluster.node_cache.put([(NodeProperties("b", labels={"zone": "2"}), {})])
    properties.refresh()
    assert (classes(properties, ("label", "zone")), properties.version) == ([["a"], ["b", "cc", "dd"]], version + 1)

    properties.refresh()
    assert properties.version == version + 1

    properties.cluster.node_cache.remove("a")
    properties.cluster.node_cache.put([(NodeProperties("e"), {})])
    properties.refresh()
    assert classes(properties, ("label", "zone")) == [["b", "cc", "dd"], ["e"]]


def test_facts_that_pods_ask_for_are_not_kept_without_end() -> None:
    properties = facts_of(NodeProperties("n1", labels={"zone": "a"}), NodeProperties("n2", labels={"zone": "b"}))
    for number in range(5_000):
        properties.ids(("label", f"odd-{number}"))
        properties.refresh()

    assert len(properties._ids) == len(properties._names) < 2_100
    assert classes(properties, ("label", "zone")) == [["n1"], ["n2"]]
    assert properties.names(("label", "zone")) == {"a": 0, "b": 1}


def test_an_absent_label_has_a_number_of_its_own() -> None:
    properties = facts_of(*FOUR)

    names = properties.names(("label", "disk"))
    ids = properties.ids(("label", "disk"))

    assert set(names) == {"ssd", "hdd", None}
    assert [ids[row] for row in range(4)] == [names[value] for value in ("ssd", "hdd", "ssd", None)]
    assert ids.dtype == np.int32


def test_no_nodes_have_no_classes() -> None:
    inverse, firsts = facts_of().classes((("label", "zone"),))

    assert (inverse.tolist(), firsts) == ([], [])


# -- the static view --------------------------------------------------------------------------------------------------

READS: list[tuple[Callable[[Any], object], tuple[str, str]]] = [
    (lambda n: n.name, ("name", "")),
    (lambda n: n.labels["zone"], ("label", "zone")),
    (lambda n: n.labels.get("zone"), ("label", "zone")),
    (lambda n: n.labels.get("absent", "x"), ("label", "absent")),
    (lambda n: "zone" in n.labels, ("label", "zone")),
    (lambda n: list(n.labels), ("labels", "")),
    (lambda n: len(n.labels), ("labels", "")),
    (lambda n: list(n.labels.items()), ("labels", "")),
    (lambda n: list(n.labels.keys()), ("labels", "")),
    (lambda n: list(n.labels.values()), ("labels", "")),
    (lambda n: n.annotations.get("cards"), ("annotation", "cards")),
    (lambda n: dict(n.annotations.items()), ("annotations", "")),
    (lambda n: n.taints, ("taints", "")),
    (lambda n: n.unschedulable, ("unschedulable", "")),
    (lambda n: n.terminating, ("terminating", "")),
    (lambda n: n.images, ("images", "")),
    (lambda n: n.features, ("features", "")),
    (lambda n: n.allocatable_of("cpu"), ("allocatable", "cpu")),
    (lambda n: n.capacity_of("memory"), ("capacity", "memory")),
]


@pytest.mark.parametrize(("read", "path"), READS)
def test_facts_of_a_node_notes_what_was_read_and_tells_what_the_node_tells(
    read: Callable[[Any], object], path: tuple[str, str]
) -> None:
    cluster = Cluster()
    properties = NodeProperties(
        "n", labels={"zone": "1"}, annotations={"cards": "8"}, taints=(GPU,), capacity={"memory": 7}, images={"i": 1}
    )
    cluster.node_cache.put([(properties, {"cpu": 4})])
    node = cluster.nodes["n"]
    view = NodePropertiesView().show(node)

    assert read(view) == read(node)
    assert view.reads == {path}
    assert view.show(node).reads == set()


@pytest.mark.parametrize("name", ["used", "idle_of", "used_of", "allocatable", "tasks", "row", "spec", "fits_idle"])
def test_facts_of_a_node_has_nothing_of_how_the_node_is_used(name: str) -> None:
    cluster = Cluster()
    cluster.node_cache.put([(NodeProperties("n"), {"cpu": 4})])
    assert hasattr(cluster.nodes["n"], name)

    assert not hasattr(NodePropertiesView().show(cluster.nodes["n"]), name)


def test_facts_of_a_node_has_everything_else_of_a_node() -> None:
    """What a rule may read of a node without reading its usage, a rule that is shown NodePropertiesView may read."""
    own = {name for name in dir(NodePropertiesView) if not name.startswith("_")} - {"show", "reads"}

    assert own == {
        "name", "labels", "annotations", "taints", "unschedulable", "terminating", "quarantined", "images",
        "features",
        "allocatable_of", "capacity_of",
    }  # fmt: skip


def test_a_label_that_is_missing_is_missing_in_the_view_too() -> None:
    cluster = Cluster()
    cluster.node_cache.put([(NodeProperties("n"), {})])

    with pytest.raises(KeyError):
        NodePropertiesView().show(cluster.nodes["n"]).labels["zone"]
