"""The data of the cluster that the executor needs at the moment of a write, from the informers of its thread.

The mirror belongs to the scheduling thread; these small tables are the I/O thread's. Each entry keeps the resource
version that it was seen or written at, so that an older event does not hide our own writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.changes import Change, Deleted, Put, Refused
from volsched.model.dra import api as dra
from volsched.model.dra import observed
from volsched.model.labels import is_without_devices
from volsched.model.storage import CLAIM_ANNOTATIONS
from volsched.model.values.bounded import Bounded, Size

POD_SCHEDULED: Final = "PodScheduled"

DELETED_LATELY: Final = 16384
DELETED_LATELY_SECONDS: Final = 60.0
"""The most deleted objects that are remembered, and for how long: writes to them may still be answered.

No write takes longer than a sixth of that.
"""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PodRefusal:
    """The status of a waiting pod: why it has no node, and its nominated node."""

    reason: str = ""
    message: str = ""
    nominated: str = ""


@dataclass(frozen=True, slots=True)
class Versioned:
    """The last known status of a waiting pod, and its resource version."""

    version: int
    refusal: PodRefusal


class Views:
    """Nodes and Queues by name, claims and PodGroups of both kinds by key, refusals of waiting pods by uid.

    `on_deleted` gets the uid of every deleted pod, PodGroup and Queue, `on_placed` that of a pod that has a node, and
    `on_queue` every Queue as it is now. All entries end with their objects, and hold only the data that a write needs.
    """

    def __init__(
        self,
        on_deleted: Callable[[str], None] = lambda _: None,
        on_queue: Callable[[api.Queue], None] = lambda _: None,
        on_placed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.nodes: dict[str, str] = {}
        self.claims: dict[str, api.PersistentVolumeClaim] = {}
        self.resource_claims: dict[str, dra.ResourceClaim] = {}
        self.groups: dict[str, api.PodGroup] = {}
        self.native_groups: dict[str, native.PodGroup] = {}
        self.queues: dict[str, api.Queue] = {}
        self._pods: dict[str, Versioned] = {}
        self._recently_deleted: Bounded[str, float] = Bounded(DELETED_LATELY)
        self._on_deleted = on_deleted
        self._on_queue = on_queue
        self._on_placed = on_placed
        self._put: dict[type[api.ApiObject], Callable[[api.ApiObject], None]] = {
            api.Node: self._put_node,
            api.PersistentVolumeClaim: self._put_claim,
            **dict.fromkeys((dra.ResourceClaim, observed.ResourceClaim), self._put_resource_claim),
            api.PodGroup: self._put_group,
            **dict.fromkeys(native.VERSIONS.values(), self._put_native_group),
            api.Queue: self._put_queue,
            api.Pod: self._put_pod,
        }

    def observe(self, changes: Sequence[Change]) -> None:
        """Take in changes of an informer. A failure over an object ends with that object."""
        self._forget_deleted(time.monotonic() - DELETED_LATELY_SECONDS)
        for change in changes:
            try:
                self._observe(change)
            except Exception:
                _log.exception("an object was not taken in, in an unforeseen way", object=_name_of(change))

    def _observe(self, change: Change) -> None:
        if isinstance(change, Put):
            take = self._put.get(type(change.object))
            if take is not None:
                take(change.object)
        elif isinstance(change, Deleted):
            self._gone(change)
        elif isinstance(change, Refused):
            self._forget(change.kind, change.namespace, change.name, change.uid)

    def _forget_deleted(self, before: float) -> None:
        """Drop objects that were deleted so long ago that no write to them is under way. The oldest come first."""
        while self._recently_deleted and next(iter(self._recently_deleted.values())) < before:
            self._recently_deleted.popitem(last=False)

    def tables(self) -> Mapping[str, Size]:
        """Return the sizes of what is kept here."""
        return {
            "views.nodes": lambda: len(self.nodes),
            "views.claims": lambda: len(self.claims),
            "views.resource_claims": lambda: len(self.resource_claims),
            "views.groups": lambda: len(self.groups) + len(self.native_groups),
            "views.queues": lambda: len(self.queues),
            "views.refusals": lambda: len(self._pods),
            "views.gone": lambda: len(self._recently_deleted),
        }

    def node_exists(self, name: str, uid: str = "") -> bool:
        """True if a node exists, and has this uid if one is given."""
        found = self.nodes.get(name)
        return found is not None and uid in ("", found)

    def refusal(self, uid: str) -> PodRefusal:
        """Return what the API server has as a waiting pod's refusal, as far as is known."""
        known = self._pods.get(uid)
        return known.refusal if known is not None else PodRefusal()

    def wrote(self, found: api.ApiObject) -> bool:
        """Take in an object after a write, before the watch shows it, unless the watch has shown that it is gone.

        Returns whether it was taken in: the answer to a write may be late.
        """
        if found.metadata.uid in self._recently_deleted:
            return False
        self.observe((Put(found),))
        return True

    def wrote_refusal(self, uid: str, refusal: PodRefusal, version: str) -> None:
        """Remember a write, and the version of the pod with it, unless the pod is gone by now."""
        if uid not in self._recently_deleted:
            self._pods[uid] = Versioned(number(version), refusal)

    def forget_pod(self, uid: str) -> None:
        """Forget a pod that waits no longer."""
        self._pods.pop(uid, None)

    # -- by kind --------------------------------------------------------------------------------------------------

    def _put_node(self, node: api.ApiObject) -> None:
        self.nodes[node.metadata.name] = node.metadata.uid

    def _put_claim(self, claim: api.ApiObject) -> None:
        if isinstance(claim, api.PersistentVolumeClaim):
            spec = api.PersistentVolumeClaimSpec(volume_name=claim.spec.volume_name)
            self.claims[claim.key] = api.PersistentVolumeClaim(_identity(claim), spec)

    def _put_resource_claim(self, claim: api.ApiObject) -> None:
        if _is_older(claim, self.resource_claims.get(claim.key)):
            return
        if isinstance(claim, dra.ResourceClaim):
            finalizers = claim.metadata.finalizers if is_without_devices(claim) else ()
            meta = msgspec.structs.replace(_identity(claim), finalizers=finalizers)
            self.resource_claims[claim.key] = dra.ResourceClaim(meta, status=claim.status)

    def _put_group(self, group: api.ApiObject) -> None:
        if _is_older(group, self.groups.get(group.key)):
            return
        if isinstance(group, api.PodGroup):
            self.groups[group.key] = api.PodGroup(_identity(group), status=group.status)

    def _put_native_group(self, group: api.ApiObject) -> None:
        if _is_older(group, self.native_groups.get(group.key)):
            return
        if isinstance(group, native.PodGroup):
            self.native_groups[group.key] = type(group)(_identity(group), status=group.status)

    def _put_queue(self, queue: api.ApiObject) -> None:
        if _is_older(queue, self.queues.get(queue.key)):
            return
        if isinstance(queue, api.Queue):
            self.queues[queue.key] = queue
            self._on_queue(queue)

    def _put_pod(self, pod: api.ApiObject) -> None:
        if not isinstance(pod, api.Pod):
            return
        uid = pod.metadata.uid
        if pod.spec.node_name:
            self._pods.pop(uid, None)
            self._on_placed(uid)
            return
        known = self._pods.get(uid)
        if known is None or _version(pod) > known.version:
            found = refusal_of(pod)
            if found is not None:
                self._pods[uid] = Versioned(_version(pod), found)
            elif known is not None:
                del self._pods[uid]

    def _gone(self, gone: Deleted) -> None:
        self._recently_deleted[gone.uid] = time.monotonic()
        self._forget(gone.kind, gone.namespace, gone.name, gone.uid)

    def _forget(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Forget an object that is no longer there, or not kept."""
        key = f"{namespace}/{name}"
        match kind:
            case "Pod":
                self._pods.pop(uid, None)
            case "Node":
                if self.nodes.get(name) == uid:
                    del self.nodes[name]
            case "PersistentVolumeClaim":
                self.claims.pop(key, None)
            case "ResourceClaim":
                self.resource_claims.pop(key, None)
            case "PodGroup":
                self.groups.pop(key, None)
            case native.KIND:
                self.native_groups.pop(key, None)
            case "Queue":
                self.queues.pop(name, None)
        if kind in _REPORTED_WHEN_DELETED:
            self._on_deleted(uid)


_REPORTED_WHEN_DELETED: Final = ("Pod", "PodGroup", native.KIND, "Queue")


def refusal_of(pod: api.Pod) -> PodRefusal | None:
    """Read a pod's refusal; None when it has neither a false PodScheduled nor a nomination."""
    nominated = pod.status.nominated_node_name
    for condition in pod.status.conditions:
        if condition.type == POD_SCHEDULED and condition.status == "False":
            return PodRefusal(condition.reason, condition.message, nominated)
    return PodRefusal(nominated=nominated) if nominated else None


def _identity(found: api.ApiObject) -> api.ObjectMeta:
    """Return the metadata of an object as far as a write to it needs it."""
    meta = found.metadata
    annotations = {key: meta.annotations[key] for key in CLAIM_ANNOTATIONS if key in meta.annotations}
    return api.ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        deletion_timestamp=meta.deletion_timestamp,
        annotations=annotations,
    )


def _name_of(change: Change) -> str:
    if isinstance(change, Put):
        return f"{type(change.object).__name__}/{change.object.key}"
    return f"{change.kind}/{change.namespace}/{change.name}" if isinstance(change, Deleted) else type(change).__name__


def number(version: str) -> int:
    """Return a resource version as a number; 0 when it is none."""
    return int(version) if version.isdecimal() else 0


def _is_older(found: api.ApiObject, known: api.ApiObject | None) -> bool:
    """True if an object is older than the known state: an answer to a write may come before the watch."""
    return known is not None and known.metadata.uid == found.metadata.uid and _version(found) < _version(known)


def _version(found: api.ApiObject) -> int:
    return number(found.metadata.resource_version)
