"""PodGroups of plain pods and workloads: made when a pod needs one, kept as pods and owner are, gone when it is idle.

A PodGroup states what its pods do. Where they differ, as while a workload is corrected, the newest one without a node
decides, as that is what the PodGroup waits for. What somebody else wrote into a field stays there (*ours*).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from volsched.controllers import grouping
from volsched.controllers.authors import ANNOTATIONS, LABELS, Authorship
from volsched.controllers.grouping import Seed
from volsched.controllers.job_controller import group_body
from volsched.controllers.objects import WORKLOADS
from volsched.controllers.store import OwnerView, PodView, Store
from volsched.controllers.writes import GROUP, POD, Create, Delete, Patch, Write, merge_patch
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
    deciding = store.newest(key, first.whose)
    wanted = _wanted(store, deciding or first, store.owners.get(first.whose))
    if group is not None:
        yield from _update(group, wanted, store.authors(key), first.seed if deciding is None else None)
    elif not _needs_no_group(store, first.whose):
        yield Create(GROUP, wanted.metadata.namespace, wanted.metadata.name, group_body(wanted))


def reconcile_pod(store: Store, uid: str) -> Iterator[Write]:
    """Yield the annotation that names a pod's PodGroup, once that PodGroup is there and is of the pod's owner.

    A PodGroup that is to name another queue does so first: the pod could be placed in the one that is named until then.
    """
    pod = store.pods.get(uid)
    if pod is None or pod.group or not pod.plain or not pod.is_alive:
        return
    group = store.groups.get(f"{pod.namespace}/{pod.plain}")
    if group is not None and _plain_owner(group) == pod.whose:
        if _is_to_move(store, group, pod.whose):
            yield from reconcile_group(store, group.key)
        body = {"metadata": {"uid": uid, "annotations": {GROUP_NAME: pod.plain}}}
        yield Patch(POD, pod.namespace, pod.name, body)


def _is_to_move(store: Store, group: api.PodGroup, whose: Owner) -> bool:
    """Whether pods name another queue than their PodGroup."""
    newest = store.newest(group.key, whose)
    return newest is not None and store.queue_for(newest.namespace, newest.seed.queue) != group.spec.queue


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
    return owner if owner is not None and group.metadata.name == f"{grouping.PLAIN}{owner.uid}" else None


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


QUEUE_FIELD: Final = "queue"
MIN_RESOURCES: Final = "minResources"
MINIMUM: Final = ("minMember", MIN_RESOURCES)
"""What a PodGroup has of the minimum that its workload states."""


def _update(group: api.PodGroup, wanted: api.PodGroup, authors: Authorship, undecided: Seed | None) -> Iterator[Patch]:
    """Yield what pods and workload state differently by now. What others wrote stays.

    Where all pods have nodes none decides, and what one of them states is `undecided`: the PodGroup follows its
    workload alone. It is written only into the very version of the PodGroup that was looked at: others may write just
    now.
    """
    meta, made = group.metadata, wanted.metadata
    spec = _spec_changes(group.spec, wanted.spec, authors, is_decided=undecided is None)
    if undecided is None:
        parts = {
            ANNOTATIONS: _changes(meta.annotations, made.annotations, ANNOTATIONS, authors),
            LABELS: _changes(meta.labels, made.labels, LABELS, authors),
        }
    else:
        of_pod = dict(undecided.annotations)
        told = {key: value for key, value in made.annotations.items() if key not in of_pod}
        parts = {ANNOTATIONS: _changes(meta.annotations, {**meta.annotations, **told}, ANNOTATIONS, authors)}
    patch: dict[str, Any] = {name: part for name, part in parts.items() if part}
    if patch or spec:
        seen = {"resourceVersion": meta.resource_version} if meta.resource_version else {}
        body = {"metadata": {"uid": meta.uid, **seen, **patch}, **({"spec": spec} if spec else {})}
        yield Patch(GROUP, meta.namespace, meta.name, body)


def _spec_changes(
    before: api.PodGroupSpec, after: api.PodGroupSpec, authors: Authorship, *, is_decided: bool
) -> dict[str, Any]:
    """Return the merge patch of a spec; what we always write and is not there any more was taken away by others."""
    known, wanted = _fields(before), _fields(after)
    changed = {name for name in known if known[name] != wanted[name] and authors.may_write(name)}
    if not is_decided:
        changed &= set(MINIMUM) if MINIMUM[0] in changed else set()
    if not before.queue:
        changed.discard(QUEUE_FIELD)
    if before.min_resources is None:
        changed.discard(MIN_RESOURCES)
    return merge_patch({name: known[name] for name in known if name in changed}, {
        name: wanted[name] for name in wanted if name in changed and wanted[name] not in ("", None)
    })  # fmt: skip


def _fields(spec: api.PodGroupSpec) -> dict[str, Any]:
    """Return the fields that a PodGroup takes from pods and workload."""
    return {
        "minMember": spec.min_member,
        MIN_RESOURCES: spec.min_resources or {},
        QUEUE_FIELD: spec.queue,
        "priorityClassName": spec.priority_class_name,
        "networkTopology": msgspec.to_builtins(spec.network_topology),
    }


def _changes(before: Mapping[str, str], after: Mapping[str, str], of: str, authors: Authorship) -> dict[str, Any]:
    """Return the merge patch of annotations, or of labels: what is stated, and what is so no longer if it is ours."""
    patch: dict[str, Any] = {
        key: None for key in authors.keys(of) if key in before and key not in after and grouping.is_inherited(key)
    }
    patch |= {key: value for key, value in after.items() if before.get(key) != value}
    return {key: value for key, value in patch.items() if authors.may_write(f"{of}/{key}")}
