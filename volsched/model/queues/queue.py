"""A queue: the name that quota and fairness are kept by.

``QueueInfo`` has many attributes: it is the record of one Queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from volsched.model.queues.allowed_namespaces import AllowedNamespaces

ROOT: Final = "root"
"""The queue that all others are below, whether they name it or not."""


@dataclass(frozen=True, slots=True)
class QueuePast:
    """What a queue used up to a time (seconds since the epoch): amounts times seconds, the past weighted by its age."""

    at: float
    used: Mapping[str, float] = field(default_factory=dict)


class QueueInfo:
    """A Queue object's spec as the scheduler reads it.

    ``capability``, ``deserved`` and ``guarantee`` are amounts per resource; a resource that is absent from
    ``capability`` is not limited by it. ``allowed`` states which namespaces may use it, None for all. ``allocated``
    is what the queue's placed tasks hold and ``placed`` how many these are, kept by the cluster. ``past`` is what its
    status states of its use over time, None when it states nothing.
    """

    __slots__ = (
        "allocated",
        "allowed",
        "annotations",
        "capability",
        "created",
        "deserved",
        "dra",
        "guarantee",
        "name",
        "parent",
        "past",
        "placed",
        "priority",
        "reclaimable",
        "state",
        "uid",
        "version",
        "weight",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.uid = ""
        self.weight = 1
        self.priority = 0
        self.parent = ""
        self.reclaimable = True
        self.state = "Open"
        self.created = 0.0
        self.capability: Mapping[str, int] = {}
        self.deserved: Mapping[str, int] = {}
        self.guarantee: Mapping[str, int] = {}
        self.dra: object = None
        self.annotations: Mapping[str, str] = {}
        self.allowed: AllowedNamespaces | None = None
        self.past: QueuePast | None = None
        self.allocated: dict[str, int] = {}
        self.placed = 0
        self.version = 0

    @property
    def is_open(self) -> bool:
        """Whether new work is admitted; a queue whose state nobody has written yet is open (*ours*)."""
        return self.state in ("", "Open")

    @property
    def declared(self) -> tuple[object, ...]:
        """All that its object states, without what the cluster counts: two that are equal are alike to everybody."""
        limits = (self.capability, self.deserved, self.guarantee, self.dra)
        standing = (self.uid, self.created, self.parent, self.state, self.annotations)
        return (*limits, *standing, self.weight, self.priority, self.reclaimable)

    def __repr__(self) -> str:
        return f"<Queue {self.name} {self.state}>"


def levels(queues: Mapping[str, QueueInfo], name: str) -> tuple[str, ...]:
    """Return a queue and the queues above it, the root last.

    A queue whose parent does not exist is right below the root, and so is each queue of a circle.
    """
    found = _way_up(queues, name)
    last = queues[found[-1]].parent if found else ""
    if last in found:
        found = found[: found.index(last) + 1]
    return (*(name for name in found if name != ROOT), ROOT)


def stated_levels(queues: Mapping[str, QueueInfo], name: str) -> tuple[str, ...]:
    """Return the same as ``levels``, but with all queues of a circle above each of them, as they state it."""
    return (*(name for name in _way_up(queues, name) if name != ROOT), ROOT)


def _way_up(queues: Mapping[str, QueueInfo], name: str) -> list[str]:
    """Return a queue and those above it, up to the root, to one that does not exist, or once round a circle."""
    found: dict[str, None] = {}
    while name in queues and name not in found:
        found[name] = None
        name = "" if name == ROOT else queues[name].parent
    return list(found)
