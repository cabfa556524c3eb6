"""The topology key of a native group: all of its pods go on nodes with one value of a label.

It holds in every configuration. If members are placed or pipelined, the others follow them. Else an action tries one
value after the other and pins the group to the best (``actions.domains``); until then any node with the label may do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from volsched.framework.columns.views import NodePropertiesView
from volsched.framework.native.gangs import NAME
from volsched.framework.registration import Registrar
from volsched.framework.rules import Predicate
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import Scope, Step, Verdict

if TYPE_CHECKING:
    from volsched.framework.session import Session

ACCOUNT: Final = "native.topology"
_ANY: Final = ""
"""Stands for any value: the node needs the label."""


class Topology:
    """The value of the label to which each group is bound. Values found in a session end with it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._found: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._found)

    @classmethod
    def of(cls, session: Session) -> Topology:
        """Return that of a session."""
        return session.account(ACCOUNT, cls)

    def begin(self) -> None:
        """Look again where groups are: a session begins."""
        self._found.clear()

    # -- where a group goes -------------------------------------------------------------------------------------------

    def domain(self, job: JobInfo) -> str:
        """Return the value that a group's pods must go to; empty while any may do."""
        found = self._found.get(job.key)
        if found is None:
            found = self._found[job.key] = self._where(job)
        return found

    def pin(self, job: JobInfo, value: str) -> None:
        """Have a group's pods go to nodes with this value, for the rest of the session."""
        self._found[job.key] = value

    def release(self, job: JobInfo) -> None:
        """Let a group's pods go anywhere with the label again, unless some are placed."""
        self._found.pop(job.key, None)

    def is_settled(self, job: JobInfo) -> bool:
        """True if members of a group are placed or pipelined: the others must follow."""
        where = self._where(job)
        if where:
            self._found[job.key] = where
        return bool(where)

    def candidates(self, job: JobInfo) -> list[str]:
        """Return the values that there are, in their order as texts."""
        key = _key_of(job)
        values = {node.spec.labels.get(key, _ANY) for node in self._cluster.rows}
        return sorted(values - {_ANY})

    def nodes(self, job: JobInfo, value: str) -> list[NodeInfo]:
        """Return the nodes with a value of the group's label."""
        key = _key_of(job)
        return [node for node in self._cluster.rows if node.spec.labels.get(key) == value]

    def _where(self, job: JobInfo) -> str:
        key, nodes = _key_of(job), self._cluster.nodes
        placed = (task.node for task in job.tasks.values() if task.node is not None)
        promised = (nodes.get(task.nominated) for task in job.tasks.values() if task.nominated)
        return next((value for value in (*_values(key, placed), *_values(key, promised)) if value), _ANY)

    # -- the rule -----------------------------------------------------------------------------------------------------

    def kind(self, task: TaskInfo) -> tuple[str, str] | None:
        """Return the label and the value that a pod's node must have, or None for pods of no such group."""
        job = task.job
        if job is None or job.spec.native is None or not job.spec.native.topology_key:
            return None
        return job.spec.native.topology_key, self.domain(job)

    def refusal(self, task: TaskInfo, node: NodePropertiesView) -> Verdict | None:
        """Return why a pod of a group may not go on a node."""
        wanted = self.kind(task)
        if wanted is None:
            return None
        key, value = wanted
        label = node.labels.get(key, _ANY)
        if label and value in (_ANY, label):
            return None
        where = f"{key}={value}" if value else key
        message = f"node(s) were not in the topology domain {where} of the pod group"
        return Verdict(Step.PREDICATE, NAME, Scope.NODE, "FailedScheduling", message, resolvable=False)


def register(registrar: Registrar) -> None:
    """Register the rule, if some group of the cluster has a key."""
    groups = (job.spec.native for job in registrar.cluster.native_jobs.values())
    if any(group is not None and group.topology_key for group in groups):
        topology = Topology.of(registrar.session)
        topology.begin()
        registrar.register(Predicate(topology.refusal, key=topology.kind, version=_never))


def _never(_: TaskInfo) -> int:
    """Return the version of answers about a label and a value: they change with the node alone."""
    return 0


def _key_of(job: JobInfo) -> str:
    return job.spec.native.topology_key if job.spec.native is not None else ""


def _values(key: str, nodes: Iterable[NodeInfo | None]) -> Iterable[str]:
    return (node.spec.labels.get(key, _ANY) for node in nodes if node is not None)
