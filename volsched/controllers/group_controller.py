"""PodGroups of plain pods and workloads: made when a pod needs one, kept as their owner says, gone when it is idle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from volsched.cache.reading import GROUP_NAME
from volsched.controllers import grouping
from volsched.controllers.job_controller import group_body
from volsched.controllers.store import WORKLOADS, OwnerView, PodView, Store
from volsched.controllers.writes import GROUP, POD, Create, Delete, Patch, Write
from volsched.model import api


def reconcile_group(store: Store, key: str) -> Iterator[Write]:
    """Yield what is to be written about the PodGroup of pods that name none of their own.

    One whose owner is scaled to zero goes: left behind, such PodGroups of old ReplicaSets have blocked roll-outs
    (Volcano #2143). So does one whose owner was seen going, since garbage collection may take its time; that an owner
    is not known proves nothing, it may be a pod of a scheduler that others look after.
    """
    group = store.groups.get(key)
    owner = store.owners.get(_owner_uid(key))
    if store.is_gone(_owner_uid(key)) or (owner is not None and owner.is_scaled_to_zero):
        if group is not None and _is_plain(group):
            meta = group.metadata
            yield Delete(GROUP, meta.namespace, meta.name, meta.uid)
        return
    pods = [pod for pod in store.family(key) if pod.is_alive]
    if not pods:
        return
    first = min(pods, key=lambda pod: (pod.seen, pod.name))
    if owner is None and _waits_for_owner(first):
        return
    wanted = _wanted(store, first, owner)
    if group is None:
        yield Create(GROUP, wanted.metadata.namespace, wanted.metadata.name, group_body(wanted))
    elif _is_plain(group):
        yield from _update(group, wanted)


def reconcile_pod(store: Store, uid: str) -> Iterator[Write]:
    """Yield the annotation that names a pod's PodGroup, once that PodGroup is there."""
    pod = store.pods.get(uid)
    if pod is None or pod.group or not pod.plain or not pod.is_alive:
        return
    if f"{pod.namespace}/{pod.plain}" in store.groups:
        body = {"metadata": {"uid": uid, "annotations": {GROUP_NAME: pod.plain}}}
        yield Patch(POD, pod.namespace, pod.name, body)


def _owner_uid(key: str) -> str:
    return key.partition("/")[2].removeprefix("podgroup-")


def _is_plain(group: api.PodGroup) -> bool:
    """Whether a PodGroup is one that is made for the pods of its owner."""
    controller = group.metadata.controller
    return controller is not None and group.metadata.name == f"podgroup-{controller.uid}"


def _waits_for_owner(pod: PodView) -> bool:
    """Whether a pod's owner says what its PodGroup inherits, and was not seen yet."""
    return (pod.owner.api_version, pod.owner.kind) in WORKLOADS


def _wanted(store: Store, pod: PodView, owner: OwnerView | None) -> api.PodGroup:
    annotations: Mapping[str, str] = owner.annotations if owner is not None else {}
    meta = api.ObjectMeta(name=pod.plain, namespace=pod.namespace, owner_references=(pod.owner,))
    seed = msgspec.structs.replace(pod.seed, queue=store.queue_for(pod.namespace, pod.seed.queue))
    return grouping.plain_group(meta, seed, annotations, inherit=store.inherit)


def _update(group: api.PodGroup, wanted: api.PodGroup) -> Iterator[Patch]:
    """Yield what a workload says differently by now: its minimum and its annotations. What others wrote stays."""
    patch: dict[str, Any] = {}
    told = {
        key: value for key, value in wanted.metadata.annotations.items() if group.metadata.annotations.get(key) != value
    }
    if told:
        patch["metadata"] = {"annotations": told}
    if group.spec.min_member != wanted.spec.min_member:
        patch["spec"] = {"minMember": wanted.spec.min_member, "minResources": wanted.spec.min_resources}
    if patch:
        meta = group.metadata
        patch["metadata"] = {"uid": meta.uid, **patch.get("metadata", {})}
        yield Patch(GROUP, meta.namespace, meta.name, patch)
