"""Counters of neighbours agree with a recount after any moves, undo and changes of nodes and namespaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.nodeorder.plugin import ARGUMENTS as ORDER_ARGUMENTS
from plugins.nodeorder.plugin import build as build_nodeorder
from plugins.predicates.plugin import ARGUMENTS, build
from tests.examples import at_least
from tests.plugins.clusters import HOST, ZONE, Lab
from tests.plugins.predicates.plain import affinity_admits, spread_admits
from volsched.framework.config.arguments import values_of
from volsched.framework.engine.domains import Domains, domains_of
from volsched.framework.engine.fast import FastEngine
from volsched.model.cluster import Cluster
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus
from volsched.testing.checked import CheckedEngine

APPS = ("a", "b", "c")
RACK = "rack"
KEYS = (HOST, ZONE, RACK)
STATUSES = (
    TaskStatus.ALLOCATED,
    TaskStatus.PIPELINED,
    TaskStatus.BOUND,
    TaskStatus.RUNNING,
    TaskStatus.RELEASING,
    TaskStatus.SUCCEEDED,
)

selectors = st.one_of(
    st.sampled_from(APPS).map(lambda app: {"matchLabels": {"app": app}}),
    st.sets(st.sampled_from(APPS), min_size=1).map(
        lambda apps: {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": sorted(apps)}]}
    ),
    st.just({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
    st.just({}),
    st.none(),
)


def _without_none(value: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if item is not None}


terms = st.fixed_dictionaries(
    {
        "topologyKey": st.sampled_from(KEYS),
        "labelSelector": selectors,
        "namespaces": st.sampled_from([None, None, ["x"], ["x", "default"]]),
        "namespaceSelector": st.sampled_from([None, None, {}, {"matchLabels": {"team": "one"}}]),
    }
).map(_without_none)
preferred = st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": terms})
spreads = st.fixed_dictionaries(
    {
        "topologyKey": st.sampled_from(KEYS),
        "maxSkew": st.integers(1, 2),
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": selectors,
        "nodeAffinityPolicy": st.sampled_from([None, "Ignore"]),
        "nodeTaintsPolicy": st.sampled_from([None, "Honor"]),
    }
).map(_without_none)


def spec_of(
    near: list[Any], apart: list[Any], liked: list[Any], unliked: list[Any], spread: list[Any], zone: str
) -> Any:
    return {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": near,
                "preferredDuringSchedulingIgnoredDuringExecution": liked,
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": apart,
                "preferredDuringSchedulingIgnoredDuringExecution": unliked,
            },
        },
        "topologySpreadConstraints": spread,
        **({"nodeSelector": {ZONE: zone}} if zone else {}),
    }


specs = st.builds(
    spec_of,
    st.lists(terms, max_size=2),
    st.lists(terms, max_size=2),
    st.lists(preferred, max_size=1),
    st.lists(preferred, max_size=1),
    st.lists(spreads, max_size=2),
    st.sampled_from(["", "", "z1"]),
)
plain_or_not = st.one_of(st.just({}), specs)
labels = st.fixed_dictionaries({"app": st.sampled_from(APPS)}, optional={"tier": st.just("t")})
pods = st.lists(st.tuples(st.sampled_from(["default", "x", "y"]), labels, plain_or_not), min_size=2, max_size=7)
node_labels = st.fixed_dictionaries(
    {}, optional={ZONE: st.sampled_from(["z1", "z2", "z3"]), RACK: st.sampled_from(["r1", "r2"])}
)
nodes = st.lists(st.tuples(node_labels, st.booleans()), min_size=1, max_size=5)
moves = st.lists(
    st.one_of(
        st.tuples(st.just("move"), st.integers(0, 6), st.sampled_from(STATUSES), st.integers(0, 4)),
        st.tuples(st.just("leave"), st.integers(0, 6)),
        st.tuples(st.just("undo")),
        st.tuples(st.just("node"), st.integers(0, 4), node_labels, st.booleans()),
        st.tuples(st.just("namespace"), st.sampled_from(["x", "default"]), st.sampled_from(["one", "two"])),
        st.tuples(st.just("ask"), st.integers(0, 6)),
    ),
    max_size=14,
)
TAINT = [("dedicated", "x", "NoSchedule")]


def a_lab(engine: Callable[[Cluster], FastEngine] = FastEngine) -> Lab:
    predicates = build(values_of("plugin predicates", ARGUMENTS, {}))
    nodeorder = build_nodeorder(values_of("plugin nodeorder", ORDER_ARGUMENTS, {}))
    return Lab(predicates, nodeorder, engine=engine)


def check(world: Lab, task: TaskInfo) -> None:
    fns = {p.fn.__qualname__: p.ask for p in world.session.rules.nodes.predicates}
    for node in world.cluster.rows:
        near = fns["Neighbours.refuse"](task, node) is None
        assert near == affinity_admits(world.cluster, task, node), (task, node)
        even = fns["Spreading.refuse"](task, node) is None
        assert even == spread_admits(world.cluster, task, node), (task, node)
    world.check_twins(task)


def snapshot(domains: Domains) -> Any:
    censuses = {s: (dict(c.by_node), [dict(t.counts) for t in c.tables.values()]) for s, c in domains._censuses.items()}
    placed = (domains._apart, domains._liked)
    claims = [{term: dict(c.table.counts) for term, c in each.known.items()} for each in placed]
    return censuses, [{term: counts for term, counts in known.items() if counts} for known in claims]


class History:
    """Moves of tasks with their reverse, and changes of nodes and namespaces."""

    def __init__(self, world: Lab, tasks: list[TaskInfo]) -> None:
        self.world = world
        self.tasks = tasks
        self._undo: list[tuple[TaskInfo, TaskStatus, Any]] = []

    def apply(self, kind: str, *what: Any) -> None:
        getattr(self, kind)(*what)

    def move(self, which: int, status: TaskStatus, where: int) -> None:
        task = self.tasks[which % len(self.tasks)]
        self._undo.append((task, task.status, task.node))
        self.world.move(task, status, f"n{where % len(self.world.cluster.rows)}")

    def leave(self, which: int) -> None:
        task = self.tasks[which % len(self.tasks)]
        self._undo.append((task, task.status, task.node))
        self.world.move(task, TaskStatus.PENDING)

    def undo(self) -> None:
        if self._undo:
            self.world.cluster.move(*self._undo.pop())

    def undo_all(self) -> None:
        while self._undo:
            self.undo()

    def node(self, which: int, labels: dict[str, str], tainted: bool) -> None:
        self.world.node(f"n{which % len(self.world.cluster.rows)}", labels=labels, taints=TAINT if tainted else ())

    def namespace(self, name: str, team: str) -> None:
        self.world.namespace(name, team=team)

    def ask(self, which: int) -> None:
        check(self.world, self.tasks[which % len(self.tasks)])

    def ask_all(self) -> None:
        for task in self.tasks:
            check(self.world, task)


@pytest.mark.slow(reason="a hundred random clusters and their sessions")
@at_least(150)
@given(nodes=nodes, pods=pods, moves=moves)
def test_counters_agree_with_a_recount(nodes: list[Any], pods: list[Any], moves: list[Any]) -> None:
    world = a_lab()
    for number, (extra, tainted) in enumerate(nodes):
        world.node(f"n{number}", labels=extra, taints=TAINT if tainted else ())
    tasks = [world.pod(f"p{n}", ns=ns, labels=labs, spec=spec) for n, (ns, labs, spec) in enumerate(pods)]
    history = History(world, tasks)
    for move in moves:
        history.apply(*move)
    history.ask_all()
    history.undo_all()
    history.ask_all()
    kept = snapshot(domains_of(world.session))

    world.accounts.drop()
    world.reopen()
    history.ask_all()

    assert kept == snapshot(domains_of(world.session))


@given(nodes=nodes, pods=pods, choices=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1)), max_size=12))
def test_engine_answers_as_one_that_asks_everything_again(
    nodes: list[Any], pods: list[Any], choices: list[Any]
) -> None:
    world = a_lab(CheckedEngine)
    for number, (extra, tainted) in enumerate(nodes):
        world.node(f"n{number}", labels=extra, taints=TAINT if tainted else ())
    tasks = [world.pod(f"p{n}", ns=ns, labels=labs, spec=spec) for n, (ns, labs, spec) in enumerate(pods)]
    session = world.session
    statement = session.statement()
    for which, what in choices:
        task = tasks[which % len(tasks)]
        if what and statement.operations:
            statement.rollback(len(statement.operations) - 1)
            continue
        if task.status is not TaskStatus.PENDING:
            continue
        node = world.engine.best(task)
        scores = world.scores(task)
        assert (node.name if node else None) == (
            max(scores, key=lambda n: (scores[n], [-ord(c) for c in n])) if scores else None
        )
        if node is not None:
            assert statement.allocate(task, node) is None
