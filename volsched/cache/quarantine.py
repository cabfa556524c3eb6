"""Objects that are set aside: they cannot be read, or taking them in failed. Each is looked at again when it changes.

What one object causes ends with that object, but what it holds does not: a pod that runs and cannot be read uses its
node, nobody knows how much of it. So such a node takes nothing new until the pod has gone or can be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from volsched.model import api, dra
from volsched.model.changes import Change, Gone, Put, Unreadable
from volsched.model.errors import shortened
from volsched.model.plan import Tell

DECODING: Final = "decoding"
MIRROR: Final = "mirror"
RECONCILING: Final = "reconciling"
"""Where an object was stopped: it could not be decoded, not be taken in, or a controller failed over it."""

QUARANTINED: Final = "Quarantined"
"""The reason of the Event on such an object."""

_LONGEST_CAUSE: Final = 600
"""Characters of what is wrong with an object; an Event takes 1024."""

_API_VERSIONS: Final = {kind: version for version, kind in api.KINDS} | dict.fromkeys(dra.KINDS, dra.GROUP_VERSION)

Identity = tuple[str, str, str]
"""Kind, namespace, name."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """One object that is set aside: `where` it was stopped and why, and the node that it runs on, if any.

    `error` is what was raised, if that was it.
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

    def tell(self) -> Tell:
        """Return the Event that says so on the object."""
        closes = f'; node "{self.node}" takes no more pods meanwhile' if self.node else ""
        message = f"{_SAID[self.where]} ({shortened(self.message, _LONGEST_CAUSE)}); it is set aside until it changes"
        version = self.api_version or _API_VERSIONS.get(self.kind, "v1")
        return Tell(self.kind, version, self.namespace, self.name, self.uid, "Warning", QUARANTINED, message + closes)


_SAID: Final = {
    DECODING: "the object cannot be read",
    MIRROR: "the object cannot be taken in",
    RECONCILING: "a controller failed over the object",
}


def unreadable(change: Unreadable) -> SetAside:
    """Say that an object cannot be decoded."""
    whose = (change.kind, change.api_version, change.namespace, change.name, change.uid)
    return SetAside(*whose, DECODING, f"{change.field.removeprefix('$.')}: {change.message}", change.node)


def stopped_by(change: Change, error: Exception) -> SetAside | None:
    """Say that taking an object in failed; None for changes that are about no object."""
    match change:
        case Put(found):
            meta, kind = found.metadata, type(found).__name__
            spec, status = getattr(found, "spec", None), getattr(found, "status", None)
            has_ended = getattr(status, "phase", "") in ("Succeeded", "Failed")
            node = "" if has_ended or kind != "Pod" else getattr(spec, "node_name", "")
            uid, name, namespace = meta.uid, meta.name, meta.namespace
        case Gone(kind, namespace, name, uid):
            node = ""
        case _:
            return None
    return SetAside(kind, "", namespace, name, uid, MIRROR, said_of(error), node, error)


def said_of(error: Exception) -> str:
    """Return what an exception says, with its type."""
    return f"{type(error).__name__}: {error}"


class Quarantine:
    """What is set aside now. Lives on the scheduling thread; `counts` may be read on any."""

    def __init__(self) -> None:
        self._objects: dict[Identity, SetAside] = {}
        self._news: list[SetAside] = []
        self._errors: list[SetAside] = []
        self.counts: dict[tuple[str, ...], float] = {}
        """How many objects of each kind are set aside, and where they were stopped."""

    def __bool__(self) -> bool:
        return bool(self._objects)

    def add(self, found: SetAside) -> SetAside | None:
        """Set an object aside; return what was known of it before."""
        identity = (found.kind, found.namespace, found.name)
        before = self._objects.get(identity)
        self._objects[identity] = found
        if before != found:
            self._news.append(found)
            if found.error is not None:
                self._errors.append(found)
        self._count()
        return before

    def drop(self, identity: Identity) -> SetAside | None:
        """Take an object back in; return what was known of it."""
        found = self._objects.pop(identity, None)
        if found is not None:
            self._count()
        return found

    def closed_nodes(self) -> Collection[str]:
        """Return the nodes that take nothing new."""
        return {found.node for found in self._objects.values() if found.node}

    def take_news(self) -> list[SetAside]:
        """Return what was set aside since this was last called."""
        news, self._news = self._news, []
        return news

    def take_errors(self) -> list[SetAside]:
        """Return those of them that were stopped by an exception, since this was last called."""
        errors, self._errors = self._errors, []
        return errors

    def _count(self) -> None:
        counted = Counter((found.kind, found.where) for found in self._objects.values())
        self.counts = {key: float(number) for key, number in counted.items()}


def identity_of(change: Change) -> Identity | None:
    """Return whom a change is about, as it is kept here; None when it is about no object."""
    match change:
        case Put(found):
            return type(found).__name__, found.metadata.namespace, found.metadata.name
        case Gone(kind, namespace, name, _):
            return kind, namespace, name
        case _:
            return None
