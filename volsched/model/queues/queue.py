"""A queue: the name that quota and fairness are kept by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from volsched.model.former import former_attributes, renamed_attributes

if TYPE_CHECKING:
    from volsched.model.queues.allowed_namespaces import AllowedNamespaces

ROOT: Final = "root"
"""The queue that all others are below, whether they name it or not."""


@dataclass(frozen=True, slots=True)
class QueuePast:
    """Past usage of a queue until a time (seconds since the epoch): amounts times seconds, weighted by age."""

    at: float
    used: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueProperties:
    """The properties of a Queue object; replaced as a whole when the Queue changes.

    ``reported_state`` is ``status.state`` of the Queue. ``capability``, ``deserved`` and ``guarantee`` are amounts per
    resource; a resource that is absent from ``capability`` is not limited by it. ``allowed``: the namespaces that may
    use the queue, None for all.
    """

    name: str
    uid: str = ""
    created: float = 0.0
    reported_state: str = "Open"
    parent: str = ""
    weight: int = 1
    priority: int = 0
    reclaimable: bool = True
    capability: Mapping[str, int] = field(default_factory=dict)
    deserved: Mapping[str, int] = field(default_factory=dict)
    guarantee: Mapping[str, int] = field(default_factory=dict)
    dra: object = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    allowed: AllowedNamespaces | None = None

    if not TYPE_CHECKING:  # a type checker finds the former name itself
        __getattr__ = renamed_attributes({"state": "reported_state"})


class QueueInfo:
    """A queue and what its tasks hold.

    ``allocated`` is what the queue's placed tasks hold and ``placed`` how many these are. The cluster keeps both.
    ``past`` is the use over time that the Queue's status states, None if it states nothing. ``version`` changes with
    ``spec`` and with ``allocated``.
    """

    __slots__ = ("allocated", "name", "past", "placed", "spec", "version")

    def __init__(self, spec: QueueProperties) -> None:
        self.spec = spec
        self.name = spec.name
        self.past: QueuePast | None = None
        self.allocated: dict[str, int] = {}
        self.placed = 0
        self.version = 0

    @property
    def is_open(self) -> bool:
        """True if new work is admitted. A queue without a written state is open (*ours*)."""
        return self.spec.reported_state in ("", "Open")

    if not TYPE_CHECKING:  # a type checker finds the former names itself
        __getattr__ = former_attributes(QueueProperties, {"state": "spec.reported_state"})

    def __repr__(self) -> str:
        return f"<Queue {self.name} {self.spec.reported_state}>"


def levels(queues: Mapping[str, QueueInfo], name: str) -> tuple[str, ...]:
    """Return a queue and the queues above it, the root last.

    A queue whose parent does not exist is right below the root, and so is each queue of a circle.
    """
    found = _way_up(queues, name)
    last = queues[found[-1]].spec.parent if found else ""
    if last in found:
        found = found[: found.index(last) + 1]
    return (*(name for name in found if name != ROOT), ROOT)


def stated_levels(queues: Mapping[str, QueueInfo], name: str) -> tuple[str, ...]:
    """Return the same as ``levels``, but with all queues of a circle above each of them, as they state it."""
    return (*(name for name in _way_up(queues, name) if name != ROOT), ROOT)


def _way_up(queues: Mapping[str, QueueInfo], name: str) -> list[str]:
    """Return a queue and those above it, up to the root, to a missing one, or once round a circle."""
    found: dict[str, None] = {}
    while name in queues and name not in found:
        found[name] = None
        name = "" if name == ROOT else queues[name].spec.parent
    return list(found)
