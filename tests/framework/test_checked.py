"""The engine that checks what callbacks declare: every way to promise too much is found, and honest plugins pass."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.framework.stage import Register, Stage, no
from tests.framework.typed import by_amounts, by_facts, by_node, by_request, by_task
from volsched.framework.columns.views import NodePropertiesView, NodeTable
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.framework.engine.entry import Entry
from volsched.framework.engine.fast import FastEngine
from volsched.framework.registration import Registrar
from volsched.framework.rules import BatchNodeOrder, NodeOrder, Predicate
from volsched.framework.session import Session
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo
from volsched.testing.builders import ClusterBuilder, a_cluster, a_rig
from volsched.testing.checked import CheckedEngine, Misdeclared, Stale


def a_world() -> ClusterBuilder:
    world = a_cluster().queue("q").queue("r")
    for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "b")):
        world.node(name, cpu="8", labels={"zone": zone})
    world.job("j", tasks=4, queue="q", cpu="1").job("k", tasks=2, queue="r", cpu="2")
    return world.job("l", queue="q", cpu="1", spec={"nodeSelector": {"zone": "a"}})


def play(register: Register, engine: Any = CheckedEngine) -> Stage:
    """Place pods of two kinds over two sessions, and ask about one more after each."""
    stage = Stage(a_world(), register, engine=engine)
    for name in ("j-0", "j-1", "k-0", "j-2"):
        stage.place(name)
        stage.best("j-3")
    stage.reopen()
    stage.place("j-3")
    stage.place("k-1")
    return stage


def says_nothing(task: Any, node: Any) -> None:
    """Pass."""


def ones(template: PodTemplate, nodes: NodeTable) -> Any:
    return np.ones(len(nodes.rows), dtype=np.bool_)


class Elsewhere:
    """Rules that look at things which are not theirs."""

    def __init__(self) -> None:
        self.session: Session

    def fullest_other_node(self, template: PodTemplate, node: NodeInfo) -> float:
        others = [other for other in self.session.cluster.rows if other is not node]
        return float(min(other.idle_of("cpu") for other in others))

    def other_queue(self, template: PodTemplate, node: NodeInfo) -> Any:
        return no() if self.session.cluster.queues["r"].allocated else None

    def queue_q(self, template: PodTemplate, node: NodeInfo) -> Any:
        allocated = self.session.cluster.queues["q"].allocated.get("cpu", 0)
        return no() if allocated > 2_000 and node.name == "n3" else None

    def cluster_by_name(self, template: PodTemplate, node: NodePropertiesView) -> Any:
        return no() if self.session.cluster.nodes[node.name].used_of("cpu") else None

    def half_of_the_rows(self, template: PodTemplate, nodes: NodeTable) -> Any:
        return np.ones(len(nodes.rows) // 2, dtype=np.bool_)


def with_elsewhere(register: Callable[[Registrar, Elsewhere], None]) -> Register:
    elsewhere = Elsewhere()

    def on_open(registrar: Registrar) -> None:
        elsewhere.session = registrar.session
        register(registrar, elsewhere)

    return on_open


MISDECLARED: dict[str, tuple[Register, str, str]] = {
    # what is wrong: (the plugin, the callback, what is said of it)
    "node: reads another node": (
        with_elsewhere(lambda r, e: r.register(NodeOrder(e.fullest_other_node))),
        "Elsewhere.fullest_other_node",
        "is shown NodeInfo and changed its answer about n2: nothing changed on that node",
    ),
    "node: reads a queue's account": (
        with_elsewhere(lambda r, e: r.register(Predicate(e.queue_q))),
        "Elsewhere.queue_q",
        "is shown NodeInfo and changed its answer about n3: nothing changed on that node",
    ),
    "key: its version stands still": (
        with_elsewhere(lambda r, e: r.register(Predicate(e.other_queue, key=lambda t: "all", version=lambda t: 0))),
        "Elsewhere.other_queue",
        "is shown NodeInfo and changed its answer about n2: nothing changed on that node, nor did the version of its "
        "key",
    ),
    "key: has nothing to say and says it": (
        lambda r: r.register(Predicate(by_node(rich), key=lambda t: None, version=lambda t: 0)),
        "rich",
        "has the key None for default/j-0 and something to say about n2",
    ),
    "amounts: tells nodes apart by something else": (
        lambda r: r.register(NodeOrder(by_amounts(every_other()))),
        "every_other.<locals>.fn",
        "is shown amounts and tells n2 from n1, which has the same",
    ),
    "facts: tells nodes apart by something else": (
        lambda r: r.register(NodeOrder(by_facts(falling()))),
        "falling.<locals>.fn",
        "tells n2 from n1, which says the same in all that was read",
    ),
    "keyed by queue: tells equal pods apart": (
        lambda r: r.register(Predicate(by_node(says_nothing), key=ever_other, version=lambda t: 0)),
        "says_nothing",
        "is keyed by queue and tells default/j-0 from default/j-1, which is equal to it",
    ),
    "facts: reads usage behind the view's back": (
        with_elsewhere(lambda r, e: r.register(Predicate(e.cluster_by_name))),
        "Elsewhere.cluster_by_name",
        "is shown NodePropertiesView and changed its answer about n1: the node's own properties have not changed",
    ),
    "facts with a key: reads usage behind the view's back": (
        with_elsewhere(lambda r, e: r.register(Predicate(e.cluster_by_name, key=lambda t: "all", version=lambda t: 0))),
        "Elsewhere.cluster_by_name",
        "is shown NodePropertiesView and changed its answer about n1: the node's own properties have not changed, "
        "nor did the version of its key",
    ),
    "vector twin differs": (
        lambda r: r.register(Predicate(by_node(rich), vector=ones)),
        "rich",
        "has a vector twin that differs on n2: True instead of False",
    ),
    "vector twin of a score differs in the last bit": (
        lambda r: r.register(NodeOrder(by_facts(third), vector=lambda t, nodes: np.full(len(nodes.rows), 0.1) * 3)),
        "third",
        "has a vector twin that differs on n1: 0.30000000000000004 instead of 0.3",
    ),
    "vector twin answers for other rows": (
        with_elsewhere(lambda r, e: r.register(Predicate(e.queue_q, vector=e.half_of_the_rows))),
        "Elsewhere.queue_q",
        "has a vector twin that answers 1 times for 3 rows",
    ),
    "batch order is not uniform": (
        lambda r: r.register(BatchNodeOrder(rising, uniform=lambda t: 0.0)),
        "rising",
        "says 0.0 for every node and gives [0.0, 1.0, 2.0]",
    ),
    "batch order's twin differs": (
        lambda r: r.register(BatchNodeOrder(rising, vector=lambda t, nodes: np.zeros(len(nodes.rows)))),
        "rising",
        "has a vector twin that differs on n2: 0.0 instead of 1.0",
    ),
}


def rich(task: Any, node: Any) -> Any:
    return no() if node.labels["zone"] == "b" else None


def uses(task: Any, node: Any) -> Any:
    return no() if node.used_of("cpu") else None


def every_other() -> Callable[[Any, Any], float]:
    calls: list[int] = []

    def fn(template: Any, node: Any) -> float:
        calls.append(1)
        return float(len(calls) % 2)

    return fn


def falling() -> Callable[[Any, Any], float]:
    calls: list[int] = []

    def fn(template: Any, node: Any) -> float:
        calls.append(1)
        return -float(len(calls))

    return fn


_KEYS: Iterator[int] = itertools.count()


def ever_other(template: PodTemplate, queue: QueueInfo) -> int:
    return next(_KEYS)


def lucky_number(task: TaskInfo, node: NodeInfo) -> Any:
    return no() if task.name.endswith("1") else None


def third(task: Any, node: Any) -> float:
    return 0.3


def rising(task: Any, nodes: Any) -> list[float]:
    return [float(number) for number, _ in enumerate(nodes)]


@pytest.mark.parametrize("case", MISDECLARED)
def test_a_promise_that_is_not_kept_is_found(case: str) -> None:
    register, callback, what = MISDECLARED[case]

    with pytest.raises(Misdeclared) as found:
        play(register)

    assert (found.value.plugin, found.value.callback, found.value.what) == ("test", callback, what)
    assert str(found.value) == f"test: {callback} {what}"


def only_r(template: PodTemplate, queue: QueueInfo) -> str | None:
    return queue.name if queue.name == "r" else None


HONEST: dict[str, Register] = {
    "properties": lambda r: r.register(Predicate(by_facts(rich))),
    "facts by name": lambda r: r.register(Predicate(by_facts(lambda t, n: no() if n.name == "n1" else None))),
    "node": lambda r: r.register(NodeOrder(by_node(lambda t, n: float(n.idle_of("cpu"))))),
    "node by template": lambda r: r.register(
        Predicate(by_node(uses), applies_to=lambda template: template.request["cpu"] > 1_000)
    ),
    "key": with_elsewhere(
        lambda r, e: r.register(
            NodeOrder(e.fullest_other_node, key=lambda t: "all", version=lambda t: r.cluster.generations.move)
        )
    ),
    "key without a version": with_elsewhere(
        lambda r, e: r.register(NodeOrder(e.fullest_other_node, key=lambda t: "all"))
    ),
    "amounts": lambda r: r.register(NodeOrder(by_amounts(lambda t, n: float(n.idle_of("cpu"))))),
    "amounts and the request": lambda r: r.register(
        NodeOrder(by_request(lambda p, n: float(n.idle_of("cpu") - p.request["cpu"] - p.nonzero_cpu)))
    ),
    "amounts and all of the template": lambda r: r.register(
        NodeOrder(by_amounts(lambda t, n: float(n.idle_of("cpu")) * (1 if t.required_nodes else -1)))
    ),
    "key and facts": lambda r: r.register(Predicate(by_facts(rich), key=lambda t: t.job.queue, version=lambda t: 0)),
    "key by queue": lambda r: r.register(
        Predicate(
            by_task(lambda t, n: no() if t.queue == "r" and n.name != "n3" else None),
            key=only_r,
            version=lambda t: 0,
        )
    ),
    "task": lambda r: r.register(Predicate(lucky_number)),
    "no annotation": lambda r: r.register(Predicate(says_nothing)),
    "batch": lambda r: r.register(
        BatchNodeOrder(rising, vector=lambda t, nodes: np.arange(len(nodes.rows), dtype=np.float64))
    ),
}


@pytest.mark.parametrize("case", HONEST)
def test_a_promise_that_is_kept_passes_and_changes_nothing(case: str) -> None:
    checked = play(HONEST[case])
    fast = play(HONEST[case], FastEngine)

    assert checked.steps == fast.steps
    checked.check()


def test_the_base_plugins_keep_their_promises_on_a_small_cluster() -> None:
    rig = a_rig(a_world(), DEFAULT_CONFIGURATION, CheckedEngine)

    decision = rig.cycle()

    assert len(decision.bindings) == 7


@pytest.mark.parametrize("broken", ["_score_row", "_score_changed", "_take_properties"])
def test_an_engine_that_forgets_to_ask_is_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_cluster()
    for number in range(60):
        world.node(f"n{number:02}", cpu="1")
    world.job("j", tasks=60, cpu="1").job("k", tasks=2, cpu="1", memory="1Gi")
    stage = Stage(
        world,
        lambda r: r.register(Predicate(by_facts(lambda t, n: no() if "x" in n.labels else None))),
        engine=CheckedEngine,
    )
    stage.best("k-0")
    stage.place("j-0")
    if broken == "_take_properties":
        stage.apply(*a_cluster().node("n03", cpu="1", labels={"x": ""}).changes())
    elif broken == "_score_changed":
        for number in range(5, 60):
            stage.cluster.move(stage.task(f"j-{number}"), stage.task("j-0").status, stage.cluster.rows[number])
    monkeypatch.setattr(Entry, broken, lambda *_: None)

    with pytest.raises(Stale):
        stage.best("k-1")
