"""A cluster for tests of node plugins, built from ordinary manifests without mirror or API server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from volsched.framework.config.configuration import Configuration, PluginOption
from volsched.framework.engine.fast import FastEngine
from volsched.framework.registration import Accounts, Registrar
from volsched.framework.session import Session
from volsched.mirror import reading
from volsched.model import api
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo, NodeProperties
from volsched.model.plan import PlanStep
from volsched.model.pods.task import PodProperties, TaskInfo
from volsched.model.pods.template import TemplateTable
from volsched.model.status import TaskStatus
from volsched.model.values.quantity import amount_of

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


class Lab:
    """A cluster under construction, and the session of some plugins on it."""

    def __init__(self, *plugins: Any, engine: Callable[[Cluster], FastEngine] = FastEngine) -> None:
        self.cluster = Cluster()
        self.cluster.queue_cache.namespaces["default"] = {"kubernetes.io/metadata.name": "default"}
        self.templates = TemplateTable()
        self.plugins = plugins
        self.accounts = Accounts(self.cluster)
        self.engine = engine(self.cluster)
        self.steps: list[PlanStep] = []
        self._session: Session | None = None

    # -- objects ----------------------------------------------------------------------------------------------------

    def node(
        self,
        name: str,
        cpu: Any = "8",
        memory: Any = "32Gi",
        pods: Any = 110,
        *,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[tuple[str, str, str]] = (),
        unschedulable: bool = False,
        terminating: bool = False,
        images: Mapping[str, int] | None = None,
        features: Sequence[str] = (),
        **extended: Any,
    ) -> NodeInfo:
        properties = NodeProperties(
            name=name,
            uid=f"node-{name}",
            labels={HOST: name, **(labels or {})},
            taints=tuple(api.Taint(*taint) for taint in taints),
            unschedulable=unschedulable,
            images=dict(images or {}),
            features=frozenset(features),
            terminating=terminating,
        )
        amounts = {"cpu": cpu, "memory": memory, "pods": pods, **extended}
        self.cluster.node_cache.put([(properties, {key: amount_of(key, value) for key, value in amounts.items()})])
        return self.cluster.nodes[name]

    def namespace(self, name: str, **labels: str) -> None:
        self.cluster.queue_cache.namespaces[name] = {"kubernetes.io/metadata.name": name, **labels}
        self.cluster.generations.namespace += 1

    def pod(
        self,
        name: str,
        on: str | None = None,
        status: TaskStatus | None = None,
        ns: str = "default",
        labels: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
        ports: Sequence[Mapping[str, Any]] = (),
        **requests: Any,
    ) -> TaskInfo:
        container = {"name": "main", "image": "", "ports": list(ports), "resources": {"requests": requests}}
        raw = {
            "metadata": {"name": name, "namespace": ns, "labels": dict(labels or {}), "uid": f"{ns}/{name}"},
            "spec": {"containers": [container], **(spec or {})},
        }
        return self.put(api.decode_as(api.Pod, raw), on, status)

    def put(self, pod: api.Pod, on: str | None = None, status: TaskStatus | None = None) -> TaskInfo:
        meta = pod.metadata
        task = TaskInfo(meta.uid, meta.namespace, meta.name, self.templates.intern(pod))
        task.spec = PodProperties(labels=meta.labels, resource_claims=reading.resource_claims_of(pod))
        node = self.cluster.nodes[on] if on else None
        job = JobInfo(meta.namespace, meta.name)
        self.cluster.queue_cache.put_job(job)
        task.job = job
        self.cluster.add_task(task, status or (TaskStatus.RUNNING if node else TaskStatus.PENDING), node)
        return task

    def move(self, task: TaskInfo, status: TaskStatus, on: str | None = None) -> None:
        self.cluster.move(task, status, self.cluster.nodes[on] if on else None)

    def best(self, task: TaskInfo) -> str | None:
        """The name of the node that the engine chooses."""
        node = self.session.engine.best(task)
        return node.name if node is not None else None

    # -- questions --------------------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The session; opened anew when nobody has done so since ``reopen``."""
        if self._session is None:
            self._session = Session(
                self.cluster, Configuration((), ()), self.engine, self.accounts, self.steps.extend, now=0.0
            )
            for plugin in self.plugins:
                plugin.on_session_open(Registrar(self._session, 0, PluginOption(plugin.name)))
            self._session.opened()
        return self._session

    def open_session(self) -> None:
        """Have a session opened, so that plugins have their accounts."""
        assert self.session.cluster is self.cluster

    def reopen(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def feasible(self, task: TaskInfo) -> set[str]:
        """Nodes that every predicate admits, by the scalar functions; resources aside."""
        predicates = self.session.rules.nodes.predicates
        return {
            node.name
            for node in self.cluster.rows
            if all(p.ask(task, node) is None for p in predicates if p.applies(task))
        }

    def reasons(self, task: TaskInfo) -> dict[str, str]:
        """The first refusal of each node that refuses."""
        found = {}
        for node in self.cluster.rows:
            for predicate in self.session.rules.nodes.predicates:
                if predicate.applies(task):
                    verdict = predicate.ask(task, node)
                    if verdict is not None:
                        found[node.name] = verdict.message
                        break
        return found

    def scores(self, task: TaskInfo) -> dict[str, float]:
        """The sum of all scores for each node that has room."""
        self.open_session()
        return {name: sum(parts.values()) for name, parts in self.engine.scores(task).items()}

    def check_twins(self, task: TaskInfo) -> None:
        """Fail when a vector twin and its scalar form differ, to the bit."""
        session = self.session
        self.engine.nodes.columns.refresh()
        self.engine.nodes.properties.refresh()
        rows, every = self.engine.nodes.columns.all_rows, self.engine.nodes.all()
        nodes = self.cluster.rows
        for predicate in session.rules.nodes.predicates:
            if predicate.vector is None or not predicate.applies_to_task(task):
                continue
            expected = [predicate.ask(task, node) is None for node in nodes]
            assert predicate.vector(predicate.pod(task), every).tolist() == expected, predicate.fn
        for order in session.rules.nodes.node_orders:
            if order.vector is not None and order.applies_to_task(task):
                wanted = [order.ask(task, node) for node in nodes]
                assert order.vector(order.pod(task), every).tolist() == wanted, order.fn
        for batch in session.rules.nodes.batch_orders:
            for chosen in (rows, rows[::2], rows[1::3]):
                picked = [nodes[row] for row in chosen]
                answers = list(batch.fn(task, picked))
                if batch.vector is not None and picked:
                    assert batch.vector(task, self.engine.nodes.table(chosen)).tolist() == answers, batch.fn
                uniform = batch.uniform(task) if batch.uniform is not None else None
                if uniform is not None:
                    assert answers == [uniform] * len(answers), batch.fn
