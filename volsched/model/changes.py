"""Changes of the mirror from outside, made by informers, by the executor, or by a simulation.

The scheduling thread is the only writer of the mirror; other threads send it these values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from volsched.model import api


@dataclass(frozen=True, slots=True)
class Put:
    """An object is there, as given (new or changed). Any Struct of ``api.KINDS``."""

    object: api.ApiObject


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object is no longer there. ``kind`` is its kind's name, as ``Pod``."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object is there and cannot be read: ``field`` and ``message`` state why.

    ``node`` is where it runs, if it is a pod that holds room on a node, as far as that can be read.
    """

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    field: str
    message: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """An object exists and is not kept, for lack of memory. ``message`` says for which namespace."""

    kind: str
    namespace: str
    name: str
    uid: str
    message: str


@dataclass(frozen=True, slots=True)
class Bound:
    """The API server has the binding of a pod (the watch may show it earlier or later)."""

    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class BindFailed:
    """A binding was refused, and the pod is known not to be on the node.

    ``retry_at`` is when it may be tried again, in the scheduler's clock (seconds since the epoch); None: only once the
    pod itself has changed.
    """

    uid: str
    node: str
    message: str
    retry_at: float | None


@dataclass(frozen=True, slots=True)
class EvictFailed:
    """A victim could not be deleted. It stays where it is."""

    uid: str
    message: str


@dataclass(frozen=True, slots=True)
class GroupWriteFailed:
    """A PodGroup's status could not be written. It is decided again."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class DroppedFields:
    """The API server drops these fields (as ``spec.dra``) from all objects of a kind: its schema lacks them.

    Empty: it keeps all fields that volsched needs.
    """

    kind: str
    fields: frozenset[str]


@dataclass(frozen=True, slots=True)
class KindServed:
    """The API server has a kind in this group and version; empty: in none that volsched understands."""

    kind: str
    group_version: str


Change: TypeAlias = (
    Put
    | Deleted
    | Unreadable
    | Refused
    | Bound
    | BindFailed
    | EvictFailed
    | GroupWriteFailed
    | DroppedFields
    | KindServed
)
