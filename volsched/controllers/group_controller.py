"""PodGroups of plain pods and workloads: made for their first pod, updated with pods and owner, deleted when idle.

A PodGroup has the fields of its pods. If these differ, as during a correction of a workload, the newest pod without a
node decides, as the PodGroup waits for it. Fields that others wrote stay (*ours*).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from volsched.controllers import grouping
from volsched.controllers.authors import ANNOTATIONS, MINIMUM, WRITTEN, Authorship, fields_of, written
from volsched.controllers.grouping import GroupTemplate
from volsched.controllers.job_controller import group_body
from volsched.controllers.objects import WORKLOADS
from volsched.controllers.store import OwnerView, PodView, Store
from volsched.controllers.writes import GROUP, POD, Create, Delete, Patch, Write, merge_patch
from volsched.mirror.reading import GENERATED_GROUP, GROUP_NAME
from volsched.model import api
from volsched.model.plan import RecordEvent
from volsched.model.pods.owners import Owner, controller_of


def reconcile_group(store: Store, key: str) -> Iterator[Write]:
    """Yield the writes for the PodGroup of pods that name none of their own.

    It is deleted if its owner is scaled to zero: left behind, such PodGroups of old ReplicaSets have blocked roll-outs
    (Volcano #2143). So is one whose owner was seen going, since garbage collection may take its time; an unknown owner
    proves nothing, it may be a pod of another scheduler. An object of that name that others made is left alone.
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
        yield from _update(group, wanted, store.authors(key), first.group_template if deciding is None else None)
    elif not _needs_no_group(store, first.whose):
        yield Create(GROUP, wanted.metadata.namespace, wanted.metadata.name, _new(wanted))


def _new(wanted: api.PodGroup) -> Mapping[str, Any]:
    """Return a PodGroup as it is made, with what we wrote noted on it."""
    notes = {**wanted.metadata.annotations, WRITTEN: written(fields_of(wanted))}
    meta = msgspec.structs.replace(wanted.metadata, annotations=notes)
    return group_body(msgspec.structs.replace(wanted, metadata=meta))


def reconcile_pod(store: Store, uid: str) -> Iterator[Write]:
    """Yield the annotation that names a pod's PodGroup, once that exists and is of the pod's owner.

    A change of the PodGroup's queue is written first: until then the pod could be placed in the former one.
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
    """True if pods name another queue than their PodGroup."""
    newest = store.newest(group.key, whose)
    return newest is not None and store.queue_for(newest.namespace, newest.group_template.queue) != group.spec.queue


def failed_group(store: Store, key: str, why: str) -> Iterator[RecordEvent]:
    """Yield the Event on the first of its pods that states why a PodGroup could not be written."""
    for pod in islice(_alive(store, key), 1):
        kind, version, message = POD.name, POD.group_version, f"the PodGroup of the pod could not be written: {why}"
        yield RecordEvent(
            kind, version, pod.namespace, pod.name, pod.uid, "Warning", "FailedCreate", message, "Reconciling"
        )


def _plain_owner(group: api.PodGroup) -> Owner | None:
    """Return for whose pods a PodGroup was made, or None where it is no such PodGroup."""
    owner = controller_of(group.metadata)
    return owner if owner is not None and group.metadata.name == f"{GENERATED_GROUP}{owner.uid}" else None


def _needs_no_group(store: Store, owner: Owner) -> bool:
    known = store.owners.get(owner)
    return store.tombstones.has(owner) or (known is not None and known.is_scaled_to_zero)


MOST_LOOKED_AT: Final = 100
"""The most pods that are looked at for a PodGroup: those of one owner are alike, and there may be very many."""


def _alive(store: Store, key: str) -> Iterator[PodView]:
    """Yield the first pods of a PodGroup that wait or run."""
    return islice((pod for pod in store.pods_of_group(key) if pod.is_alive), MOST_LOOKED_AT)


def _counts(store: Store, pod: PodView, whose: Owner | None) -> bool:
    """True if a PodGroup may be made for a pod, or, if it exists (`whose`), is for that pod, too."""
    return (whose is None or pod.whose == whose) and not _waits_for_owner(store, pod)


def _waits_for_owner(store: Store, pod: PodView) -> bool:
    """True if a pod's owner has data that its PodGroup inherits, and was not seen yet."""
    return (pod.owner.api_version, pod.owner.kind) in _INHERITED and pod.whose not in store.owners


_INHERITED: Final = frozenset(WORKLOADS.values())


def _wanted(store: Store, pod: PodView, owner: OwnerView | None) -> api.PodGroup:
    annotations: Mapping[str, str] = owner.annotations if owner is not None else {}
    meta = api.ObjectMeta(name=pod.plain, namespace=pod.namespace, owner_references=(pod.owner,))
    group_template = msgspec.structs.replace(
        pod.group_template, queue=store.queue_for(pod.namespace, pod.group_template.queue)
    )
    return grouping.plain_group(meta, group_template, annotations, inherit=store.inherit)


def _update(
    group: api.PodGroup, wanted: api.PodGroup, authors: Authorship, undecided: GroupTemplate | None
) -> Iterator[Patch]:
    """Yield the differences between pods and workload and their PodGroup. Edits of others stay.

    If all pods have nodes none decides, and the data of one of them is `undecided`: the PodGroup follows only its
    workload. It is written only into the very version of the PodGroup that was read: others may write just now.
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
    """Yield the fields that we may write, and the annotations and labels of ours that are to go."""
    for name in {*known, *stated}:
        if authors.may_write(name) and (name in stated or "/" not in name or name in authors.ours):
            yield name


def _of_workload(wanted: api.PodGroup, of_pod: GroupTemplate, *, with_minimum: bool) -> set[str]:
    """Return the fields that the workload states and no pod."""
    notes = wanted.metadata.annotations.keys() - dict(of_pod.annotations).keys()
    return {f"{ANNOTATIONS}/{key}" for key in notes} | (set(MINIMUM) if with_minimum else set())


def _patch(meta: api.ObjectMeta, fields: Mapping[str, Any]) -> Patch:
    """Return the patch that writes fields, by their names, into the version of a PodGroup that was read."""
    parts: dict[str, dict[str, Any]] = {}
    for name, value in fields.items():
        of, _, key = name.partition("/")
        parts.setdefault(of if key else "spec", {})[key or name] = value
    spec = {"spec": parts.pop("spec")} if "spec" in parts else {}
    seen = {"resourceVersion": meta.resource_version} if meta.resource_version else {}
    return Patch(GROUP, meta.namespace, meta.name, {"metadata": {"uid": meta.uid, **seen, **parts}, **spec})
