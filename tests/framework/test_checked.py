"""The engine that checks what callbacks declare: every way to promise too much is found, and honest plugins pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.framework.stage import Register, Stage, no
from volsched.framework.engine import FastEngine
from volsched.framework.loading import DEFAULT_CONFIGURATION
from volsched.framework.session import Session
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


def named_zone(task: Any, node: Any) -> Any:
    return no() if task.template.required_nodes and node.labels["zone"] != "a" else None


def says_nothing(task: Any, node: Any) -> None:
    """Pass."""


def asks_for(task: Any, node: Any) -> float:
    return float(task.template.request["cpu"])


def ones(task: Any, engine: FastEngine, rows: Any) -> Any:
    return np.ones(len(rows), dtype=np.bool_)


class Elsewhere:
    """Rules that look at things which are not theirs."""

    def __init__(self) -> None:
        self.session: Session

    def fullest_other_node(self, task: Any, node: Any) -> float:
        others = [other for other in self.session.cluster.rows if other is not node]
        return float(min(other.idle_of("cpu") for other in others))

    def other_queue(self, task: Any, node: Any) -> Any:
        return no() if self.session.cluster.queues["r"].allocated else None

    def own_queue(self, task: Any, node: Any) -> Any:
        allocated = self.session.cluster.queues[task.job.queue].allocated.get("cpu", 0)
        return no() if allocated > 2_000 and node.name == "n3" else None

    def cluster_by_name(self, task: Any, node: Any) -> Any:
        return no() if self.session.cluster.nodes[node.name].used_of("cpu") else None

    def half_of_the_rows(self, task: Any, engine: FastEngine, rows: Any) -> Any:
        return np.ones(len(rows) // 2, dtype=np.bool_)


def with_elsewhere(register: Callable[[Session, Elsewhere], None]) -> Register:
    elsewhere = Elsewhere()

    def on_open(session: Session) -> None:
        elsewhere.session = session
        register(session, elsewhere)

    return on_open


MISDECLARED: dict[str, tuple[Register, str, str]] = {
    # what is wrong: (the plugin, the callback, what is said of it)
    "node: reads another node": (
        with_elsewhere(lambda s, e: s.add_node_order_fn("test", e.fullest_other_node)),
        "Elsewhere.fullest_other_node",
        "changed its answer about n2 and has scope node: nothing changed on that node",
    ),
    "node: reads a queue's account": (
        with_elsewhere(lambda s, e: s.add_predicate_fn("test", e.own_queue)),
        "Elsewhere.own_queue",
        "changed its answer about n3 and has scope node: nothing changed on that node",
    ),
    "queue: reads the account of another": (
        with_elsewhere(lambda s, e: s.add_predicate_fn("test", e.other_queue, scope="queue")),
        "Elsewhere.other_queue",
        "changed its answer about n2 and has scope queue: neither that node nor the queue's account changed",
    ),
    "domain: its version stands still": (
        with_elsewhere(
            lambda s, e: s.add_predicate_fn(
                "test", e.other_queue, scope="domain", key=lambda t: "all", version=lambda t: 0
            )
        ),
        "Elsewhere.other_queue",
        "changed its answer about n2 and has scope domain: neither that node nor the version changed",
    ),
    "domain: has nothing to say and says it": (
        lambda s: s.add_predicate_fn("test", rich, scope="domain", key=lambda t: None, version=lambda t: 0),
        "rich",
        "has the key None for default/j-0 and something to say about n2",
    ),
    "amounts: reads tasks": (
        lambda s: s.add_node_order_fn("test", not_beside_the_first, reads="amounts"),
        "not_beside_the_first",
        "reads amounts and tells n2 from n1, which has the same",
    ),
    "amounts: reads labels": (
        lambda s: s.add_predicate_fn("test", rich, reads="amounts"),
        "rich",
        "reads amounts and tells n2 from n1, which has the same",
    ),
    "requests: reads constraints": (
        lambda s: s.add_predicate_fn("test", named_zone, heeds="requests"),
        "named_zone",
        "heeds requests and tells default/j-0 from default/l-0, which has the same",
    ),
    "constraints: reads amounts": (
        lambda s: s.add_node_order_fn("test", asks_for, scope="static", heeds="constraints"),
        "asks_for",
        "heeds constraints and tells default/j-0 from default/k-0, which has the same",
    ),
    "keyed by queue: tells equal pods apart": (
        lambda s: s.add_predicate_fn(
            "test", says_nothing, scope="domain", key=lambda t: t.name, version=lambda t: 0, keyed_by="queue"
        ),
        "says_nothing",
        "is keyed by queue and tells default/j-0 from default/j-1, which is equal to it",
    ),
    "facts: reads usage": (
        lambda s: s.add_predicate_fn(
            "test", uses, scope="domain", key=lambda t: "all", version=lambda t: 0, reads="facts"
        ),
        "uses",
        "changed its answer about n1 and has scope domain and reads facts: neither that node nor the version changed",
    ),
    "static: reads usage": (
        lambda s: s.add_predicate_fn("test", uses, scope="static"),
        "uses",
        "has scope static and needs more of a node than that shows: 'StaticNode' object has no attribute 'used_of'",
    ),
    "static: reads usage behind the view's back": (
        with_elsewhere(lambda s, e: s.add_predicate_fn("test", e.cluster_by_name, scope="static")),
        "Elsewhere.cluster_by_name",
        "changed its answer about n1 and has scope static: what nodes say of themselves has not changed",
    ),
    "static: tells nodes apart by what it did not read": (
        lambda s: s.add_predicate_fn("test", odd_calls(), scope="static"),
        "odd_calls.<locals>.fn",
        "answers otherwise about n2 when it sees only what scope static shows",
    ),
    "reads what is not in the template": (
        lambda s: s.add_predicate_fn("test", lucky_number),
        "lucky_number",
        "tells default/j-1 from default/j-3, which has the same template",
    ),
    "applies to one and not to the other": (
        lambda s: s.add_predicate_fn("test", rich, applies=lambda t: t.name == "j-0"),
        "rich",
        "applies to some tasks of a template and not to others",
    ),
    "vector twin differs": (
        lambda s: s.add_predicate_fn("test", rich, vector=ones),
        "rich",
        "has a vector twin that differs on n2: True instead of False",
    ),
    "vector twin of a score differs in the last bit": (
        lambda s: s.add_node_order_fn(
            "test", third, scope="static", vector=lambda t, e, rows: np.full(len(rows), 0.1) * 3
        ),
        "third",
        "has a vector twin that differs on n1: 0.30000000000000004 instead of 0.3",
    ),
    "vector twin answers for other rows": (
        with_elsewhere(lambda s, e: s.add_predicate_fn("test", e.own_queue, vector=e.half_of_the_rows)),
        "Elsewhere.own_queue",
        "has a vector twin that answers 1 times for 3 rows",
    ),
    "batch order is not uniform": (
        lambda s: s.add_batch_node_order_fn("test", rising, uniform=lambda t: 0.0),
        "rising",
        "says 0.0 for every node and gives [0.0, 1.0, 2.0]",
    ),
    "batch order's twin differs": (
        lambda s: s.add_batch_node_order_fn("test", rising, vector=lambda t, e, rows: np.zeros(len(rows))),
        "rising",
        "has a vector twin that differs on n2: 0.0 instead of 1.0",
    ),
}


def rich(task: Any, node: Any) -> Any:
    return no() if node.labels["zone"] == "b" else None


def uses(task: Any, node: Any) -> Any:
    return no() if node.used_of("cpu") else None


def not_beside_the_first(task: Any, node: Any) -> float:
    return -float("j-0" in [guest.name for guest in node.tasks.values()])


def odd_calls() -> Callable[[Any, Any], Any]:
    calls: list[int] = []

    def fn(task: Any, node: Any) -> Any:
        calls.append(1)
        return no() if len(calls) == 2 else None

    return fn


def lucky_number(task: Any, node: Any) -> Any:
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


HONEST: dict[str, Register] = {
    "static": lambda s: s.add_predicate_fn("test", rich, scope="static"),
    "static by name": lambda s: s.add_predicate_fn(
        "test", lambda t, n: no() if n.name == "n1" else None, scope="static"
    ),
    "node": lambda s: s.add_node_order_fn("test", lambda t, n: float(n.idle_of("cpu"))),
    "node by template": lambda s: s.add_predicate_fn("test", uses, applies=lambda t: t.template.request["cpu"] > 1_000),
    "queue": with_elsewhere(lambda s, e: s.add_predicate_fn("test", e.own_queue, scope="queue")),
    "domain": with_elsewhere(
        lambda s, e: s.add_node_order_fn(
            "test", e.fullest_other_node, scope="domain", key=lambda t: "all", version=lambda t: s.cluster.standing
        )
    ),
    "amounts": lambda s: s.add_node_order_fn("test", lambda t, n: float(n.idle_of("cpu")), reads="amounts"),
    "facts": lambda s: s.add_predicate_fn("test", rich, reads="facts"),
    "domain of facts": lambda s: s.add_predicate_fn(
        "test", rich, scope="domain", key=lambda t: t.job.queue, version=lambda t: 0, reads="facts"
    ),
    "domain by queue": lambda s: s.add_predicate_fn(
        "test",
        lambda t, n: no() if t.job.queue == "r" and n.name != "n3" else None,
        scope="domain",
        key=lambda t: "r" if t.job.queue == "r" else None,
        version=lambda t: 0,
    ),
    "pod": lambda s: s.add_predicate_fn("test", lucky_number, scope="pod"),
    "batch": lambda s: s.add_batch_node_order_fn(
        "test", rising, vector=lambda t, e, rows: np.arange(len(rows), dtype=np.float64)
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


@pytest.mark.parametrize("broken", ["_score_row", "_score_changed", "_take_facts"])
def test_an_engine_that_forgets_to_ask_is_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_cluster()
    for number in range(60):
        world.node(f"n{number:02}", cpu="1")
    world.job("j", tasks=60, cpu="1").job("k", tasks=2, cpu="1", memory="1Gi")
    stage = Stage(
        world,
        lambda s: s.add_predicate_fn("test", lambda t, n: no() if "x" in n.labels else None, scope="static"),
        engine=CheckedEngine,
    )
    stage.best("k-0")
    stage.place("j-0")
    if broken == "_take_facts":
        stage.apply(*a_cluster().node("n03", cpu="1", labels={"x": ""}).changes())
    elif broken == "_score_changed":
        for number in range(5, 60):
            stage.cluster.move(stage.task(f"j-{number}"), stage.task("j-0").status, stage.cluster.rows[number])
    monkeypatch.setattr(FastEngine, broken, lambda *_: None)

    with pytest.raises(Stale):
        stage.best("k-1")
