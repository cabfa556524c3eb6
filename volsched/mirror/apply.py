"""The state of the cluster as the scheduler knows it, updated by typed changes.

The scheduling thread owns the mirror and is its only writer. Decisions of the scheduler count at once (a pod is
*assumed* on its node) and stay until the API server shows them or is known to have refused them. The mirror sends no
request to the API server, and raises nothing over an object's content: an unreadable field is a reported problem, and
an object that cannot be taken in is quarantined (``quarantine``).

Most kinds have a module with their processing; this one passes changes to these modules. Volumes go straight to
``Cluster.storage``, and claims, slices and classes of devices to ``Cluster.devices``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from volsched.mirror.binding_backoffs import BindingBackoffs
from volsched.mirror.budgets import Budgets
from volsched.mirror.events import MirrorEvents
from volsched.mirror.groups import Groups
from volsched.mirror.kept import AnnotationReader
from volsched.mirror.memory_bound import MemoryUse, is_in_use
from volsched.mirror.nodes import ClosedNodes, NodeReading, Nodes, UnknownNodes
from volsched.mirror.online import OnlineAccounts
from volsched.mirror.pod_reading import PodReader
from volsched.mirror.pods import Pods
from volsched.mirror.priorities import Priorities
from volsched.mirror.problems import ReadingProblems
from volsched.mirror.quarantine import Quarantine, identity_of, refused, stopped_by, unreadable
from volsched.mirror.queues import Queues
from volsched.mirror.results import Results
from volsched.mirror.settings import Arrival, MirrorSettings
from volsched.mirror.templates import Templates
from volsched.model import api
from volsched.model.annotations import KeptAnnotations
from volsched.model.api import native_groups as native
from volsched.model.changes import Change, Deleted, DroppedFields, KindServed, Put, Refused, Unreadable
from volsched.model.cluster import Cluster
from volsched.model.generations import ClusterEvent
from volsched.model.native_group import QUEUE_NAME
from volsched.model.pods.task import TaskInfo
from volsched.model.values.bounded import Size


class Mirror:
    """Applies changes to a ``Cluster``. ``online`` follows the usage of online pods.

    ``memory_use`` decides for which changes there is memory. The thread that receives changes first asks it.
    """

    def __init__(self, settings: MirrorSettings | None = None) -> None:
        self.settings = settings or MirrorSettings()
        self.cluster = Cluster()
        self.online = OnlineAccounts(self.cluster)
        self.cluster.observe(self.online)
        self.events = MirrorEvents()
        self.quarantine = Quarantine(self.events)
        self.templates = Templates(self.cluster, self.settings.pod_limits)
        self.binding_backoffs = BindingBackoffs(self.cluster)
        self.memory_use = MemoryUse(self.settings.kept_bytes)
        self._annotations = AnnotationReader(self.settings.annotations)
        self._closed_nodes = ClosedNodes(self.cluster, self.quarantine)
        self._make_parts()

    def _make_parts(self) -> None:
        cluster, settings, problems, arrival = self.cluster, self.settings, ReadingProblems(self.events), Arrival()
        annotations = self._annotations
        unknown_nodes = UnknownNodes(cluster)
        priorities = Priorities(cluster)
        groups = Groups(cluster, settings, problems, priorities, arrival, annotations, self.events)
        pods = Pods(
            cluster,
            settings,
            arrival,
            self.templates,
            groups,
            PodReader(settings, annotations, priorities, cluster.priority_classes, self.templates.intern),
            unknown_nodes,
            self.binding_backoffs,
            self.events,
            problems,
        )
        queues = Queues(cluster, settings, problems, arrival, annotations)
        budgets = Budgets(cluster, problems)
        self._nodes = Nodes(cluster, problems, self._closed_nodes, unknown_nodes, annotations)
        self._results = Results(cluster, groups, unknown_nodes, self.binding_backoffs)
        self._native = groups.native
        self.passers_by = groups.passers_by
        self._put: dict[type, Callable[[Any], None]] = {
            api.Pod: pods.put,
            api.PodGroup: groups.put,
            api.Queue: queues.put,
            api.PriorityClass: priorities.put,
            api.Namespace: self._put_namespace,
            api.PodDisruptionBudget: budgets.put,
            **dict.fromkeys(native.VERSIONS.values(), groups.native.put),
            native.Workload: groups.native.put_workload,
        }
        self._drop: dict[str, Callable[[Deleted], None]] = {
            "Pod": pods.drop,
            "Node": self._nodes.drop,
            "PodGroup": groups.drop,
            "Queue": queues.drop,
            "PriorityClass": priorities.drop,
            "Namespace": self._drop_namespace,
            "PodDisruptionBudget": budgets.drop,
            native.KIND: groups.native.drop,
            native.WORKLOAD: groups.native.drop_workload,
        }

    def count_online(self) -> None:
        """Count anew what online pods take."""
        self.cluster.ignore(self.online)
        self.online = OnlineAccounts(self.cluster)
        self.cluster.observe(self.online)

    def tables(self) -> Mapping[str, Size]:
        """Return the sizes of tables here and in the cluster; for any thread."""
        cluster = self.cluster
        return {
            "mirror.pods": lambda: len(cluster.tasks),
            "mirror.jobs": lambda: len(cluster.jobs),
            "mirror.nodes": lambda: len(cluster.nodes),
            "mirror.queues": lambda: len(cluster.queues),
            "mirror.namespaces": lambda: len(cluster.queue_cache.namespaces),
            "mirror.native_groups": lambda: len(self._native),
            "mirror.permissions": lambda: cluster.queue_cache.permissions.watched,
            "mirror.passers_by": lambda: len(self.passers_by),
            "mirror.columns": lambda: len(cluster.columns),
            "mirror.templates": lambda: len(self.templates),
            "mirror.remembered": lambda: self.templates.remembered,
            "mirror.retries": lambda: len(self.binding_backoffs),
            "mirror.events": lambda: len(self.events),
            "mirror.quarantine": lambda: len(self.quarantine),
            **self.memory_use.tables(),
        }

    # -- changes ------------------------------------------------------------------------------------------------------

    def apply(self, changes: Iterable[Change]) -> int:
        """Take changes in, in order. How many there were.

        Nodes that come together are numbered together, and before what else is there: pods find them, then.
        """
        count = 0
        nodes: list[Put] = []
        others: list[Change] = []
        for change in changes:
            count += 1
            if isinstance(change, Put) and isinstance(change.object, api.Node):
                nodes.append(change)
                continue
            others.append(change)
            if not isinstance(change, Put):
                self._apply_batch(nodes, others)
                nodes, others = [], []
        self._apply_batch(nodes, others)
        self.cluster.generations.change += count
        return count

    def _apply_batch(self, nodes: Sequence[Put], others: Iterable[Change]) -> None:
        if nodes:
            self._put_nodes(nodes)
        for change in others:
            self._guarded(change, partial(self._apply_one, change))

    def _put_nodes(self, changes: Sequence[Put]) -> None:
        found: list[NodeReading] = []
        for change in changes:
            self._guarded(change, partial(self._read_node, change.object, found))
        self._nodes.put(found)

    def _read_node(self, node: Any, found: list[NodeReading]) -> None:
        found.append(self._nodes.read(node))

    def _guarded(self, change: Change, take: Callable[[], None]) -> None:
        """Take a change in. A failure over an object ends with that object."""
        try:
            take()
        except Exception as error:
            self._closed_nodes.quarantine(stopped_by(change, error))
        else:
            if self.quarantine and not isinstance(change, Unreadable):
                self._closed_nodes.take_back(identity_of(change))

    def _apply_one(self, change: Change) -> None:
        match change:
            case Put(found):
                self._put.get(type(found), self._put_other)(found)
            case Deleted():
                self._drop.get(change.kind, self._drop_other)(change)
            case Unreadable():
                self._closed_nodes.quarantine(unreadable(change))
            case Refused():
                self._refuse(change)
            case DroppedFields():
                self.cluster.dropped_fields[change.kind] = change.fields
            case KindServed():
                self._native.served(change)
            case _:
                self._results.take(change)

    def _refuse(self, change: Refused) -> None:
        """Forget an object for which there is no memory, unless it is about to hold something."""
        if not is_in_use(self.cluster, change):
            gone = Deleted(change.kind, change.namespace, change.name, change.uid)
            self._drop.get(change.kind, self._drop_other)(gone)
            self._closed_nodes.quarantine(refused(change))

    def _put_namespace(self, found: api.ApiObject) -> None:
        self.cluster.queue_cache.put_namespace(found.metadata.name, found.metadata.labels)
        self._native.put_namespace(found)
        self.passers_by.put_namespace(found.metadata.name, found.metadata.annotations.get(QUEUE_NAME, ""))

    def _drop_namespace(self, gone: Deleted) -> None:
        self.cluster.queue_cache.remove_namespace(gone.name)
        self._native.drop_namespace(gone)
        self.passers_by.put_namespace(gone.name, "")

    def _put_other(self, found: api.ApiObject) -> None:
        """Take in what volumes and devices are read from."""
        if self.cluster.storage.put(found) or self.cluster.devices.put(found):
            self.cluster.wake(ClusterEvent.DEVICES_CHANGED)

    def _drop_other(self, gone: Deleted) -> None:
        named = (gone.kind, gone.namespace, gone.name)
        if self.cluster.storage.drop(*named) or self.cluster.devices.drop(*named):
            self.cluster.wake(ClusterEvent.DEVICES_CHANGED)

    # -- what is to be told -------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Let tasks whose back-off is over be tried again. ``now`` is in seconds since the epoch."""
        self.binding_backoffs.tick(now)

    def next_retry(self) -> float | None:
        """Return when the next held task may be tried again, or None if none waits for a time."""
        return self.binding_backoffs.next()

    def take_failed(self) -> list[TaskInfo]:
        """Return the tasks whose binding failed since this was last called and that wait again."""
        return self.binding_backoffs.take_failed()

    # -- annotations --------------------------------------------------------------------------------------------------

    def keep_only(self, kept: KeptAnnotations) -> None:
        """Keep these annotations of objects, those that were kept already, and no others, from now on.

        An annotation that was dropped before comes back with the object.
        """
        reader, cluster = self._annotations, self.cluster
        if reader.kept is not None and reader.kept.includes(kept):
            return
        if reader.kept is not None:
            reader.kept.grow(kept)
            return
        reader.kept = kept
        for task in cluster.tasks.values():
            task.spec = msgspec.structs.replace(task.spec, annotations=reader.of("Pod", dict(task.spec.annotations)))
        for job in cluster.jobs.values():
            kind = native.KIND if job.is_native else "PodGroup"
            job.spec = replace(job.spec, annotations=reader.of(kind, dict(job.spec.annotations)))
        for queue in cluster.queues.values():
            queue.spec = replace(queue.spec, annotations=reader.of("Queue", dict(queue.spec.annotations)))
        for node in cluster.nodes.values():
            found = reader.of("Node", dict(node.annotations))
            spec = replace(node.spec, annotations=found)
            cluster.node_cache.set_spec(node, spec)
            node.spec = spec  # also where it states the same

    def keep_annotations(self, keys: Iterable[str], asking: Iterable[str] = ()) -> None:
        """Let these annotations of pods decide placement, and no others; see ``Templates.keep_annotations``."""
        self.templates.keep_annotations(keys, asking)
