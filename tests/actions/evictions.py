"""Clusters in which somebody has to go, for the tests of preempt and reclaim."""

from __future__ import annotations

from typing import Any

from tests.actions.rigs import conf, gone
from volsched.model.changes import Change
from volsched.model.cluster import Cluster
from volsched.testing.builders import ClusterBuilder, CycleDecision, Rig

LEVELS = {"low": 10, "mid": 50, "high": 100, "top": 1000}
PREEMPT = conf("allocate, preempt, backfill", "priority gang conformance", "predicates nodeorder")
RECLAIM = conf("allocate, reclaim, backfill", "priority gang conformance proportion", "predicates nodeorder")


class World(ClusterBuilder):
    """A cluster builder with priorities, running pods and pods that want in."""

    def __init__(self) -> None:
        super().__init__([])
        for name, value in LEVELS.items():
            meta = {"name": name, "uid": name}
            self.add({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value})

    def runs(
        self,
        name: str,
        count: int = 1,
        level: str = "low",
        on: str = "n1",
        *,
        queue: str = "default",
        minimum: int = 0,
        **pod: Any,
    ) -> World:
        """Add a job whose pods run on a node."""
        self.group(name, queue, minimum, "Running", priorityClassName=level)
        for index in range(count):
            self.member(f"{name}-{index}", name, level, on=on, **pod)
        return self

    def wants(
        self,
        name: str,
        count: int = 1,
        level: str = "high",
        *,
        queue: str = "default",
        minimum: int | None = None,
        **pod: Any,
    ) -> World:
        """Add a job whose pods wait; all of them start together if not told otherwise."""
        self.group(name, queue, count if minimum is None else minimum, priorityClassName=level)
        for index in range(count):
            self.member(f"{name}-{index}", name, level, **pod)
        return self

    def member(self, name: str, group: str, level: str, spec: dict[str, Any] | None = None, **pod: Any) -> World:
        """Add a pod of a priority."""
        spec = {"priorityClassName": level, "priority": LEVELS[level], **(spec or {})}
        self.pod(name, group, spec=spec, **pod)
        return self

    def budget(self, name: str, allowed: int, **labels: str) -> World:
        """Add a PodDisruptionBudget."""
        meta = {"name": name, "namespace": "default", "uid": name}
        spec, status = {"selector": {"matchLabels": labels}}, {"disruptionsAllowed": allowed}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta}
        self.add({**body, "spec": spec, "status": status})
        return self


def protected(text: str) -> str:
    """The configuration with budgets that are never broken."""
    told = [f"- {{name: {name}, arguments: {{respectDisruptionBudgets: true}}}}" for name in ("preempt", "reclaim")]
    return "\n".join([text, "configurations:", *(line for line in told if line.split()[2].rstrip(",") in text)])


def nominations(decision: CycleDecision) -> dict[str, str]:
    """Nodes where room is being made, by pod."""
    return nominations_in(decision.cluster)


def nominations_in(cluster: Cluster) -> dict[str, str]:
    """The same of a cluster."""
    return {task.name: task.nominated for task in cluster.tasks.values() if task.nominated}


def all_gone(on: Rig, decision: CycleDecision) -> list[Change]:
    """The victims of a decision have left."""
    return [gone(on, name) for name in decision.evictions]
