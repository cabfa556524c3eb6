"""Quarantined objects: they cannot be read, or taking them in failed. Each is tried again when it changes.

The fault of one object ends with that object, but what it holds does not: a pod that runs and cannot be read uses an
unknown part of its node. So such a node takes no new pods until the pod has gone or can be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

from volsched.mirror.events import MirrorEvents
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.changes import Change, Deleted, Put, Refused, Unreadable
from volsched.model.dra import api as dra
from volsched.model.errors import shortened
from volsched.model.plan import RecordEvent

DECODING: Final = "decoding"
MIRROR: Final = "mirror"
RECONCILING: Final = "reconciling"
MEMORY: Final = "memory"
"""The step at which an object was stopped: decoding, taking in, a controller, or the memory bound."""

QUARANTINED: Final = "Quarantined"
"""The reason of the Event on such an object."""

NO_MEMORY: Final = "NoMemory"
"""The reason where there was no memory for it."""

_LONGEST_CAUSE: Final = 600
"""Characters of what is wrong with an object. An Event takes 1024."""

_API_VERSIONS: Final = {kind: version for version, kind in api.KINDS} | dict.fromkeys(dra.KINDS, dra.GROUP_VERSION)

Identity = tuple[str, str, str]
"""Kind, namespace, name."""


@dataclass(frozen=True, slots=True)
class QuarantinedObject:
    """One quarantined object: the step at which it was stopped, the reason, and the node that it runs on, if any.

    `error` is the exception, if there was one.
    """

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    where: str
    message: str
    node: str = ""
    error: Exception | None = field(default=None, compare=False)

    def event(self) -> RecordEvent:
        """Return the Event that reports that on the object."""
        closes = f'; node "{self.node}" takes no more pods meanwhile' if self.node else ""
        cause = f"{_MESSAGES[self.where]} ({shortened(self.message, _LONGEST_CAUSE)})"
        if self.where == MEMORY:
            return self._event(NO_MEMORY, f"{cause}; it is set aside until there is less")
        return self._event(QUARANTINED, f"{cause}; it is set aside until it changes{closes}")

    def _event(self, reason: str, message: str) -> RecordEvent:
        kind = native.NAMES.get(self.kind, self.kind)
        version = self.api_version or _API_VERSIONS.get(self.kind, "v1")
        return RecordEvent(kind, version, self.namespace, self.name, self.uid, "Warning", reason, message)


_MESSAGES: Final = {
    DECODING: "the object cannot be read",
    MIRROR: "the object cannot be taken in",
    RECONCILING: "a controller failed over the object",
    MEMORY: "there is no memory for the object",
}


def unreadable(change: Unreadable) -> QuarantinedObject:
    """Report that an object cannot be decoded."""
    whose = (change.kind, change.api_version, change.namespace, change.name, change.uid)
    return QuarantinedObject(*whose, DECODING, f"{change.field.removeprefix('$.')}: {change.message}", change.node)


def refused(change: Refused) -> QuarantinedObject:
    """Report that there is no memory for an object."""
    kind, version = _STRUCTS_OF_JOBS.get(change.kind, (change.kind, ""))
    return QuarantinedObject(kind, version, change.namespace, change.name, change.uid, MEMORY, change.message)


_STRUCTS_OF_JOBS: Final = {"RawJob": ("Job", "batch.volcano.sh/v1alpha1"), "Job": ("Job", "batch/v1")}
"""Kind and version of refused objects by the name of their struct, as there are two kinds of Jobs."""


def stopped_by(change: Change, error: Exception) -> QuarantinedObject | None:
    """Report that taking an object in failed; None for changes that are about no object."""
    match change:
        case Put(found):
            meta, kind = found.metadata, native.kind_of(found)
            spec, status = getattr(found, "spec", None), getattr(found, "status", None)
            has_ended = getattr(status, "phase", "") in ("Succeeded", "Failed")
            node = "" if has_ended or kind != "Pod" else getattr(spec, "node_name", "")
            uid, name, namespace = meta.uid, meta.name, meta.namespace
        case Deleted(kind, namespace, name, uid):
            node = ""
        case _:
            return None
    return QuarantinedObject(kind, "", namespace, name, uid, MIRROR, message_of(error), node, error)


def message_of(error: Exception) -> str:
    """Return an exception's message, with its type."""
    return f"{type(error).__name__}: {error}"


class Quarantine:
    """The present quarantine. Lives on the scheduling thread; `counts` and its length may be read on any.

    Of each object there is one entry, also among ``events``, until it can be read, or is gone. An exception is kept
    only until it was logged: it holds references to all data of its frames.
    """

    def __init__(self, events: MirrorEvents) -> None:
        self._events = events
        self._objects: dict[Identity, QuarantinedObject] = {}
        self._errors: dict[Identity, QuarantinedObject] = {}
        self._nodes: Counter[str] = Counter()
        self.counts: dict[tuple[str, ...], float] = {}
        """How many objects of each kind are quarantined, by step."""

    def __len__(self) -> int:
        return len(self._objects)

    def add(self, found: QuarantinedObject) -> QuarantinedObject | None:
        """Set an object aside. Return what was known of it before."""
        identity = (found.kind, found.namespace, found.name)
        before = self._objects.get(identity)
        if before != found:
            self._count(before, -1)
            self._objects[identity] = replace(found, error=None)
            self._events.report(self._objects[identity], identity)
            self._count(found, 1)
            if found.error is not None:
                self._errors[identity] = found
        return before

    def drop(self, identity: Identity) -> QuarantinedObject | None:
        """Take an object back in. Return what was known of it."""
        found = self._objects.pop(identity, None)
        self._count(found, -1)
        self._events.take_back(identity)
        return found

    def objects(self) -> tuple[QuarantinedObject, ...]:
        """Return what is set aside now, in the order in which it was."""
        return tuple(self._objects.values())

    def where_of(self, identity: Identity) -> str:
        """Return where an object was stopped that is set aside; empty when it is not."""
        found = self._objects.get(identity)
        return found.where if found is not None else ""

    def closed_nodes(self) -> Collection[str]:
        """Return the nodes that take nothing new."""
        return self._nodes.keys()

    def take_errors(self) -> list[QuarantinedObject]:
        """Return what was stopped by an exception since this was last called."""
        errors, self._errors = self._errors, {}
        return list(errors.values())

    def _count(self, found: QuarantinedObject | None, by: int) -> None:
        """Count an object in or out."""
        if found is None:
            return
        key = (found.kind, found.where)
        counted = {**self.counts, key: self.counts.get(key, 0.0) + by}
        self.counts = {key: number for key, number in counted.items() if number}
        if found.node:
            self._nodes[found.node] += by
            if not self._nodes[found.node]:
                del self._nodes[found.node]


def identity_of(change: Change) -> Identity | None:
    """Return the identity of a change's object, as it is kept here, or None if it is about no object."""
    match change:
        case Put(found):
            return native.kind_of(found), found.metadata.namespace, found.metadata.name
        case Deleted(kind, namespace, name, _):
            return kind, namespace, name
        case _:
            return None
