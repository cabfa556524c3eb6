"""Objects as an informer would send them, and a mirror that is asked in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from volsched.cache.mirror import Mirror, MirrorSettings
from volsched.model.changes import Change, Gone, Put
from volsched.model.cluster import Cluster
from volsched.model.status import TaskStatus
from volsched.model.task import TaskInfo
from volsched.testing.builders import put
from volsched.testing.recount import faults

GROUP = "scheduling.k8s.io/group-name"
VOLCANO = "scheduling.volcano.sh/v1beta1"
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
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"}
    meta["labels"] = dict(labels or {})
    meta["annotations"] = {**({GROUP: group} if group else {}), **(annotations or {})}
    if version is not None:
        meta["resourceVersion"] = str(version)
    if deleted:
        meta["deletionTimestamp"] = LATER
    if created:
        meta["creationTimestamp"] = created
    if owner:
        meta["ownerReferences"] = [{"kind": owner, "name": "owner", "uid": "uid-owner", "controller": True}]
    containers = [{"name": "c", "resources": {"requests": {k: str(v) for k, v in requests.items()}}}]
    body = {"schedulerName": scheduler, "containers": containers, **(spec or {})}
    if on:
        body["nodeName"] = on
    if gates:
        body["schedulingGates"] = [{"name": gate} for gate in gates]
    said = {"phase": phase or ("Running" if on else "Pending"), **(status or {})}
    return put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body, "status": said})


def node(name: str, cpu: Any = "8", labels: Mapping[str, str] | None = None, uid: str = "", **more: Any) -> Put:
    amounts = {"cpu": str(cpu), "memory": "16Gi", "pods": "110", **{k: str(v) for k, v in more.items()}}
    meta = {"name": name, "uid": uid or f"uid-{name}", "labels": dict(labels or {})}
    return put(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": meta,
            "status": {"allocatable": amounts, "capacity": amounts},
        }
    )


def group(
    name: str,
    queue: str = "default",
    minimum: int = 1,
    phase: str = "",
    *,
    uid: str | None = None,
    created: str | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Put:
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"}
    if created:
        meta["creationTimestamp"] = created
    return put(
        {
            "apiVersion": VOLCANO,
            "kind": "PodGroup",
            "metadata": meta,
            "spec": {"queue": queue, "minMember": minimum, **spec},
            "status": {"phase": phase, **(status or {})},
        }
    )


def queue(name: str, **spec: Any) -> Put:
    return put({"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name, "uid": name}, "spec": spec})


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


def gone(kind: str, name: str, namespace: str = "", uid: str | None = None) -> Gone:
    if kind in ("Pod", "PodGroup"):
        namespace = "default"
    return Gone(kind, namespace, name, uid if uid is not None else f"uid-{name}")


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
