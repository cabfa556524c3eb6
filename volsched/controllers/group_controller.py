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
from volsched.controllers.authors import ANNOTATIONS, MINIMUM, WRITTEN, Authorship, fields_of, written
from volsched.controllers.grouping import Seed
from volsched.controllers.job_controller import group_body
from volsched.controllers.objects import WORKLOADS
from volsched.controllers.store import OwnerView, PodView, Store
from volsched.controllers.writes import GROUP, POD, Create, Delete, Patch, Write, merge_patch
from volsched.mirror.reading import GENERATED_GROUP, GROUP_NAME
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
    if key in store.refused:
        return
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
        yield Create(GROUP, wanted.metadata.namespace, wanted.metadata.name, _new(wanted))


def _new(wanted: api.PodGroup) -> Mapping[str, Any]:
    """Return a PodGroup as it is made, with what we wrote noted on it."""
    notes = {**wanted.metadata.annotations, WRITTEN: written(fields_of(wanted))}
    meta = msgspec.structs.replace(wanted.metadata, annotations=notes)
    return group_body(msgspec.structs.replace(wanted, metadata=meta))


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
    return owner if owner is not None and group.metadata.name == f"{GENERATED_GROUP}{owner.uid}" else None


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


def _update(group: api.PodGroup, wanted: api.PodGroup, authors: Authorship, undecided: Seed | None) -> Iterator[Patch]:
    """Yield what pods and workload state differently by now. What others edited stays.

    Where all pods have nodes none decides, and what one of them states is `undecided`: the PodGroup follows its
    workload alone. It is written only into the very version of the PodGroup that was looked at: others may write just
    now.
    """
    known, stated = fields_of(group), fields_of(wanted)
    changed = {name for name in _ours(known, stated, authors) if known.get(name) != stated.get(name)}
    if undecided is not None:
        changed &= _of_workload(wanted, undecided, with_minimum=MINIMUM[0] in changed)
    if not changed:
        return
    before = {name: value for name, value in known.items() if name in changed}
    after = {name: value for name, value in stated.items() if name in changed}
    rest = {name: value for name, value in known.items() if name not in changed}
    notes = {f"{ANNOTATIONS}/{WRITTEN}": written(rest | after, authors, group)}
    yield _patch(group.metadata, merge_patch(before, after) | notes)


def _ours(known: Mapping[str, Any], stated: Mapping[str, Any], authors: Authorship) -> Iterator[str]:
    """Yield the fields that we may write, and of annotations and labels that are to go those that we wrote."""
    for name in {*known, *stated}:
        if authors.may_write(name) and (name in stated or "/" not in name or name in authors.ours):
            yield name


def _of_workload(wanted: api.PodGroup, of_pod: Seed, *, with_minimum: bool) -> set[str]:
    """Return the fields that the workload states and no pod."""
    notes = wanted.metadata.annotations.keys() - dict(of_pod.annotations).keys()
    return {f"{ANNOTATIONS}/{key}" for key in notes} | (set(MINIMUM) if with_minimum else set())


def _patch(meta: api.ObjectMeta, fields: Mapping[str, Any]) -> Patch:
    """Return the patch that writes fields, by their names, into the version of a PodGroup that was looked at."""
    parts: dict[str, dict[str, Any]] = {}
    for name, value in fields.items():
        of, _, key = name.partition("/")
        parts.setdefault(of if key else "spec", {})[key or name] = value
    spec = {"spec": parts.pop("spec")} if "spec" in parts else {}
    seen = {"resourceVersion": meta.resource_version} if meta.resource_version else {}
    return Patch(GROUP, meta.namespace, meta.name, {"metadata": {"uid": meta.uid, **seen, **parts}, **spec})
