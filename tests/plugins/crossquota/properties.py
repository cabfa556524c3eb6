"""Properties on random clusters: quotas hold, and accounts are those of a recount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import yaml
from hypothesis import strategies as st

from plugins.crossquota.budget import NodeBudgets
from plugins.crossquota.plugin import CrossQuotaPlugin
from tests.plugins.crossquota.worlds import ANN, GPU, NAMES, PART, RESOURCES, STRATEGY, node
from tests.properties.lives import Property, Reader, Scenario
from volsched.model.changes import Change, Deleted
from volsched.model.cluster import Cluster
from volsched.model.plan import PlanStep
from volsched.model.status import ON_NODE
from volsched.testing.builders import ClusterBuilder, a_cluster, put

ANNOTATIONS = {
    f"{ANN}cpu": ["0", "2", "3500m", "6", "x", ""],
    f"{PART}cpu": ["10", "33.3", "101"],
    f"{PART}memory": ["50", "12.5"],
}
REQUESTS = {"cpu": ["500m", "1", "2", "3"], "memory": ["1Gi", "3Gi"], GPU: [0, 0, 1, 2]}
LABELS = [{}, {"team": "etl"}]
NOTES = [{}, {STRATEGY: "least-allocated"}, {STRATEGY: "most-allocated"}, {STRATEGY: "?"}]
PRIORITIES = [0, 0, 10]
LIMITS = {
    "quota.cpu": ["1", "4", "0", "no"],
    "quota.pods": [0, 2],
    "quota-percentage.memory": [25, "50.5"],
    "crossQuotaWeight": [0, 10, "20"],
    "non-gpu-node-score": [0, 15],
    "label-selector": [{}, {"matchLabels": {"team": "etl"}}],
}
CARDS = [0, 4, 4]
MOST_NODES = 4


class Dice:
    """Values of a random cluster, all of the same probability: hypothesis itself prefers small and few ones."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)  # noqa: S311 - no secret

    def one(self, values: Sequence[Any]) -> Any:
        return self.rng.choice(values)

    def number(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def some(self, choices: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """A value for each of some of the keys."""
        return {key: self.one(values) for key, values in choices.items() if self.rng.random() < 1 / 2}


@dataclass
class World(Scenario):
    """A cluster and what happens to it, drawn from a seed."""

    seed: int

    def __post_init__(self) -> None:
        dice, self.number = Dice(self.seed), -1
        self.nodes = [
            (dice.number(1, 9), dice.one(CARDS), dice.some(ANNOTATIONS)) for _ in range(dice.number(1, MOST_NODES))
        ]
        self.pods = [
            (dice.number(0, 3), dice.some(REQUESTS), dice.one(LABELS), dice.one(PRIORITIES))
            for _ in range(dice.number(0, 5))
        ]
        self.jobs = [self._job(dice) for _ in range(dice.number(0, 4))]
        self.later = [self._event(dice) for _ in range(dice.number(0, 6))]
        self.sessions = len(self.later) + 2
        self.configuration = self._configuration(dice)

    @staticmethod
    def _job(dice: Dice) -> tuple[Any, ...]:
        tasks, whole = dice.number(1, 3), dice.one([False, True])
        return tasks, whole, dice.some(REQUESTS), dice.one(LABELS), dice.one(NOTES), dice.one(PRIORITIES)

    @staticmethod
    def _event(dice: Dice) -> tuple[Any, ...]:
        match kind := dice.one(["node", "node", "job", "ends", "label"]):
            case "node":
                return kind, dice.number(0, MOST_NODES - 1), dice.number(0, 9), dice.some(ANNOTATIONS)
            case "job":
                return kind, dice.number(1, 3), dice.some(REQUESTS), dice.one(NOTES)
            case "label":
                return kind, dice.number(0, 4), dice.one(LABELS)
        return kind, dice.number(0, 4)

    @staticmethod
    def _configuration(dice: Dice) -> str:
        arguments = {NAMES: GPU, RESOURCES: dice.one(["cpu", "cpu,memory", "memory,pods"]), **dice.some(LIMITS)}
        order = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}]
        plugins = [{"name": "predicates"}, {"name": "crossquota", "arguments": arguments}]
        actions = dice.one(["allocate, backfill", "allocate, preempt, backfill"])
        return yaml.safe_dump({"actions": actions, "tiers": [{"plugins": order}, {"plugins": plugins}]})

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
            return [Deleted("Pod", "default", f"r{number}-0", f"pod-default-r{number}-0")]
        where, requests, _, priority = self.pods[number]
        on, spec = f"n{where % len(self.nodes)}", {"priority": priority}
        return a_cluster().pod(f"r{number}-0", f"r{number}", on, labels=rest[0], spec=spec, **requests).changes()


def worlds() -> st.SearchStrategy[World]:
    return st.builds(World, st.integers(0, 1 << 30))


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
