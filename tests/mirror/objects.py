"""Objects as an informer would send them, and a mirror that is asked in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from volsched.mirror.apply import Mirror
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Change, Deleted, Put
from volsched.model.cluster import Cluster
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus
from volsched.testing.builders import a_group, a_node, a_pod, a_queue, put
from volsched.testing.recount import faults

LATER = "2026-01-01T00:00:00Z"


def pod(
    name: str,
    group: str | None = None,
    on: str | None = None,
    phase: str | None = None,
    *,
    uid: str | None = None,
    version: int | None = None,
    deleted: bool = False,
    created: str | None = None,
    scheduler: str = "volsched",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: str = "",
    gates: Sequence[str] = (),
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **requests: Any,
) -> Put:
    """A pod is there; it asks for ``requests``. ``owner`` is the kind of its controller."""
    meta: dict[str, Any] = {"uid": uid or f"uid-{name}"}
    if version is not None:
        meta["resourceVersion"] = str(version)
    if deleted:
        meta["deletionTimestamp"] = LATER
    if owner:
        meta["ownerReferences"] = [{"kind": owner, "name": "owner", "uid": "uid-owner", "controller": True}]
    body = {"schedulerName": scheduler, **(spec or {})}
    if gates:
        body["schedulingGates"] = [{"name": gate} for gate in gates]
    return put(
        a_pod(name, group, on, phase, labels, annotations, created, body, metadata=meta, status=status, **requests)
    )


def node(name: str, cpu: Any = "8", labels: Mapping[str, str] | None = None, uid: str = "", **more: Any) -> Put:
    meta = {"uid": uid or f"uid-{name}", "labels": dict(labels or {})}
    return put(a_node(name, cpu, "16Gi", metadata=meta, **more))


def group(
    name: str, queue: str = "default", minimum: int = 1, phase: str = "", *, uid: str | None = None, **more: Any
) -> Put:
    return put(a_group(name, queue, minimum, phase, metadata={"uid": uid or f"uid-{name}"}, **more))


def queue(name: str, **spec: Any) -> Put:
    return put(a_queue(name, metadata={"uid": name}, **spec))


def priority_class(name: str, value: int, default: bool = False) -> Put:
    return put(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name, "uid": name},
            "value": value,
            "globalDefault": default,
        }
    )


def gone(kind: str, name: str, namespace: str = "", uid: str | None = None) -> Deleted:
    if kind in ("Pod", "PodGroup"):
        namespace = "default"
    return Deleted(kind, namespace, name, uid if uid is not None else f"uid-{name}")


class Believer:
    """A mirror, asked about pods by name; every change is followed by a recount."""

    def __init__(self, *changes: Change, settings: MirrorSettings | None = None) -> None:
        self.mirror = Mirror(settings)
        self.apply(*changes)

    @property
    def cluster(self) -> Cluster:
        return self.mirror.cluster

    def apply(self, *changes: Change) -> None:
        self.mirror.apply(changes)
        assert faults(self.cluster) == []

    def task(self, name: str) -> TaskInfo:
        found = [task for task in self.cluster.tasks.values() if task.name == name]
        assert len(found) == 1, f"{len(found)} tasks named {name}"
        return found[0]

    def standing(self, name: str) -> tuple[str, str | None]:
        """Status and node of a pod."""
        task = self.task(name)
        return task.status.name, task.node.name if task.node is not None else None

    def used(self, name: str, resource: str = "cpu") -> int:
        return self.cluster.nodes[name].used_of(resource)

    def allocated(self, name: str = "default", resource: str = "cpu") -> int:
        return self.cluster.queues[name].allocated.get(resource, 0)

    def assume(self, name: str, on: str) -> None:
        """The scheduler has decided: the pod is assumed on a node, its binding under way."""
        self.cluster.move(self.task(name), TaskStatus.BINDING, self.cluster.nodes[on])
        assert faults(self.cluster) == []
