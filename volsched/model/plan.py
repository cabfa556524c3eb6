"""The plan of a session: steps that an executor carries out, in the order given.

The core decides and does not act. A step holds everything that its write needs, so that it stays true when the mirror
has moved on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from volsched.model.dra.api import Allocation, Consumer, DeviceRequest
from volsched.model.job import PodGroupCondition
from volsched.model.pods.owners import Owner
from volsched.model.queues.queue import QueuePast


class VolumeWrite(msgspec.Struct, frozen=True, gc=False):
    """The write to a PersistentVolumeClaim or its volume that is needed before its pod is bound.

    ``static``: the PersistentVolume ``volume`` gets a claimRef to the claim (and the annotation
    ``pv.kubernetes.io/bound-by-controller`` unless its user had named the claim). ``dynamic``: the claim gets the
    annotation ``volume.kubernetes.io/selected-node``. Either may have been written already, for another pod. Then the
    claim must become bound; a provisioner that takes the annotation away has refused the node.
    """

    kind: Literal["static", "dynamic"]
    claim: str
    """``namespace/name``"""
    volume: str
    node: str
    within: float = 600.0
    """Seconds in which the claim must become bound."""


class ExtendedClaim(msgspec.Struct, frozen=True, gc=False):
    """The ResourceClaim to be made for a pod's extended resources (KEP 5004), and the containers that use it.

    ``mappings`` are (container, resource, request) for ``status.extendedResourceClaimStatus`` of the pod.
    """

    name: str
    requests: tuple[DeviceRequest, ...]
    mappings: tuple[tuple[str, str, str], ...]


class ClaimWrite(msgspec.Struct, frozen=True, gc=False):
    """The writes to a ResourceClaim that are needed before a pod that uses it is bound.

    The claim is reserved for the pod, or for its group. With an ``allocation`` it gets that too, unless another pod of
    the same job has written it already; without one it must have one. With ``made`` the claim is made first, and
    ``uid`` is only a placeholder until then. Then the binding conditions of its devices must come true.
    """

    claim: str
    """``namespace/name``"""
    uid: str
    allocation: Allocation | None = None
    made: ExtendedClaim | None = None
    within: float = 600.0
    """Seconds from the allocation in which they must."""
    reserved_for: Consumer | None = None
    """The PodGroup of scheduling.k8s.io that has the claim for all of its pods; None: the pod that is bound."""


class Bind(msgspec.Struct, frozen=True, gc=False):
    """Assign a pod to a node, with result annotations that travel in the Binding.

    ``claims`` and ``volumes`` come first: the Binding waits until they have come true. ``queue`` and ``created``
    (seconds since the epoch) tell who had to wait how long.
    """

    uid: str
    namespace: str
    name: str
    node: str
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    node_uid: str = ""
    volumes: tuple[VolumeWrite, ...] = ()
    queue: str = ""
    created: float = 0.0
    claims: tuple[ClaimWrite, ...] = ()


class ReleaseClaim(msgspec.Struct, frozen=True, gc=False):
    """Remove the allocation of a ResourceClaim: no node with room for its pod can use it.

    Nothing is written if it is reserved for another pod than ``pod`` by now. ``delete``: it was made for extended
    resources of that pod, in a failed attempt, and is deleted.
    """

    uid: str
    namespace: str
    name: str
    pod: Owner
    delete: bool = False


class LiftGate(msgspec.Struct, frozen=True, gc=False):
    """Take one scheduling gate off a pod: its queue takes it on."""

    uid: str
    namespace: str
    name: str
    gate: str


EVICTED: Final = "volsched.io/Evicted"
"""The condition of an evicted pod with the session. Pods of one session have the same message."""


class Evict(msgspec.Struct, frozen=True, gc=False):
    """Take a pod off its node: conditions ``DisruptionTarget`` and `EVICTED`, then DELETE.

    `session` is when the session began that decided it, in seconds since the epoch; 0 where no session did.
    """

    uid: str
    namespace: str
    name: str
    action: str
    preemptor: str
    message: str
    session: float = 0.0


class WriteGroupStatus(msgspec.Struct, frozen=True, gc=False):
    """Write a PodGroup's phase, counts and conditions."""

    uid: str
    namespace: str
    name: str
    phase: str
    running: int
    succeeded: int
    failed: int
    conditions: tuple[PodGroupCondition, ...]


class WriteNativeStatus(msgspec.Struct, frozen=True, gc=False):
    """Write the conditions of a PodGroup of scheduling.k8s.io: whether it was placed, and its reservation."""

    uid: str
    namespace: str
    name: str
    version: str
    """Group and version, as ``scheduling.k8s.io/v1alpha2``."""
    conditions: tuple[PodGroupCondition, ...]


class WriteQueueStatus(msgspec.Struct, frozen=True, gc=False):
    """Write the used amounts of a Queue and of those below it (``status.allocated``), as Kubernetes quantities.

    ``past``: its usage over time (``status.usage``), None if it is not counted.
    """

    uid: str
    name: str
    allocated: Mapping[str, str]
    past: QueuePast | None = None


class WritePodCondition(msgspec.Struct, frozen=True, gc=False):
    """Write ``PodScheduled=False`` with a reason, and the node that a pod is nominated to (empty: none)."""

    uid: str
    namespace: str
    name: str
    reason: str
    message: str
    nominated: str = ""


class RecordEvent(msgspec.Struct, frozen=True, gc=False):
    """Record an Event on an object. ``namespace`` is empty for an object without a namespace.

    With ``each`` no later message replaces it: it reports something that happened, not a state.
    """

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    message: str
    action: str = "Scheduling"
    each: bool = False


PlanStep: TypeAlias = (
    Bind
    | ReleaseClaim
    | LiftGate
    | Evict
    | WriteGroupStatus
    | WriteNativeStatus
    | WriteQueueStatus
    | WritePodCondition
    | RecordEvent
)


class Executor(Protocol):
    """Carries out the steps of a plan. Results come back as changes of the mirror, never as return values."""

    def execute(self, steps: Sequence[PlanStep]) -> None:
        """Take steps over for execution, without waiting for them."""


class StepRecorder:
    """Takes steps and carries none out."""

    def __init__(self) -> None:
        self.steps: list[PlanStep] = []

    def execute(self, steps: Sequence[PlanStep]) -> None:
        """Keep steps."""
        self.steps.extend(steps)

    def take(self) -> list[PlanStep]:
        """Return the steps that were kept, and forget them."""
        steps, self.steps = self.steps, []
        return steps
