"""The in-memory cluster: an executor that takes steps over, and carries them out between cycles.

``execute`` only notes the steps of the scheduler. ``move`` then does what a cluster would do: bound pods run, evicted
ones are gone, statuses and conditions are written; then the controllers have their turn. Changes go back to the mirror
as those of informers. ``steps``, ``volumes`` and ``claims`` make the new objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeAlias, TypeVar

import msgspec

from volsched.controllers.owners import as_owner
from volsched.controllers.queues import wanted_state
from volsched.controllers.waiting import Wait
from volsched.mirror.reading import GROUP_NAME, seconds
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.changes import BindFailed, Change, Deleted, KindServed, Put
from volsched.model.dra import api as dra
from volsched.model.plan import (
    Bind,
    ClaimWrite,
    Evict,
    LiftGate,
    PlanStep,
    RecordEvent,
    ReleaseClaim,
    WriteGroupStatus,
    WriteNativeStatus,
    WritePodCondition,
    WriteQueueStatus,
)
from volsched.model.pods.owners import Owner, controller_of
from volsched.model.selectors import NAMESPACE_NAME
from volsched.simulation import claims, steps
from volsched.simulation.budgets import Disruptions
from volsched.simulation.controllers import Controllers
from volsched.simulation.kubelet_checks import KubeletRefusal
from volsched.simulation.kubelets import Kubelets
from volsched.simulation.manifests import Inventory, with_system_classes
from volsched.simulation.volumes import VolumeController

T = TypeVar("T", bound=api.ApiObject)

_Deed: TypeAlias = Bind | ReleaseClaim | LiftGate | Evict | WriteGroupStatus | WritePodCondition | RecordEvent
"""A step that changes something here."""

EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
LATEST: Final = datetime(5000, 1, 1, tzinfo=UTC).timestamp()
"""The bounds of a simulation's start, in seconds since the epoch, whatever its objects state: time is left after it."""

STAMP: Final = "%Y-%m-%dT%H:%M:%SZ"
"""The format of times, to the second as in the API server."""

BACK_OFF: Final = 1.5
"""The back-off after a failed binding: the next cycle reports it, the one after retries."""

_KINDS_IN_ORDER: Final = (
    api.PriorityClass,
    api.StorageClass,
    api.CSIDriver,
    api.CSINode,
    api.CSIStorageCapacity,
    api.VolumeAttachment,
    api.PersistentVolume,
    api.PersistentVolumeClaim,
    api.PodDisruptionBudget,
    dra.DeviceClass,
    dra.DeviceTaintRule,
    dra.ResourceSlice,
    dra.ResourceClaimTemplate,
    dra.ResourceClaim,
    api.Node,
    api.Queue,
    native.Workload,
    native.PodGroup,
)
"""Kinds that reach the mirror before PodGroups and pods, after Namespaces, in this order."""


@dataclass(slots=True)
class SimulationHistory:
    """What happened, in order. An equal Event is not repeated.

    ``refusals``: pods that kubelets refused, with the reason. ``bereaved``: owners of evicted pods, None for those
    without an owner.
    """

    binds: list[tuple[int, Bind]] = field(default_factory=list)
    evictions: list[tuple[int, Evict]] = field(default_factory=list)
    events: list[tuple[int, RecordEvent]] = field(default_factory=list)
    refusals: list[tuple[api.Pod, str]] = field(default_factory=list)
    bereaved: dict[Owner | None, None] = field(default_factory=dict)
    _recorded: set[tuple[str, ...]] = field(default_factory=set)

    def record(self, cycle: int, event: RecordEvent) -> None:
        """Note an Event."""
        identity = (event.kind, event.namespace, event.name, event.type, event.reason, event.message)
        if identity not in self._recorded:
            self._recorded.add(identity)
            self.events.append((cycle, event))


class SimulatedApiServer:
    """The objects that change, as the API server would have them, and the pending changes for the mirror."""

    def __init__(self, inventory: Inventory, scheduler_names: Sequence[str]) -> None:
        inventory = with_system_classes(inventory)
        self.cycle = 0
        self._changes: list[Change] = []
        self.history = SimulationHistory()
        self.pods: dict[str, api.Pod] = {}
        self.groups: dict[str, api.PodGroup] = {}
        self.kubelets = Kubelets(inventory.of(api.Node))
        self._storage = VolumeController(inventory, self._notify)
        self.claims, self.volumes = self._storage.claims, self._storage.volumes
        self.resource_claims = {found.key: found for found in inventory.of(dra.ResourceClaim)}
        self.inventory = inventory
        self._controllers = Controllers(self, inventory, tuple(scheduler_names))
        self._disruptions = Disruptions(inventory.of(api.PodDisruptionBudget), self._controllers.wanted_of)
        self.epoch = _newest_of(inventory.objects)
        self._steps: list[_Deed] = []
        self._leaving: dict[str, api.Pod] = {}
        self._versions = 0

    # -- the port of the scheduler ------------------------------------------------------------------------------------

    def execute(self, steps: Sequence[PlanStep]) -> None:
        """Take steps over; ``move`` carries them out. Amounts of queues are those of the mirror."""
        self._steps.extend(step for step in steps if not isinstance(step, WriteQueueStatus | WriteNativeStatus))

    # -- time ---------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """Return a second for each cycle after the newest object of the input."""
        return datetime.fromtimestamp(self.epoch + self.cycle, UTC)

    def begin(self) -> list[Change]:
        """Return the changes by which the mirror learns the first state of the cluster.

        PodGroups come in the order of their owners, so that age follows the order of the input.
        """
        self._changes += map(Put, _namespaces(self.inventory))
        for kind in _KINDS_IN_ORDER:
            for found in self.claims.values() if kind is api.PersistentVolumeClaim else self.inventory.of(kind):
                self._changes.append(Put(_opened_or_closed(found) if isinstance(found, api.Queue) else found))
        self._changes.append(KindServed(native.KIND, _native_version(self.inventory)))
        for pod in self._controllers.begin():
            self._put_made(pod)
        self._settle()
        return self._take()

    def move(self) -> tuple[list[Change], bool]:
        """Carry out the steps of the last cycle. Return the changes, and True if anything was done."""
        wanted, self._steps = self._steps, []
        leaving = list(self._leaving.values())
        for step in wanted:
            self._do(step, leaving)
        for pod in leaving:
            self._remove(pod)
        for pod in self._controllers.act():
            self._put_made(pod)
        self._settle()
        changes = self._take()
        return changes, bool(wanted or changes)

    def _settle(self) -> None:
        """Have claims bound that wait for no node, and budgets count the pods that there are."""
        self._storage.settle()
        self._changes += map(Put, self._disruptions.settle(self.pods.values()))

    def _do(self, step: _Deed, leaving: list[api.Pod]) -> None:
        if isinstance(step, RecordEvent):
            self.history.record(self.cycle, step)
            return
        key = f"{step.namespace}/{step.name}"
        if isinstance(step, ReleaseClaim):
            self._release_claim(key, step)
            return
        if isinstance(step, WriteGroupStatus):
            if key in self.groups:
                self.put_group(steps.with_status(self.groups[key], step))
            return
        pod = self.pods.get(key)
        if pod is None:
            return
        match step:
            case Bind():
                self._bind(pod, step)
            case LiftGate():
                self.put_pod(steps.ungated(pod, step))
            case Evict():
                self.history.evictions.append((self.cycle, step))
                self.history.bereaved[controller_of(pod.metadata)] = None
                leaving.append(pod)
            case WritePodCondition():
                self.put_pod(steps.unscheduled(pod, step))

    def of_others(self) -> Iterator[tuple[api.ApiObject, str]]:
        """Yield each workload with pods for another scheduler, and that scheduler; see ``Controllers``."""
        return self._controllers.of_others()

    def owners_of(self, found: api.ApiObject) -> Iterator[api.ApiObject]:
        """Yield the workloads to which an object belongs, its own first; see ``Controllers``."""
        return self._controllers.owners_of(found)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _bind(self, pod: api.Pod, step: Bind) -> None:
        """Bind a pod once its volumes are. Its kubelet may refuse it then."""
        failure = next(filter(None, map(self._storage.carry_out, step.volumes)), "")
        if failure:
            self._changes.append(BindFailed(step.uid, step.node, failure, self.now.timestamp() + BACK_OFF))
            return
        self.history.binds.append((self.cycle, step))
        for claim in step.claims:
            self._reserve_claim(claim, pod)
        message = f"Successfully assigned {step.namespace}/{step.name} to {step.node}"
        event = RecordEvent("Pod", "v1", step.namespace, step.name, step.uid, "Normal", "Scheduled", message, "Binding")
        self.history.record(self.cycle, event)
        self._start(pod, step.node, step.annotations)

    def _start(self, pod: api.Pod, node: str, annotations: Mapping[str, str]) -> None:
        """Have the kubelet of a node run a pod, or refuse it."""
        refusal = self.kubelets.refusal(node, pod)
        if refusal is None:
            self.put_pod(steps.running(pod, node, annotations, since=self.now.strftime(STAMP)))
            return
        self.history.record(self.cycle, _refused(pod, refusal))
        self.history.refusals.append((pod, refusal.reason))
        self.put_pod(steps.rejected(pod, node, refusal))
        self.release_claims_of(pod)

    def _put_made(self, pod: api.Pod) -> None:
        """Write a pod of a controller; one whose template names a node passes by every scheduler to the kubelet."""
        if pod.status.phase == "Pending" and self.kubelets.is_new(pod):
            self._start(pod, pod.spec.node_name, {})
        else:
            self.put_pod(pod)

    def _reserve_claim(self, write: ClaimWrite, pod: api.Pod) -> None:
        claim = self.resource_claims.get(write.claim)
        if write.made is not None:
            claim = claims.made_for_extended_resources(pod, write.made)
        if claim is not None:
            self.put_resource_claim(claims.reserved(claim, write, pod))

    def _release_claim(self, key: str, step: ReleaseClaim) -> None:
        claim = self.resource_claims.get(key)
        if claim is not None and all(consumer.uid == step.pod.uid for consumer in claim.status.reserved_for):
            self.put_resource_claim(claims.deallocated(claim))

    # -- objects ------------------------------------------------------------------------------------------------------

    def put_pod(self, pod: api.Pod) -> None:
        """Write a pod."""
        pod = self._versioned(pod)
        self.pods[pod.key] = pod
        if pod.metadata.deletion_timestamp is not None:
            self._leaving[pod.key] = pod
        self._controllers.on_change(pod)
        self.kubelets.on_change(pod)
        self._disruptions.on_change(pod)
        self._changes.append(Put(pod))

    def put_group(self, group: api.PodGroup) -> None:
        """Write a PodGroup."""
        group = self._versioned(group)
        self.groups[group.key] = group
        self._changes.append(Put(group))

    def add_claims(self, claims: Iterable[api.PersistentVolumeClaim]) -> None:
        """Make claims, those left out that are there already."""
        for claim in claims:
            self._storage.add(claim)

    def put_resource_claim(self, claim: dra.ResourceClaim) -> None:
        """Write a ResourceClaim."""
        claim = self._versioned(claim)
        self.resource_claims[claim.key] = claim
        self._changes.append(Put(claim))

    def release_claims_of(self, pod: api.Pod) -> None:
        """Release the claims of a finished or deleted pod. Claims that were made for it go."""
        for claim in list(self.resource_claims.values()):
            if claims.belongs_to(claim, pod):
                self._collect(self.resource_claims, claim, "ResourceClaim")
                continue
            left = claims.released(claim, pod.metadata.uid)
            if left is not claim:
                self.put_resource_claim(left)

    def jobs_not_run(self) -> Iterator[tuple[api.Job, Wait]]:
        """Yield the Volcano Jobs whose pods are not made, and why."""
        return self._controllers.jobs_not_run()

    def record_event(self, event: RecordEvent) -> None:
        """Record an Event of a controller."""
        self.history.record(self.cycle, event)

    def remove_pod(self, pod: api.Pod) -> None:
        """Delete a pod as a controller does that makes another of its name."""
        self._remove(pod)

    def drop_pod(self, pod: api.Pod) -> list[Change]:
        """Delete a pod at once. The changes."""
        self._remove(pod)
        return self._take()

    def write_pods(self, pods: Iterable[api.Pod]) -> list[Change]:
        """Write pods at once. The changes."""
        for pod in pods:
            self.put_pod(pod)
        return self._take()

    def write_group(self, group: api.PodGroup) -> list[Change]:
        """Write a PodGroup at once. The changes."""
        self.put_group(group)
        return self._take()

    def _remove(self, pod: api.Pod) -> None:
        """Delete a pod, and what belongs to it alone."""
        meta = pod.metadata
        self._leaving.pop(pod.key, None)
        if self.pods.pop(pod.key, None) is None:
            return
        self._controllers.lost(pod)
        self.kubelets.lost(pod)
        self._disruptions.lost(pod)
        self._changes.append(Deleted("Pod", meta.namespace, meta.name, meta.uid))
        group = self.groups.get(f"{meta.namespace}/{meta.annotations.get(GROUP_NAME, '')}")
        if group is not None and controller_of(group.metadata) == as_owner(pod):
            self._collect(self.groups, group, "PodGroup")
        self.release_claims_of(pod)
        for key in claim_keys(pod):
            claim = self.claims.get(key)
            if claim is not None and controller_of(claim.metadata) == as_owner(pod):
                self._storage.drop(claim)

    def _collect(self, table: dict[str, T], found: T, kind: str) -> None:
        meta = found.metadata
        del table[found.key]
        self._changes.append(Deleted(kind, meta.namespace, meta.name, meta.uid))

    def _versioned(self, found: T) -> T:
        self._versions += 1
        meta = msgspec.structs.replace(found.metadata, resource_version=f"simulated-{self._versions}")
        return msgspec.structs.replace(found, metadata=meta)

    def _notify(self, change: Change) -> None:
        self._changes.append(change)

    def _take(self) -> list[Change]:
        changes, self._changes = self._changes, []
        return changes


def _refused(pod: api.Pod, refusal: KubeletRefusal) -> RecordEvent:
    meta, message = pod.metadata, refusal.message
    return RecordEvent("Pod", "v1", meta.namespace, meta.name, meta.uid, "Warning", refusal.reason, message)


def _native_version(inventory: Inventory) -> str:
    """Return the version of PodGroups of scheduling.k8s.io: that of the first object, else the newest."""
    return next((group.group_version for group in inventory.of(native.PodGroup)), next(iter(native.VERSIONS)))


def _namespaces(inventory: Inventory) -> Iterator[api.Namespace]:
    """Yield every namespace that is given or contains an object, with the label of the API server."""
    known = {found.metadata.name: found for found in inventory.of(api.Namespace)}
    for name in dict.fromkeys((*known, *(found.metadata.namespace for found in inventory.objects))):
        if name:
            meta = known[name].metadata if name in known else api.ObjectMeta(name=name)
            labels = {**meta.labels, NAMESPACE_NAME: name}
            yield api.Namespace(metadata=msgspec.structs.replace(meta, labels=labels))


def _opened_or_closed(queue: api.Queue) -> api.Queue:
    """Return a queue in the state that its administrator wants, as controllers would have set it by now."""
    if not queue.spec.state:
        return queue
    status = msgspec.structs.replace(queue.status, state=wanted_state(queue, None, 0))
    return msgspec.structs.replace(queue, status=status)


def claim_keys(pod: api.Pod) -> Iterator[str]:
    """Yield the keys of the claims that a pod's volumes name or make."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.namespace}/{pod.metadata.name}-{volume.name}"


def _newest_of(objects: Iterable[api.ApiObject]) -> float:
    """Return when the newest object was made, in seconds since the epoch."""
    stamps = (seconds(found.metadata.creation_timestamp) for found in objects)
    return min(max((at for at in stamps if at is not None and at > EARLIEST), default=EARLIEST), LATEST)
