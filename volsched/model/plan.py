"""What a session wants done outside: the steps that an executor carries out, in the order given.

The core decides and never acts. A step holds everything that its write needs, so that it stays true when the mirror
has moved on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from volsched.model.job import Condition


@dataclass(frozen=True, slots=True)
class Bind:
    """Assign a pod to a node, with result annotations that travel in the Binding."""

    uid: str
    namespace: str
    name: str
    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_uid: str = ""


@dataclass(frozen=True, slots=True)
class Evict:
    """Take a pod off its node: condition ``DisruptionTarget``, then DELETE."""

    uid: str
    namespace: str
    name: str
    action: str
    preemptor: str
    message: str


@dataclass(frozen=True, slots=True)
class WriteGroupStatus:
    """Write a PodGroup's phase, counts and conditions."""

    uid: str
    namespace: str
    name: str
    phase: str
    running: int
    succeeded: int
    failed: int
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class WritePodCondition:
    """Write ``PodScheduled=False`` with a reason, and the node that a pod is nominated to (empty: none)."""

    uid: str
    namespace: str
    name: str
    reason: str
    message: str
    nominated: str = ""


@dataclass(frozen=True, slots=True)
class Tell:
    """Record an Event on an object. ``kind`` and ``namespace`` as in SIMULATE.md: no namespace for what has none."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    message: str
    action: str = "Scheduling"


Step: TypeAlias = Bind | Evict | WriteGroupStatus | WritePodCondition | Tell


class Executor(Protocol):
    """Carries out the steps of a plan; results come back as changes of the mirror, never as return values."""

    def execute(self, steps: Sequence[Step]) -> None:
        """Take steps over for execution, without waiting for them."""
