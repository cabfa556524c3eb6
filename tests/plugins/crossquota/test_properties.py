"""Properties on random clusters: quotas hold, the engines agree, and accounts are those of a recount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from plugins.crossquota.budget import NodeBudgets
from plugins.crossquota.plugin import CrossQuotaPlugin
from tests.plugins.crossquota.worlds import ANN, GPU, NAMES, PART, RESOURCES, STRATEGY, node
from volsched.framework.engine.engine import FastEngine
from volsched.model.changes import Change, Gone
from volsched.model.cluster import Cluster
from volsched.model.status import ON_NODE
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster, a_rig, put
from volsched.testing.contract import MakeEngine, engine_contract, outcome
from volsched.testing.recount import faults, leftovers

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


@dataclass(frozen=True)
class World:
    """A cluster and what happens to it, as plain values."""

    nodes: Any
    pods: Any
    jobs: Any
    arguments: Mapping[str, Any]
    preempts: bool

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

    def rig(self, engine: Any) -> Rig:
        order = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}]
        plugins = [{"name": "predicates"}, {"name": "crossquota", "arguments": {NAMES: GPU, **self.arguments}}]
        actions = "allocate, preempt, backfill" if self.preempts else "allocate, backfill"
        text = yaml.safe_dump({"actions": actions, "tiers": [{"plugins": order}, {"plugins": plugins}]})
        return a_rig(self.build(), text, engine)

    def changes(self, later: Any, step: int) -> list[Change]:
        """What happens before a cycle."""
        if step >= len(later):
            return []
        kind, *rest = later[step]
        if kind == "node":
            where, cpu, annotations = rest
            number = where % len(self.nodes)
            return [put(self.node(number, cpu, self.nodes[number][1], annotations))]
        if kind == "job":
            tasks, requests, notes = rest
            return a_cluster().job(f"later{step}", tasks, 1, annotations=notes, **requests).changes()
        number = rest[0]
        if number >= len(self.pods):
            return []
        if kind == "ends":
            return [Gone("Pod", "default", f"r{number}-0", f"pod-default-r{number}-0")]
        where, requests, _, priority = self.pods[number]
        on, spec = f"n{where % len(self.nodes)}", {"priority": priority}
        return a_cluster().pod(f"r{number}-0", f"r{number}", on, labels=rest[1], spec=spec, **requests).changes()


Worlds = st.builds(World, Nodes, Pods, Jobs, Arguments, st.booleans())


def account(found: Rig) -> NodeBudgets:
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


@pytest.mark.slow(reason="a hundred random clusters and their sessions")
@given(Worlds, Later)
def test_no_gpu_node_gets_above_its_quota_that_was_not_above_it(world: World, later: Any) -> None:
    found = world.rig(FastEngine)
    budgets = account(found)
    for step in range(5):
        found.mirror.apply(world.changes(later, step - 1) if step else ())
        before = excess(found.cluster, budgets)
        found.scheduler.cycle()
        after = excess(found.cluster, budgets)

        assert all(after[place] <= max(0, before[place]) for place in after)
        assert followed(budgets) == recount(found.cluster, budgets)
        assert (faults(found.cluster), leftovers(found.cluster)) == ([], [])


@pytest.mark.slow(reason="a hundred random clusters and their sessions")
@given(Worlds, Later)
def test_three_engines_decide_alike(world: World, later: Any) -> None:
    def play(engine: MakeEngine) -> list[Any]:
        rig = world.rig(engine)
        return [outcome(rig.cycle(*world.changes(later, step - 1) if step else ())) for step in range(3)]

    engine_contract(play)
