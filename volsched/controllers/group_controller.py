"""PodGroups of plain pods and workloads: made when a pod needs one, kept as their owner is, gone when it is idle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from volsched.controllers import grouping
from volsched.controllers.job_controller import group_body
from volsched.controllers.objects import WORKLOADS
from volsched.controllers.store import OwnerView, PodView, Store
from volsched.controllers.writes import GROUP, POD, Create, Delete, Patch, Write
from volsched.mirror.reading import GROUP_NAME
from volsched.model import api
from volsched.model.plan import RecordEvent
from volsched.model.pods.owners import Owner, controller_of


def reconcile_group(store: Store, key: str) -> Iterator[Write]:
    """Yield what is to be written about the PodGroup of pods that name none of their own.

    One whose owner is scaled to zero goes: left behind, such PodGroups of old ReplicaSets have blocked roll-outs
    (Volcano #2143). So does one whose owner was seen going, since garbage collection may take its time; that an owner
    is not known proves nothing, it may be a pod of a scheduler that others look after. What somebody else made under
    that name is left alone.
    """
    group, whose = store.groups.get(key), None
    if group is not None:
        whose = _plain_owner(group)
        if whose is None:
            return
        if _needs_no_group(store, whose):
            meta = group.metadata
            yield Delete(GROUP, meta.namespace, meta.name, meta.uid)
            return
    first = next((pod for pod in _alive(store, key) if _counts(store, pod, whose)), None)
    if first is None:
        return
    wanted = _wanted(store, first, store.owners.get(first.whose))
    if group is not None:
        yield from _update(group, wanted)
    elif not _needs_no_group(store, first.whose):
        yield Create(GROUP, wanted.metadata.namespace, wanted.metadata.name, group_body(wanted))


def reconcile_pod(store: Store, uid: str) -> Iterator[Write]:
    """Yield the annotation that names a pod's PodGroup, once that PodGroup is there and is of the pod's owner."""
    pod = store.pods.get(uid)
    if pod is None or pod.group or not pod.plain or not pod.is_alive:
        return
    group = store.groups.get(f"{pod.namespace}/{pod.plain}")
    if group is not None and _plain_owner(group) == pod.whose:
        body = {"metadata": {"uid": uid, "annotations": {GROUP_NAME: pod.plain}}}
        yield Patch(POD, pod.namespace, pod.name, body)


def failed_group(store: Store, key: str, why: str) -> Iterator[RecordEvent]:
    """Yield the Event that states, on the first of its pods, why a PodGroup could not be written."""
    for pod in islice(_alive(store, key), 1):
        kind, version, message = POD.name, POD.group_version, f"the PodGroup of the pod could not be written: {why}"
        yield RecordEvent(
            kind, version, pod.namespace, pod.name, pod.uid, "Warning", "FailedCreate", message, "Reconciling"
        )


def _plain_owner(group: api.PodGroup) -> Owner | None:
    """Return for whose pods a PodGroup was made; None where it is no such PodGroup."""
    owner = controller_of(group.metadata)
    return owner if owner is not None and group.metadata.name == f"podgroup-{owner.uid}" else None


def _needs_no_group(store: Store, owner: Owner) -> bool:
    known = store.owners.get(owner)
    return store.tombstones.has(owner) or (known is not None and known.is_scaled_to_zero)


MOST_LOOKED_AT: Final = 100
"""Pods by which a PodGroup is made: those of one owner are alike, and there may be as many as in the whole cluster."""


def _alive(store: Store, key: str) -> Iterator[PodView]:
    """Yield the first pods of a PodGroup that wait or run."""
    return islice((pod for pod in store.family(key) if pod.is_alive), MOST_LOOKED_AT)


def _counts(store: Store, pod: PodView, whose: Owner | None) -> bool:
    """Whether a PodGroup may be made for a pod, or, where it is somebody's (`whose`), is for that pod, too."""
    return (whose is None or pod.whose == whose) and not _waits_for_owner(store, pod)


def _waits_for_owner(store: Store, pod: PodView) -> bool:
    """Whether a pod's owner states what its PodGroup inherits, and was not seen yet."""
    return (pod.owner.api_version, pod.owner.kind) in _INHERITED and pod.whose not in store.owners


_INHERITED: Final = frozenset(WORKLOADS.values())


def _wanted(store: Store, pod: PodView, owner: OwnerView | None) -> api.PodGroup:
    annotations: Mapping[str, str] = owner.annotations if owner is not None else {}
    meta = api.ObjectMeta(name=pod.plain, namespace=pod.namespace, owner_references=(pod.owner,))
    seed = msgspec.structs.replace(pod.seed, queue=store.queue_for(pod.namespace, pod.seed.queue))
    return grouping.plain_group(meta, seed, annotations, inherit=store.inherit)


def _update(group: api.PodGroup, wanted: api.PodGroup) -> Iterator[Patch]:
    """Yield what a workload states differently by now: minimum, annotations, topology. What others wrote stays."""
    patch: dict[str, Any] = {}
    told = {
        key: value for key, value in wanted.metadata.annotations.items() if group.metadata.annotations.get(key) != value
    }
    if told:
        patch["metadata"] = {"annotations": told}
    if group.spec.min_member != wanted.spec.min_member:
        patch["spec"] = {"minMember": wanted.spec.min_member, "minResources": wanted.spec.min_resources}
    if group.spec.network_topology is None and wanted.spec.network_topology is not None:
        topology = msgspec.to_builtins(wanted.spec.network_topology)
        patch["spec"] = {**patch.get("spec", {}), "networkTopology": topology}
    if patch:
        meta = group.metadata
        patch["metadata"] = {"uid": meta.uid, **patch.get("metadata", {})}
        yield Patch(GROUP, meta.namespace, meta.name, patch)
