"""What holds of every session, whatever the cluster, the plugins and the changes in between."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.framework.stage import standing
from tests.properties.lives import Property
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.nodes.columns import PODS
from volsched.model.plan import Bind, Evict, PlanStep, RecordEvent, WritePodCondition
from volsched.model.status import TaskStatus

QUIET = 24
"""Sessions until a cluster rests: three bindings in a row may be refused, each with a growing back-off."""


class Sound(Property):
    """Gangs start whole, no node is overfull, and what was only tried leaves no trace.

    Where pods are evicted, members of a gang are bound while room is being made for the others.
    """

    @property
    def evicts(self) -> bool:
        return any(action in self.scenario.configuration for action in ("preempt", "reclaim"))

    def before(self) -> None:
        self.ready_before = {key for key, job in self.cluster.jobs.items() if _is_ready(job)}
        self.stood = standing(self.cluster)

    def after(self, steps: list[PlanStep]) -> None:
        bound = [self.cluster.tasks[step.uid] for step in steps if isinstance(step, Bind)]
        assert len({task.uid for task in bound}) == len(bound), "no pod is bound twice"
        for task in bound:
            assert task.status is TaskStatus.BINDING
            assert task.spec.is_managed
            assert not task.spec.gated
            assert not task.spec.terminating
            assert not task.backing_off
        if "name: gang" in self.scenario.configuration and not self.evicts:
            for job in {task.job.key: task.job for task in bound if task.job is not None}.values():
                assert _is_ready(job) or job.key in self.ready_before, f"{job} has some of its minimum"
        assert _overfull(self.cluster, {task.node.name: task.node for task in bound if task.node}, bound) == []
        if not any(isinstance(step, Bind | Evict) for step in steps):
            stands = standing(self.cluster)
            for what in ("tasks", "nodes", "queues", "totals"):
                assert stands[what] == self.stood[what], "what was only tried left a trace"
        told = Counter(step for step in steps if isinstance(step, RecordEvent))
        assert [step for step, times in told.items() if times > 1] == []
        for step in steps:
            if isinstance(step, WritePodCondition):
                assert self.cluster.tasks[step.uid].status is TaskStatus.PENDING, "a pod that waits is said to wait"

    def end(self) -> None:
        if "name: predicates" not in self.scenario.configuration:
            return
        for node in self.cluster.rows:
            mine = [task for task in node.tasks.values() if task.status is TaskStatus.BINDING]
            assert not mine or node.used[PODS] <= node.allocatable[PODS]


class Rests(Property):
    """A cluster in which nothing happens comes to rest."""

    def end(self) -> None:
        for _ in range(QUIET):
            self.go_on()
            if self.reader.steps[-3:] == [[], [], []] and self.reader.scheduler.wake_at() is None:
                return
        assert self.reader.steps[-2:] == [[], []]


def _is_ready(job: JobInfo) -> bool:
    return job.is_ready and job.roles_ready()


def _overfull(cluster: Cluster, nodes: dict[str, Any], bound: list[Any]) -> list[str]:
    """Nodes that a pod was bound to and that hold more than they have of what was asked for."""
    found = []
    for task in bound:
        node = nodes[task.node.name]
        for column, _ in cluster.columns.request(task.template):
            if node.used[column] > node.allocatable[column]:
                found.append(f"{cluster.columns.names[column]} of {node.name}")
    return found
