"""Properties on random clusters: quotas hold, and accounts are those of a recount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from hypothesis import strategies as st

from plugins.crossquota.budget import NodeBudgets
from plugins.crossquota.plugin import CrossQuotaPlugin
from tests.plugins.crossquota.worlds import ANN, GPU, NAMES, PART, RESOURCES, STRATEGY, node
from tests.properties.lives import Property, Reader, Scenario
from volsched.model.changes import Change, Gone
from volsched.model.cluster import Cluster
from volsched.model.plan import PlanStep
from volsched.model.status import ON_NODE
from volsched.testing.builders import ClusterBuilder, a_cluster, put

Annotations = st.fixed_dictionaries(
    {},
    optional={
        f"{ANN}cpu": st.sampled_from(["0", "2", "3500m", "6", "x", ""]),
        f"{PART}cpu": st.sampled_from(["10", "33.3", "101"]),
        f"{PART}memory": st.sampled_from(["50", "12.5"]),
    },
)
Nodes = st.lists(st.tuples(st.integers(1, 9), st.sampled_from([0, 0, 4]), Annotations), min_size=1, max_size=4)
Requests = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["500m", "1", "2", "3"]),
        "memory": st.sampled_from(["1Gi", "3Gi"]),
        GPU: st.sampled_from([0, 1, 2]),
    },
)
Labels = st.sampled_from([{}, {"team": "etl"}])
Notes = st.sampled_from([{}, {STRATEGY: "least-allocated"}, {STRATEGY: "most-allocated"}, {STRATEGY: "?"}])
Priority = st.sampled_from([0, 0, 10])
Pods = st.lists(st.tuples(st.integers(0, 3), Requests, Labels, Priority), max_size=5)
Jobs = st.lists(st.tuples(st.integers(1, 3), st.booleans(), Requests, Labels, Notes, Priority), max_size=4)
Arguments = st.fixed_dictionaries(
    {RESOURCES: st.sampled_from(["cpu", "cpu,memory", "memory,pods"])},
    optional={
        "quota.cpu": st.sampled_from(["1", "4", "0", "no"]),
        "quota.pods": st.sampled_from([0, 2]),
        "quota-percentage.memory": st.sampled_from([25, "50.5"]),
        "crossQuotaWeight": st.sampled_from([0, 10, "20"]),
        "non-gpu-node-score": st.sampled_from([0, 15]),
        "label-selector": st.sampled_from([{}, {"matchLabels": {"team": "etl"}}]),
    },
)
Later = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.integers(0, 3), st.integers(0, 9), Annotations),
        st.tuples(st.just("job"), st.integers(1, 3), Requests, Notes),
        st.tuples(st.just("ends"), st.integers(0, 4)),
        st.tuples(st.just("label"), st.integers(0, 4), Labels),
    ),
    max_size=4,
)


@dataclass
class World(Scenario):
    """A cluster and what happens to it, as plain values."""

    nodes: Any
    pods: Any
    jobs: Any
    arguments: Mapping[str, Any]
    preempts: bool
    later: Any

    def __post_init__(self) -> None:
        self.sessions, self.number = 5, -1
        order = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}]
        plugins = [{"name": "predicates"}, {"name": "crossquota", "arguments": {NAMES: GPU, **self.arguments}}]
        actions = "allocate, preempt, backfill" if self.preempts else "allocate, backfill"
        tiers = [{"plugins": order}, {"plugins": plugins}]
        self.configuration = yaml.safe_dump({"actions": actions, "tiers": tiers})

    def build(self) -> ClusterBuilder:
        cluster = a_cluster()
        for number, (cpu, cards, notes) in enumerate(self.nodes):
            cluster.add(self.node(number, cpu, cards, notes))
        for number, (where, requests, labels, priority) in enumerate(self.pods):
            cluster.group(f"r{number}", minimum=0, phase="Running")
            on, spec = f"n{where % len(self.nodes)}", {"priority": priority}
            cluster.pod(f"r{number}-0", f"r{number}", on=on, labels=labels, spec=spec, **requests)
        for number, (tasks, whole, requests, labels, notes, priority) in enumerate(self.jobs):
            pod = {"labels": labels, "annotations": notes, "spec": {"priority": priority}, **requests}
            cluster.job(f"j{number}", tasks, tasks if whole else 1, **pod)
        return cluster

    def node(self, number: int, cpu: int, cards: int, annotations: dict[str, str]) -> dict[str, Any]:
        return node(f"n{number}", annotations, cpu=cpu, memory="8Gi", pods=6, **({GPU: cards} if cards else {}))

    def changes(self) -> list[Change]:
        step, self.number = self.number, self.number + 1
        if step < 0:
            return self.build().changes()
        return self._happens(step, *self.later[step]) if step < len(self.later) else []

    def _happens(self, step: int, kind: str, number: int, *rest: Any) -> list[Change]:
        if kind == "node":
            number = number % len(self.nodes)
            cpu, annotations = rest
            return [put(self.node(number, cpu, self.nodes[number][1], annotations))]
        if kind == "job":
            requests, notes = rest
            return a_cluster().job(f"later{step}", number, 1, annotations=notes, **requests).changes()
        if number >= len(self.pods):
            return []
        if kind == "ends":
            return [Gone("Pod", "default", f"r{number}-0", f"pod-default-r{number}-0")]
        where, requests, _, priority = self.pods[number]
        on, spec = f"n{where % len(self.nodes)}", {"priority": priority}
        return a_cluster().pod(f"r{number}-0", f"r{number}", on, labels=rest[0], spec=spec, **requests).changes()


def worlds() -> st.SearchStrategy[World]:
    return st.builds(World, Nodes, Pods, Jobs, Arguments, st.booleans(), Later)


class WithinQuotas(Property):
    """No GPU node gets above its quota that was not above it, and the account is that of a recount."""

    def __init__(self, scenario: Any, reader: Reader) -> None:
        super().__init__(scenario, reader)
        self.budgets = account(reader)

    def before(self) -> None:
        self.was = excess(self.cluster, self.budgets)

    def after(self, steps: list[PlanStep]) -> None:
        now = excess(self.cluster, self.budgets)
        assert all(now[place] <= max(0, self.was[place]) for place in now)
        assert followed(self.budgets) == recount(self.cluster, self.budgets)


def account(found: Reader) -> NodeBudgets:
    """The account that the sessions keep; made here when there was none yet, as they do."""
    (plugin,) = (p for tier in found.scheduler.profile.plugins for _, p in tier if isinstance(p, CrossQuotaPlugin))
    return found.scheduler._accounts.get("crossquota", lambda cluster: NodeBudgets(cluster, plugin._arguments))


def recount(cluster: Cluster, budgets: NodeBudgets) -> dict[str, list[int]]:
    """What CPU pods hold on each GPU node, summed from the tasks."""
    found = {name: [0] * len(budgets.resources) for name, account in budgets.accounts.items() if account.quota}
    for task in cluster.tasks.values():
        request = task.template.request
        if task.node is None or task.node.name not in found or not ON_NODE[task.status] or request.amount(GPU):
            continue
        if budgets.pods.selects(task):
            for place, resource in enumerate(budgets.resources):
                found[task.node.name][place] += 1 if resource == "pods" else request.amount(resource)
    return found


def followed(budgets: NodeBudgets) -> dict[str, list[int]]:
    """What the account says of the same, which followed moves."""
    return {name: account.used for name, account in budgets.accounts.items() if account.quota is not None}


def excess(cluster: Cluster, budgets: NodeBudgets) -> dict[tuple[str, str], int]:
    """How far each GPU node is above its quotas."""
    counted = recount(cluster, budgets)
    return {
        (name, resource): counted[name][place] - account.amounts[place]
        for name, account in budgets.accounts.items()
        if account.quota is not None
        for place, resource in enumerate(budgets.resources)
    }
