"""A session of small plugins on a small cluster, without actions: what is done is done by the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from volsched.framework.config.configuration import Configuration, PluginOption
from volsched.framework.engine.fast import Engine, FastEngine
from volsched.framework.registration import Accounts, Registrar
from volsched.framework.session import Session
from volsched.mirror.apply import Mirror
from volsched.model.changes import Change
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo
from volsched.model.plan import PlanStep
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.verdict import Scope, Step, Verdict
from volsched.testing.builders import ClusterBuilder
from volsched.testing.recount import faults

Register = Callable[[Registrar], None]


def no(why: str = "no") -> Verdict:
    """A refusal."""
    return Verdict(Step.PREDICATE, "test", Scope.NODE, "No", why)


@dataclass
class Plug:
    """A plugin that does what it is given when a session opens."""

    register: Register
    name: str = "test"
    switches: Mapping[str, bool] = field(default_factory=dict)

    def on_session_open(self, registrar: Registrar) -> None:
        self.register(registrar)


class Stage:
    """A cluster, an engine, and sessions one after the other."""

    def __init__(
        self,
        cluster: ClusterBuilder,
        *plugs: Plug | Register,
        tiers: Sequence[Sequence[Plug | Register]] | None = None,
        engine: Callable[[Cluster], Engine] = FastEngine,
    ) -> None:
        self.mirror = Mirror()
        self.mirror.apply(cluster.changes())
        self.cluster = self.mirror.cluster
        self.engine: Any = engine(self.cluster)
        self.accounts = Accounts(self.cluster)
        self.steps: list[PlanStep] = []
        self.tiers = [[_plug(plug) for plug in tier] for tier in (tiers if tiers is not None else [plugs])]
        self.session = self.open()

    def open(self) -> Session:
        """Open the next session."""
        self.session = Session(self.cluster, Configuration((), ()), self.engine, self.accounts, self.steps.extend)
        for number, tier in enumerate(self.tiers):
            for plug in tier:
                plug.on_session_open(Registrar(self.session, number, PluginOption(plug.name, plug.switches)))
        self.session.opened()
        return self.session

    def reopen(self) -> Session:
        """Close the session and open the next one."""
        self.session.close()
        return self.open()

    def apply(self, *changes: Change) -> None:
        self.mirror.apply(changes)

    def task(self, name: str) -> TaskInfo:
        return next(task for task in self.cluster.tasks.values() if task.name == name)

    def node(self, name: str) -> NodeInfo:
        return self.cluster.nodes[name]

    def queue(self, name: str = "default") -> QueueInfo:
        return self.cluster.queues[name]

    def best(self, name: str) -> str | None:
        """The best node for a task, by names."""
        node = self.engine.best(self.task(name))
        return node.name if node is not None else None

    def place(self, name: str) -> str | None:
        """Put a task on its best node and commit; the node's name."""
        task = self.task(name)
        node = self.session.engine.best(task)
        if node is not None:
            statement = self.session.statement()
            assert statement.allocate(task, node) is None
            statement.commit()
        return node.name if node is not None else None

    def check(self) -> None:
        assert faults(self.cluster) == []


def _plug(given: Plug | Register) -> Plug:
    return given if isinstance(given, Plug) else Plug(given)


def standing(cluster: Cluster) -> dict[str, Any]:
    """All that a session may change, as plain values: equal before and after whatever was undone."""
    return {
        "tasks": {uid: (task.status, task.node and task.node.name) for uid, task in cluster.tasks.items()},
        "nodes": {
            node.name: (
                list(node.used),
                list(node.releasing),
                list(node.pipelined),
                list(node.allocatable),
                node.terminating_pods,
                sorted(node.tasks),
            )
            for node in cluster.rows
        },
        "jobs": {
            key: (list(job.counts), job.ready_count, job.pending_best_effort, sorted(job.waiting), job.phase)
            for key, job in cluster.jobs.items()
        },
        "queues": {name: dict(queue.allocated) for name, queue in cluster.queues.items()},
        "totals": (list(cluster.node_cache.totals), list(cluster.node_cache.total_used)),
        "waiting": sorted(cluster.queue_cache.waiting),
        "unadmitted": sorted(cluster.queue_cache.unadmitted),
        "terminating": sorted(cluster.node_cache.with_terminating_pods),
        "generation": cluster.generations.requeue,
    }
