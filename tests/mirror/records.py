"""What a mirror holds of the objects that it has seen, as plain data that can be compared.

The only module of this test that knows classes of the mirror: it says where records are found, what in them is no
statement of an object, and how the few figures are named that stand in lists by a number. All else is walked through
attribute by attribute, so a new attribute of a record is compared without being named here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from types import NoneType
from typing import Any, Final

import msgspec

from volsched.mirror.apply import Mirror
from volsched.model import api
from volsched.model.cluster import Cluster
from volsched.model.dra.device import Device
from volsched.model.dra.devices import Devices, DeviceUsage
from volsched.model.job import JobInfo, JobProperties
from volsched.model.native_group import NativeGroup
from volsched.model.nodes.node import NodeInfo, NodeProperties
from volsched.model.pods.task import PodProperties, TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo, QueueProperties
from volsched.model.storage import Storage

ABOUT_CHANGES: Final[Mapping[type, Collection[str]]] = {
    QueueInfo: ("version",),
    JobInfo: ("version", "unschedulable_at", "equivalents", "searched_at", "highest"),
    TaskInfo: ("sequence", "order", "charge", "has_run"),
    PodTemplate: ("id",),
    NodeInfo: ("amounts", "offer", "row", "_columns"),
    Storage: ("version", "_changes"),
    Devices: (
        *(
            "version",
            "slices_version",
            "claims_version",
            "classes_version",
            "_pool_versions",
            "template_log",
            "pool_log",
            "_log",
        ),
        *("_touch", "_classes_changed", "_rules", "_specs"),
    ),
    DeviceUsage: ("versions", "changes"),
    Device: ("verdicts",),
}
"""Attributes that tell what changed when, or how it is looked up, and nothing that an object states."""

AS_WRITTEN: Final[Mapping[type, Collection[str]]] = dict.fromkeys(
    (NodeProperties, QueueProperties, JobProperties, NativeGroup, PodProperties), ("labels", "annotations")
)
"""Where records keep all labels and annotations, whatever is read of them."""

BY_RESOURCE: Final = ("allocatable", "used", "releasing", "pipelined")
"""Amounts of a node that are listed by the number that a resource has in this mirror."""

Plain = Any
"""Mappings, tuples and values: equal when they hold the same."""


def record_of(mirror: Mirror, *, texts: bool = True) -> Plain:
    """Return all that a mirror holds of objects; without ``texts`` only what was read of labels and annotations."""
    cluster = mirror.cluster
    walk = _Walk(cluster, texts)
    return {
        "nodes": {name: walk.attributes(node) for name, node in cluster.nodes.items()},
        "queues": {name: walk.attributes(queue) for name, queue in cluster.queues.items()},
        "jobs": {key: walk.job(job) for key, job in cluster.jobs.items()},
        "pods": {uid: walk.attributes(task) for uid, task in cluster.tasks.items()},
        "priority classes": {**cluster.priority_classes, "default": cluster.default_priority},
        "namespaces": walk.plain(cluster.queue_cache.namespaces) if texts else None,
        "storage": walk.plain(cluster.storage),
        "devices": walk.plain(cluster.devices),
        "budgets": walk.plain(cluster.budgets),
        "nominated": sorted(cluster.nominated),
        "counted without a node": walk.plain(cluster.queue_cache.ungated),
        "online": {queue: walk.plain(amounts) for queue, amounts in mirror.online.queues.items() if amounts},
        "not admitted": sorted(cluster.queue_cache.unadmitted),
        "waiting": sorted(cluster.queue_cache.waiting),
        "best effort": sorted(cluster.queue_cache.best_effort),
    }


class _Walk:
    """Makes plain data of records; a record that another one refers to is named, not walked through again."""

    def __init__(self, cluster: Cluster, texts: bool) -> None:
        self._resources = cluster.columns.names
        self._texts = texts

    def job(self, job: JobInfo) -> Plain:
        return {**self.attributes(job), "highest priority": job.highest_pod_priority}

    def attributes(self, record: object) -> Plain:
        kind: Any = type(record)
        left_out = () if self._texts else AS_WRITTEN.get(kind, ())
        names = _attributes_of(kind) or [name for name in vars(record) if name not in ABOUT_CHANGES.get(kind, ())]
        found = {name: self.plain(getattr(record, name)) for name in names if name not in left_out}
        if kind is NodeInfo:
            found |= {name: self._by_resource(found[name]) for name in BY_RESOURCE}
        if "created" in found:  # less than a second of it is in which order objects arrived
            found["created"] = str(found["created"]).partition(".")[0]
        return found

    def _by_resource(self, amounts: Sequence[int]) -> Plain:
        return {self._resources[column]: amount for column, amount in enumerate(amounts) if amount}

    def plain(self, value: Any) -> Plain:
        kind: Any = type(value)
        if kind in _VALUES or (self._texts and _is_value(kind) and kind not in AS_WRITTEN):
            return value
        return _NAMES[kind](value) if kind in _NAMES else self._walked(value)

    def _walked(self, value: Any) -> Plain:
        found: Plain
        match value:
            case list() | tuple():
                found = tuple(map(self.plain, value))
            case dict() | Mapping():
                found = {self.plain(key): self.plain(held) for key, held in value.items()}
            case Set():
                found = frozenset(map(self.plain, value))
            case api.Record() | Enum() | Fraction():
                found = value
            case str() | BaseException():
                found = type(value).__name__, str(value)
            case _:
                found = self.attributes(value)
        return found


_VALUES: Final = frozenset((NoneType, bool, int, float, str, bytes))
_NAMES: Final[Mapping[type, Callable[[Any], str]]] = {
    TaskInfo: lambda task: f"pod {task.uid}",
    NodeInfo: lambda node: f"node {node.name}",
    JobInfo: lambda job: f"job {job.key}",
    QueueInfo: lambda queue: f"queue {queue.name}",
}
"""What a record is called where another one refers to it."""


@cache
def _is_value(kind: type) -> bool:
    """Whether records of a class never change and are compared by what they hold."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_config__.frozen and kind.__struct_config__.eq
    parameters = getattr(kind, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen and parameters.eq


@cache
def _attributes_of(kind: type) -> Sequence[str]:
    """Return the names of what records of a class have to tell; none where only each record knows."""
    names: Sequence[str]
    if issubclass(kind, msgspec.Struct):
        names = kind.__struct_fields__
    elif is_dataclass(kind):
        names = [field.name for field in fields(kind)]
    else:
        names = [name for each in kind.__mro__ for name in getattr(each, "__slots__", ())]
    return [name for name in names if name not in ABOUT_CHANGES.get(kind, ())]


def differences(one: Plain, other: Plain, place: str = "") -> Iterator[tuple[str, Plain, Plain]]:
    """Yield where two records differ, with what each has there."""
    if one == other:
        return
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            yield from differences(one.get(key), other.get(key), f"{place}.{key}" if place else str(key))
    else:
        yield place, one, other
