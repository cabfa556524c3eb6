"""The fast engine: entries that catch up, what callbacks are shown, and how little is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.framework.dra.worlds import device_class
from tests.framework.stage import Plug, Stage, no
from tests.framework.typed import by_amounts, by_constraints, by_facts, by_node, by_request, by_task
from volsched.framework.columns.views import NodePropertiesView, NodeTable
from volsched.framework.engine.fast import FastEngine
from volsched.framework.registration import Registrar
from volsched.framework.rules import BatchNodeOrder, NodeOrder, Predicate
from volsched.model.changes import Deleted, Put
from volsched.model.generations import RowLog
from volsched.model.nodes.columns import CPU
from volsched.model.nodes.node import NodeAmounts, NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import TaskStatus
from volsched.model.verdict import Scope, Step, Verdict
from volsched.testing.builders import ClusterBuilder, a_cluster, put
from volsched.testing.checked import CheckedEngine
from volsched.testing.contract import ENGINES
from volsched.testing.naive import NaiveEngine

SIZES = (10, 100, 1_000)


class Counted:
    """A predicate and a score that count how often they are asked, and about whom."""

    def __init__(self, refuse: Callable[[Any, Any], bool] = lambda task, node: False) -> None:
        self.asked: list[str] = []
        self.refuses = refuse

    def predicate(self, template: PodTemplate, node: NodeInfo) -> Verdict | None:
        return self.of_pod(template, node)

    def of_pod(self, pod: Any, node: NodeInfo) -> Verdict | None:
        self.asked.append(node.name)
        return no() if self.refuses(pod, node) else None

    def score(self, template: PodTemplate, node: NodeInfo) -> float:
        self.asked.append(node.name)
        return float(node.idle_of("cpu"))

    def take(self) -> list[str]:
        taken, self.asked = self.asked, []
        return taken


def nodes(count: int, **node: Any) -> ClusterBuilder:
    world = a_cluster()
    for number in range(count):
        world.node(f"n{number:04}", labels={"zone": "ab"[number % 2]}, **node)
    return world


def finished(stage: Stage, name: str) -> Put:
    """The pod of a task has run and is done."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": stage.task(name).uid, "resourceVersion": "2"},
        "spec": {"nodeName": "n", "schedulerName": "volsched", "containers": []},
        "status": {"phase": "Succeeded"},
    }
    return put(pod)


# -- growth, by counts ------------------------------------------------------------------------------------------------


def least_used(registrar: Registrar) -> None:
    registrar.register(Predicate(by_node(lambda template, node: None)))
    registrar.register(NodeOrder(by_node(lambda template, node: float(node.idle_of("cpu")))))


@pytest.mark.parametrize("size", SIZES)
def test_a_placement_asks_about_the_node_that_changed_however_many_there_are(size: int) -> None:
    stage = Stage(nodes(size).job("j", tasks=9, cpu="1"), least_used)

    stage.place("j-0")
    first, stage.engine.nodes.callbacks_asked, stage.engine.nodes.rows_scored = stage.engine.nodes.callbacks_asked, 0, 0
    for number in range(1, 9):
        stage.place(f"j-{number}")

    assert first == 2 * size, "every node is asked once, by each callback"
    assert (stage.engine.nodes.callbacks_asked, stage.engine.nodes.rows_scored) == (8 * 2, 8)


@pytest.mark.parametrize("size", SIZES)
def test_a_session_with_nothing_changed_asks_nothing(size: int) -> None:
    stage = Stage(nodes(size, cpu="1").job("j", tasks=2, cpu="2"), least_used)
    assert stage.best("j-0") is None
    stage.engine.nodes.callbacks_asked = stage.engine.nodes.rows_scored = 0

    stage.reopen()

    assert stage.best("j-0") is None
    assert stage.best("j-1") is None
    stage.engine.refusals(stage.task("j-0"))
    stage.engine.refusals(stage.task("j-1"))
    assert (stage.engine.nodes.callbacks_asked, stage.engine.nodes.rows_scored) == (0, 0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("changed", [1, 5])
def test_a_later_session_asks_about_nodes_that_changed_in_between(size: int, changed: int) -> None:
    stage = Stage(nodes(size).job("j", tasks=10, cpu="1"), least_used)
    for number in range(9):
        stage.place(f"j-{number}")
    stage.best("j-9")
    stage.engine.nodes.callbacks_asked = stage.engine.nodes.rows_scored = 0

    for number in range(changed):
        stage.apply(finished(stage, f"j-{number}"))
    stage.reopen()
    stage.best("j-9")

    assert (stage.engine.nodes.callbacks_asked, stage.engine.nodes.rows_scored) == (2 * changed, changed)


def most_used(registrar: Registrar) -> None:
    registrar.register(Predicate(by_amounts(lambda template, node: None)))
    registrar.register(NodeOrder(by_amounts(lambda template, node: float(node.used_of("cpu")))))


@pytest.mark.parametrize("size", SIZES)
def test_who_reads_amounts_alone_is_asked_once_for_nodes_that_are_filled_alike(size: int) -> None:
    world = nodes(size, cpu="2").job("j", tasks=size, cpu="1").job("k", cpu="1", memory="1")
    stage = Stage(world, most_used)
    stage.best("j-0")
    stage.best("k-0")
    stage.engine.nodes.callbacks_asked = 0

    placed = [stage.place(f"j-{number}") for number in range(size)]
    stage.best("k-0")

    assert len(set(placed)) == size / 2, "node after node is filled"
    assert stage.engine.nodes.callbacks_asked <= 2 * 2 * 2, "two callbacks, two pods, nodes half full and empty"


@pytest.mark.parametrize("engine", ENGINES)
def test_what_nodes_offer_and_what_is_used_there_both_count(engine: Any) -> None:
    world = a_cluster().node("a", cpu="8").node("b", cpu="4").node("c", cpu="4")
    world.job("j", tasks=4, cpu="1")
    stage = Stage(world, fullest, engine=engine)

    assert [stage.place(f"j-{number}") for number in range(2)] == ["b", "b"]

    stage.apply(*a_cluster().node("b", cpu="16").changes())
    assert stage.place("j-2") == "c", "two of sixteen are less than none of four with it"
    stage.check()


def fullest(registrar: Registrar) -> None:
    registrar.register(NodeOrder(by_amounts(lambda t, n: (n.used_of("cpu") + 1_000) / n.allocatable_of("cpu"))))


@pytest.mark.parametrize("changed", [1, 20, 55])
def test_what_nodes_say_and_what_is_used_there_add_up_however_many_change(changed: int) -> None:
    def register(registrar: Registrar) -> None:
        registrar.register(NodeOrder(by_amounts(lambda t, n: float(n.used_of("cpu")))))
        registrar.register(NodeOrder(by_facts(lambda t, n: 0.1 if n.labels["zone"] == "b" else 0.3)))
        registrar.register(NodeOrder(by_amounts(lambda t, n: n.idle_of("cpu") / 7)))

    world = nodes(60, cpu="4").job("j", tasks=60, cpu="1").job("k", cpu="2", memory="1").job("large", cpu="3")
    stage = Stage(world, register, engine=CheckedEngine)
    stage.best("k-0")
    stage.place("j-0")

    stage.cluster.move(stage.task("large-0"), TaskStatus.PIPELINED, stage.cluster.rows[1])
    for number in range(1, changed):
        stage.cluster.move(stage.task(f"j-{number}"), TaskStatus.ALLOCATED, stage.cluster.rows[number])

    assert stage.best("k-0") is not None, "the checked engine adds it all up anew"


@pytest.mark.parametrize("engine", ENGINES)
def test_nodes_that_were_refused_are_asked_again_when_their_devices_may_serve(engine: Any) -> None:
    world = nodes(2).job("j", cpu="1", **{"example.com/card": 1}).job("other", tasks=2, cpu="1")
    stage = Stage(world, fullest, engine=engine)
    stage.cluster.let_devices_serve(True)
    for number, node in enumerate(stage.cluster.rows):
        assert stage.best("j-0") is None
        stage.cluster.move(stage.task(f"other-{number}"), TaskStatus.ALLOCATED, node)
    assert stage.best("j-0") is None

    stage.apply(put(device_class("cards", extendedResourceName="example.com/card")))

    assert stage.best("j-0") == "n0000"


def test_facts_are_asked_once_and_again_when_the_version_of_a_domain_changes() -> None:
    asked: list[str] = []
    forbidden = ["n0000"]

    def refuse(template: PodTemplate, node: NodePropertiesView) -> Verdict | None:
        asked.append(node.name)
        return no() if node.name in forbidden else None

    def register(registrar: Registrar) -> None:
        registrar.register(Predicate(refuse, key=lambda t: "all", version=lambda t: len(forbidden)))

    stage = Stage(nodes(3).job("j", tasks=4, cpu="1"), register)
    assert [stage.place(f"j-{number}") for number in range(2)] == ["n0001", "n0001"]
    assert asked == ["n0000", "n0001", "n0002"], "placements change no facts"

    forbidden.append("n0001")
    assert stage.place("j-2") == "n0002"
    assert len(asked) == 6


@pytest.mark.parametrize("engine", ENGINES)
def test_scores_of_amounts_are_asked_again_when_the_version_of_their_domain_changes(engine: Any) -> None:
    sign = [1.0]

    def register(registrar: Registrar) -> None:
        registrar.register(
            NodeOrder(
                by_amounts(lambda t, n: sign[0] * n.used_of("cpu")),
                key=lambda t: "all",
                version=lambda t: sign[0],
            )
        )

    stage = Stage(nodes(3).job("j", tasks=4, cpu="1"), register, engine=engine)
    assert [stage.place(f"j-{number}") for number in range(2)] == ["n0000", "n0000"]

    sign[0] = -1.0
    assert [stage.place(f"j-{number}") for number in range(2, 4)] == ["n0001", "n0002"]


IN_A: dict[str, Any] = {"spec": {"nodeSelector": {"zone": "a"}}}


def test_templates_of_equal_requests_share_what_is_asked_about_requests_and_kinds_of_nodes() -> None:
    def register(registrar: Registrar) -> None:
        registrar.register(NodeOrder(by_request(lambda pod, node: float(node.used_of("cpu") + pod.request["cpu"]))))

    world = nodes(4, cpu="4").job("j", tasks=2, cpu="1").job("k", cpu="1", **IN_A).job("l", cpu="2")
    stage = Stage(world, register)
    asked = []
    for name in ("j-0", "k-0", "l-0"):
        stage.best(name)
        asked.append(stage.engine.nodes.callbacks_asked)
    assert asked == [1, 1, 2], "one kind of node, two sizes of pods"

    assert stage.place("j-0") == "n0000"
    assert stage.best("j-1") == "n0000"
    assert stage.best("k-0") == "n0000"
    assert stage.engine.nodes.callbacks_asked == 3, "the kind of the node that has a pod now is new to both"


@pytest.mark.parametrize("engine", ENGINES)
def test_one_that_is_shown_templates_is_asked_for_each_and_so_are_those_beside_it(engine: Any) -> None:
    def fill(template: PodTemplate, node: NodeAmounts) -> float:
        used = float(node.used_of("cpu"))
        return used if template.required_nodes else -used

    def register(registrar: Registrar) -> None:
        registrar.register(NodeOrder(by_request(lambda pod, node: 0.0)))
        registrar.register(NodeOrder(fill))

    world = nodes(3).job("j", cpu="1").job("k", cpu="1", **IN_A).pod("p", on="n0001", cpu="1")
    stage = Stage(world, register, engine=engine)

    assert stage.best("k-0") == "n0001"
    assert stage.best("j-0") == "n0000"


@pytest.mark.parametrize("engine", ENGINES)
def test_rules_that_read_a_whole_node_stand_beside_scores_by_amounts(engine: Any) -> None:
    """In sums of floats the order counts: a score by the node stands between two by amounts."""

    def register(registrar: Registrar) -> None:
        registrar.register(Predicate(by_node(lambda _, node: no() if node.tasks and node.name == "n0001" else None)))
        registrar.register(NodeOrder(by_amounts(lambda _, node: 0.1 * node.used_of("cpu"))))
        registrar.register(NodeOrder(by_node(lambda _, node: 1e16 if node.tasks else 0.3 * int(node.name[-1]))))
        registrar.register(NodeOrder(by_amounts(lambda _, node: -1e16 if node.used_of("cpu") else 0.7)))

    stage = Stage(nodes(3, cpu="3").job("j", tasks=8, cpu="1"), register, engine=engine)

    assert [stage.place(f"j-{number}") for number in range(7)] == [
        *["n0002"] * 3,
        "n0001",
        *["n0000"] * 3,
    ]
    assert stage.best("j-7") is None


@pytest.mark.parametrize("engine", ENGINES)
def test_a_vector_twin_beside_scores_by_amounts_is_shown_amounts_as_they_are(engine: Any) -> None:
    def register(registrar: Registrar) -> None:
        column = registrar.cluster.columns.place("cpu")
        registrar.register(Predicate(by_amounts(lambda _, node: None)))
        registrar.register(
            NodeOrder(
                by_node(lambda _, node: -float(node.used_of("cpu"))),
                vector=lambda _, table: -table.columns.used[column][table.rows].astype(np.float64),
                key=lambda _: "each move changes the answers",
            )
        )

    stage = Stage(nodes(3).job("j", tasks=5, cpu="1"), register, engine=engine)

    assert [stage.place(f"j-{number}") for number in range(5)] == ["n0000", "n0001", "n0002", "n0000", "n0001"]


def test_amounts_are_asked_about_once_for_nodes_of_a_class_beside_a_rule_that_reads_a_whole_node() -> None:
    of_amounts: list[int] = []
    of_nodes = Counted()

    def most_used(_: Any, node: NodeAmounts) -> float:
        of_amounts.append(node.used_of("cpu"))
        return float(node.used_of("cpu"))

    def register(registrar: Registrar) -> None:
        registrar.register(Predicate(by_amounts(lambda _, node: no() if node.used_of("cpu") > 1000 else None)))
        registrar.register(NodeOrder(by_facts(lambda _, node: 0.5 if node.name == "n0000" else 0.25)))
        registrar.register(Predicate(by_node(of_nodes.of_pod)))
        registrar.register(NodeOrder(by_node(lambda pod, node: 0.0 * of_nodes.score(pod, node))))
        registrar.register(NodeOrder(by_amounts(most_used)))

    stage = Stage(nodes(40).job("j", tasks=3, cpu="1"), register)

    assert stage.place("j-0") == "n0000"
    assert (of_amounts, len(of_nodes.take())) == ([0], 2 * 40)
    assert stage.place("j-1") == "n0000"
    assert (of_amounts, of_nodes.take()) == ([0, 1000], ["n0000"] * 2)
    assert stage.place("j-2") == "n0001"
    assert (of_amounts, of_nodes.take()) == ([0, 1000], []), "a rule by amounts refuses the class of n0000"


def test_templates_of_equal_constraints_share_what_is_asked_about_properties_of_nodes() -> None:
    def register(registrar: Registrar) -> None:
        registrar.register(Predicate(by_constraints(lambda _, node: no() if node.labels["zone"] == "b" else None)))
        registrar.register(NodeOrder(by_constraints(lambda _, node: len(node.labels.get("disk", "")))))

    world = nodes(4).job("j", cpu="1").job("k", cpu="2").job("l", cpu="2", **IN_A)
    stage = Stage(world, register)
    asked = []
    for name in ("j-0", "k-0", "l-0"):
        assert stage.best(name) == "n0000"
        asked.append(stage.engine.nodes.callbacks_asked)
    assert asked[0] == asked[1] < asked[2]
    stage.engine.refusals(stage.task("k-0"))
    before = stage.engine.nodes.callbacks_asked

    stage.apply(*a_cluster().node("n0000", labels={"zone": "b"}).node("n0002", labels={"zone": "a"}).changes())
    assert stage.best("k-0") == "n0002"
    stage.apply(*a_cluster().node("n0003", labels={"zone": "a", "disk": "ssd"}).changes())
    assert stage.best("j-0") == "n0003"
    assert stage.engine.nodes.callbacks_asked > before, "nodes say something else of themselves"


def test_one_about_properties_of_nodes_that_is_shown_templates_is_asked_for_each() -> None:
    stage = Stage(
        nodes(4).job("j", tasks=2, cpu="1").job("k", cpu="2"),
        lambda r: r.register(
            Predicate(by_facts(lambda template, _: no() if template.request["cpu"] > 1_000 else None))
        ),
    )

    assert [stage.best(name) for name in ("j-0", "k-0", "j-1")] == ["n0000", None, "n0000"]


@pytest.mark.parametrize("order", list(permutations(["least", "static", "most", "domain"])))
def test_the_sum_of_scores_is_made_in_the_order_of_registration_whatever_they_are_made_of(order: Any) -> None:
    """A tenth, two tenths and three make one sum or another as they are added up; nodes differ by that alone."""
    orders: dict[str, Any] = {
        "least": (by_amounts(lambda _, node: 0.1 + 0.1 * (node.used_of("cpu") == 0)), {}),
        "most": (by_amounts(lambda _, node: 0.3 - 0.2 * (node.used_of("cpu") == 0)), {}),
        "static": (by_facts(lambda _, node: 0.2 + 0.1 * (node.labels["zone"] == "a")), {}),
        "domain": (by_facts(lambda _, node: 0.7 - 0.1 * (node.labels["zone"] == "a")), {"key": lambda task: "all"}),
    }

    def register(registrar: Registrar) -> None:
        for name in order:
            fn, further = orders[name]
            registrar.register(NodeOrder(fn, **further))

    stages = [Stage(nodes(4).job("j", tasks=9, cpu="1"), register, engine=e) for e in (CheckedEngine, NaiveEngine)]

    for number in range(9):
        assert len({stage.place(f"j-{number}") for stage in stages}) == 1


def test_a_device_class_that_changes_nothing_for_resources_has_nothing_asked_again() -> None:
    stage = Stage(nodes(3).job("j", tasks=2, cpu="1", **{"example.com/card": 1}), least_used)
    stage.cluster.let_devices_serve(True)
    stage.apply(put(device_class("cards", extendedResourceName="example.com/card")))
    stage.best("j-0")
    asked = stage.engine.nodes.callbacks_asked

    stage.apply(put(device_class("others", extendedResourceName="example.com/other")))
    stage.best("j-1")

    assert stage.engine.nodes.callbacks_asked == asked


@pytest.mark.parametrize("engine", [FastEngine, NaiveEngine])
def test_a_node_that_facts_close_for_now_may_be_opened_by_eviction(engine: Any) -> None:
    def register(registrar: Registrar) -> None:
        registrar.register(
            Predicate(
                by_facts(lambda t, n: no() if n.name == "n0000" else None),
                key=lambda t: "all",
                version=lambda t: 0,
            )
        )

    stage = Stage(nodes(2).job("j", cpu="1"), register, engine=engine)

    assert [node.name for node, _ in stage.engine.ranked(stage.task("j-0"))] == ["n0000", "n0001"]


@pytest.mark.parametrize("engine", [FastEngine, NaiveEngine])
def test_nodes_that_would_take_a_pod_if_others_left_are_asked_about_as_far_as_somebody_looks(engine: Any) -> None:
    """n0000 is full, n0001 held for a while, n0002 refused for ever, n0003 too small; n0004 is behind them."""
    asked: list[str] = []
    for_now = msgspec.structs.replace(no(), resolvable=False)

    def register(registrar: Registrar) -> None:
        registrar.register(Predicate(by_facts(lambda _, n: no() if n.name == "n0002" else None)))
        registrar.register(
            Predicate(by_node(lambda _, n: for_now if n.name == "n0001" else None), is_temporary=True),
            Predicate(by_node(lambda _, n: asked.append(n.name))),
        )

    world = nodes(5).node("n0003", cpu="1").pod("full", on="n0000", cpu="8").job("j", cpu="2")
    stage = Stage(world, register, engine=engine)
    found = stage.engine.hopeful(stage.task("j-0"))

    assert next(found).name == "n0000"
    assert asked == ["n0000"]
    assert [node.name for node in found] == ["n0001", "n0004"]
    assert [node.name for node, _ in stage.engine.ranked(stage.task("j-0"))] == ["n0000", "n0004"]

    stage.apply(*a_cluster().node("n0005", cpu="8").changes())
    assert [node.name for node in stage.engine.hopeful(stage.task("j-0"))] == ["n0000", "n0001", "n0004", "n0005"]


def test_equal_pods_share_their_answers_and_others_have_their_own() -> None:
    stage = Stage(nodes(10).job("j", tasks=3, cpu="1").job("k", tasks=3, cpu="1").job("l", cpu="2"), least_used)
    asked = []
    for name in ("j-0", "j-1", "k-2", "l-0"):
        stage.best(name)
        asked.append(stage.engine.nodes.callbacks_asked)

    assert asked == [20, 20, 20, 40]


def test_nobody_is_asked_about_nodes_without_room_nor_about_nodes_that_another_refused() -> None:
    first = Counted(lambda task, node: node.labels["zone"] == "a")
    second, score = Counted(), Counted()
    stage = Stage(
        nodes(4).node("tiny", cpu="0", labels={"zone": "b"}).job("j", cpu="1"),
        lambda r: r.register(Predicate(first.predicate)),
        lambda r: r.register(Predicate(second.predicate)),
        lambda r: r.register(NodeOrder(score.score)),
    )

    stage.best("j-0")

    assert first.asked == ["n0000", "n0001", "n0002", "n0003"]
    assert second.asked == ["n0001", "n0003"]
    assert score.asked == ["n0001", "n0003"]


def test_more_changed_rows_than_a_few_are_asked_by_vector() -> None:
    by_row, by_vector = Counted(), []

    def vector(template: PodTemplate, nodes: NodeTable) -> Any:
        by_vector.append(len(nodes.rows))
        return np.ones(len(nodes.rows), dtype=np.bool_)

    stage = Stage(
        nodes(100).job("j", tasks=61, cpu="1"),
        lambda r: r.register(Predicate(by_row.predicate, vector=vector)),
        lambda r: r.register(NodeOrder(by_node(lambda template, node: float(node.idle_of("cpu"))))),
    )
    for number in range(60):
        stage.place(f"j-{number}")
    assert (by_vector, len(by_row.take())) == ([100], 59)

    stage.best("j-60")
    by_row.take()
    for number in range(50):
        stage.apply(finished(stage, f"j-{number}"))
    stage.best("j-60")

    assert (by_vector, by_row.take()) == ([100, 50], [])


# -- what is shown ----------------------------------------------------------------------------------------------------


def test_who_is_shown_facts_is_asked_once_for_nodes_that_agree_in_what_was_read() -> None:
    asked: list[str] = []

    def by_zone(template: PodTemplate, node: NodePropertiesView) -> Verdict | None:
        asked.append(node.labels["zone"])
        return no() if node.labels["zone"] == "a" else None

    stage = Stage(nodes(100).job("j", tasks=5, cpu="1"), lambda r: r.register(Predicate(by_zone)))

    chosen = [stage.place(f"j-{number}") for number in range(3)]
    stage.reopen()
    chosen.append(stage.place("j-3"))

    assert set(asked) == {"a", "b"}
    assert len(asked) <= 4, "one node to learn what is read, then one of each zone"
    assert chosen == ["n0001"] * 4
    asked.clear()

    stage.apply(*a_cluster().node("n0000", labels={"zone": "b"}).changes())

    assert stage.best("j-4") == "n0000"
    assert len(asked) <= 4


def test_facts_are_amounts_and_names_too_when_they_are_read() -> None:
    stage = Stage(
        a_cluster().node("a", cpu="4").node("b", cpu="8").node("c", cpu="8").job("j", cpu="1"),
        lambda r: r.register(Predicate(by_facts(lambda t, n: no() if n.name == "b" else None))),
        lambda r: r.register(NodeOrder(by_facts(lambda t, n: n.allocatable_of("cpu")))),
    )

    assert stage.best("j-0") == "c"


def test_who_is_shown_a_node_is_asked_again_about_one_that_changed_and_no_other() -> None:
    counted = Counted()
    stage = Stage(nodes(10).job("j", tasks=3, cpu="1"), lambda r: r.register(NodeOrder(counted.score)))
    stage.place("j-0")
    counted.take()

    stage.place("j-1")
    stage.best("j-2")

    assert counted.take() == ["n0000", "n0001"]


def by_queue(registrar: Registrar, counted: Counted) -> None:
    def version(task: TaskInfo) -> int:
        return registrar.cluster.queues[task.queue].version

    registrar.register(Predicate(counted.predicate, key=queue_name, version=version))


def queue_name(template: PodTemplate, queue: QueueInfo) -> str:
    return queue.name


def test_a_key_by_queue_is_asked_again_when_the_account_of_that_queue_changed() -> None:
    counted = Counted()
    stage = Stage(
        nodes(10).queue("q").queue("r").job("j", tasks=3, queue="q", cpu="1").job("k", tasks=2, queue="r", cpu="1"),
        lambda s: by_queue(s, counted),
    )
    asked = []
    for act in (
        lambda: stage.best("j-0"),
        lambda: stage.best("k-0"),  # another queue has answers of its own
        lambda: (stage.place("k-0"), counted.take(), stage.best("j-1")),  # where k-0 went only
        lambda: (stage.place("j-0"), counted.take(), stage.best("j-1")),  # the queue's account: all
        lambda: stage.apply(*a_cluster().queue("q", weight=7).changes()),
        lambda: stage.best("j-1"),
    ):
        act()
        asked.append(len(counted.take()))

    assert asked == [10, 10, 1, 10, 0, 10]


def test_a_queue_that_comes_back_after_it_was_gone_is_not_taken_for_the_old_one() -> None:
    counted = Counted()
    stage = Stage(
        nodes(3).queue("q").job("j", queue="q", cpu="1"),
        lambda s: by_queue(s, counted),
    )
    stage.best("j-0")
    counted.take()

    stage.apply(Deleted("Queue", "", "q", "queue--q"), *a_cluster().queue("q", weight=5).changes())
    stage.best("j-0")

    assert len(counted.take()) == 3


def test_answers_are_shared_by_key_until_the_version_of_the_key_changes() -> None:
    counted, versions = Counted(), {"red": 0, "blue": 0}
    key: Callable[[Any], str | None] = lambda task: task.spec.labels.get("team")  # noqa: E731
    world = nodes(10)
    for name, labels in (("r1", "red"), ("r2", "red"), ("b1", "blue"), ("x1", None)):
        world.pod(name, labels={"team": labels} if labels else {}, cpu="1")
    stage = Stage(
        world,
        lambda r: r.register(
            Predicate(counted.predicate, key=key, version=lambda task: versions[task.spec.labels["team"]])
        ),
    )

    def ask(name: str) -> int:
        stage.best(name)
        return len(counted.take())

    asked = [ask("r1"), ask("r2"), ask("b1"), ask("x1")]
    versions["red"] += 1
    asked += [ask("b1"), ask("r2"), ask("r1")]
    stage.cluster.node_cache.touch(stage.node("n0004"))
    asked += [ask("r1"), ask("b1")]

    assert asked == [10, 0, 10, 0, 0, 10, 0, 1, 1]


@pytest.mark.parametrize("annotated", [True, False])
def test_who_is_shown_the_task_or_has_no_annotation_is_asked_for_every_pod_and_every_node_that_is_left(
    annotated: bool,
) -> None:
    counted = Counted(lambda task, node: node.name != f"n000{task.name[-1]}")
    stage = Stage(
        nodes(5).job("j", tasks=3, cpu="1"),
        lambda r: r.register(Predicate(by_facts(lambda t, n: no() if n.name == "n0004" else None))),
        lambda r: r.register(Predicate(by_task(counted.of_pod) if annotated else counted.of_pod)),
    )

    assert [stage.best("j-2"), stage.best("j-1"), stage.best("j-2")] == ["n0002", "n0001", "n0002"]
    assert counted.take() == ["n0000", "n0001", "n0002", "n0003"] * 3


def test_a_score_of_a_task_is_added_to_the_others() -> None:
    stage = Stage(
        nodes(4).job("j", tasks=2, cpu="1"),
        lambda r: r.register(NodeOrder(by_node(lambda t, n: 1.0 if n.name == "n0003" else 0.0))),
        lambda r: r.register(NodeOrder(by_task(lambda t, n: 2.0 if n.name == f"n000{t.name[-1]}" else 0.0))),
    )

    assert [stage.best("j-0"), stage.best("j-1")] == ["n0000", "n0001"]


ALL_OF: dict[str, tuple[Any, dict[str, Any]]] = {
    "properties": (by_facts, {}),
    "amounts": (by_amounts, {}),
    "node": (by_node, {}),
    "queue": (by_node, {"key": queue_name}),
    "key": (by_task, {"key": lambda task: "all"}),
    "task": (by_task, {}),
}


@pytest.mark.parametrize("way", ALL_OF)
def test_what_does_not_apply_is_not_asked(way: str) -> None:
    annotate, further = ALL_OF[way]
    asked: list[Any] = []

    def refuse(pod: Any, node: Any) -> Verdict:
        asked.append(pod)
        return no()

    stage = Stage(
        nodes(5).job("small", cpu="1").job("big", cpu="2"),
        lambda r: r.register(
            Predicate(annotate(refuse), applies_to=lambda template: template.request["cpu"] > 1_000, **further)
        ),
    )

    assert stage.best("small-0") == "n0000"
    assert asked == []
    assert stage.best("big-0") is None
    assert asked != []


# -- what is kept from session to session -----------------------------------------------------------------------------


def test_the_functions_of_the_new_session_are_asked_about_what_changed() -> None:
    asked: list[int] = []
    sessions: list[int] = []

    def register(registrar: Registrar) -> None:
        number = len(sessions)
        sessions.append(number)
        registrar.register(Predicate(by_node(lambda template, node: asked.append(number))))

    stage = Stage(nodes(3).job("j", tasks=3, cpu="1"), register)
    stage.place("j-0")
    stage.reopen()
    stage.place("j-1")

    assert asked == [0, 0, 0, 1]


def test_answers_are_dropped_when_other_callbacks_are_registered() -> None:
    names = ["n0001"]

    def register(registrar: Registrar) -> None:
        def only(template: PodTemplate, node: NodeInfo) -> Verdict | None:
            return None if node.name in names else no()

        registrar.register(Predicate(only))
        if len(names) > 1:
            registrar.register(Predicate(by_node(lambda template, node: None)))

    stage = Stage(nodes(3).job("j", cpu="1"), register)
    assert stage.best("j-0") == "n0001"

    names.insert(0, "n0000")
    stage.reopen()

    assert stage.best("j-0") == "n0000"


def test_nodes_that_come_and_go_are_seen() -> None:
    stage = Stage(nodes(3, cpu="1").job("j", cpu="2"), least_used)
    assert stage.best("j-0") is None

    stage.apply(*a_cluster().node("big-2", cpu="4").node("big-1", cpu="4").changes())
    assert stage.best("j-0") == "big-1"

    stage.apply(Deleted("Node", "", "big-1", "node--big-1"))
    assert stage.best("j-0") == "big-2"

    stage.apply(*a_cluster().node("big-2", cpu="1").changes())
    assert stage.best("j-0") is None


def test_entries_that_had_to_make_room_are_made_again() -> None:
    stage = Stage(nodes(3).job("a", cpu="1").job("b", cpu="2").job("c", cpu="3"), least_used)
    stage.best("a-0")
    stage.engine.entries.capacity = 2

    chosen = [stage.best(name) for name in ("b-0", "c-0", "a-0", "b-0")]

    assert chosen == ["n0000"] * 4
    assert len(stage.engine.entries) == 2


def least_used_in_zone_a(registrar: Registrar) -> None:
    least_used(registrar)
    registrar.register(Predicate(by_facts(lambda template, node: no() if node.labels["zone"] != "a" else None)))


def test_what_no_node_can_take_is_told_without_an_entry() -> None:
    """One tenant may have more kinds of pods than there are entries, all of them asked about when anything changes."""
    world = a_cluster().node("a", cpu="2", labels={"zone": "a"}).node("b", cpu="4", labels={"zone": "b"})
    world.job("fits", cpu="2").job("in-vain", cpu="4", memory="2Gi").job("huge", cpu="9").job(
        "also-huge", cpu="1", memory="9Ti"
    )
    world.node("full", cpu="8", memory="1Gi", labels={"zone": "a"}).job("later", cpu="6")
    leaving = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    stage = Stage(world.pod("leaving", on="full", cpu="8", **leaving), least_used_in_zone_a)
    names = ("huge", "also-huge", "in-vain", "fits", "later")

    assert [stage.engine.no_node_fits(stage.task(f"{name}-0")) for name in names] == [True, True, True, False, False]

    assert len(stage.engine.entries) == 2


@pytest.mark.parametrize("size", [255, 256, 257, 700])
def test_the_best_of_many_blocks_is_found_as_totals_sink(size: int) -> None:
    """Scores are a shuffle of the rows; each node takes one pod, so nodes are filled from the best to the worst."""
    world = nodes(size, cpu="1").job("j", tasks=size, cpu="1")
    score: Callable[[str], int] = lambda name: (int(name[1:]) * 7919) % size // 3  # noqa: E731 - thrice the same score
    stage = Stage(world, lambda r: r.register(NodeOrder(by_node(lambda _, node: float(score(node.name))))))

    chosen = [stage.place(f"j-{number}") for number in range(size)]

    names = [f"n{number:04}" for number in range(size)]
    assert chosen == sorted(names, key=lambda name: (-score(name), name))


def test_a_node_that_draws_level_with_the_best_goes_behind_it_when_its_name_does() -> None:
    world = nodes(3).job("j", tasks=2, cpu="1").pod("p", on="n0002", cpu="1").pod("q", on="n0000", cpu="1")
    stage = Stage(world, least_used)
    assert stage.best("j-0") == "n0001"

    stage.apply(finished(stage, "p"))
    assert stage.best("j-0") == "n0001"

    stage.apply(finished(stage, "q"))
    assert stage.best("j-0") == "n0000"


def test_a_log_that_has_forgotten_makes_everything_be_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowLog, "KEPT", 20)
    stage = Stage(nodes(5).job("j", tasks=100, cpu="1").job("k", cpu="2"), least_used)
    stage.best("k-0")

    for number in range(100):
        stage.place(f"j-{number}")

    assert stage.best("k-0") == NaiveEngine.best(_naive(stage), stage.task("k-0")).name  # type: ignore[union-attr]
    assert len(stage.cluster.node_cache.usage_log.rows) <= 20, "a log does not grow for ever"


def _naive(stage: Stage) -> NaiveEngine:
    engine = NaiveEngine(stage.cluster)
    engine.open(stage.session.rules.nodes)
    return engine


# -- the question -----------------------------------------------------------------------------------------------------


def leaving(name: str, on: str, **requests: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "nodeName": on,
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running"},
    }


@pytest.mark.parametrize("make", [FastEngine, NaiveEngine])
def test_room_now_goes_before_room_that_is_being_freed(make: Any) -> None:
    world = a_cluster().node("full", cpu="4").node("leaving", cpu="4").node("some", cpu="2")
    world.pod("p", on="full", cpu="4").add(leaving("l", "leaving", cpu="4"))
    world.job("small", cpu="2").job("large", cpu="3").job("huge", cpu="5")
    stage = Stage(world, engine=make)

    assert [stage.best(f"{name}-0") for name in ("small", "large", "huge")] == ["some", "leaving", None]


@pytest.mark.parametrize("make", [FastEngine, NaiveEngine])
def test_room_that_is_promised_is_not_promised_twice(make: Any) -> None:
    stage = Stage(
        a_cluster().node("n", cpu="4").add(leaving("l", "n", cpu="4")).job("j", tasks=3, cpu="2"), engine=make
    )
    statement = stage.session.statement()

    chosen = []
    for number in range(3):
        chosen.append(stage.best(f"j-{number}"))
        if chosen[-1]:
            statement.pipeline(stage.task(f"j-{number}"), stage.node("n"))

    assert chosen == ["n", "n", None]


@pytest.mark.parametrize("make", [FastEngine, NaiveEngine])
def test_idle_room_that_somebody_was_promised_is_not_free(make: Any) -> None:
    world = a_cluster().node("n", cpu="4").add(leaving("l", "n", cpu="2")).job("big", cpu="4").job("j", cpu="2")
    stage = Stage(world, engine=make)
    stage.session.statement().pipeline(stage.task("big-0"), stage.node("n"))

    assert stage.best("j-0") is None


@pytest.mark.parametrize("make", ENGINES)
@pytest.mark.parametrize("care", [False, True], ids=["future", "pod"])
def test_nodes_are_compared_as_they_are_after_what_was_placed_meanwhile(make: Any, care: bool) -> None:
    """Single nodes are scored without the columns, so nothing else has brought those up to date."""
    world = a_cluster().node("a", cpu="9").node("b", cpu="9")
    if not care:
        world.add(leaving("l", "a", cpu="5")).add(leaving("m", "b", cpu="5"))
    world.job("one", cpu="3").job("two", cpu="5")

    def emptier(template: PodTemplate, node: NodeAmounts) -> float:
        return float(node.allocatable_of("cpu") - node.used_of("cpu"))

    def of_rows(template: PodTemplate, nodes: NodeTable) -> Any:
        allocatable, used = nodes.columns.allocatable[CPU], nodes.columns.used[CPU]
        return (allocatable[nodes.rows] - used[nodes.rows]).astype(float)

    def register(registrar: Registrar) -> None:
        registrar.register(NodeOrder(emptier, vector=of_rows))
        if care:
            registrar.register(Predicate(by_task(lambda task, node: None)))

    stage = Stage(world, register, engine=make)
    assert stage.best("two-0") == "a"
    assert stage.place("one-0") == "a"

    assert stage.best("two-0") == "b"


@pytest.mark.parametrize("make", [FastEngine, NaiveEngine])
def test_a_node_admits_what_its_predicates_and_its_future_room_admit(make: Any) -> None:
    world = a_cluster().node("n", cpu="4").add(leaving("l", "n", cpu="2"))
    world.job("all", cpu="4").job("more", cpu="5").job("other", cpu="1")
    stage = Stage(
        world,
        lambda r: r.register(Predicate(by_task(lambda task, node: no() if task.name == "other-0" else None))),
        engine=make,
    )

    admitted = [stage.engine.admits(stage.task(f"{name}-0"), stage.node("n")) for name in ("all", "more", "other")]

    assert admitted == [True, False, False]


@pytest.mark.parametrize("make", [FastEngine, NaiveEngine])
def test_refusals_count_each_node_for_its_first_predicate_or_for_all_that_it_lacks(make: Any) -> None:
    world = nodes(6, cpu="1", memory="1Gi").node("big", labels={"zone": "b"}).pod("p", on="big", cpu="64")
    stage = Stage(
        world.job("j", cpu="2", memory="2Gi"),
        lambda r: r.register(Predicate(by_facts(lambda t, n: no("zone") if n.labels["zone"] == "a" else None))),
        lambda r: r.register(Predicate(by_node(lambda t, n: no("name") if "n" < n.name < "n0003" else None))),
        engine=make,
    )

    refusals = stage.engine.refusals(stage.task("j-0"))

    assert dict(refusals.counts) == {"zone": 3, "name": 1, "Insufficient cpu": 3, "Insufficient memory": 2}


def of_mine(task: Any, node: Any) -> Verdict | None:
    return None if node.name == "n0000" else Verdict(Step.PREDICATE, "mine", Scope.NODE, "Full", "it is full")


def first_of(pod: Any, nodes: NodeTable) -> Any:
    return nodes.rows == 0


def one_wording(pod: Any, nodes: NodeTable) -> Any:
    return np.zeros(len(nodes.rows), dtype=np.int64)


WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "by class": (by_facts(of_mine), {}),
    "by vector of classes": (by_facts(of_mine), {"vector": first_of}),
    "by row": (by_node(of_mine), {}),
    "by wording": (by_node(of_mine), {"vector": first_of, "wordings": one_wording}),
}


@pytest.mark.parametrize("make", [FastEngine, NaiveEngine])
@pytest.mark.parametrize("way", WAYS)
def test_the_plugin_that_refuses_most_nodes_is_known_however_they_are_counted(way: str, make: Any) -> None:
    world = nodes(9, cpu="1").job("j", cpu="2")
    fn, further = WAYS[way]
    stage = Stage(world, lambda r: r.register(Predicate(fn, **further)), engine=make)

    refusals = stage.engine.refusals(stage.task("j-0"))

    assert (dict(refusals.counts), refusals.plugin) == ({"it is full": 8, "Insufficient cpu": 1}, "mine")


def test_the_reasons_of_a_template_are_counted_once_until_something_changes() -> None:
    counted = Counted(lambda task, node: True)
    stage = Stage(nodes(9).job("j", tasks=3, cpu="1"), lambda r: r.register(Predicate(counted.predicate)))
    for name in ("j-0", "j-1"):
        stage.best(name)
        stage.engine.refusals(stage.task(name))
    assert len(counted.take()) == 18

    stage.cluster.node_cache.touch(stage.node("n0003"))
    stage.best("j-2")
    stage.engine.refusals(stage.task("j-2"))

    assert len(counted.take()) == 1 + 9


def fives(_: TaskInfo, nodes: Sequence[NodeInfo]) -> list[float]:
    return [5.0] * len(nodes)


@pytest.mark.parametrize("make", [FastEngine, NaiveEngine])
def test_scores_are_told_by_plugin_for_the_nodes_that_are_chosen_from(make: Any) -> None:
    stage = Stage(
        a_cluster().node("a").node("b").node("tiny", cpu="0").job("j", cpu="1"),
        Plug(lambda r: r.register(NodeOrder(by_node(lambda template, node: 1.0))), "x"),
        Plug(lambda r: r.register(NodeOrder(by_node(lambda template, node: 2.0))), "x"),
        Plug(lambda r: r.register(BatchNodeOrder(fives, uniform=lambda task: 5.0)), "y"),
        engine=make,
    )

    assert stage.engine.scores(stage.task("j-0")) == {"a": {"x": 3.0, "y": 5.0}, "b": {"x": 3.0, "y": 5.0}}


def test_a_task_that_was_only_tried_leaves_the_answers_as_they_were() -> None:
    stage = Stage(nodes(5).job("j", tasks=4, cpu="1"), least_used)
    before = stage.best("j-0")
    statement = stage.session.statement()
    for number in range(3):
        node = stage.session.engine.best(stage.task(f"j-{number}"))
        assert node is not None
        statement.allocate(stage.task(f"j-{number}"), node)
    during = stage.best("j-3")

    statement.discard()

    assert (before, during, stage.best("j-0")) == ("n0000", "n0003", "n0000")
    assert stage.task("j-0").status is TaskStatus.PENDING
